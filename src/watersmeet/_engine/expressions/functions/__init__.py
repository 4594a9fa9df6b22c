"""Kernels, by subject."""
