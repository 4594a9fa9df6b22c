"""Keeps the journal of a running query: a folder for each batch, in which tasks put the records that they read.

A folder counts when its batch is committed, and when the file that says that it is whole is there: this one is written
when all outputs have the batch, and before Spark commits it. So a batch that was broken off has left nothing; when it
is run again, its folder begins anew.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.journal.folders import WHOLE, ended_ms, folder_of, folders, remove
from watersmeet._spark.session.check import check_threads
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
    guard : raises where the checkpoint is another query's.
    """

    spark: SparkSession
    folder: Path
    keep_ms: int | None
    guard: Callable[[], None]
    _kept: deque[tuple[int, Path]] = field(default_factory=deque)

    @classmethod
    def joining(
        cls, place: Folder, explain: bool | Duration, barrier: StopBarrier, guard: Callable[[], None]
    ) -> Callable[[], None]:
        """The function that has a barrier call the journal's writer; it does nothing where the option asks for none.

        Raises
        ------
        ConfigError : they are on no disk of this machine, the query has no place where its batches are seen, or
            PySpark is set not to keep a thread of the JVM for each of Python's.
        """
        if explain is False:
            return lambda: None
        check_threads(f"explain={explain!r}")
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
        keep_ms = None if explain is True else duration_ms(explain, "explain")
        return partial(cls(place.spark, folder, keep_ms, guard).join, barrier)

    def join(self, barrier: StopBarrier) -> None:
        """Have the barrier call this object before and after each batch, and remove what is too old."""
        self._kept.extend(folders(self.folder))
        self._expire()
        barrier.join(self._begin, self._end)

    def _begin(self, batch: int) -> None:
        # who was passed by removes nothing: the batch is another query's now
        self.guard()
        folder = self.folder / str(batch)
        # one that was broken off
        while self._kept and self._kept[-1][0] >= batch:
            self._kept.pop()
        remove(folder)
        folder.mkdir(parents=True)
        self.spark.sparkContext.setLocalProperty(PROPERTY, str(folder))
        self._expire()

    def _end(self, batch: int) -> None:
        folder = self.folder / str(batch)
        beside = folder / f".{WHOLE}.new"
        beside.write_text(json.dumps({"ended_ms": time.time_ns() // 1_000_000}), encoding="utf-8")
        beside.replace(folder / WHOLE)
        self._kept.append((batch, folder))

    def _expire(self) -> None:
        """Remove the batches that are older than the journal is to be, the oldest first."""
        if self.keep_ms is None:
            return
        oldest = time.time_ns() // 1_000_000 - self.keep_ms
        while self._kept:
            _, folder = self._kept[0]
            ended = ended_ms(folder)
            if ended is not None and ended >= oldest:
                break
            self._kept.popleft()
            with suppress(OSError):
                remove(folder)
