"""Tables in databases: tasks reduce the changes of a batch, and the driver writes them."""
