"""Formats on the driver: as Spark columns, values of tests, and schemas asked of a registry at the start."""
