"""A running topology: its start, its end, its failures, its counts."""
