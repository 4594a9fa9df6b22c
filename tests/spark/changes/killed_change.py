"""A program for `test_changed_topology`: a topology is changed, and the driver kills itself while it is handed over.

Called with a folder and the moment: behind a step of the handover ("gather", "carry_state", "write_logs"), when the
first shard's state has been "moved" to its number, or when the change is "recorded". With a number of shards the
topology stays, and its state is divided anew.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.checkpoints.killing import killing, short_session
from tests.spark.inputs_and_outputs.test_streaming import reader
from watersmeet._spark.checkpoint.folders import LocalFiles
from watersmeet._spark.checkpoint.record import Checkpoint
from watersmeet._spark.evolve import Handover


def topology(spark: SparkSession, folder: Path, *, more: bool) -> wm.Topology:
    """Counts of values and the latest value of each key as files; with `more` a join, its input before all others."""
    b = wm.StreamsBuilder("changed")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    if more:
        other = b.table(reader(spark, folder / "other"), name="other", store="others", **options)
    records = b.stream(reader(spark, folder / "in"), name="in", **options)
    records.to_table(name="latest", store="latest").to(wm.Writer("parquet", path=str(folder / "latest")), name="last")
    counts = records.select_key(lambda v: v, name="by value").group_by_key().agg(n=wm.count(), name="counted")
    told = counts.to_stream(name="counts").map_values(lambda v: v["n"].cast("string"), name="n")
    told.to(wm.Writer("parquet", path=str(folder / "counts")), name="counts out")
    if more:
        joined = records.join(other, lambda a, c: F.concat(a, c), name="joined")
        joined.to(wm.Writer("parquet", path=str(folder / "more")), name="more")
    return b.build()


def run(spark: SparkSession, folder: Path, *, more: bool, shards: int = 4, tasks: int = 2, **options: Any) -> None:
    """All that there is; the checkpoint lies in the folder, unless an option names another."""
    made = topology(spark, folder, more=more)
    options = {"checkpoint": str(folder / "cp"), "available_now": True, "shards": shards, "tasks": tasks, **options}
    made.start(spark, **options).awaitTermination()


def main(folder: Path, moment: str, shards: int | None = None) -> None:
    """Run until the kill."""
    owner: Any = {"recorded": Checkpoint, "moved": LocalFiles}.get(moment, Handover)
    name = {"recorded": "record", "moved": "move"}.get(moment, moment)
    setattr(owner, name, killing(getattr(owner, name), first=False))
    if shards is None:
        run(short_session(), folder, more=True, evolve=True)
    else:
        run(short_session(), folder, more=False, shards=shards, tasks=1, evolve=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
