"""Counts of a running query's batches, from the progress that Spark keeps of it.

Spark keeps the progress of the last batches only, so a thread looks in now and then. A streaming listener
written in Python would see every batch too, but costs 0.1 CPU-seconds each: the JVM hands over the progress
field by field.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from watersmeet._spark.metrics.lifetime import LifetimeTotals
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.texts import as_text, log_line, metric_lines
from watersmeet._spark.metrics.totals import Totals, ended_ms, is_of_batch
from watersmeet._spark.session import warn

LOG = logging.getLogger("watersmeet.progress")
BATCH_LOG = logging.getLogger("watersmeet.batches")
BATCH_LOG.addHandler(logging.NullHandler())
SECONDS = 5.0
"""Between two looks."""

Drops = dict[tuple[str, str], int]


class BatchCounts:
    """Collects the counts of each batch of one query, once, and says each batch in the log.

    Parameters
    ----------
    query : the query; followed by a thread until it ends or `close`.
    lifetime : has them kept in the checkpoint, with those of earlier starts.
    previous : what was counted before its first batch.
    """

    def __init__(self, query: StreamingQuery, lifetime: LifetimeTotals, previous: Totals | None = None) -> None:
        self._query, self._lifetime, self.reports = query, lifetime, lifetime.reports
        plan = lifetime.totals.plan
        self._totals = (Totals(plan) if previous is None else replace(previous, plan=plan)).with_sizes(lifetime.totals)
        self._last, self._last_timestamp = -1, ""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._tellers: list[Callable[[Metrics], None]] = []
        self._ends: list[Callable[[], None]] = []
        threading.Thread(target=self._follow, name=f"counts of {query.runId}", daemon=True).start()

    def drops(self) -> Drops:
        """Dropped records of all batches so far."""
        self._look()
        with self._lock:
            return dict(self._totals.counts.drops)

    def metrics(self) -> Metrics:
        """All numbers, of all batches so far."""
        self._look()
        with self._lock:
            return self._metrics(active=self._query.isActive)

    def totals(self) -> Totals:
        """The counts, to continue with; nothing is added to them once this is closed."""
        self._look()
        return self._totals

    def tell(self, teller: Callable[[Metrics], None]) -> None:
        """Call this with the numbers behind each batch from now on."""
        with self._lock:
            self._tellers.append(teller)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call this when the query has ended, or is followed no more; it may be called more than once."""
        self._ends.append(call)

    def add(self, successor: BatchCounts) -> None:
        """Count what another query has counted, which went on with this one's batch."""
        with self._lock:
            self._totals.add(successor.totals())

    def close(self) -> None:
        """Stop following; what was counted stays."""
        self._look()
        self._closed.set()
        self._end()

    def _follow(self) -> None:
        while not self._closed.wait(SECONDS):
            try:
                running = self._query.isActive
                self._look()
            except (PySparkException, OSError):
                return  # Spark itself has ended; what it kept is gone
            except Warning:  # an error by the program's filters; this thread frees the lease, so it goes on
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), None)))
            if not running:
                self._end()
                return

    def _end(self) -> None:
        for call in self._ends:
            call()

    def _look(self) -> None:
        with self._lock:
            progresses = progresses_behind(self._query, self._last_timestamp)
            for progress in progresses:
                number = int(progress["batchId"])
                if is_of_batch(progress) and number > self._last:
                    counts = self.reports.counts(number)
                    self._totals.count(number, counts, ended_ms(progress))
                    self._totals.tell(progress, counts)
                    self._last = number
                    self._lifetime.behind_commit(progress, counts)
                    self.reports.forget(number)
                    if BATCH_LOG.isEnabledFor(logging.INFO):
                        self._say(self._metrics(active=True))
                    self._tell_all()
            if progresses:
                self._last_timestamp = progresses[-1]["timestamp"]
                self._totals.look_ahead(progresses[-1])
            self._lifetime.save()
            for message, hint in self._totals.warnings.due(ended=not self._query.isActive):
                warn(message, hint)

    def _tell_all(self) -> None:
        for teller in self._tellers:
            try:
                teller(self._metrics(active=True))
            except Exception as error:  # of whatever is told; the query goes on, and so does the counting
                LOG.warning("A batch was not sent: %s: %s", type(error).__name__, error)

    def _say(self, metrics: Metrics) -> None:
        BATCH_LOG.info(log_line(metrics))
        if BATCH_LOG.isEnabledFor(logging.DEBUG):
            BATCH_LOG.debug("since the start: %s", "; ".join(as_text(metric_lines(metrics))))

    def _metrics(self, *, active: bool) -> Metrics:
        return self._totals.metrics(active=active, at_ms=time.time_ns() // 1_000_000)


def progresses_behind(query: StreamingQuery, timestamp: str) -> list[StreamingQueryProgress]:
    """The progresses that Spark keeps behind the one with this timestamp, all that it keeps where it has none such.

    Spark's own `recentProgress` converts all of them, a hundred or more. Each costs a millisecond or two, and of small
    batches a few are new whenever somebody looks.
    """
    running: Any = query
    recent, progresses = running._jsq.recentProgress(), list[StreamingQueryProgress]()
    for at in reversed(range(len(recent))):
        progress = StreamingQueryProgress.fromJson(json.loads(recent[at].json()))
        if progress["timestamp"] == timestamp:
            break
        progresses.append(progress)
    return progresses[::-1]
