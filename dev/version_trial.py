"""What is tried on each claimed version of Python and PySpark: import, a join through the driver, files, a restart,
the file manager for S3.

Run by `versions` with the interpreter of an environment that has watersmeet installed; ends with status 0 if all of it
gave what it should.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(ROOT))

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from examples import testing_a_topology
from watersmeet._spark.checkpoint.folders import (
    CONDITIONAL_MANAGER,
    LOCAL_MANAGER,
    add_conditional_files,
    local_file_manager,
    local_folder,
)
from watersmeet._spark.session import FILE_MANAGER

SCHEMA = "id long, name string, day date, at long"


def run(spark: SparkSession, folder: Path) -> list[tuple[int, str]]:
    """Join two tables of files, as far as there are files that were not read yet; what the sink got."""
    builder = wm.StreamsBuilder("versions")
    left, right = (
        builder.table(spark.readStream.schema(SCHEMA).parquet(str(folder / side)), name=side, key="id", timestamp="at")
        for side in ("left", "right")
    )
    seen: list[tuple[int, str]] = []
    joined = left.join(right, lambda one, other: F.concat(one["name"], other["day"].cast("string")))
    joined.to(
        wm.ForeachBatch(lambda frame, _: seen.extend((row.key, row.value) for row in frame.collect())), name="out"
    )
    topology = builder.build()
    query = topology.start(
        spark, checkpoint=folder / "checkpoint", available_now=True, local_cache=folder / "cache", shards=2, tasks=2
    )
    query.awaitTermination()
    return sorted(seen)


def add(spark: SparkSession, folder: Path, rows: list[tuple[int, str, int]]) -> None:
    """Changes of both tables, as files."""
    frame = spark.createDataFrame(rows, "id long, name string, at long").withColumn(
        "day", F.lit("2026-01-01").cast("date")
    )
    for side in ("left", "right"):
        frame.select("id", "name", "day", "at").coalesce(1).write.mode("append").parquet(str(folder / side))


def main() -> None:
    """Try it all."""
    spark = wm.session("versions", master="local[2]", config={"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    testing_a_topology.check(spark)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        assert local_file_manager(spark, local_folder(folder)) == LOCAL_MANAGER
        add(spark, folder, [(1, "a", 1), (2**53 + 1, "b", 2)])
        first = run(spark, folder)
        assert dict(first) == {1: "a2026-01-01", 2**53 + 1: "b2026-01-01"}, first
        add(spark, folder, [(1, "A", 3), (3, "c", 4)])
        # which does as Spark's own where the checkpoint is not on S3
        add_conditional_files(spark, name)
        spark.conf.set(FILE_MANAGER, CONDITIONAL_MANAGER)
        second = run(spark, folder)
        assert dict(second) == {1: "A2026-01-01", 3: "c2026-01-01"}, second
    spark.stop()
    print(
        f"as it should be: Python {sys.version.split()[0]}, PySpark {pyspark.__version__}, watersmeet {wm.__version__}"
    )


if __name__ == "__main__":
    main()
