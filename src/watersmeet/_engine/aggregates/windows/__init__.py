"""Aggregates by window: which windows a record changes, how their states are folded, and when they close."""
