"""The one streaming query of a topology, ready to be started: every sink's rows leave through it.

One Spark writer alone is Spark's own sink. Anything else is one foreachBatch: each class of outputs (`WRITERS`) has one
or more writers, which read the wire rows of a batch; these are persisted where there are several, so that nothing
upstream is computed twice. A batch that is run again leaves the same output once: Kafka and tables by their markers,
files by a folder per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import SinkNode
from watersmeet._spark.checkpoint.lease import MachineLease
from watersmeet._spark.dataflow.compile import CompiledFrame
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._spark.outputs.databases import CatalogWriter, DatabaseWriter
from watersmeet._spark.outputs.files import SparkWriter
from watersmeet._spark.outputs.output import (
    BatchFunctionWriter,
    OutputBatch,
    OutputContext,
    OutputWriter,
    TopicsWriter,
    UserOutputWriter,
    always,
)
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan
from watersmeet._worker.task_reports import PROPERTY
from watersmeet._worker.writers.kafka import Written
from watersmeet.io.databases import CatalogTable, DatabaseTable, History
from watersmeet.io.kafka import Kafka
from watersmeet.io.outputs import ForeachBatch, SinkTarget, UserOutputTarget, Writer
from watersmeet.io.topics import TopicSink

# Which outputs are written by what: one table from the output's class.

WRITERS: Mapping[type[SinkTarget], type[OutputWriter]] = {
    TopicSink: TopicsWriter,
    Writer: SparkWriter,
    ForeachBatch: BatchFunctionWriter,
    DatabaseTable: DatabaseWriter,
    CatalogTable: CatalogWriter,
    History: CatalogWriter,
    UserOutputTarget: UserOutputWriter,
}
"""By the class of an output."""


def writer_of(target: SinkTarget) -> type[OutputWriter]:
    return next(WRITERS[base] for base in type(target).__mro__ if base in WRITERS)


def prepared(
    compiled: CompiledFrame,
    sinks: Sequence[SinkNode],
    *,
    kafka: Kafka | None,
    query_name: str | None,
    checkpoint: str,
    trigger: dict[str, Any],
    identity: str,
    gate: BatchGate | None = None,
    written: Written | None = None,
    lease: MachineLease | None = None,
    plans: Callable[[int], BatchPlan] = lambda batch: UNKNOWN,
    secure: Callable[[], None] = always,
) -> DataStreamWriter:
    """The query that writes all sinks, checked and yet to be started.

    Parameters
    ----------
    compiled : the wire rows of all outputs.
    sinks : the outputs, in the plan's order.
    kafka : the connection; needed where a target is a topic.
    trigger : what `DataStreamWriter.trigger` takes.
    identity : names the application and this checkpoint (`Checkpoint.identity`): Kafka's groups and
        transactional ids begin with it.
    gate : stands behind each batch; one Spark writer alone has no such place.
    written : what the checkpoint says of earlier starts; None: nothing is to be checked.
    lease : the query's upon its checkpoint; None: nobody else could have it.
    plans : the plan of each batch.
    secure : takes the lease; called when all is checked, before tables are taken over.
    """
    guard, gate = always if lease is None else lease.check, gate or BatchGate()
    context = OutputContext(compiled, identity, kafka, written, guard)
    # Spark's own sink has no place for a gate
    single = writer_of(sinks[0].target)(context, (sinks[0],)) if len(sinks) == 1 and not gate.needed else None
    writer = None if single is None else single.alone(query_name)
    if writer is None:
        gate.stands = True
        writers = _writers(context, sinks)
        secure()
        for output in writers:
            output.begin()
        batch = BatchSinks(compiled, writers, gate, plans, guard)
        if lease is not None:
            lease.at_end(batch.close)
        writer = compiled.frame.writeStream.foreachBatch(batch)
        writer = writer if query_name is None else writer.queryName(query_name)
    return writer.outputMode("append").option("checkpointLocation", checkpoint).trigger(**trigger)


def check_writers(spark: SparkSession, plan: Plan) -> None:
    """Raise where an output cannot be written, as far as it can be known first; warn of what may be written twice."""
    for writer in WRITERS.values():
        targets = [sink.target for sink in plan.sinks if writer_of(sink.target) is writer]
        if targets:
            writer.check(spark, targets, single=plan.one_writer)


def _writers(context: OutputContext, sinks: Sequence[SinkNode]) -> tuple[OutputWriter, ...]:
    """The writers of the outputs, in order."""
    writers: list[OutputWriter] = []
    for writer in WRITERS.values():
        group = [sink for sink in sinks if writer_of(sink.target) is writer]
        writers += writer.of(context, group) if group else []
    places = {sink.name: number for number, sink in enumerate(sinks)}
    return tuple(sorted(writers, key=lambda writer: (writer.turn, places[writer.sinks[0].name])))


@dataclass(frozen=True)
class BatchSinks:
    """The foreachBatch function: one batch to all sinks."""

    compiled: CompiledFrame  # the outputs
    writers: tuple[OutputWriter, ...]  # what writes them, in order
    gate: BatchGate = field(default_factory=BatchGate)  # behind each batch
    plans: Callable[[int], BatchPlan] = lambda batch: UNKNOWN  # the plan of each batch
    guard: Callable[[], None] = always  # raises where the checkpoint is another query's

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write the batch; called by Spark on the driver."""
        request = self.gate.before_batch(batch)
        frame.sparkSession.sparkContext.setLocalProperty(PROPERTY, request.to_json())
        # who was passed by begins no job: its tasks would take transactional ids that are another's now
        self.guard()
        took = partial(self.gate.note_transaction, batch)
        eager = any(writer.leaves_rows for writer in self.writers)
        with _SharedFrame(frame, len(self.writers), eager=eager) as shared:
            rows = replace(self.compiled, frame=shared)
            for writer in self.writers:
                writer.write(OutputBatch(batch, rows, self.plans(batch), self.guard, took))
        # what follows is Spark's commit
        self.guard()
        self.gate.behind_batch(batch)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


class _SharedFrame:
    """The frame, computed once for all its readers."""

    def __init__(self, frame: DataFrame, readers: int, *, eager: bool) -> None:
        self._frame, self._persist, self._eager = frame, readers > 1 or eager, eager

    def __enter__(self) -> DataFrame:
        if self._persist:
            self._frame = self._frame.persist(StorageLevel.MEMORY_AND_DISK)
        if self._eager:
            self._frame.write.format("noop").mode("overwrite").save()
        return self._frame

    def __exit__(self, *failure: object) -> None:
        if self._persist:
            self._frame.unpersist()
