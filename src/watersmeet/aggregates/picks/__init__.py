"""Aggregates that are one of the values."""
