"""Grouped streams and tables: records or rows by key, on the way to a table of aggregates."""
