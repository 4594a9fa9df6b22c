"""The exchange between two levels: rows cut by operator and shard."""
