"""What a running demo shows: a bar until the first result, one over the records behind it, and what is waited for.

A thread draws the bar anew a few times a second, so that time is seen to pass while Spark starts. Reads Spark's own
progress: how many records each batch took, and how many tasks of the batch under way have ended.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tqdm import tqdm  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY = 0.2
START = (
    *("importing Spark", "starting Spark", "reading the flights", "building the topology", "starting the query"),
    "planning the batch",
)
"""What is waited for before the first batch runs."""
_STEPS_OF_A_BATCH = 6
_USUAL = 3.0
"""Seconds that a step takes, about: the bar moves towards the next step, and slower the longer it takes."""
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}"


@dataclass
class Run:
    """What the query has done so far, over all its starts."""

    records: int = 0
    batches: int = 0
    seconds: float = 0.0
    first: tuple[int, float] = (0, 0.0)  # records and seconds of the first batch
    first_result: float = 0.0  # seconds since the demo began
    drops: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds

    @property
    def warm_rate(self) -> float | None:
        """Records per second after the first batch, for which Spark has to start its workers."""
        records, seconds = self.first
        return (self.records - records) / (self.seconds - seconds) if self.batches > 1 else None

    def took(self, records: int, seconds: float) -> None:
        """One more batch, so many seconds after the query's start."""
        if not self.batches:
            self.first = records, seconds
        self.records += records
        self.batches += 1


class Display:
    """The bars, one after the other.

    Parameters
    ----------
    began : `time.perf_counter()` when the demo began.
    """

    def __init__(self, began: float) -> None:
        self._counting = False
        # Spark's Java is started with another standard error, which is this process's meanwhile
        self._stderr = os.fdopen(os.dup(sys.stderr.fileno()), "w")
        total = len(START) + _STEPS_OF_A_BATCH
        self._bar = self._made(total=total, bar_format=_FORMAT, leave=False)
        self._bar.start_t -= time.perf_counter() - began
        self._at, self._since = 0, began
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._thread.start()

    def says(self, text: str) -> None:
        """Print text above the bar."""
        with self._lock:
            self._bar.clear()
            print(text, flush=True)

    def waits_for(self, step: str, at: int | None = None) -> None:
        """The start has come to this step."""
        with self._lock:
            if self._counting:
                return
            reached = START.index(step) if at is None else at
            if reached > self._at:
                self._at, self._since = reached, time.perf_counter()
            self._bar.set_description_str(step, refresh=False)

    def batch(self, ended: int, of: int) -> None:
        """So many stages of the first batch have ended."""
        self.waits_for("running the first batch", len(START) + _STEPS_OF_A_BATCH * ended // max(of, 1))

    def counts(self, records: int) -> None:
        """There is a first result: from here on the bar is over the records, of which there are so many."""
        with self._lock:
            self._counting = True
            self._bar.close()
            self._bar = self._made(total=records, unit=" records", unit_scale=True)

    def took(self, records: float, what: str) -> None:
        """So many records have been read, about; `what` is being done."""
        with self._lock:
            self._bar.n = min(max(records, self._bar.n), self._bar.total)
            self._bar.set_postfix_str(what, refresh=False)

    def close(self) -> None:
        """The bar stays as it is."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join()
        self._bar.close()
        self._stderr.close()

    def _made(self, **options: Any) -> tqdm[None]:
        return tqdm(file=self._stderr, dynamic_ncols=True, mininterval=0, **options)

    def _draw(self) -> None:
        while not self._ended.wait(_LOOK_EVERY):
            with self._lock:
                if not self._counting:
                    self._bar.n = self._at + moved(time.perf_counter() - self._since)
                self._bar.refresh()


def moved(seconds: float) -> float:
    """How far the bar is within a step that has taken so many seconds: it always moves, and never reaches the next.

    >>> [round(moved(seconds), 2) for seconds in (0, 1, 3, 30)]
    [0.0, 0.28, 0.63, 1.0]
    """
    return 1 - math.exp(-seconds / _USUAL)


@contextmanager
def display(began: float) -> Iterator[Display]:
    """The bars, until all is read."""
    shown = Display(began)
    try:
        yield shown
    finally:
        shown.close()


def follow(
    spark: SparkSession, query: Any, run: Run, shown: Display, records: int, began: float, *, stays: bool = False
) -> None:
    """Keep the bar going until the query has read all there is, and add what it did to `run`.

    Raises whatever the query failed with; an interrupt stops the query first.

    Parameters
    ----------
    spark : its session.
    records : how many there are in all.
    began : `time.perf_counter()` when the demo began.
    stays : whether the query goes on when it has read all.
    """
    begin = time.perf_counter()
    seen: set[int] = set()
    last = 0
    try:
        ended = False
        # a last look after the end: the last batch's progress comes with it
        while not ended:
            ended = query.awaitTermination(_LOOK_EVERY)
            for progress in query.recentProgress:
                if progress["numInputRows"] and progress["batchId"] not in seen:
                    seen.add(progress["batchId"])
                    last = progress["numInputRows"]
                    run.took(last, time.perf_counter() - begin)
                    if run.batches == 1:
                        run.first_result = time.perf_counter() - began
                        shown.counts(records)
                    shown.took(run.records, f"batch {run.batches}")
            ended = ended or (stays and run.records >= records)
            if not ended:
                _look_in(spark, run, shown, last)
        run.drops.update(query.drops)
    except BaseException:
        stays = False
        raise
    finally:
        if not stays:
            query.stop()
        run.seconds += time.perf_counter() - begin


def _look_in(spark: SparkSession, run: Run, shown: Display, size: int) -> None:
    """Show how far the batch under way is, if it is about as large as the last one."""
    from watersmeet._spark.metrics.exporters import running_stages  # late, as the bar is there before Spark is imported

    stages, ended = running_stages(spark)
    if not run.batches:
        if stages:
            shown.batch(int(ended), stages)
        return
    if stages:
        what = f"batch {run.batches + 1}, stage {min(int(ended) + 1, stages)} of {stages}"
        shown.took(run.records + size * ended / (stages + 1), what)
