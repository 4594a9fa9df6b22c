"""Measurements of single pieces, to be run by hand."""
