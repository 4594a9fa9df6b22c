"""Studies of what comes in: topics, formats, the looks for new records."""
