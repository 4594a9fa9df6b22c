"""What a checkpoint holds beside Spark's state: who wrote it, and what must not change."""
