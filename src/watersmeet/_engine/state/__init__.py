"""State of one operator and shard: tables of rows, kept as runs under a manifest."""
