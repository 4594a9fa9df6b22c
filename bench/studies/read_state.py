"""What it takes to read a store: all rows counted, and the rows of one key.

`python bench/studies/read_state.py [rows ...]` (default 10,000,000). A table of this many rows (8 byte keys, 100 byte
values) begins with a snapshot; then its store is counted, and one key is read, from a session that has done so before.
Printed: seconds of the first batch, of counting, of a key (the median of some), and the store's size."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ROOT = Path(__file__).resolve().parents[2]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import watersmeet as wm

WORK = ROOT / ".bench" / "work" / "read-state"
KEYS = 5


def filled(spark: SparkSession, rows: int, folder: Path) -> float:
    """Fill the store `kept`; seconds from the start of the query to its end."""
    known = spark.range(rows).select("id", F.rpad(F.col("id").cast("string"), 100, "x").alias("value"))
    none = spark.readStream.schema("k long, v string, ts long").parquet(str(folder / "later"))
    builder = wm.StreamsBuilder("filled")
    snapshot = wm.Snapshot(known, "id", value="value")
    table = builder.table(none, name="table", key="k", value="v", timestamp="ts", store="kept", bootstrap=snapshot)
    table.filter(lambda key, value: F.lit(False)).to(wm.Writer("parquet", path=folder / "out"), name="out")
    begin = time.perf_counter()
    builder.build().start(spark, checkpoint=folder / "cp", available_now=True).awaitTermination()
    return time.perf_counter() - begin


def measured(spark: SparkSession, rows: int) -> str:
    """All of a size, as a line."""
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "later").mkdir(parents=True)
    fill = filled(spark, rows, WORK)
    (store,) = wm.stores(spark, WORK / "cp")
    times = []
    for key in range(KEYS):
        begin = time.perf_counter()
        assert wm.read_state(spark, WORK / "cp", "kept", keys=[key * 7]).count() == 1
        times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    assert wm.read_state(spark, WORK / "cp", "kept").count() == rows
    count = time.perf_counter() - begin
    return f"{rows:12,}{store.bytes / 1e6:10.0f}{fill:12.1f}{count:12.1f}{median(times):10.2f}"


def main(sizes: list[int]) -> None:
    """Print a line for each size."""
    spark = wm.session("read-state")
    print(f"{'rows':>12}{'MB':>10}{'filled, s':>12}{'counted, s':>12}{'key, s':>10}")
    for size in sizes:
        print(measured(spark, size), flush=True)
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [10_000_000])
