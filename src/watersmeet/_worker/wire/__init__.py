"""Rows between the parts of a query: their form on the way, what ends there, and what is counted."""
