"""Checks for ending a query between two batches; `sinks/barrier.py` ends it there."""

from __future__ import annotations

import os

from watersmeet._spark.checkpoint.files import Folder
from watersmeet.errors import ConfigError

LOOK_SECONDS = 0.1
"""Between two looks at a query that is to end."""


def check_threads() -> None:
    """Raise where PySpark does not keep a thread of the JVM for each of Python's.

    Raises
    ------
    ConfigError : the gate's stop would wait for the batch, and the batch for the gate.
    """
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise ConfigError(
            "A query cannot be drained where PySpark shares threads of the JVM.",
            given=f"PYSPARK_PIN_THREAD={os.environ['PYSPARK_PIN_THREAD']}",
            hint="Leave that variable out; or call stop(): the next start then runs the last batch again.",
        )


def is_unfinished(checkpoint: Folder) -> bool:
    """Whether a batch was planned and not committed: the next start would run it (again)."""
    planned, committed = (
        max(map(int, checkpoint.names(f"{log}/[0-9]*")), default=-1) for log in ("offsets", "commits")
    )
    return planned > committed
