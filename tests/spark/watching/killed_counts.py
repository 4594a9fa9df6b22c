"""A program for `test_lifetime_totals`: a query that counts, and is killed, driver and all, at a moment.

Called with a folder and the moment: "task", while tasks of a batch run, "reported", when all of them have, "written",
when their counts are in the checkpoint, or "committed", when the batch is. In the folder are the inputs.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.checkpoints.killing import killing, short_session
from tests.spark.inputs_and_outputs.test_streaming import reader
from watersmeet._spark.metrics.lifetime import BatchReports, LifetimeTotals

MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "reported": (BatchReports, "end", False),
    "written": (LifetimeTotals, "before_commit", False),
    "committed": (LifetimeTotals, "behind_commit", True),
}


def _kill(driver: int, key: int, value: str) -> None:
    if key == 7:
        os.kill(driver, signal.SIGKILL)


def _nothing(key: int, value: str) -> None:
    pass


def topology(spark: SparkSession, folder: Path, seen: Callable[[int, str], None]) -> wm.Topology:
    """The number of events of each key."""
    b = wm.StreamsBuilder("killed")
    events = b.stream(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts").peek(seen)
    events.group_by_key().count(store="counts").to_stream().to(
        wm.ForeachBatch(lambda rows, batch: rows.count()), name="out"
    )
    return b.build()


def run(spark: SparkSession, folder: Path, seen: Callable[[int, str], None] = _nothing) -> Any:
    """All that there is, one file a batch."""
    options: dict[str, Any] = {"checkpoint": str(folder / "cp"), "available_now": True, "shards": 4, "tasks": 2}
    query = topology(spark, folder, seen).start(spark, **options)
    query.awaitTermination()
    return query


def main(folder: Path, moment: str) -> None:
    """Run until the kill."""
    if moment in MOMENTS:
        owner, name, first = MOMENTS[moment]
        setattr(owner, name, killing(getattr(owner, name), first=first))
    run(short_session(), folder, partial(_kill, os.getpid()) if moment == "task" else _nothing)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
