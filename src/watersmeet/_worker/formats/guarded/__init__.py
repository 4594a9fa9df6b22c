"""What bounds the work that a record's bytes may ask for, and what holds where a decoder fails all the same."""
