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
from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.folders import foreign
from watersmeet._spark.checkpoint.record import Checkpoint
from watersmeet._spark.checkpoint.spark_logs import last_committed_batch
from watersmeet._spark.metrics.totals import CountedPlan, Totals, ended_ms
from watersmeet._worker.counts import Counts
from watersmeet._worker.task_reports import LatestReports, Reports, ServedChange, TaskReport
from watersmeet.errors import CorruptData

VERSION = 1
_FOLDER = "watersmeet/totals"


@dataclass(frozen=True)
class StoredMetrics:
    """The stored numbers, as of the last batch that was committed."""

    totals: Totals  # of all batches that were counted
    at_ms: int  # when they were written, ms since 1970
    records_limit: int | None = None  # how many records of topics the next batch may have; None: as many as any


def read(checkpoint: Checkpoint, plan: CountedPlan | None = None) -> StoredMetrics | None:
    """The stored numbers of a checkpoint; None if there are none or they cannot be read: that does not prevent a start.

    Parameters
    ----------
    checkpoint : its own numbers; what another life of its folder has left is none of it.
    plan : of a query that goes on with it; None: of the last that counted.
    """
    try:
        texts = checkpoint.folder.contents(f"{_FOLDER}/*").values()
    except CorruptData:
        return None
    committed = last_committed_batch(checkpoint.spark_folder)
    candidates = (_read(text, checkpoint.id, committed, plan) for text in texts)
    return max(
        (candidate for candidate in candidates if candidate is not None),
        key=lambda candidate: candidate.totals.last or 0,
        default=None,
    )


def _read(content: bytes, identity: str, committed: int, plan: CountedPlan | None) -> StoredMetrics | None:
    """The content of a file; None if it was cut off, or is of another checkpoint or a batch to come, or not ours."""
    try:
        with foreign(_FOLDER):
            body = _body(content)
            if body is None or body["id"] != identity or body["totals"]["last"] > committed:
                return None
            limit = body.get("records_limit")
            return StoredMetrics(Totals.from_json(body["totals"], plan), int(body["at_ms"]), limit)
    except CorruptData:
        return None


class BatchReports:
    """The reports of one query's tasks, until their batch has ended.

    Spark hands a task's report over before it says that the job has ended. A batch that fails leaves some, which count
    nowhere: what goes on with it is another query, with reports of its own.

    Attributes
    ----------
    accumulator : brings them here.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.accumulator: Reports = spark.sparkContext.accumulator({}, LatestReports())

    def end(self, batch: int) -> None:
        """All jobs of a batch have ended: reports that name none are of this one."""
        reports = self.accumulator.value
        for place in [place for place in list(reports) if place[0] is None]:
            reports[batch, *place[1:]] = reports.pop(place)

    def counts(self, batch: int | None) -> Counts:
        """The counts of a batch; None: those outside of any batch."""
        total = Counts()
        for report in self._of(batch):
            total.add(report.counts)
        return total

    def take_served(self, batch: int) -> list[ServedChange]:
        """The changes of served tables in a batch, which are forgotten here: they may be large."""
        changes: list[ServedChange] = []
        for report in self._of(batch):
            changes += report.served
            report.served = []
        return changes

    def forget(self, batch: int) -> None:
        """Let go of all up to a batch; a task that was run twice at a time may have reported late."""
        reports = self.accumulator.value
        for place in list(reports):
            if place[0] is not None and place[0] <= batch:
                del reports[place]

    def _of(self, batch: int | None) -> list[TaskReport]:
        return [report for place, report in list(self.accumulator.value.items()) if place[0] == batch]


class LifetimeTotals:
    """Keeps the numbers of a query's batches with those of earlier starts.

    Parameters
    ----------
    checkpoint : keeps the numbers.
    plan : the plan of the query.
    reports : of its tasks.
    limit : called with the counts of each batch, before its commit; gives how many records the next one may have.

    Attributes
    ----------
    totals : of all batches so far, that of the batch under way among them when its sinks have it.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        plan: CountedPlan,
        reports: BatchReports,
        limit: Callable[[Counts], int | None] = lambda counts: None,
    ) -> None:
        previous = read(checkpoint, plan)
        self.totals, self.reports = Totals(plan) if previous is None else previous.totals, reports
        if checkpoint.change is not None:
            # tables lie in other places from now on; each is known when a batch has touched it
            self.totals.counts.sizes.clear()
        self._checkpoint, self._limit = checkpoint, limit
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
        self.reports.end(batch)
        counts = self.reports.counts(batch)
        with self._lock:
            self.totals.count(batch, counts, time.time_ns() // 1_000_000)
            self._records_limit = self._limit(counts)
            self._write()

    def behind_commit(self, progress: Any, counts: Counts) -> None:
        """Take from a progress what is not known before; where Spark's own sink writes, the counts are not either."""
        number = int(progress["batchId"])
        with self._lock:
            if self.totals.last is None or number > self.totals.last:
                self.totals.count(number, counts, ended_ms(progress))
            self.totals.tell(progress, counts)
            self._changed = True

    def save(self) -> None:
        """Write the numbers received after commits; a checkpoint that is gone meanwhile stays so."""
        with self._lock, suppress(OSError, PySparkException):
            if self._changed:
                self._write()

    def _write(self) -> None:
        number = self.totals.last or 0
        text = _text(self.totals, self._checkpoint.id, self._records_limit)
        self._checkpoint.folder.put(f"{_FOLDER}/{number % 2}", text)
        self._changed = False


def _text(totals: Totals, identity: str, records_limit: int | None = None) -> str:
    body = {
        "version": VERSION,
        "id": identity,
        "at_ms": time.time_ns() // 1_000_000,
        "totals": totals.to_json(),
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
