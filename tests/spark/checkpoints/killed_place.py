"""A program for `test_file_systems`: counts of each key go to a table of a database and to two outputs of files.

Called with the checkpoint, a folder and what becomes of the driver. In its second batch it is killed "in a batch", when
results are "written" and not visible yet, when one of two outputs of files is "shown", when the table has "committed",
or "behind" all outputs; or it stands "still" there until the file `go` appears. `ended` then says how it ended. Or it
is killed at a moment of its start (`STARTS`), or before it says that it has "ended".
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import watersmeet as wm
from tests.databases.kit import Place
from tests.spark.checkpoints.killing import killing, short_session
from tests.spark.inputs_and_outputs.test_streaming import reader
from watersmeet._spark.checkpoint.lease import Epochs, MachineLease
from watersmeet._spark.outputs import databases, files, outputs
from watersmeet._spark.query.start import _Start

MARK = "mark"
"""The value of the record at which a function of the worker does something."""
STILL, IN_A_BATCH = "still", "in a batch"
ENDED = "ended"
STARTS: dict[str, tuple[Any, str, bool]] = {
    "checked": (outputs, "prepared", True),
    "sealed": (MachineLease, "seal", False),
    "leased": (Epochs, "take", False),
    "recorded": (_Start, "_record", False),
}
"""By the moment of a start whose function kills it, and whether at its begin."""
MOMENTS = (IN_A_BATCH, "written", "shown", "committed", "behind")


@dataclass(frozen=True)
class AtTheMark:
    """A function for `peek`: at one record it waits, or kills the driver."""

    folder: Path
    driver: int | None

    def __call__(self, key: Any, value: str) -> None:
        if value != MARK:
            return
        if self.driver is not None:
            os.kill(self.driver, signal.SIGKILL)
        (self.folder / "waiting").touch()
        while not (self.folder / "go").exists():
            time.sleep(0.05)


def nothing(key: Any, value: str) -> None:
    """A function for `peek`: does nothing."""


def database(folder: Path) -> Place:
    """The file of SQLite's in the folder."""
    return Place("sqlite", f"sqlite:///{folder}/kept.db")


def topology(spark: SparkSession, folder: Path, watch: Any = nothing) -> wm.Topology:
    """Right only if each record is counted once, in state and outputs."""
    b = wm.StreamsBuilder("places")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    records = b.stream(reader(spark, folder / "in"), name="in", **options).peek(watch)
    counts = records.group_by_key().agg(n=wm.count(), name="counted", store="counts")
    counts.to(database(folder).table("counts", key="id", create=True), name="table")
    told = counts.to_stream(name="told").map_values(lambda v: v["n"].cast("string"), name="n")
    told.to(wm.Writer("parquet", path=str(folder / "all")), name="all")
    told.filter(lambda key, value: key % 2 == 0).to(wm.Writer("parquet", path=str(folder / "even")), name="even")
    return b.build()


def run(spark: SparkSession, checkpoint: str, folder: Path, watch: Any = nothing, **options: Any) -> Any:
    """All that there is, one file a batch."""
    made = topology(spark, folder, watch)
    query = made.start(spark, checkpoint=checkpoint, available_now=True, **options)
    query.awaitTermination()
    return query


def main(checkpoint: str, folder: Path, moment: str) -> None:
    """Run until the kill, or until there is nothing more, or it fails."""
    if moment == "committed":
        writer: Any = databases.DatabaseTableWriter
        writer._commit = killing(writer._commit, first=False)
    elif moment == "behind":
        files._show = _killed_behind(files._show, outputs=2)
    elif moment in ("written", "shown"):
        files._show = killing(files._show, first=moment == "written")
    elif moment in {**STARTS, ENDED: None}:
        owner, name, first = {**STARTS, ENDED: (Epochs, "end", True)}[moment]
        setattr(owner, name, killing(getattr(owner, name), first=first))
    watch: Any = AtTheMark(folder, os.getpid() if moment == IN_A_BATCH else None)
    try:
        run(short_session(folder=folder), checkpoint, folder, watch if moment in (STILL, IN_A_BATCH) else nothing)
        ended = "well"
    except Exception as error:
        ended = f"{type(error).__name__}: {error}"
    (folder / "ended").write_text(ended)


def _killed_behind(show: Any, outputs: int) -> Any:
    shown = 0

    def killed(*given: Any) -> None:
        nonlocal shown
        show(*given)
        shown += 1
        if shown == outputs:
            os.kill(os.getpid(), signal.SIGKILL)

    return killed


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
