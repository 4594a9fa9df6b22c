"""Counts of dropped records over all batches of a running query, from the progress that Spark keeps of it.

Spark keeps the progress of the last batches only, so a thread looks in now and then. A streaming listener
written in Python would see every batch too, but costs 0.1 CPU-seconds each: the JVM hands over the progress
field by field.
"""

from __future__ import annotations

import threading
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from millpond._spark.query.counting import Metrics, drops_in, total_of

KEPT = 100
"""Progresses that Spark keeps at least, while a topology runs: more than there are batches between two looks."""
SECONDS = 5.0
"""Between two looks."""

Drops = dict[tuple[str, str], int]


class DropCounts:
    """Collects the counts of each batch of one query, once.

    Parameters
    ----------
    query : the query; followed by a thread until it ends or `close`.
    metrics : (node, reason) of each metric number.
    before : what was counted before its first batch.
    """

    def __init__(self, query: StreamingQuery, metrics: Metrics, before: Drops | None = None) -> None:
        self._query = query
        self._metrics = metrics
        self._total: Drops = dict(before or {})
        self._last = -1
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._follow, name=f"drops of {query.runId}", daemon=True).start()

    def total(self) -> Drops:
        """Counts over all batches so far."""
        self._look()
        with self._lock:
            return dict(self._total)

    def add(self, more: Drops) -> None:
        """Count what another query has dropped, which went on with this one's batch."""
        with self._lock:
            self._total = total_of([self._total, more])

    def close(self) -> None:
        """Stop following; what was counted stays."""
        self._look()
        self._closed.set()

    def _follow(self) -> None:
        while not self._closed.wait(SECONDS):
            try:
                running = self._query.isActive
                self._look()
            except (PySparkException, OSError):
                return  # Spark itself has ended; what it kept is gone
            if not running:
                return

    def _look(self) -> None:
        progresses = self._query.recentProgress
        with self._lock:
            for progress in progresses:
                number, observed = int(progress["batchId"]), progress["observedMetrics"]
                # batches come in their order, and of an idle query the last one over and over
                if observed and number > self._last:
                    rows = {name: _as_mapping(row) for name, row in observed.items()}
                    self._total = total_of([self._total, drops_in(rows, self._metrics)])
                    self._last = number


def _as_mapping(row: Any) -> dict[str, Any]:
    return row.asDict() if hasattr(row, "asDict") else dict(row)
