"""Kernels of aggregates that are one of the values."""
