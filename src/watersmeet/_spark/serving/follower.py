"""Keeps a replica up with its query: what tasks hand back of a batch is applied as soon as the batch is committed.

The replica begins with the checkpoint. Who asks for changes sees those of every batch that Spark plans from then on; so
the checkpoint is read at a batch that is at least as late as the last one that was planned before.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet._engine.row_sizes import decode
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.spark_logs import NO_BATCH, is_committed, last_committed_batch, last_planned_batch
from watersmeet._spark.metrics.lifetime import BatchReports
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._spark.serving.replica import NotServed, Replica, ServedStore
from watersmeet._spark.stores.read import StateReader
from watersmeet._worker.task_reports import BatchRequest, ServedChange
from watersmeet.errors import WatersmeetError

# The rows of served tables in a checkpoint, as the engine keeps them: what a replica begins with.


@dataclass(frozen=True)
class CheckpointedRows:
    """Reads the tables of one batch."""

    spark_folder: Folder  # where Spark's logs and state lie
    batch: int  # the batch, committed

    def of(self, store: ServedStore) -> Iterator[pa.Table]:
        """All rows of a table, some at a time: a task's, at most, are in memory."""
        frame: DataFrame = StateReader(self.spark_folder, self.batch).engine_rows(store.stored, store.labels)
        for row in frame.toLocalIterator():
            yield decode(bytes(row["content"]))


_LOOK_SECONDS, _LOOK_ELSEWHERE_SECONDS = 0.005, 0.1
"""Between two looks for a commit: on a disk of this machine, and on another file system."""
_READINGS = 5
"""Of a checkpoint, whose query lets go of the state that is read."""
_WAITING_SHARE = 4
"""Of the bytes that a replica may have, what may wait to be applied; beyond, the checkpoint is read again."""
_CARRIER_BYTES = 500
_QUERY_SECONDS = 1.0
"""Between two looks whether the query still runs."""


@dataclass(frozen=True)
class EndedBatch:
    """A finished batch and the changes that its tasks handed back; None if too many bytes wait to be applied."""

    number: int
    changes: Sequence[ServedChange] | None

    @property
    def bytes(self) -> int:
        """Size of the changes as they came, and of what carries them."""
        carried = [len(rows) for change in self.changes or () for rows in change.rows or ()]
        return _CARRIER_BYTES * (1 + len(self.changes or ())) + sum(carried)


class BatchChangesOfTasks:
    """Asks the tasks of each batch for the changes of some tables, on the thread that runs the batch.

    Parameters
    ----------
    reports : of the query's tasks.
    stores : the tables.
    on_batch : is given each batch.
    """

    def __init__(
        self, reports: BatchReports, stores: Sequence[ServedStore], on_batch: Callable[[EndedBatch], None]
    ) -> None:
        self._reports = reports
        self._labels = {store.stored: list(store.labels) for store in stores}
        self._stores = stores
        self._on_batch = on_batch
        self._closed = False
        self._under_way: int | None = None

    def join(self, gate: BatchGate) -> None:
        """Have the gate call this object before and after each batch from now on."""
        gate.join(self._start, self._end)

    def close(self) -> None:
        """Ask for nothing from the next batch on."""
        self._closed = True

    def _start(self, request: BatchRequest) -> None:
        if not self._closed:
            request.served = self._labels
            self._under_way = request.batch

    def _end(self, batch: int) -> None:
        if not self._closed and self._under_way == batch:
            changes = self._reports.take_served(batch)
            # several stores may be of one table
            store_changes = [c._replace(store=s.name) for c in changes for s in self._stores if s.stored == c.store]
            self._on_batch(EndedBatch(batch, store_changes))


class Follower:
    """The thread that advances a replica.

    Parameters
    ----------
    reports : of the query's tasks.
    spark_folder : where the query's logs and state lie.
    replica : what is advanced.
    is_active : whether the query runs.
    """

    def __init__(
        self, reports: BatchReports, spark_folder: Folder, replica: Replica, is_active: Callable[[], bool]
    ) -> None:
        self._spark_folder, self._replica, self._is_active = spark_folder, replica, is_active
        self._look = _LOOK_ELSEWHERE_SECONDS if spark_folder.local_path() is None else _LOOK_SECONDS
        self._batches: queue.SimpleQueue[EndedBatch] = queue.SimpleQueue()
        self._tasks = BatchChangesOfTasks(reports, list(replica.stores.values()), self._wait)
        self._counting = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watersmeet replica", daemon=True)

    def begin(self, gate: BatchGate) -> None:
        """Follow the query from now on."""
        self._tasks.join(gate)
        self._thread.start()

    def close(self) -> None:
        """Follow no more; what the replica has stays."""
        self._tasks.close()
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _wait(self, batch: EndedBatch) -> None:
        """Take a batch; called by the thread that runs it."""
        most = self._replica.max_bytes
        room = min(most // _WAITING_SHARE, most - self._replica.size)
        with self._counting:
            if self._replica.waiting + batch.bytes > room:
                batch = EndedBatch(batch.number, None)
            self._replica.waiting += batch.bytes
        self._batches.put(batch)

    def _run(self) -> None:
        try:
            # batches that are planned later begin later, and so are asked
            self._is_there(last_planned_batch(self._spark_folder))
            self._load()
            while not self._closed.is_set():
                try:
                    batch = self._batches.get(timeout=_QUERY_SECONDS)
                except queue.Empty:
                    continue
                with self._counting:
                    self._replica.waiting -= batch.bytes
                self._advance(batch)
        except Exception as failure:
            if not self._closed.is_set():
                self._replica.refuse(_refusal(failure))
                self._tasks.close()

    def _advance(self, batch: EndedBatch) -> None:
        has = self._replica.batch
        if (has is not None and batch.number <= has) or not self._is_there(batch.number):
            return
        if batch.changes is None or any(change.rows is None for change in batch.changes):
            self._load()
        else:
            self._replica.apply(batch.number, batch.changes)

    def _load(self) -> None:
        """Read the tables from the checkpoint; batches up to that one are passed over when their changes come."""
        stores = self._replica.stores.items()
        for again in reversed(range(_READINGS)):
            batch = last_committed_batch(self._spark_folder)
            rows = CheckpointedRows(self._spark_folder, batch)
            try:
                self._replica.load(batch, {name: () if batch == NO_BATCH else rows.of(store) for name, store in stores})
                return
            except NotServed:
                raise
            except Exception:
                # Spark lets go of the state of old batches, while it is read, too
                if not again or last_committed_batch(self._spark_folder) == batch:
                    raise

    def _is_there(self, batch: int) -> bool:
        """Wait until a batch is committed; False: the query has ended before."""
        active = True
        looks = 0
        while batch != NO_BATCH and not is_committed(self._spark_folder, batch):
            if not active or self._closed.wait(self._look):
                return False
            looks += 1
            if looks * self._look >= _QUERY_SECONDS:
                # looked at once more behind its end
                looks, active = 0, self._is_active()
        return True


def _refusal(failure: Exception) -> Exception:
    if isinstance(failure, WatersmeetError):
        return failure
    return WatersmeetError(
        "The served tables could not be read from the checkpoint, or advanced.",
        given=f"{type(failure).__name__}: {failure}"[:500],
        hint="The query continues. Call query.serve(...) again.",
    )
