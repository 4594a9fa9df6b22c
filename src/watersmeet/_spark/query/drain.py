"""Checks for ending a query between two batches; `sinks/barrier.py` ends it there."""

from __future__ import annotations

from watersmeet._spark.checkpoint.files import Folder

LOOK_SECONDS = 0.1
"""Between two looks at a query that is to end."""


def is_unfinished(checkpoint: Folder) -> bool:
    """Whether a batch was planned and not committed: the next start would run it (again)."""
    planned, committed = (
        max(map(int, checkpoint.names(f"{log}/[0-9]*")), default=-1) for log in ("offsets", "commits")
    )
    return planned > committed
