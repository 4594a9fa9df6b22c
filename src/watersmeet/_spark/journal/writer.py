"""Keeps the journal of a running query: a folder for each batch, in which tasks put the records that they read.

A folder counts when its batch is committed, and when the file that says that it is whole is there: this one is written
when all outputs have the batch, and before Spark commits it. So a batch that was broken off has left nothing; when it
is run again, its folder begins anew.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.journal.folders import WHOLE, ended_ms, folder_of, folders
from watersmeet._spark.sinks.barrier import StopBarrier
from watersmeet._worker.packing.journaled import PROPERTY
from watersmeet.errors import ConfigError
from watersmeet.windows import Duration, duration_ms


@dataclass(frozen=True)
class JournalWriter:
    """Brackets each batch of a query.

    Parameters
    ----------
    spark : the session.
    folder : the journal's.
    keep_ms : how long batches are kept; None: for ever.
    """

    spark: SparkSession
    folder: Path
    keep_ms: int | None

    @classmethod
    def joining(cls, place: Folder, explain: bool | Duration, barrier: StopBarrier) -> Callable[[StopBarrier], None]:
        """Has a barrier call the journal's writer, beside a checkpoint's logs; nothing where the option asks for none.

        Raises
        ------
        ConfigError : they are on no disk of this machine, or the query has no place where its batches are seen.
        """
        if explain is False:
            return lambda barrier: None
        if not barrier.stands:
            raise ConfigError(
                f"explain={explain!r} cannot see the batches of this query: its only output is one of Spark's "
                "own sinks.",
                given="wm.Writer(...) as the only output",
                hint="Write a second output, or the same rows by wm.ForeachBatch(function).",
            )
        folder = folder_of(place)
        if folder is None:
            raise ConfigError(
                f"explain={explain!r} needs a checkpoint on a disk that this machine has mounted: {place}.",
                given=str(place),
                hint="Leave explain= out, or begin a checkpoint in a folder that all machines of the cluster mount.",
            )
        return cls(place.spark, folder, None if explain is True else duration_ms(explain, "explain")).join

    def join(self, barrier: StopBarrier) -> None:
        """Have the barrier call this object before and after each batch."""
        barrier.join(self._begin, self._end)

    def _begin(self, batch: int) -> None:
        folder = self.folder / str(batch)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.spark.sparkContext.setLocalProperty(PROPERTY, str(folder))
        self._expire(batch)

    def _end(self, batch: int) -> None:
        folder = self.folder / str(batch)
        beside = folder / f".{WHOLE}.new"
        beside.write_text(json.dumps({"ended_ms": time.time_ns() // 1_000_000}), encoding="utf-8")
        beside.replace(folder / WHOLE)

    def _expire(self, batch: int) -> None:
        """Remove the batches that are older than the journal is to be, the oldest first."""
        if self.keep_ms is None:
            return
        oldest = time.time_ns() // 1_000_000 - self.keep_ms
        for number, folder in folders(self.folder):
            ended = ended_ms(folder)
            if number >= batch or (ended is not None and ended >= oldest):
                break
            shutil.rmtree(folder, ignore_errors=True)
