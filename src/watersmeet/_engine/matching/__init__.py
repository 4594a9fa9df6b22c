"""Which rows meet which: the last one before a place, all of a key, all within an interval."""
