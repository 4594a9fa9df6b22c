"""Aggregates of numbers."""
