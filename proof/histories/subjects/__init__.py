"""Histories of one subject each, drawn beside the general ones."""
