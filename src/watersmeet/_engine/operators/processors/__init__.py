"""Processors: users' classes, called a record at a time, over state that is read and written in bulk."""
