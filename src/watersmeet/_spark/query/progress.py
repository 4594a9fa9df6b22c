"""Counts of a running query's batches, from the progress that Spark keeps of it.

Spark keeps the progress of the last batches only, so a thread looks in now and then. A streaming listener
written in Python would see every batch too, but costs 0.1 CPU-seconds each: the JVM hands over the progress
field by field.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.metrics import log_line
from watersmeet._spark.metrics.lifetime_totals import LifetimeTotals
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.observed import progresses_behind
from watersmeet._spark.metrics.totals import Counted, Totals

LOG = logging.getLogger("watersmeet.progress")
SECONDS = 5.0
"""Between two looks."""

Drops = dict[tuple[str, str], int]


class BatchCounts:
    """Collects the counts of each batch of one query, once, and says each batch in the log.

    Parameters
    ----------
    query : the query; followed by a thread until it ends or `close`.
    counted : what its metrics count.
    before : what was counted before its first batch.
    kept : has them kept in the checkpoint, with those of earlier starts.
    """

    def __init__(
        self, query: StreamingQuery, counted: Counted, before: Totals | None = None, kept: LifetimeTotals | None = None
    ) -> None:
        self._query, self._kept = query, kept
        self._totals = Totals(counted) if before is None else before.going_on(counted)
        if kept is not None:
            self._totals = self._totals.with_sizes(kept.sizes)
        self._last, self._seen = -1, ""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._tellers: list[Callable[[Metrics], None]] = []
        self._ends: list[Callable[[], None]] = []
        threading.Thread(target=self._follow, name=f"counts of {query.runId}", daemon=True).start()

    def drops(self) -> Drops:
        """Dropped records of all batches so far."""
        self._look()
        with self._lock:
            return dict(self._totals.drops)

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

    def add(self, more: BatchCounts) -> None:
        """Count what another query has counted, which went on with this one's batch."""
        with self._lock:
            self._totals.add(more.totals())

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
            if not running:
                self._end()
                return

    def _end(self) -> None:
        for call in self._ends:
            call()

    def _look(self) -> None:
        with self._lock:
            progresses = progresses_behind(self._query, self._seen)
            for progress in progresses:
                number, observed = int(progress["batchId"]), progress["observedMetrics"]
                # batches come in their order, and of an idle query the last one over and over
                if observed and number > self._last:
                    self._totals.take(progress)
                    self._last = number
                    if self._kept is not None:
                        self._kept.behind_commit(progress)
                    if log_line.is_wanted():
                        self._say(self._metrics(active=True))
                    self._tell_all()
            if progresses:
                self._seen = progresses[-1]["timestamp"]
                self._totals.look_ahead(progresses[-1])
            if self._kept is not None:
                self._kept.save()

    def _tell_all(self) -> None:
        for teller in self._tellers:
            try:
                teller(self._metrics(active=True))
            except Exception as error:  # of whatever is told; the query goes on, and so does the counting
                LOG.warning("A batch was not sent: %s: %s", type(error).__name__, error)

    def _say(self, now: Metrics) -> None:
        log_line.LOG.info(log_line.line(now))
        if log_line.are_details_wanted():
            log_line.LOG.debug(log_line.details(now))

    def _metrics(self, *, active: bool) -> Metrics:
        return self._totals.metrics(active=active, at_ms=time.time_ns() // 1_000_000)
