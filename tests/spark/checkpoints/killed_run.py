"""A program for `test_file_sinks`: a query that writes two file outputs and kills itself, driver and all, at a moment.

Called with a folder and how often the files of an output may become visible before the kill, which comes "before" or
"behind" the last of these times. In the folder are the inputs.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.checkpoints.killing import short_session
from tests.spark.inputs_and_outputs.test_streaming import reader
from watersmeet._spark.outputs import files


def topology(spark: SparkSession, folder: Path) -> wm.Topology:
    """All changes of a table, and those of the even keys alone, by their values."""
    b = wm.StreamsBuilder("killed")
    table = b.table(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts")
    table.to(wm.Writer("parquet", path=str(folder / "all")), name="all")
    stream = table.to_stream().filter(lambda key, value: key % 2 == 0)
    stream.select_key(lambda key, value: value).to(wm.Writer("parquet", path=str(folder / "even")), name="even")
    return b.build()


def run(spark: SparkSession, folder: Path) -> Any:
    """All that there is, one file a batch."""
    query = topology(spark, folder).start(spark, checkpoint=str(folder / "cp"), available_now=True)
    query.awaitTermination()
    return query


def main(folder: Path, times: int, when: str) -> None:
    """Run until the kill."""
    show, shown = files._show, 0

    def killed(*given: Any) -> None:
        nonlocal shown
        shown += 1
        if when == "behind" or shown < times:
            show(*given)
        if shown == times:
            os.kill(os.getpid(), signal.SIGKILL)

    files._show = killed  # type: ignore[assignment]
    run(short_session(), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
