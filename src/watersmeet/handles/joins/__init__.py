"""Joins as the handles attach them: the nodes, and what is refused."""
