"""The operators of aggregates, with and without windows."""
