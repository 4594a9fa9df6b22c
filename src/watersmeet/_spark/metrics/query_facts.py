"""Facts of a query beside the counts of its batches: memory, restarts, errors, and how long Kafka took.

The last error lies in the checkpoint, as one of an earlier start is of interest, too. It is written when the end of the
query is noticed; a process that was killed leaves none, and is seen by the number of restarts.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace

from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.metrics.driver_memory import driver_bytes
from watersmeet._spark.metrics.metrics import ErrorMetrics, Metrics
from watersmeet._spark.sinks.barrier import StopBarrier
from watersmeet._worker.wire.ages import PROPERTY
from watersmeet.errors import CorruptData

_FOLDER = "watersmeet/last_error"
_MOST = 500
"""Characters of a reason."""
_RAISED = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception): +(\S.*)$", re.MULTILINE)


def reason_of(text: str) -> str:
    """The line of an error that says why: of what Spark says, with its tracebacks, the one that was raised first.

    >>> reason_of("It failed:\\n  File 'x.py', line 7\\nValueError: no such page\\n\\tat org.apache.spark")
    'no such page'
    >>> reason_of("The topic has gone.\\nHint: make it again.")
    'The topic has gone.'
    """
    raised = _RAISED.search(text) if "Traceback" in text or "\n\tat " in text else None
    return raised[1] if raised else text.partition("\n")[0]


class QueryFacts:
    """The facts of one query.

    Parameters
    ----------
    folder : its checkpoint.
    barrier : of its batches.
    epoch : gives the number of this start, while the query has the checkpoint; 0 before and afterwards.
    check : raises where another driver has taken the checkpoint over.

    Attributes
    ----------
    lag : gives what is unread by topic and partition, if Spark's source does not know it; None: it does.
    """

    def __init__(
        self, folder: Folder, barrier: StopBarrier, epoch: Callable[[], int], check: Callable[[], None]
    ) -> None:
        self._folder, self._barrier, self._epoch, self._check = folder, barrier, epoch, check
        self._restarts = 0
        self._last = _stored(folder)
        self._noted = False
        self.lag: Callable[[], dict[str, dict[int, int]] | None] = lambda: None
        self._lock = threading.Lock()
        barrier.join(self._begin)

    def complete(self, now: Metrics) -> Metrics:
        """The numbers with these facts."""
        self._restarts = max(self._restarts, self._epoch() - 1)
        batch = now.batch
        took = None if batch is None else self._barrier.transactions.get(batch.number)
        if batch is not None and took is not None:
            taken = self._barrier.takeovers.get(batch.number, 0)
            batch = replace(batch, writes={**batch.writes, "transactions": took}, takeovers=taken)
        lag = self.lag()
        return replace(
            now,
            lag=now.lag if lag is None else lag,
            batch=batch,
            under_way_seconds=self._barrier.under_way_seconds if now.active else None,
            driver_bytes=driver_bytes(self._folder.spark),
            restarts=self._restarts,
            last_error=self._last,
        )

    def end(self, failure: Callable[[], Exception | None]) -> None:
        """Note why the query has ended, if an error ended it; it is written into the checkpoint once.

        Parameters
        ----------
        failure : the query's, as it is raised.
        """
        # whatever a session says that is gone: nothing of this may prevent an end
        with self._lock, suppress(Exception):
            error = None if self._noted else failure()
            if error is not None:
                self._noted = True
                reason = reason_of(str(error))[:_MOST]
                self._last = ErrorMetrics(time.time_ns() // 1_000_000, type(error).__name__, reason)
                # one that has lost its checkpoint leaves the error of the one that has it
                if self._epoch():
                    self._check()
                    self._folder.replace(_FOLDER, json.dumps(asdict(self._last)))

    def _begin(self, batch: int) -> None:
        self._folder.spark.sparkContext.setLocalProperty(PROPERTY, str(time.time_ns() // 1_000_000))


def _stored(folder: Folder) -> ErrorMetrics | None:
    """The error of an earlier start; one that was cut off, or cannot be read, prevents nothing."""
    try:
        (content,) = folder.contents(f"{_FOLDER}/part-*").values()
        return ErrorMetrics(**json.loads(content))
    except (CorruptData, ValueError, TypeError):
        return None
