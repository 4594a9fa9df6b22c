"""Packing: rows become Arrow blobs, one for each operator and shard."""
