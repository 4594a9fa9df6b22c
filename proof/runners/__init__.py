"""Runners of recordings: the engine without JVM, and Spark. Loaded by name by the conformance command."""
