"""One table that several joins of streams read: state and CPU of three joins against those of one.

Run by its path: `python bench/studies/large_inputs/shared_table.py [rows] [joins] [own]` (default 1000000, 3). A file
of the table's rows, with values of 100 characters, comes first; then files that change a tenth of the rows and look up
as many. A topology with one join runs over them, then one with several, each in a session of its own. Printed:
CPU-seconds of all processes, and the checkpoint's bytes, and at the end the second topology against the first. With
`own` each join has a table of its own, as it was before (docs/decisions/state.md).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from bench.measuring.measure import Sampler, folder_bytes
from bench.workloads.datasets import values
from dev.jars import spark_jars
from watersmeet._plan.operators.joins import StreamTableNode
from watersmeet._spark.session import session

COLUMNS = "key long, value string, ts timestamp"
SHARDS, TASKS, CHANGES = 8, 2, 5
"""Of the topology; and how many batches change the table."""


def written(folder: Path, keys: np.ndarray) -> None:
    """One more file of rows."""
    folder.mkdir(exist_ok=True)
    stamps = pa.array(np.full(len(keys), 1_700_000_000_000), pa.timestamp("ms", "UTC"))
    rows = pa.table({"key": keys, "value": values(len(keys), np.random.default_rng(len(keys))), "ts": stamps})
    pq.write_table(rows, folder / f"{time.time_ns()}.parquet", compression="none", use_dictionary=False)


def run(spark: SparkSession, folder: Path, joins: int) -> None:
    """A start that takes what is there."""
    builder = wm.StreamsBuilder("shared-table")
    options: Any = {"key": "key", "value": "value", "timestamp": "ts", "order": "ts"}
    frames = {name: spark.readStream.schema(COLUMNS).parquet(str(folder / name)) for name in ("rows", "records")}
    table = builder.table(frames["rows"], name="rows", **options)
    stream = builder.stream(frames["records"], name="records", **options)
    for number in range(joins):
        joined = stream.join(table, lambda left, right: F.concat(left, right), name=f"join{number}")
        joined.to(wm.Writer("noop"), name=f"out{number}")
    query = builder.build().start(
        spark, checkpoint=str(folder / "checkpoint"), available_now=True, shards=SHARDS, tasks=TASKS
    )
    query.awaitTermination()


def measured(rows: int, joins: int) -> dict[str, float]:
    """CPU-seconds of the load, and of the changes, and bytes of the checkpoint, of so many joins."""
    spark = session("shared-table", jars=spark_jars(), config={"spark.driver.memory": "3g"})
    rng, marks = np.random.default_rng(1), []
    with tempfile.TemporaryDirectory() as name, Sampler(os.getpid(), interval=0.25) as sampler:
        folder = Path(name)
        for side in ("rows", "records"):
            written(folder / side, np.arange(10))
        run(spark, folder, joins)  # what is used once is not measured
        written(folder / "rows", np.arange(rows))
        marks.append(time.time())
        run(spark, folder, joins)
        marks.append(time.time())
        for _ in range(CHANGES):
            for side in ("rows", "records"):
                written(folder / side, rng.choice(rows, rows // 10, replace=False))
            run(spark, folder, joins)
        marks.append(time.time())
        time.sleep(1)
        size = float(folder_bytes(folder / "checkpoint"))
    spark.stop()
    load, changes = (sampler.usage.cpu_between(*between) for between in pairwise(marks))
    print(f"{joins} joins: load {load:.1f}, changes {changes:.1f} CPU-s, checkpoint {size / 1e6:.0f} MB", flush=True)
    return {"load": load, "changes": changes, "CPU": load + changes, "checkpoint": size}


def main(rows: int, joins: int, *, own: bool) -> None:
    """Print both, and the second against the first."""
    if own:
        StreamTableNode.shared_side = None
    one, several = measured(rows, 1), measured(rows, joins)
    print(f"{joins} joins against one: " + ", ".join(f"{what} {several[what] / one[what]:.2f}" for what in one))


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdecimal()]
    main(*numbers, *[1_000_000, 3][len(numbers) :], own="own" in sys.argv)
