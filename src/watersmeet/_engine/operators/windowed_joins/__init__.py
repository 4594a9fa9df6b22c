"""Windowed joins of two streams: of all pairs, and of each left record with one right record."""
