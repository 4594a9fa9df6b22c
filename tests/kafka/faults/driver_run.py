"""A program for `test_two_drivers`: a driver that stands still in the middle of its second batch.

Called with a folder, the servers and a topic ("" for a file sink). The folder has the input; `waiting` appears there
when the batch stands still, which ends when `go` does; `ended` tells how the query ended.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.jars import spark_jars
from tests.spark.checkpoints.killing import short_session
from tests.spark.inputs_and_outputs.test_streaming import reader

STANDSTILL = "stand still"
"""The value of the record at which the first driver waits."""


@dataclass(frozen=True)
class Wait:
    """A function for `peek`: waits at one record."""

    folder: Path

    def __call__(self, key: Any, value: str) -> None:
        if value == STANDSTILL:
            (self.folder / "waiting").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.05)


def passed_by(key: Any, value: str) -> None:
    """A function for `peek`: waits for nothing."""


def topology(spark: SparkSession, folder: Path, topic: str, watch: Any) -> wm.Topology:
    """Each record with a count of those of its key that a table has seen: right only if each is taken once."""
    builder = wm.StreamsBuilder("drivers")
    options = {"key": "k", "value": "v", "timestamp": "ts"}
    records = builder.stream(reader(spark, folder / "left"), name="left", **options).peek(watch)
    before = records.to_table()
    joined = records.left_join(before, lambda record, table: F.concat(record, F.lit(" after "), table))
    joined.to(topic if topic else wm.Writer("parquet", path=str(folder / "out")), name="out")
    return builder.build()


def elsewhere(spark: SparkSession, folder: Path) -> str:
    """A name of the checkpoint that does not tell that it lies on this disk, as a bucket's would not."""
    spark.conf.set(f"fs.viewfs.mounttable.{folder.name}.link./folder", f"file://{folder}")
    return f"viewfs://{folder.name}/folder/cp"


def main(folder: Path, servers: str, topic: str) -> None:
    """Run until there is nothing more, or it fails."""
    spark = short_session(jars=spark_jars())
    spark.sparkContext.setLogLevel("ERROR")
    made = topology(spark, folder, topic, Wait(folder))
    kafka = wm.Kafka(servers) if topic else None
    query = made.start(
        spark, checkpoint=elsewhere(spark, folder), kafka=kafka, available_now=True, local_cache=str(folder / "cache")
    )
    try:
        query.awaitTermination()
        ended = "well"
    except Exception as error:
        ended = f"{type(error).__name__}: {error}"
    (folder / "ended").write_text(ended)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
