"""A program as a user writes it, for the tests of what is seen on its console: FOLDER, and "closed" where it fails."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

import watersmeet as wm


def closed(frame: Any, _: int) -> None:
    """A sink that cannot write."""
    frame.count()
    raise wm.SinkError("The warehouse is closed.", given="Sunday", hint="Come on Monday.")


def main(folder: Path, how: str) -> None:
    """Join a table of Parquet files with itself, until Ctrl-C."""
    # two cores, which are shared with the tests beside
    spark = wm.session("console", master="local[2]", config={"spark.ui.enabled": "false"})
    for number in range(3):
        rows = [(n, str(number), 10 * number) for n in range(5)]
        frame = spark.createDataFrame(rows, "k long, v string, ts long").coalesce(1)
        frame.write.mode("append").parquet(str(folder / "in"))
    read = spark.readStream.schema("k long, v string, ts long").option("maxFilesPerTrigger", 1)
    b = wm.StreamsBuilder("console")
    left, right = (
        b.table(read.parquet(str(folder / "in")), name=name, key="k", value="v", timestamp="ts") for name in ("l", "r")
    )

    def written(frame: Any, batch: int) -> None:
        frame.write.parquet(str(folder / "out" / f"{batch}"))

    sink = wm.ForeachBatch(closed if how == "closed" else written)
    left.join(right, lambda one, other: F.concat(one, F.upper(other))).to(sink, name="out")
    if how == "closed":
        # nor can the cache of state be used
        (folder / "cache").mkdir()
        (folder / "cache").chmod(0o777)
    query = b.build().start(spark, checkpoint=str(folder / "cp"), local_cache=str(folder / "cache"), tasks=2)
    print("started", flush=True)
    query.awaitTermination()
    print("ended", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
