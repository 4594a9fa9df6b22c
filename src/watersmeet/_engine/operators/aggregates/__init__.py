"""The operators of aggregates: rows of one shard and batch in, changes of the aggregates out."""
