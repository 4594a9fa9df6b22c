"""Rows become blobs, one for each operator and shard."""
