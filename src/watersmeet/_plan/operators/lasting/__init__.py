"""Specs of operators that remember keys for a while of stream time."""
