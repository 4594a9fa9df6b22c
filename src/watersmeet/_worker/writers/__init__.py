"""Records and files, as a task writes them."""
