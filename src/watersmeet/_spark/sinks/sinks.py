"""The one streaming query of a topology, ready to be started: every sink's rows leave through it.

One Spark writer alone is Spark's own sink. Anything else is one foreachBatch: each kind of output (`kinds`) takes one
or more passes over the frame, which is persisted where there are several, so that nothing upstream is computed twice.
Where all outputs are of one kind, they may be written from wire rows. A batch that is run again leaves the same output
once: Kafka and tables by their markers, files by a folder per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet._plan.logical import Plan
from watersmeet._spark.dataflow.compile import CompiledFrame
from watersmeet._spark.fencing.asked import CheckpointLease, Nobodys, always, untold
from watersmeet._spark.sinks.barrier import StopBarrier
from watersmeet._spark.sinks.kind import Chosen, Given, OutputBatch, Pass
from watersmeet._spark.sinks.kinds import KINDS, kind_of
from watersmeet._worker.batch_plan import BatchPlan
from watersmeet._worker.writers.driver_commit import Written
from watersmeet.io.kafka import Kafka
from watersmeet.io.outputs import SinkTarget


def prepared(
    compiled: CompiledFrame,
    sinks: Sequence[tuple[Any, SinkTarget]],
    *,
    kafka: Kafka | None,
    query_name: str | None,
    checkpoint: str,
    trigger: dict[str, Any],
    identity: str,
    barrier: StopBarrier | None = None,
    written: Written | None = None,
    lease: CheckpointLease = Nobodys(),  # noqa: B008  it has no state
    plans: Callable[[int], BatchPlan] = untold,
    secure: Callable[[], None] = always,
) -> DataStreamWriter:
    """The query that writes all sinks, checked and yet to be started.

    Parameters
    ----------
    compiled : the frame of all sinks' rows.
    sinks : Sink nodes and their targets, in the plan's order.
    kafka : the connection; needed where a target is a topic.
    trigger : what `DataStreamWriter.trigger` takes.
    identity : names the application and this checkpoint (`Checkpoint.identity`): Kafka's groups and
        transactional ids begin with it.
    barrier : stands behind each batch; one Spark writer alone has no such place.
    written : what the checkpoint says of earlier starts; None: nothing is to be checked.
    lease : the query's upon its checkpoint.
    plans : the plan of each batch.
    secure : takes the lease; called when all is checked, before tables are taken over.

    Raises
    ------
    ConfigError : Kafka lacks a topic, its connection is missing, or it has batches that the checkpoint has not.
    CorruptData : a file sink has batches that the checkpoint has not.
    TopologyError : a format that cannot write what the sink gets.
    """
    given = Given(compiled, identity, kafka, written, lease.check)
    barrier = barrier or StopBarrier()
    writer = None if barrier.needed else _alone(given, sinks, query_name)
    if writer is None:
        barrier.stands = True
        passes = _passes(given, sinks)
        secure()
        for each in passes:
            each.begin()
        batch = BatchSinks(passes, barrier, plans, lease.check)
        lease.at_end(batch.close)
        writer = compiled.frame.writeStream.foreachBatch(batch)
        writer = writer if query_name is None else writer.queryName(query_name)
    return writer.outputMode("append").option("checkpointLocation", checkpoint).trigger(**trigger)


def check_writers(spark: SparkSession, plan: Plan) -> None:
    """Raise where an output cannot be written, as far as it can be known first; warn of what may be written twice.

    Raises
    ------
    ConfigError : a format is unknown, or the output's own check fails.
    """
    for kind in KINDS.values():
        mine = [sink.target for sink in plan.sinks if kind_of(sink.target) is kind]
        if mine:
            kind.check(spark, mine, alone=plan.one_writer)


def can_be_direct(spark: SparkSession, plan: Plan) -> bool:
    """Whether the sinks can be written from wire rows."""
    kinds = {kind_of(sink.target) for sink in plan.sinks}
    return len(kinds) < 2 and all(kind.can_be_direct(spark, plan, plan.sinks) for kind in kinds)


def _alone(given: Given, sinks: Sequence[tuple[Any, SinkTarget]], query_name: str | None) -> DataStreamWriter | None:
    """Spark's own sink, where the only output is one."""
    if given.compiled.exits is not None or len(sinks) != 1:
        return None
    (only,) = _chosen(given, sinks)
    return kind_of(only.target).alone(given, only, query_name)


def _passes(given: Given, sinks: Sequence[tuple[Any, SinkTarget]]) -> tuple[Pass, ...]:
    """The writers of the outputs, in order."""
    if given.compiled.exits is not None:
        nodes = {node.name: node for node, _ in sinks}
        ordered = [nodes[name] for name in given.compiled.exits.names]
        return (kind_of(ordered[0].target).direct(given, ordered),)
    chosen = _chosen(given, sinks)
    found: list[Pass] = []
    for kind in KINDS.values():
        mine = [each for each in chosen if kind_of(each.target) is kind]
        found += kind.passes(given, mine) if mine else []
    return tuple(sorted(found, key=lambda each: (each.turn, each.number)))


def _chosen(given: Given, sinks: Sequence[tuple[Any, SinkTarget]]) -> list[Chosen]:
    selectors = given.compiled.selectors
    return [Chosen(number, node, target, selectors[node.name]) for number, (node, target) in enumerate(sinks)]


@dataclass(frozen=True)
class BatchSinks:
    """The foreachBatch function: one batch to all sinks.

    Parameters
    ----------
    passes : what writes them, in order.
    barrier : behind each batch.
    plans : the plan of each batch.
    guard : raises where the checkpoint is another query's.
    """

    passes: tuple[Pass, ...]
    barrier: StopBarrier = field(default_factory=StopBarrier)
    plans: Callable[[int], BatchPlan] = untold
    guard: Callable[[], None] = always

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write the batch; called by Spark on the driver."""
        self.barrier.before_batch(batch)
        # who was passed by begins no job: its tasks would take transactional ids that are another's now
        self.guard()
        took = partial(self.barrier.note_transaction, batch)
        self._write(frame, OutputBatch(batch, self.plans(batch), self.guard, took))
        # what follows is Spark's commit
        self.guard()
        self.barrier.behind_batch(batch)

    def _write(self, frame: DataFrame, batch: OutputBatch) -> None:
        whole = any(each.leaves_rows for each in self.passes)
        with _held(frame, len(self.passes), whole=whole) as shared:
            for each in self.passes:
                each.write(shared, batch)

    def close(self) -> None:
        """Called when the query has ended."""
        for each in self.passes:
            each.close()


class _held:
    """The frame, computed once for all its readers."""

    def __init__(self, frame: DataFrame, readers: int, *, whole: bool) -> None:
        self._frame, self._persist, self._whole = frame, readers > 1 or whole, whole

    def __enter__(self) -> DataFrame:
        if self._persist:
            self._frame = self._frame.persist(StorageLevel.MEMORY_AND_DISK)
        if self._whole:
            self._frame.write.format("noop").mode("overwrite").save()
        return self._frame

    def __exit__(self, *failure: object) -> None:
        if self._persist:
            self._frame.unpersist()
