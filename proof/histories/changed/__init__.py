"""Random changes of a topology, and what is to come of them."""
