"""A program for `test_kill_and_restart`: a query whose tables are served, until it is killed or told to fail.

Called with a folder: inputs and checkpoint are in it, and the address is written into the file `url`. A record whose
value is "fail" fails the query.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.checkpoints.killing import short_session
from tests.spark.serving.kit import Inputs


def topology(inputs: Inputs, name: str = "killed", key: str = "long") -> wm.Topology:
    """How many records each key has, and the last value of each; the value "fail" fails the query."""
    builder = wm.StreamsBuilder(name)
    frame = inputs.read("events", f"k {key}, v string, ts long")
    events = builder.stream(frame, name="events", key="k", value="v", timestamp="ts")
    checked = events.map_values(
        lambda value: F.when(value == "fail", F.raise_error(F.lit("told to fail")).cast("string")).otherwise(value)
    )
    nothing = wm.ForeachBatch(lambda frame, batch: frame.count())
    checked.group_by_key().count(store="counts").to(nothing, name="counts-out")
    checked.to_table(store="last").to(nothing, name="last-out")
    return builder.build()


def inputs_of(spark: SparkSession, folder: Path) -> Inputs:
    """The inputs, each to be written once with what they read."""
    made = Inputs(spark, folder / "in")
    made.read("events", "k long, v string, ts long")
    return made


def main(folder: Path) -> None:
    """Serve until the end."""
    spark = short_session()
    query: Any = topology(Inputs(spark, folder / "in")).start(spark, checkpoint=str(folder / "checkpoint"), shards=2)
    served = query.serve("127.0.0.1:0", tables=["counts", "last"])
    beside = folder / "url.new"
    beside.write_text(str(served.url), encoding="utf-8")
    beside.rename(folder / "url")
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
