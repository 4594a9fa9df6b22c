"""A checkpoint's records beside Spark's state: who wrote it, and the facts that must not change."""
