"""A program for `test_s3`: inputs and outputs of files on S3, the checkpoint on a disk; stopped, torn and gone on.

Called with a file of settings and jars as JSON, and a folder; it prints what it finds as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import watersmeet as wm
from dev.jvm import SHORT_LIVED
from tests.spark.inputs_and_outputs.test_streaming import SCHEMA, Collector
from watersmeet._spark.session import session

BUCKET = "s3a://bucket"
OUTPUTS = ("all", "even")


def put(spark: SparkSession, *rows: tuple[int, str | None, int]) -> None:
    """One more file of the input."""
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").parquet(f"{BUCKET}/in")


def topology(spark: SparkSession, sink: Any) -> wm.Topology:
    """Counts of each key and those of the even ones as files, and to a function, which may fail behind them."""
    b = wm.StreamsBuilder("on s3")
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{BUCKET}/in")
    records = b.stream(read, name="in", key="k", value="v", timestamp="ts")
    counts = records.group_by_key().count(name="counted", store="counts")
    told = counts.to_stream(name="told").map_values(lambda v: v.cast("string"), name="n")
    told.to(wm.Writer("parquet", path=f"{BUCKET}/all"), name="all")
    told.filter(lambda key, value: key % 2 == 0).to(wm.Writer("parquet", path=f"{BUCKET}/even"), name="even")
    told.to(wm.ForeachBatch(sink), name="function")
    return b.build()


def alone(spark: SparkSession) -> wm.Topology:
    """One output of files, which is Spark's own sink with its list."""
    b = wm.StreamsBuilder("alone on s3")
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{BUCKET}/in")
    table = b.table(read, name="in", key="k", value="v", timestamp="ts")
    table.to(wm.Writer("parquet", path=f"{BUCKET}/alone"), name="alone")
    return b.build()


def main(given: Path, folder: Path) -> None:
    """Do all of it."""
    told = json.loads(given.read_text())
    config = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": SHORT_LIVED, **told["settings"]}
    spark = session("s3", master="local[2]", jars=told["jars"], config=config)
    sink, found = Collector(fail_in=1), dict[str, Any]()

    def run(made: wm.Topology, name: str) -> None:
        query = made.start(spark, checkpoint=str(folder / name), available_now=True, local_cache=str(folder / "cache"))
        query.awaitTermination()

    # one file for each start: S3 has their times in seconds, by which Spark orders them
    put(spark, (1, "a", 1), (2, "b", 2), (1, "c", 3))
    run(topology(spark, sink), "cp")
    put(spark, (2, "d", 4), (4, "e", 5))
    try:
        run(topology(spark, sink), "cp")
    except Exception as error:
        found["torn"] = str(error)
    run(topology(spark, sink), "cp")
    put(spark, (4, "f", 6))
    run(topology(spark, sink), "cp")
    run(alone(spark), "cp-alone")
    for name in OUTPUTS:
        rows = spark.read.parquet(f"{BUCKET}/{name}").collect()
        found[name] = sorted((row["batch_id"], row["key"], row["value"]) for row in rows)
    rows = spark.read.parquet(f"{BUCKET}/alone").collect()
    found["alone"] = sorted((row["key"], row["value"]) for row in rows)
    state = wm.read_state(spark, folder / "cp", "counts").collect()
    found["state"] = sorted((row["key"], row["value"]) for row in state)
    found["tries"] = [len(tries) for _, tries in sorted(sink.batches.items())]
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
