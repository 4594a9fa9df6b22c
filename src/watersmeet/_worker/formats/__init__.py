"""Formats: keys and values from bytes and to bytes, and their types."""
