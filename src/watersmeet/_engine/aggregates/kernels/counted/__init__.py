"""Kernels of aggregates of how often each value is there."""
