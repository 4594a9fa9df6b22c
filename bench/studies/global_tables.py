"""A global table over many shards: state, cache and time of its first batch, and of a batch that looks it up.

Run by its path: `python bench/studies/global_tables.py [rows] [shards] [tasks]`. The table's rows have values of 100
characters and come first, then records in files that look up a tenth of the rows each; memory is the largest resident
of all processes together, as the kernel counts what they share.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from bench.measuring.measure import Sampler, folder_bytes
from bench.workloads.datasets import values
from dev.jars import spark_jars
from watersmeet._spark.session import session

COLUMNS = "key long, value string, ts timestamp"


def written(folder: Path, keys: np.ndarray) -> int:
    """One more file of rows; its bytes."""
    folder.mkdir(exist_ok=True)
    stamps = pa.array(np.full(len(keys), 1_700_000_000_000), pa.timestamp("ms", "UTC"))
    rows = pa.table({"key": keys, "value": values(len(keys), np.random.default_rng(len(keys))), "ts": stamps})
    pq.write_table(rows, folder / f"{time.time_ns()}.parquet", compression="none", use_dictionary=False)
    return int(rows.nbytes)


def run(spark: SparkSession, folder: Path, shards: int, tasks: int) -> float:
    """The seconds of a start that takes what is there."""
    builder = wm.StreamsBuilder("global-tables")
    options: Any = {"key": "key", "value": "value", "timestamp": "ts", "order": "ts"}
    frames = {name: spark.readStream.schema(COLUMNS).parquet(str(folder / name)) for name in ("rows", "records")}
    table = builder.global_table(frames["rows"], name="rows", store="rows", **options)
    stream = builder.stream(frames["records"], name="records", **options)
    stream.join(table, F.concat, key=lambda key, value: key).to(wm.Writer("noop"), name="out")
    begin = time.monotonic()
    builder.build().start(
        spark,
        checkpoint=str(folder / "checkpoint"),
        local_cache=str(folder / "cache"),
        available_now=True,
        shards=shards,
        tasks=tasks,
    ).awaitTermination()
    return time.monotonic() - begin


def main(rows: int, shards: int, tasks: int) -> None:
    """Load the table, look rows up, and print what each took."""
    spark = session("global-tables", jars=spark_jars(), config={"spark.driver.memory": "3g"})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = written(folder / "rows", np.arange(rows))
        written(folder / "records", np.arange(1))
        for what, keys in (("loaded", None), ("looked up", np.arange(0, rows, 10))):
            if keys is not None:
                written(folder / "records", keys)
            with Sampler(os.getpid(), interval=0.5) as sampler:
                seconds = run(spark, folder, shards, tasks)
            state = folder_bytes(folder / "checkpoint")
            cache = folder_bytes(folder / "cache")
            print(
                f"{what}: {rows:,} rows of {size / rows:.0f} bytes, {shards} shards, {tasks} tasks: {seconds:.1f} s, "
                f"checkpoint {state / size:.2f} times the rows, cache {cache / size:.2f} times, "
                f"peak memory {sampler.usage.peak_bytes / 1e9:.2f} GB",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    main(*given, *[100_000, 200, 2][len(given) :])
