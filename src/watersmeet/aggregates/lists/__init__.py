"""Aggregates that keep values, all or some of them."""
