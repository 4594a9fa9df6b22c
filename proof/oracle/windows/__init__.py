"""Aggregates and windows, a record at a time."""
