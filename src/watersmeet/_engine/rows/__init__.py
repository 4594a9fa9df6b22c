"""Rows: their columns, their positions, their bytes."""
