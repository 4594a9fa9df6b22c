"""Expressions as plain Python: a function of one row's values, written once from the tree."""
