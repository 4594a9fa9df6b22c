"""Small output of a batch, written by the driver: one transaction, by one producer that lives as long as the query.

A task with records of at most `limit` bytes hands them back (`kafka_sink`). When the job has succeeded, the driver
writes those of all tasks in order of position; so tasks that ran twice or that nobody waits for any more have no
effect, and no transactional id wanders from worker to worker. Larger output is written by its task, in a transaction of
its own.

Exactly once, whichever way a task took: the driver's transaction is the last of a batch, so its marker says that the
whole batch is in, and tasks that run again only read. A batch that may have been run before (one that was planned
before this start, or with a producer that somebody else has fenced) can have been written by its tasks while they had
another limit or another function: there the driver first takes over the transactional ids of the tasks that hand
something back, and leaves out what their markers say is in (docs/decisions/0015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import position_columns, stacked
from watersmeet._engine.rows.position import sort_by_position
from watersmeet._worker.background import in_background
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan
from watersmeet._worker.formats.placed import Rules
from watersmeet._worker.writers.kafka_client import client_settings
from watersmeet._worker.writers.kafka_sink import send
from watersmeet._worker.writers.producers import TransactionalSender
from watersmeet._worker.writers.retries import Faults
from watersmeet.errors import ConfigError, SinkError
from watersmeet.io.kafka import Kafka
from watersmeet.io.topics import TopicSink

T = TypeVar("T")

TASK_BYTES = 256 << 10
"""Of records that a task hands back, at most."""
BATCH_BYTES = 4 << 20
"""The same of all tasks together: the driver holds them, and writes them alone."""
_LOOKERS = 16
"""Transactional ids that are taken over at a time."""


def limit(tasks: int) -> int:
    """Bytes of records that one of so many tasks may hand back."""
    return min(TASK_BYTES, BATCH_BYTES // max(1, tasks))


def driver_name(identity: str) -> str:
    """The driver's transactional id and group."""
    return f"{identity}-driver"


def task_name(identity: str, task: int) -> str:
    """A task's transactional id and group."""
    return f"{identity}-{task}"


def has_it(
    sender_of: Callable[..., TransactionalSender], names: Sequence[str], batch: int, plan: BatchPlan = UNKNOWN
) -> list[bool]:
    """Whether Kafka has a batch of these transactional ids, which are taken over: their former owner writes no more.

    Parameters
    ----------
    sender_of : makes a sender of a `name`.
    """

    def is_in(name: str) -> bool:
        own = sender_of(name=name)
        try:
            return own.holds(batch, plan)
        finally:
            own.abandon()

    with ThreadPoolExecutor(_LOOKERS) as pool:
        return list(pool.map(is_in, names))


@dataclass(frozen=True)
class Written:
    """The batches that earlier starts may have written.

    Parameters
    ----------
    planned : number of the last batch that the checkpoint has a plan of; -1: none.
    tasks : tasks of each batch; 0: the checkpoint is new, and so is what it is called in Kafka.
    marks : the topic with offsets that mark the batches; "": the first of those that are written.
    """

    planned: int
    tasks: int
    marks: str = ""

    def mark_of(self, topics: Sequence[TopicSink]) -> str:
        """The topic with offsets that mark the batches, if these are written."""
        return self.marks or min(sink.name for sink in topics)


def writers(identity: str, written: Written) -> list[str]:
    """The transactional ids of those that have written batches: the driver and its tasks."""
    return [task_name(identity, n) for n in range(written.tasks)] + [driver_name(identity)] if written.tasks else []


def is_unwritten(targets: Sequence[Any], kafka: Kafka | None, identity: str, written: Written, plan: BatchPlan) -> bool:
    """Whether Kafka has nothing of the last planned batch, and will not get anything of it any more.

    False where that cannot be known: where results are written plainly.

    Parameters
    ----------
    targets, kafka, identity, written : as of `prepared`.
    plan : of that batch.
    """
    topics = [target for target in targets if target.topic is not None]
    if kafka is None or not is_once(topics):
        return False
    sender_of = partial(TransactionalSender, client_settings(kafka), topic=written.mark_of(topics))
    return not any(has_it(sender_of, writers(identity, written), written.planned, plan))


def is_once(topics: Sequence[TopicSink]) -> bool:
    """Whether a task's records are one transaction: it holds all sinks, so the stronger wish decides."""
    return any(sink.delivery == "exactly_once" for sink in topics)


