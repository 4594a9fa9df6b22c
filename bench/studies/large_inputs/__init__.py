"""Inputs, states and outputs that are large in one way, to be run by hand."""
