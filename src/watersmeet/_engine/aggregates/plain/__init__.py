"""Folds a record at a time, by functions of plain values."""
