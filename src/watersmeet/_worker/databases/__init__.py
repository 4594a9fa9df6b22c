"""Tables of databases: what tasks make of the changes of a batch, and how they are written."""
