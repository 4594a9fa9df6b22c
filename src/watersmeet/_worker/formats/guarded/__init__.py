"""Limits on the work that a record's bytes may ask for, and a net for decoders that fail all the same."""
