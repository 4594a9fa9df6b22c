"""Operators of streams, a record at a time."""
