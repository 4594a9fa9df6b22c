"""Stopping a query between two batches, so that the next start has nothing to run again.

Spark's own stop interrupts the batch under way. But within the function that writes a batch, a call of `stop` is
carried out by the very thread of the JVM that runs the query and waits for that function: it marks the query as
ended, finds itself alive and gives up waiting for its own end; then it commits the batch and, seeing the mark, plans
no other. (PySpark keeps a thread of the JVM for each of Python's: spark's setting PYSPARK_PIN_THREAD, on by default.
On any other thread the interruption would meet the commit of the batch.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from pyspark.sql import DataFrame

from watersmeet._worker.task_reports import PROPERTY, BatchRequest

_Batch = TypeVar("_Batch")
_KEPT = 100
"""Batches, as many as Spark keeps the progress of."""


class BatchGate:
    """Stands behind each batch's write, before its commit; closed, it ends the query there.

    Attributes
    ----------
    stands : whether the query passes here at all; where one Spark writer is the only sink, it does not.
    needed : whether it has to pass here, since something must be done before each batch.
    passing : what is done with each batch that passes, by its number.
    before : what is done before each batch, and asked of its tasks.
    transactions : by the number of a batch, the seconds of its longest transaction; of the last batches that had one.
    takeovers : the same, how often a transactional id was taken over.
    """

    def __init__(self, on_start: Callable[[BatchRequest], None] | None = None) -> None:
        self.stands = False
        self.needed = False
        self.passing: Callable[[int], None] = lambda batch: None
        self.before: Callable[[BatchRequest], None] = on_start or (lambda request: None)
        self.transactions: dict[int, float] = {}
        self.takeovers: dict[int, int] = {}
        self._stop: Callable[[], None] | None = None
        self._start_ms = time.time_ns() // 1_000_000
        self._batch_start: float | None = None

    @property
    def under_way_seconds(self) -> float | None:
        """For how long the batch has run that is under way; None: there is none."""
        start = self._batch_start
        return None if start is None else time.monotonic() - start

    def before_batch(self, batch: int) -> BatchRequest:
        """Begin a batch; what is asked of its tasks. The function that writes the batch calls it."""
        self._batch_start = time.monotonic()
        request = BatchRequest(batch, begun_ms=time.time_ns() // 1_000_000, live_ms=self._start_ms)
        self.before(request)
        return request

    def note_transaction(self, batch: int, seconds: float, takeovers: int) -> None:
        """Note how long a transaction of a batch took, and how often its transactional id was taken over."""
        self.takeovers[batch] = takeovers + self.takeovers.get(batch, 0)
        self.transactions[batch] = max(seconds, self.transactions.get(batch, 0.0))
        while len(self.transactions) > _KEPT:
            oldest = min(self.transactions)
            del self.transactions[oldest], self.takeovers[oldest]

    def join(
        self,
        on_start: Callable[[BatchRequest], None] | None = None,
        passing: Callable[[int], None] | None = None,
        *,
        needed: bool = False,
    ) -> None:
        """Do this with each batch, too, behind what is done already; `needed`: the query has to pass here for it."""
        self.needed = self.needed or needed
        self.before = _chain(self.before, on_start)
        self.passing = _chain(self.passing, passing)

    def close(self, stop: Callable[[], None]) -> None:
        """End the query behind the batch that is being written, or else the next one.

        Parameters
        ----------
        stop : stops the query, as `StreamingQuery.stop` does.
        """
        self._stop = stop

    @property
    def closed(self) -> bool:
        """Whether the query ends behind its next batch."""
        return self._stop is not None

    def behind_batch(self, batch: int) -> None:
        """Pass a batch that all sinks have, or end the query; the function that wrote the batch calls it."""
        self.passing(batch)
        self._batch_start = None
        if self._stop is not None:
            # it says that waiting for its own end was interrupted
            with suppress(Exception):
                self._stop()


class ShutSinks:
    """The foreachBatch function of a topology with its outputs shut: rows are computed, and nobody gets them.

    Parameters
    ----------
    gate : gives the request of each batch.
    """

    def __init__(self, gate: BatchGate) -> None:
        self._gate = gate

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run the batch; called by Spark on the driver."""
        frame.sparkSession.sparkContext.setLocalProperty(PROPERTY, self._gate.before_batch(batch).to_json())
        frame.write.format("noop").mode("overwrite").save()


def _chain(done: Callable[[_Batch], None], too: Callable[[_Batch], None] | None) -> Callable[[_Batch], None]:
    if too is None:
        return done

    def chained(batch: _Batch) -> None:
        done(batch)
        too(batch)

    return chained
