"""Runners of recordings: millpond's engine without JVM, and Spark. Loaded by name by the conformance command."""
