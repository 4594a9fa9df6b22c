"""Stores that are read from outside the query: what a checkpoint says of them, and their rows as DataFrames."""
