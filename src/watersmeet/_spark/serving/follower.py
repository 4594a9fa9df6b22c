"""Keeps a replica up with its query: what tasks hand back of a batch is applied as soon as the batch is committed.

The replica begins with the checkpoint. Who asks for changes sees those of every batch that Spark plans from then on; so
the checkpoint is read at a batch that is at least as late as the last one that was planned before.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.serving.accumulated import ServedChanges
from watersmeet._spark.serving.checkpointed import CheckpointedRows, committed, is_committed, planned
from watersmeet._spark.serving.errors import NotServed
from watersmeet._spark.serving.replica import NONE, Replica
from watersmeet._spark.serving.stores import ServedStore
from watersmeet._spark.sinks.barrier import StopBarrier
from watersmeet._worker.handed_back import PROPERTY, AskedChanges, ServedChange
from watersmeet.errors import WatersmeetError

_LOOK_SECONDS, _LOOK_ELSEWHERE_SECONDS = 0.005, 0.1
"""Between two looks for a commit: on a disk of this machine, and on another file system."""
_READINGS = 5
"""Of a checkpoint, whose query lets go of the state that is read."""
_WAITING_SHARE = 4
"""Of the bytes that a replica may have, what may wait to be applied; beyond, the checkpoint is read again."""
_QUERY_SECONDS = 1.0
"""Between two looks whether the query still runs."""


@dataclass(frozen=True)
class EndedBatch:
    """A finished batch and the changes that its tasks handed back; None if too many bytes wait to be applied."""

    number: int
    changes: Sequence[ServedChange] | None

    @property
    def bytes(self) -> int:
        """Size of the changes as they came."""
        return sum(len(rows) for change in self.changes or () for rows in change.rows or ())


class BatchChangesOfTasks:
    """Asks the tasks of each batch for the changes of some tables, on the thread that runs the batch.

    Parameters
    ----------
    spark : the session.
    stores : the tables.
    ended : is given each batch.
    """

    def __init__(self, spark: SparkSession, stores: Sequence[ServedStore], ended: Callable[[EndedBatch], None]) -> None:
        self._context = spark.sparkContext
        self._labels = {store.stored: list(store.labels) for store in stores}
        self._stores = stores
        self._told = self._context.accumulator([], ServedChanges())
        self._ended = ended
        self._closed = False
        self._under_way: int | None = None

    def join(self, barrier: StopBarrier) -> None:
        """Have the barrier call this object before and after each batch from now on."""
        barrier.join(self._begin, self._end)

    def close(self) -> None:
        """Ask for nothing from the next batch on."""
        self._closed = True

    def _begin(self, batch: int) -> None:
        if self._closed:
            self._context.setLocalProperty(PROPERTY, "")
            return
        # what a batch has left that failed, or a task that was run twice and ended late
        self._taken()
        self._context.setLocalProperty(PROPERTY, AskedChanges.text(batch, self._labels, self._told))
        self._under_way = batch

    def _end(self, batch: int) -> None:
        if not self._closed and self._under_way == batch:
            taken = [change for change in self._taken() if change.batch == batch]
            # several stores may be of one table
            told = [c._replace(store=s.name) for c in taken for s in self._stores if s.stored == c.store]
            self._ended(EndedBatch(batch, told))

    def _taken(self) -> list[ServedChange]:
        told = self._told.value
        found = told[:]
        del told[: len(found)]
        return found


class Follower:
    """The thread that advances a replica.

    Parameters
    ----------
    spark : the session.
    place : where the query's logs and state lie.
    replica : what is advanced.
    is_active : whether the query runs.
    """

    def __init__(self, spark: SparkSession, place: Folder, replica: Replica, is_active: Callable[[], bool]) -> None:
        self._place, self._replica, self._is_active = place, replica, is_active
        self._look = _LOOK_ELSEWHERE_SECONDS if place.here() is None else _LOOK_SECONDS
        self._batches: queue.SimpleQueue[EndedBatch] = queue.SimpleQueue()
        self._tasks = BatchChangesOfTasks(spark, list(replica.stores.values()), self._wait)
        self._waiting = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watersmeet replica", daemon=True)

    def begin(self, barrier: StopBarrier) -> None:
        """Follow the query from now on."""
        self._tasks.join(barrier)
        self._thread.start()

    def close(self) -> None:
        """Follow no more; what the replica has stays."""
        self._tasks.close()
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _wait(self, ended: EndedBatch) -> None:
        """Take a batch; called by the thread that runs it."""
        if self._waiting + ended.bytes > self._replica.max_bytes // _WAITING_SHARE:
            ended = EndedBatch(ended.number, None)
        self._waiting += ended.bytes
        self._batches.put(ended)

    def _run(self) -> None:
        try:
            # batches that are planned later begin later, and so are asked
            self._is_there(planned(self._place))
            self._load()
            while not self._closed.is_set():
                try:
                    ended = self._batches.get(timeout=_QUERY_SECONDS)
                except queue.Empty:
                    continue
                self._waiting -= ended.bytes
                self._advance(ended)
        except Exception as failure:
            if not self._closed.is_set():
                self._replica.refuse(_refusal(failure))
                self._tasks.close()

    def _advance(self, ended: EndedBatch) -> None:
        has = self._replica.batch
        if (has is not None and ended.number <= has) or not self._is_there(ended.number):
            return
        if ended.changes is None or any(change.rows is None for change in ended.changes):
            self._load()
        else:
            self._replica.apply(ended.number, ended.changes)

    def _load(self) -> None:
        """Read the tables from the checkpoint; batches up to that one are passed over when their changes come."""
        stores = self._replica.stores.items()
        for again in reversed(range(_READINGS)):
            batch = committed(self._place)
            rows = CheckpointedRows(self._place, batch)
            try:
                self._replica.load(batch, {name: () if batch == NONE else rows.of(store) for name, store in stores})
                return
            except NotServed:
                raise
            except Exception:
                # Spark lets go of the state of old batches, while it is read, too
                if not again or committed(self._place) == batch:
                    raise

    def _is_there(self, batch: int) -> bool:
        """Wait until a batch is committed; False: the query has ended before."""
        active = True
        looks = 0
        while batch != NONE and not is_committed(self._place, batch):
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
