"""The writer of an output: what it checks before a start, takes over, and writes of each batch.

Each class of outputs has its writer here or in a file of its own, and a line in `outputs.WRITERS`; nothing else knows
of it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet._plan.nodes import SinkNode
from watersmeet._spark.columns import without_origins
from watersmeet._spark.dataflow.compile import CompiledFrame
from watersmeet._spark.functions import pickling_error
from watersmeet._spark.session import handed_over
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan, older
from watersmeet._worker.formats.serdes import Serde
from watersmeet._worker.kafka_client import MARKS, check_topics, client_settings, refuse_later
from watersmeet._worker.writers.kafka import (
    WRITTEN,
    DriverCommit,
    KafkaWrite,
    WriteTopics,
    Written,
    is_once,
    limit,
    serdes_of,
    writers,
)
from watersmeet._worker.writers.rows import CALLED, UserOutput, WriteUserOutput, last_batch_of, raised
from watersmeet.errors import ConfigError, WatersmeetError
from watersmeet.io.kafka import Kafka
from watersmeet.io.topics import TopicSink


def always() -> None:
    """Whether the checkpoint is still one's own, where nobody else could have it."""


EVERY_BATCH = 2**62
"""As the last batch that may have been run before: nothing is known of any."""


@dataclass(frozen=True, repr=False)
class OutputContext:
    """The facts of a start for its outputs."""

    compiled: CompiledFrame  # the wire rows of all outputs
    identity: str  # names the application and its checkpoint; what Kafka's groups and transactional ids begin with
    kafka: Kafka | None = None  # the connection
    written: Written | None = None  # what the checkpoint says of earlier starts; None: nothing is to be checked
    guard: Callable[[], None] = always  # raises where the checkpoint is another query's

    @property
    def spark(self) -> SparkSession:
        """The user's session; a batch has one of its own."""
        return self.compiled.frame.sparkSession

    @property
    def planned(self) -> int:
        """Number of the last batch that may have been run before."""
        return EVERY_BATCH if self.written is None else self.written.planned


@dataclass(frozen=True)
class OutputBatch:
    """A batch that is written."""

    number: int  # its number
    compiled: CompiledFrame  # the outputs, and their wire rows of this batch
    plan: BatchPlan = UNKNOWN  # what it is made of
    guard: Callable[[], None] = always  # raises where the checkpoint is another query's
    # is given the seconds of each transaction, and how often a transactional id was taken over for it
    took: Callable[[float, int], None] = lambda seconds, takeovers: None

    @without_origins()
    def rows(self, sink: SinkNode) -> DataFrame:
        """The rows of an output as users see them: key, value, timestamp, sequence, headers where there are any."""
        return self.compiled.rows(sink.name, self.compiled.schema(sink.name), self.number)

    @without_origins()
    def wire(self, sinks: Collection[SinkNode]) -> DataFrame:
        """The wire rows of some outputs, by label. A sorted task has read its last row before it gives one."""
        return self.compiled.wire([sink.name for sink in sinks]).sortWithinPartitions("label")


@dataclass(frozen=True, repr=False)
class OutputWriter(ABC):
    """Writes one output, or several of one class in one pass over a batch.

    Attributes
    ----------
    turn : those of a lower turn write first; else they go by the places of their outputs.
    """

    turn: ClassVar[int] = 3

    context: OutputContext  # the facts of the start
    sinks: tuple[SinkNode, ...]  # the outputs

    @classmethod  # noqa: B027  most have nothing to check
    def check(cls, spark: SparkSession, targets: Sequence[Any], *, single: bool) -> None:
        """Raise, or warn, before anything is done at a start.

        Parameters
        ----------
        targets : all outputs of the class, as the user named them.
        single : whether it may be Spark's own sink (`Plan.one_writer`).
        """

    @classmethod
    def of(cls, context: OutputContext, sinks: Sequence[SinkNode]) -> Sequence[OutputWriter]:
        """The writers of all outputs of the class: one for each, if not said otherwise."""
        return [cls(context, (sink,)) for sink in sinks]

    def alone(self, query_name: str | None) -> DataStreamWriter | None:
        """Spark's own sink, where the only output is one."""
        return None

    @property
    def sink(self) -> SinkNode:
        """The output, if it is one."""
        (only,) = self.sinks
        return only

    @property
    def target(self) -> Any:
        """The same as the user named it."""
        return self.sink.target

    @property
    def leaves_rows(self) -> bool:
        """Whether it may stop before the end of the rows: then the levels' state would not be saved by it."""
        return False

    def begin(self) -> None:  # noqa: B027  most have nothing to take over
        """Take over what is written to: everything has been checked, and the checkpoint is this query's."""

    @abstractmethod
    def write(self, batch: OutputBatch) -> None:
        """Write a batch; run again, it leaves the same output once, as far as the output can."""

    def close(self) -> None:  # noqa: B027  most have nothing to close
        """Called when the query has ended."""


# Outputs of the user's own: written by the driver in one call, or by each task of the last exchange.
#
# A writer reads all its rows first, also those that it does not write: the levels' state is saved with them.


