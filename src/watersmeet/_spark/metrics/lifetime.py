"""The numbers of all batches since a checkpoint began, kept in it: two small files, written in turn.

Batch N's file says what all batches up to N have counted. It is written before batch N is committed, so a batch that is
run again writes its own file anew, upon that of the batch before it, and counts once (law 6). A reader takes the file
of the last batch that was committed; a file that was cut off is that of a batch that was not.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException

from watersmeet._spark.checkpoint.folders import foreign
from watersmeet._spark.checkpoint.record import Checkpoint
from watersmeet._spark.metrics.observed import observed_of
from watersmeet._spark.metrics.totals import Counted, Totals
from watersmeet._worker.wire import Tally
from watersmeet.errors import CorruptData

VERSION = 1
_FOLDER = "watersmeet/totals"


@dataclass(frozen=True)
class StoredMetrics:
    """The stored numbers, as of the last batch that was committed."""

    totals: Totals  # of all batches that were counted
    at_ms: int  # when they were written, ms since 1970
    records_limit: int | None = None  # how many records of topics the next batch may have; None: as many as any


def read(place: Checkpoint, counted: Counted | None = None) -> StoredMetrics | None:
    """The stored numbers of a checkpoint; None if there are none or they cannot be read: that does not prevent a start.

    Parameters
    ----------
    place : the checkpoint; what another life of its folder has left is none of it.
    counted : what a query counts that goes on with it; None: what was counted.
    """
    try:
        texts = place.folder.contents(f"{_FOLDER}/*/part-*").values()
    except CorruptData:
        return None
    committed = max((int(name) for name in place.place.names("commits/[0-9]*")), default=-1)
    candidates = (_read(text, place.id, committed, counted) for text in texts)
    return max(
        (candidate for candidate in candidates if candidate is not None),
        key=lambda candidate: candidate.totals.last or 0,
        default=None,
    )


def _read(content: bytes, identity: str, committed: int, counted: Counted | None) -> StoredMetrics | None:
    """The content of a file; None if it was cut off, or is of another checkpoint or a batch to come, or not ours."""
    try:
        with foreign(_FOLDER):
            body = _body(content)
            if body is None or body["id"] != identity or body["totals"]["last"] > committed:
                return None
            limit = body.get("records_limit")
            return StoredMetrics(Totals.of_json(body["totals"], counted), int(body["at_ms"]), limit)
    except CorruptData:
        return None


class LifetimeTotals:
    """Keeps the numbers of a query's batches with those of earlier starts.

    Parameters
    ----------
    place : the checkpoint.
    counted : what the query counts.
    plan : called with the counts of each batch, before its commit; gives how many records the next one may have.

    Attributes
    ----------
    totals : of all batches so far, that of the batch under way among them when its sinks have it.
    sizes : how large tables were before this start.
    """

    def __init__(
        self, place: Checkpoint, counted: Counted, plan: Callable[[Tally], int | None] = lambda counts: None
    ) -> None:
        previous = read(place, counted)
        self.totals = Totals(counted) if previous is None else previous.totals
        if place.change is not None:
            self.totals.forget_sizes()
        self.sizes = self.totals.sizes()
        self._place, self._plan = place, plan
        self._records_limit = None if previous is None else previous.records_limit
        self._changed = False
        # the batch's thread writes, and the one that follows the progress
        self._lock = threading.Lock()

    @property
    def records_limit(self) -> int | None:
        """How many records of topics the next batch may have; None: as many as any."""
        return self._records_limit

    def before_commit(self, batch: int) -> None:
        """Count the batch of this thread, which all its sinks have."""
        observed = observed_of(self._place.folder.spark, batch)
        if observed is not None:
            with self._lock:
                sums = self.totals.count(batch, observed, time.time_ns() // 1_000_000)
                self._records_limit = self._plan(sums)
                self._write()

    def behind_commit(self, progress: Any) -> None:
        """Take from a progress what is not known before, which is all where Spark gives nothing before."""
        with self._lock:
            last = self.totals.last
            if last is None or int(progress["batchId"]) > last:
                self.totals.take(progress)
            else:
                self.totals.tell(progress)
            self._changed = True

    def save(self) -> None:
        """Write the numbers received after commits; a checkpoint that is gone meanwhile stays so."""
        with self._lock, suppress(OSError, PySparkException):
            if self._changed:
                self._write()

    def _write(self) -> None:
        number = self.totals.last or 0
        self._place.folder.replace(f"{_FOLDER}/{number % 2}", _text(self.totals, self._place.id, self._records_limit))
        self._changed = False


def _text(totals: Totals, identity: str, records_limit: int | None = None) -> str:
    body = {
        "version": VERSION,
        "id": identity,
        "at_ms": time.time_ns() // 1_000_000,
        "totals": totals.as_json(),
        "records_limit": records_limit,
    }
    text = json.dumps(body)
    return f"{_digest(text)} {text}"


def _body(content: bytes) -> Mapping[str, Any] | None:
    """The content of a file; None if it was cut off or is of another version."""
    digest, _, text = content.decode("utf-8", "replace").strip().partition(" ")
    if _digest(text) != digest:
        return None
    body: Mapping[str, Any] = json.loads(text)
    return body if body["version"] == VERSION else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
