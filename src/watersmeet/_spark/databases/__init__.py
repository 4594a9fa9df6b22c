"""Tables of databases as outputs: what tasks make of a batch's changes, and how the driver writes them."""
