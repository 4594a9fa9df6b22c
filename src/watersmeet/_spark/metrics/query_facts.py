"""Facts of a query beside the counts of its batches: memory, restarts, errors, and how long Kafka took.

The last error lies in the checkpoint, as one of an earlier start is of interest, too. It is written when the end of the
query is noticed; a process that was killed leaves none, and is seen by the number of restarts: the starts behind an end
that nobody asked for. The checkpoint has how many there were, and up to which start.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.metrics.metrics import ErrorMetrics, Metrics
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._worker.process import resident_bytes
from watersmeet._worker.task_reports import BatchRequest
from watersmeet.errors import CorruptData

# Memory of the driver: of this Python process, and of its JVM.
#
# The JVM's heap is known to itself alone, and the way there is an internal of PySpark's (law 8): where it does not
# exist, as with Spark Connect, nothing is said of the JVM.


def driver_bytes(spark: SparkSession) -> Mapping[str, int]:
    """Bytes by `python`, `jvm`, `heap` and `heap_limit`; sizes that the system or Spark does not say are missing."""
    sizes = {"python": resident_bytes(), **_of_jvm(spark)}
    return {part: size for part, size in sizes.items() if size}


def _of_jvm(spark: SparkSession) -> dict[str, int]:
    try:
        java: Any = spark.sparkContext._jvm
        runtime = java.java.lang.Runtime.getRuntime()
        process = int(java.java.lang.ProcessHandle.current().pid())
        used = int(runtime.totalMemory()) - int(runtime.freeMemory())
        return {"jvm": resident_bytes(process), "heap": used, "heap_limit": int(runtime.maxMemory())}
    except Exception:
        # whatever another version or another kind of Spark does here, or one that has ended
        return {}


_FOLDER = "watersmeet/last_error"
_STARTS = "watersmeet/restarts"
_Note = TypeVar("_Note")
_MOST = 500
"""Characters of a reason."""
_LOOKS = 1_000
"""So many batches of a start are asked for columns that no record has."""
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
    gate : of its batches.
    epoch : gives the number of this start, while the query has the checkpoint; 0 before and afterwards.
    check : raises where another driver has taken the checkpoint over.

    Attributes
    ----------
    lag : gives what is unread by topic and partition, if Spark's source does not know it; None: it does.
    """

    def __init__(self, folder: Folder, gate: BatchGate, epoch: Callable[[], int], check: Callable[[], None]) -> None:
        self._folder, self._gate, self._epoch, self._check = folder, gate, epoch, check
        self._restarts = self._batches = 0
        self._last = _load_note(folder, _FOLDER, ErrorMetrics)
        self._starts = _load_note(folder, _STARTS, _Starts) or _Starts(0, 0)
        self._noted = False
        self.lag: Callable[[], dict[str, dict[int, int]] | None] = lambda: None
        self._lock = threading.Lock()
        gate.join(self._fill_request)

    def complete(self, metrics: Metrics) -> Metrics:
        """The numbers with these facts."""
        self._count()
        batch = metrics.batch
        took = None if batch is None else self._gate.transactions.get(batch.number)
        if batch is not None and took is not None:
            takeovers = self._gate.takeovers.get(batch.number, 0)
            batch = replace(batch, writes={**batch.writes, "transactions": took}, takeovers=takeovers)
        lag = self.lag()
        return replace(
            metrics,
            lag=metrics.lag if lag is None else lag,
            batch=batch,
            under_way_seconds=self._gate.under_way_seconds if metrics.active else None,
            driver_bytes=driver_bytes(self._folder.spark),
            restarts=self._restarts,
            last_error=self._last,
        )

    def end(self, failure: Callable[[], Exception | None]) -> None:
        """Note in the checkpoint, once, that the query has ended, and why, if an error ended it.

        Parameters
        ----------
        failure : the query's, as it is raised.
        """
        # whatever a session says that is gone: nothing of this may prevent an end
        with self._lock, suppress(Exception):
            epoch = self._epoch()
            error = None if self._noted else failure()
            if error is not None:
                self._noted = True
                reason = reason_of(str(error))[:_MOST]
                self._last = ErrorMetrics(time.time_ns() // 1_000_000, type(error).__name__, reason)
                # one that has lost its checkpoint leaves the error of the one that has it
                if epoch:
                    self._check()
                    self._folder.put(_FOLDER, json.dumps(asdict(self._last)))
            elif not self._noted and epoch and self._starts.epoch != epoch:
                self._check()
                self._count()
                self._starts = _Starts(self._restarts, epoch)
                self._folder.put(_STARTS, json.dumps(asdict(self._starts)))

    def _count(self) -> None:
        # each start since the note has ended without one
        self._restarts = max(self._restarts, self._starts.restarts + self._epoch() - 1 - self._starts.epoch)

    def _fill_request(self, request: BatchRequest) -> None:
        request.absent = self._batches < _LOOKS
        self._batches += 1


@dataclass(frozen=True)
class _Starts:
    """The restarts among all starts up to an epoch that ended as planned."""

    restarts: int
    epoch: int


def _load_note(folder: Folder, place: str, kind: type[_Note]) -> _Note | None:
    """The note of an earlier start; a note that was cut off, or cannot be read, prevents nothing."""
    try:
        return kind(**json.loads(folder.text(place)))
    except (CorruptData, ValueError, TypeError):
        return None
