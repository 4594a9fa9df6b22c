"""Kernels of aggregates of numbers."""
