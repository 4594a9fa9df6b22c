"""Aggregates of how often each value is there."""