class UserOutputWriter(OutputWriter):
    """Has an output of the user's own write."""

    @classmethod
    def check(cls, spark: SparkSession, targets: Sequence[Any], *, single: bool) -> None:
        for target in targets:
            if target.output.written_by == "tasks":
                _check_pickled(target.output)
            try:
                target.output.check()
            except WatersmeetError:
                raise
            except Exception as error:
                name = type(target.output).__name__
                raise ConfigError(
                    f"The check of the output {name} raised {type(error).__name__}: {error}.",
                    hint=f"Remove the cause, or correct {name}.check, and start again.",
                ) from error

    @property
    def _output(self) -> UserOutput:
        return UserOutput(self.target.output, self.sink.output, self.context.identity)

    @property
    def _by_tasks(self) -> bool:
        return bool(self.target.output.written_by == "tasks")

    def begin(self) -> None:
        output, written = self._output, self.context.written
        tasks = range(0 if written is None else written.tasks)
        for task in tasks if self._by_tasks else (None,):
            last = last_batch_of(output, self.context.planned, output.writer(task))
            if last is not None and last > self.context.planned:
                planned = self.context.planned
                raise older(f"output {output.name!r}: batch {last} is there, the last one planned is {planned}")

    def write(self, batch: OutputBatch) -> None:
        rows = batch.rows(self.sink)
        if self._by_tasks:
            batch.guard()
            rows.mapInArrow(WriteUserOutput(self._output, batch.number), CALLED).collect()
            return
        table = rows.toArrow()
        batch.guard()
        self._output.write(table, batch.number)


def _check_pickled(output: Any) -> None:
    error = pickling_error(output)
    if error is not None:
        raise ConfigError(
            f"The output {type(output).__name__} is written by tasks, and cannot be pickled to reach them.",
            given=f"{type(output).__name__}: {type(error).__name__}: {error}",
            hint='Open connections in write; or have the driver write: written_by = "driver".',
        )


# Functions of batches as outputs: each is called on the driver with its rows as a DataFrame.


class BatchFunctionWriter(OutputWriter):
    """Calls a function with each batch."""

    @property
    def leaves_rows(self) -> bool:
        return True

    def write(self, batch: OutputBatch) -> None:
        batch.guard()
        function = self.target.function
        try:
            function(batch.rows(self.sink), batch.number)
        except Exception as error:
            is_use = isinstance(error, AnalysisException | AttributeError | TypeError | ValueError)
            computed = isinstance(error, PySparkException) and not is_use
            if computed or isinstance(error, WatersmeetError) or type(error).__module__.startswith("py4j."):
                raise  # the cluster's, or of what the function made it compute
            name = getattr(function, "__name__", type(function).__name__)
            raise raised(self.sink.name, name, function, batch.number, error) from None


# Kafka topics: all of them in one pass.


class TopicsWriter(OutputWriter):
    """Writes all topics."""

    turn = 0

    @classmethod
    def of(cls, context: OutputContext, sinks: Sequence[SinkNode]) -> Sequence[OutputWriter]:
        topics, kafka, written = [sink.target for sink in sinks], context.kafka, context.written
        writer = cls(context, tuple(sinks))
        _ = writer._serdes  # raises before anything is taken over
        if kafka is None:
            raise ConfigError(
                "The topology writes Kafka topics, and kafka= is left out: "
                f"{', '.join(topic.name for topic in topics):.200}.",
                given=", ".join(topic.name for topic in topics),
                hint='topology.start(..., kafka=wm.Kafka("host:9092")); watersmeet run --kafka host:9092.',
            )
        check_topics(kafka, [topic.name for topic in topics])
        # of a batch that would now be planned anew its task would skip what it has not written
        if written is not None and is_once(topics):
            refuse_later(kafka, writers(context.identity, written), written.mark_of(topics), written.planned)
        return [writer]

    def write(self, batch: OutputBatch) -> None:
        rows, driver = batch.wire(self.sinks), self._driver if is_once(self._topics) else None
        names, takeovers = tuple(topic.name for topic in self._topics), 0
        with handed_over(rows.sparkSession, self._settings) as client:
            if driver is None:
                write = KafkaWrite(client, names, None, batch.number, rules=self._rules)
            else:
                tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
                takeovers = driver.takeovers
                done = driver.begins(batch.number, batch.plan)
                identity, plan = self.context.identity, batch.plan
                write = KafkaWrite(client, names, identity, batch.number, limit(tasks), done, plan, self._rules)
            exits = batch.compiled.exits.of_sinks([sink.name for sink in self.sinks])
            results = rows.mapInArrow(WriteTopics(write, exits, self._serdes), WRITTEN).collect()
        for row in results:
            if row["seconds"] is not None:
                batch.took(row["seconds"], row["takeovers"])
        pending = {row["task"]: bytes(row["held"]) for row in results if row["held"] is not None}
        if driver is not None and pending:
            start = time.monotonic()
            driver.write(batch.number, pending, exits.slots, batch.plan)
            batch.took(time.monotonic() - start, driver.takeovers - takeovers)

    @cached_property
    def _topics(self) -> tuple[TopicSink, ...]:
        return tuple(sink.target for sink in self.sinks)

    @cached_property
    def _settings(self) -> dict[str, str]:
        kafka, written = self.context.kafka, self.context.written
        assert kafka is not None, "checked at the start"
        return {**client_settings(kafka), **({} if written is None else {MARKS: written.mark_of(self._topics)})}

    @cached_property
    def _serdes(self) -> tuple[dict[str, Serde], ...]:
        """The serdes of each topic's keys and values, where these are no text, bytes or integers."""
        compiled = self.context.compiled
        return tuple(
            serdes_of(sink, combined=sink.name in compiled.combined, encoded=compiled.encoded.get(sink.name, ()))
            for sink in self.sinks
        )

    @cached_property
    def _rules(self) -> dict[int, str]:
        rules = ((number, topic.on_invalid_partition) for number, topic in enumerate(self._topics) if topic.is_placed)
        return {number: "fail" if rule is None else rule for number, rule in rules}

    @cached_property
    def _driver(self) -> DriverCommit:
        """The writer of small output: one for all batches, which have the same topics."""
        names, context = [topic.name for topic in self._topics], self.context
        return DriverCommit(self._settings, context.identity, names, context.planned, context.guard, self._rules)

    def close(self) -> None:
        if "_driver" in vars(self):
            self._driver.close()
