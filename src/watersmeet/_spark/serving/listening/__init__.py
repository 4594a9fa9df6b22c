"""Servers before a replica, Arrow Flight and HTTP, and who may read."""
