"""Kafka topics as outputs: all of them in one pass, from Spark's columns or straight from wire rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import SinkNode
from watersmeet._spark.dataflow.selection import Selection
from watersmeet._spark.fencing.asked import always
from watersmeet._spark.session.credentials import handed_over
from watersmeet._spark.sinks.kafka_rows import check_formats, kafka_rows
from watersmeet._spark.sinks.kind import EVERY_BATCH, Chosen, Given, OutputBatch, OutputKind, Pass, in_order
from watersmeet._worker.formats.serdes import Serde
from watersmeet._worker.wire.wire import Exits
from watersmeet._worker.writers.direct_sink import WriteDirectly, can_write_directly, serdes_of
from watersmeet._worker.writers.driver_commit import DriverCommit, Written, is_once, limit, writers
from watersmeet._worker.writers.kafka_client import MARKS, check_topics, client_settings
from watersmeet._worker.writers.kafka_sink import WRITTEN, KafkaWrite
from watersmeet._worker.writers.producers import refuse_later
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka
from watersmeet.io.topics import TopicSink


class TopicOutputs(OutputKind):
    """Kafka topics."""

    def can_be_direct(self, spark: SparkSession, plan: Plan, sinks: Sequence[SinkNode]) -> bool:
        return can_write_directly(plan, sinks)

    def direct(self, given: Given, nodes: Sequence[SinkNode]) -> Pass:
        assert given.compiled.exits is not None
        topics = tuple(node.target for node in nodes)
        settings = _checked(topics, given)
        serdes = tuple(serdes_of(node, given.compiled.encoded.get(node.name, ())) for node in nodes)
        told = (settings, given.identity, given.planned, given.guard)
        return TopicsFromBlobs(topics, *told, exits=given.compiled.exits, serdes=serdes)

    def passes(self, given: Given, chosen: Sequence[Chosen]) -> Sequence[Pass]:
        topics = tuple(each.target for each in chosen)
        selections = tuple(each.selection for each in chosen)
        check_formats(given.frame, list(zip(topics, selections, strict=True)))
        told = (_checked(topics, given), given.identity, given.planned, given.guard)
        return (TopicsFromColumns(topics, *told, selections=selections, ends=given.compiled.ends),)


@dataclass(frozen=True, repr=False)
class TopicsPass(Pass):
    """Writes all topics.

    Parameters
    ----------
    topics : by their numbers.
    settings : of the Kafka client; never shown.
    identity : what Kafka's groups and transactional ids begin with.
    planned : number of the last batch that may have been run before.
    guard : raises where the checkpoint is another query's.
    """

    turn = 0

    topics: tuple[TopicSink, ...]
    settings: Mapping[str, str]
    identity: str
    planned: int = EVERY_BATCH
    guard: Callable[[], None] = always

    def _run(self, rows: DataFrame, batch: OutputBatch, direct: TopicsFromBlobs | None = None) -> None:
        """Write records, or what wire rows bring to these sinks."""
        names, driver = tuple(sink.name for sink in self.topics), self._driver if is_once(self.topics) else None
        before = 0
        with handed_over(rows.sparkSession, self.settings) as client:
            if driver is None:
                write = KafkaWrite(client, names, None, batch.number, rules=self._rules)
            else:
                tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
                before = driver.takeovers
                begun = driver.begins(batch.number, batch.plan)
                write = KafkaWrite(
                    client, names, self.identity, batch.number, limit(tasks), begun, batch.plan, self._rules
                )
            made = write if direct is None else WriteDirectly(write, direct.exits, direct.serdes)
            told = rows.mapInArrow(made, WRITTEN).collect()
        for row in told:
            if row["seconds"] is not None:
                batch.took(row["seconds"], row["takeovers"])
        held = {row["task"]: bytes(row["held"]) for row in told if row["held"] is not None}
        if driver is not None and held:
            begin = time.monotonic()
            driver.write(batch.number, held, None if direct is None else direct.exits.slots, batch.plan)
            batch.took(time.monotonic() - begin, driver.takeovers - before)

    @cached_property
    def _rules(self) -> dict[int, str]:
        placed = ((number, topic.on_invalid_partition) for number, topic in enumerate(self.topics) if topic.is_placed)
        return {number: "fail" if rule is None else rule for number, rule in placed}

    @cached_property
    def _driver(self) -> DriverCommit:
        """The writer of small output: one for all batches, which have the same topics."""
        names = [sink.name for sink in self.topics]
        return DriverCommit(self.settings, self.identity, names, self.planned, self.guard, self._rules)

    def close(self) -> None:
        if "_driver" in vars(self):
            self._driver.close()


@dataclass(frozen=True, repr=False)
class TopicsFromColumns(TopicsPass):
    """Writes all topics from Spark's columns.

    Parameters
    ----------
    selections : of each topic, its part of the frame.
    ends : the column of the frame that tells end rows (see `ends`).
    """

    selections: tuple[Selection, ...] = ()
    ends: str = ""

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        topics = list(zip(self.topics, self.selections, strict=True))
        self._run(kafka_rows(frame, topics, self.ends if is_once(self.topics) else None), batch)


@dataclass(frozen=True, repr=False, kw_only=True)
class TopicsFromBlobs(TopicsPass):
    """Writes all topics from wire rows.

    Parameters
    ----------
    exits : how the sinks are told apart.
    serdes : write each topic's keys and values, where these are no text, bytes or integers.
    """

    exits: Exits
    serdes: tuple[Mapping[str, Serde], ...]

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        self._run(in_order(frame), batch, self)


def _checked(topics: Sequence[TopicSink], given: Given) -> dict[str, str]:
    """The settings of the client that writes these topics, all of which are there."""
    kafka, written = given.kafka, given.written
    if kafka is None:
        raise ConfigError(
            "The topology writes Kafka topics, and kafka= is left out: "
            f"{', '.join(sink.name for sink in topics):.200}.",
            given=", ".join(sink.name for sink in topics),
            hint='topology.start(..., kafka=wm.Kafka("host:9092"))',
        )
    _check(topics, kafka, given.identity, written)
    marks = {} if written is None else {MARKS: written.mark_of(topics)}
    return {**client_settings(kafka), **marks}


def _check(topics: Sequence[TopicSink], kafka: Kafka, identity: str, written: Written | None) -> None:
    check_topics(kafka, [sink.name for sink in topics])
    # of a batch that would now be planned anew its task would skip what it has not written
    if written is not None and is_once(topics):
        refuse_later(kafka, writers(identity, written), written.mark_of(topics), written.planned)
