"""Kernels of aggregates that keep values."""
