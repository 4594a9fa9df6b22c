"""A program for `test_bootstrap`: a table begins with a snapshot, and the driver kills itself in the first batch.

Called with a folder and the moment of it: when the snapshot is "copied", "before" the first output becomes visible,
or "behind" that.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.checkpoints.killing import killing, short_session
from tests.spark.inputs_and_outputs.test_streaming import reader
from watersmeet._spark.outputs import files
from watersmeet._spark.sources import bootstrap


def run(spark: SparkSession, folder: Path) -> None:
    """All that there is."""
    b = wm.StreamsBuilder("killed")
    known = wm.Snapshot(spark.read.parquet(str(folder / "snapshot")), "k", value="v", timestamp="ts")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    table = b.table(reader(spark, folder / "customers"), name="customers", bootstrap=known, **options)
    table.to(wm.Writer("parquet", path=str(folder / "all")), name="all")
    low = table.to_stream().filter(lambda key, value: key < 10)
    low.to(wm.Writer("parquet", path=str(folder / "low")), name="low")
    query = b.build().start(spark, checkpoint=str(folder / "cp"), available_now=True, shards=4, tasks=2)
    query.awaitTermination()


def main(folder: Path, when: str) -> None:
    """Run until the kill."""
    if when == "copied":
        bootstrap.take = killing(bootstrap.take, first=False)
    else:
        files._show = killing(files._show, first=when == "before")
    run(short_session(), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
