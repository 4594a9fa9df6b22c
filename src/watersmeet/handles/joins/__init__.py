"""Joins: the methods of handles, the kinds of join by both sides, and the node of each."""
