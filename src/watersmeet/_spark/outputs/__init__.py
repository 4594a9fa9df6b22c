"""Outputs: what a batch writes, and how it is written exactly once."""
