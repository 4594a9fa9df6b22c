"""A query that is started again after a failure that may pass, so often within an hour, and later each time.

Law 6: what a restart cannot repair ends the query at once: a changed topology, damaged state, a wrong setting, a
function that raises. Each restart is in the log, and counted by the epochs of the checkpoint (`Metrics.restarts`).
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter, deque
from collections.abc import Callable

from watersmeet._spark.query.progress import Drops
from watersmeet._spark.query.query import Query
from watersmeet._worker import kafka_client
from watersmeet.errors import SinkError, WatersmeetError

LOG = logging.getLogger("watersmeet.query")
RESTART_PERIOD_SECONDS = 3_600.0
"""Restarts that are longer ago count no more."""
LONGEST_PAUSE = 60.0
"""Seconds before a restart, at most: it is 1 second before the first, and twice as long before each further one."""
# what Spark says of the last attempt of a task, before anything that stands in the text of another error
_OF_TASK = (
    r"most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \([^)\n]*\): "
    r"(?:ExecutorLostFailure|TaskKilled|FetchFailed|\S*SparkException: Python worker exited unexpectedly)"
)
_OF_NETWORK = r"java\.net\.(?:Connect|NoRouteToHost|SocketTimeout|UnknownHost)Exception: "
_PASSING = re.compile(
    rf"{_OF_TASK}|has failed the maximum allowable number of times: \d+\. Most recent failure reason"
    rf"|(?:terminated with exception: |Caused by: ){_OF_NETWORK}"
)


def may_pass(failure: Exception) -> bool:
    """Whether what has ended a query may be gone at its next start: Kafka, an executor, a task, the network.

    Parameters
    ----------
    failure : as `Query.awaitTermination` raises it.

    >>> may_pass(ValueError("no such page"))
    False
    """
    if isinstance(failure, SinkError):
        return kafka_client.is_transient(failure)
    if isinstance(failure, WatersmeetError):
        return failure.passing
    return _PASSING.search(str(failure)) is not None


class Restarts:
    """The restarts of one query.

    Parameters
    ----------
    limit : so many within an hour; 0: none.
    pause : waits so many seconds.
    clock : says the seconds.
    """

    def __init__(
        self, limit: int, pause: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._pause, self._clock = limit, pause, clock
        self._past: deque[float] = deque()

    def run(self, start: Callable[[], Query]) -> Drops:
        """Start the query, again where that may help, until it ends; the dropped records of all starts.

        The first start has to succeed: what it meets is a mistake sooner than a fault.

        Parameters
        ----------
        start : starts it, upon the same checkpoint each time.
        """
        dropped: Counter[tuple[str, str]] = Counter()
        query: Query | None = start()
        while query is not None:
            try:
                query.awaitTermination()
            except Exception as failure:
                again = self._waited(failure)
                query.stop()
                dropped.update(query.drops)
                if not again:
                    raise
                query = self._started(start)
            else:
                dropped.update(query.drops)
                query = None
        return dict(dropped)

    def _started(self, start: Callable[[], Query]) -> Query:
        while True:
            try:
                return start()
            except Exception as failure:
                if not self._waited(failure):
                    raise

    def _waited(self, failure: Exception) -> bool:
        """Whether another start may help, when it is time for it."""
        current = self._clock()
        while self._past and current - self._past[0] > RESTART_PERIOD_SECONDS:
            self._past.popleft()
        if len(self._past) >= self._limit or not may_pass(failure):
            return False
        seconds = min(2.0 ** len(self._past), LONGEST_PAUSE)
        self._past.append(current)
        LOG.warning(
            "The query has ended: %s: %s It is started again in %.0f s (restart %d of %d within an hour).",
            *(type(failure).__name__, str(failure).partition("\n")[0], seconds, len(self._past), self._limit),
        )
        try:
            self._pause(seconds)
        except KeyboardInterrupt:
            # whoever presses Ctrl-C now is told why nothing runs
            return False
        return True
