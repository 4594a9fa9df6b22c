"""Operators of tables, a record at a time."""
