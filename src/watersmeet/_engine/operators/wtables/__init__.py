"""Joins with tables by key and window: which rows of a key meet, and what that gives."""
