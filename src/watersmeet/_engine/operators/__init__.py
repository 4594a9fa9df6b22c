"""The operators of a level, one file each, and the door through which they are run."""