class DriverCommit:
    """Writes what the tasks of a batch hand back.

    Parameters
    ----------
    settings : of the Kafka client.
    identity : what transactional ids and groups begin with.
    topics : names of the topics that the records' column `topic` counts.
    planned : number of the last batch that was planned before this start: up to it a batch may have been run before.
    guard : raises where the checkpoint is this query's no more; asked behind each takeover, and before the commit.
    rules : of topics with a partitioner, by their numbers (`placed`).
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        identity: str,
        topics: Sequence[str],
        planned: int,
        guard: Callable[[], None] = lambda: None,
        rules: Rules | None = None,
    ) -> None:
        self._rules = rules or {}
        self._topics, self._planned, self._guard = topics, planned, guard
        self._sender_of = partial(TransactionalSender, settings, topic=min(topics))
        self._sender = self._sender_of(name=driver_name(identity))
        self._identity = identity
        self._taken: Future[bool] | None = None
        self._takeovers = 0
        self._faults = Faults(self._sender.retry_seconds)

    @property
    def takeovers(self) -> int:
        """How often it has taken its own transactional id over."""
        return self._sender.takeovers

    def begins(self, batch: int, plan: BatchPlan = UNKNOWN) -> bool:
        """Called before the job of a batch: whether Kafka has all of it.

        Where it cannot have been run before, the producer is made ready while the job runs.
        """
        self._taken = in_background(partial(self._sender.holds, batch, plan), "the driver's producer")
        self._faults = Faults(self._sender.retry_seconds)
        return batch <= self._planned and self._tried(self._holds, batch, plan)

    def write(self, batch: int, held: Mapping[int, bytes], slots: int | None, plan: BatchPlan = UNKNOWN) -> None:
        """Write the records that tasks hand back of a batch with a successful job.

        Parameters
        ----------
        held : by task; not empty.
        slots : path slots of the records' positions; None where they come without.
        plan : of the batch.

        Raises
        ------
        ConfigError : Kafka has this batch with another plan, or a later one; or the checkpoint is another query's.
        """
        self._tried(self._write, batch, held, slots, plan)

    def _tried(self, call: Callable[..., T], *given: Any) -> T:
        """The call to repeat while Kafka does not answer: each attempt first asks which batch is in already."""
        while True:
            try:
                found = call(*given)
                self._faults.passed()
                return found
            except SinkError as error:
                self._sender.abandon()
                self._faults.again(error)
            except ConfigError as error:
                self._sender.abandon()
                raise self._why(error) from None
            except BaseException:
                self._sender.abandon()
                raise

    def _holds(self, batch: int, plan: BatchPlan) -> bool:
        taken = self._taken
        self._ready()
        return self._sender.holds(batch, plan) if taken is None else taken.result()

    def _write(self, batch: int, held: Mapping[int, bytes], slots: int | None, plan: BatchPlan) -> None:
        self._ready()
        if not self._sender.begin(batch, plan):
            return
        if batch <= self._planned or self._sender.takeovers > self._takeovers:
            held = self._missing(batch, held, plan)
        send(self._sender, self._topics, _in_order(held, slots), rules=self._rules)
        # the id is ours since before this look: who takes the checkpoint over behind it takes the id over too
        self._guard()
        self._sender.commit(batch, plan)

    def _ready(self) -> None:
        """Wait for the takeover in the background; any that comes behind it, or where it fails, is noticed."""
        taken, self._taken = self._taken, None
        if taken is not None:
            self._takeovers = self._sender.takeovers
            taken.result()
            self._takeovers = self._sender.takeovers

    def _why(self, error: ConfigError) -> ConfigError:
        """The error to raise: that another query took over, if one did, otherwise the given one."""
        try:
            self._guard()
        except ConfigError as passed_by:
            return passed_by
        return error

    def close(self) -> None:
        """Give the producer up; no batch is under way."""
        if self._taken is not None:
            self._taken.exception()
        self._sender.abandon()

    def _missing(self, batch: int, held: Mapping[int, bytes], plan: BatchPlan) -> dict[int, bytes]:
        """The records that tasks have not written themselves; from now on no task can write them that began before."""

        found = has_it(self._sender_of, [task_name(self._identity, task) for task in held], batch, plan)
        return {task: content for (task, content), is_in in zip(held.items(), found, strict=True) if not is_in}


def _in_order(held: Mapping[int, bytes], slots: int | None) -> pa.Table:
    """The records of all tasks: in order of position, or where they come without one after the other's."""
    tables = [blob.decode(held[task]) for task in sorted(held)]
    rows = stacked(tables) if tables else pa.table({name: [] for name in ("topic", "key", "value", "ts")})
    return rows if slots is None or not tables else sort_by_position(rows, position_columns(slots))
