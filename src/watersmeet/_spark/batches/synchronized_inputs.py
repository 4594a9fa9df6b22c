"""Inputs that are kept together: a query's batches end at times that all partitions have reached (`max_task_idle`).

Kafka Streams' tasks take the earliest record of all partitions, and wait for a partition without any (KIP-353,
KIP-695). Here a thread reads the times of the records that lie ahead and says to Spark's source where the next batch
ends. Where batches end decides nothing about results, so other ends would do as well; Spark records those that it has
planned, and runs an unfinished batch again with them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.batches.batch_ends import GATE, BatchEnds
from watersmeet._spark.batches.read_ahead import BatchOrder, Place, ReadAhead, TimeOrder, new_partitions
from watersmeet._spark.batches.transaction_order import TransactionOrder, log_of, prefix_of
from watersmeet._worker.writers import kafka_client
from watersmeet.errors import ConfigError
from watersmeet.extras import installing
from watersmeet.io.kafka import Kafka

LOG = logging.getLogger("watersmeet.query")
_LOOK_SECONDS = 0.05
_LEAST = 1_000
_SHARES = 4
"""Of each partition so many times its share of a batch is looked at: partitions are not equally full."""


@dataclass(frozen=True)
class SynchronizedInputs:
    """The topics of a start that are kept together.

    Parameters
    ----------
    topics : with their places among records of one time; none if nothing is.
    kafka : the connection.
    """

    topics: Mapping[str, int]
    kafka: Kafka | None

    @classmethod
    def of(
        cls, sources: Sequence[SourceNode], kafka: Kafka | None, *, available_now: bool = False
    ) -> SynchronizedInputs:
        """Those for which the connection's `max_task_idle` or `transactions` ask.

        Raises
        ------
        ConfigError : an input, the start or Kafka's client does not go with it.
        """
        option = "" if kafka is None else "transactions" if kafka.transactions else "max_task_idle"
        if kafka is None or (not kafka.transactions and kafka.max_task_idle_ms is None):
            return cls({}, kafka)
        if not kafka_client.can_ask(kafka):
            raise ConfigError(
                f"{option}= needs Kafka's client for Python, which cannot read these topics.",
                given=f"wm.Kafka({option}=...)",
                hint=f"{installing('kafka')} on the driver. A connection with settings for Java alone (consumer=) "
                "needs those of librdkafka beside them.",
            )
        streams = [s for s in sources if s.origin.frame is not None and s.origin.frame.isStreaming]
        if available_now and streams:
            raise ConfigError(
                f"available_now=True with {option}= ends when the topics have been read, and {streams[0].name!r} is a "
                "streaming DataFrame.",
                given=f"available_now=True, wm.Kafka({option}=...)",
                hint="Leave one of them out, or write the DataFrame into a topic.",
            )
        if kafka.transactions:
            return cls(_topics_of_databases(sources, kafka.transactions), kafka)
        return cls(_topics(sources), kafka)

    def __bool__(self) -> bool:
        return bool(self.topics)

    def gated(self, kafka: Kafka | None) -> Kafka | None:
        """The connection of a source that gives no records until it is said where they end."""
        if kafka is None or not self:
            return kafka
        found, read = copy(kafka), {"subscribe": ",".join(sorted({*self.topics, *kafka.transactions}))}
        object.__setattr__(found, "source", {**kafka.source, **GATE, **(read if kafka.transactions else {})})
        return found

    def trigger(self, given: dict[str, Any]) -> dict[str, Any]:
        """The trigger of a query: one that takes what is available now is ended by `BatchEndPlanner`."""
        return {"processingTime": "0 seconds"} if self and "availableNow" in given else given

    def begin(
        self, spark: SparkSession, query: StreamingQuery, trigger: dict[str, Any], limit: Callable[[], int | None]
    ) -> BatchEndPlanner | None:
        """Say to a query where its batches end; None: nothing is kept together, or the batch is one that was planned.

        Parameters
        ----------
        trigger : as it was given.
        limit : gives how many records the next batch may have; None: as many as any.
        """
        kafka = self.kafka
        if kafka is None or not self or "once" in trigger:
            return None
        logs, ends = kafka.transactions, BatchEnds(spark, query)
        most, bounded = kafka.max_records_per_batch, "availableNow" in trigger

        def read(begins: Mapping[Place, int]) -> ReadAhead:
            begins = {**begins, **new_partitions(kafka, begins)}
            order: BatchOrder = TransactionOrder(begins, logs, ends.first()) if logs else TimeOrder(begins, self.topics)
            return ReadAhead(kafka, order, bounded=bounded)

        given = (query, ends, read, (kafka.max_task_idle_ms or 0) / 1_000)
        return BatchEndPlanner(*given, lambda: limit() or most, bounded=bounded)


def _topics(sources: Sequence[SourceNode]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, source in enumerate(sources):
        origin = source.origin
        if origin.topic is None or source.shape.kind == "global" or source.dead_letters_of is not None:
            continue
        if origin.pattern is not None:
            raise _refused(source, "its topics are known by a pattern only", "Name its topics one by one")
        if source.timestamp is not None:
            raise _refused(source, "its timestamp= is a function of its records", "Write the time as the record's own")
        if origin.value.gives_time:
            why = "its event time is in its values"
            raise _refused(source, why, 'Read it with wm.debezium(..., time="record")')
        found.setdefault(origin.name, number)
    return found


def _topics_of_databases(sources: Sequence[SourceNode], logs: Sequence[str]) -> dict[str, int]:
    """All topics, if those of the databases have events of which it is known how to read their transactions."""
    read = [source for source in sources if source.origin.topic is not None and source.dead_letters_of is None]
    read = [source for source in read if source.shape.kind != "global"]
    found = {source.origin.name: number for number, source in enumerate(read) if source.origin.pattern is None}
    for source in read:
        if source.origin.pattern is not None:
            raise _refused(
                source, "its topics are known by a pattern only", "Name its topics one by one", "transactions"
            )
        if log_of(source.origin.name, logs) is not None and not source.origin.value.names_transactions:
            instead = 'Read it with wm.debezium("...") as JSON'
            raise _refused(source, f"its format is {source.origin.value}", instead, "transactions")
    for log in logs:
        if not any(log_of(topic, logs) == log for topic in found):
            raise ConfigError(
                f"No input is a table of the database with the transactions {log!r}.",
                given=f"wm.Kafka(transactions={log!r})",
                hint=f"Its topics begin with {prefix_of(log)!r}; the topology reads {', '.join(sorted(found)):.200}.",
            )
    return found


_NEEDS = {
    "max_task_idle": "max_task_idle goes by the timestamps that Kafka has of records",
    "transactions": "transactions= goes by the transactions that Debezium's events name",
}


def _refused(source: SourceNode, why: str, instead: str, option: str = "max_task_idle") -> ConfigError:
    return ConfigError(
        f"{_NEEDS[option]}, and the input {source.name!r} has none such: {why}.",
        given=f"wm.Kafka({option}=...)",
        hint=f"{instead}, or leave {option} out.",
    )


class BatchEndPlanner:
    """Says to the source of a running query where its batches end; a thread, until the query ends.

    Parameters
    ----------
    query : the query, of a source of `gated`.
    ends : says it to Spark.
    read : reads ahead from offsets on.
    idle_seconds : how long a partition without records is waited for.
    limit : gives how many records the next batch may have.
    bounded : whether to take what is there now, and then to end the query.

    Attributes
    ----------
    failure : why it has stopped before the query, which it then has ended.
    """

    def __init__(
        self,
        query: StreamingQuery,
        ends: BatchEnds,
        read: Callable[[Mapping[Place, int]], ReadAhead],
        idle_seconds: float,
        limit: Callable[[], int],
        *,
        bounded: bool,
    ) -> None:
        self._query, self._ends, self._read, self._limit = query, ends, read, limit
        self._idle_seconds, self._bounded = idle_seconds, bounded
        self._ahead: ReadAhead | None = None
        self._said: Mapping[Place, int] = {}
        self._rounds = 0
        self._lag: dict[str, dict[int, int]] = {}
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ends of {query.runId}", daemon=True)
        self._thread.start()

    def wait_for_all(self) -> None:
        """Wait until batches with all records that are there now have been planned, or the query ends."""
        before = self._rounds
        while self._thread.is_alive() and self._rounds < before + 2:
            self._thread.join(_LOOK_SECONDS)

    def join(self) -> None:
        """Wait until the thread has ended; the query has, or is about to.

        Raises
        ------
        WatersmeetError : it had to end the query.
        """
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    @property
    def lag(self) -> dict[str, dict[int, int]]:
        """Offsets behind the end of the last batch that was planned, by topic and partition."""
        ahead, found = self._ahead, dict[str, dict[int, int]]()
        if ahead is not None:
            with suppress(RuntimeError):  # it has just been closed: the last numbers stay
                for (topic, number), end in self._said.items():
                    found.setdefault(topic, {})[number] = ahead.behind((topic, number), end)
                self._lag = found
        return self._lag

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            with suppress(Exception):  # whatever a session says that is gone
                if self._query.isActive:
                    LOG.error("The query is stopped: %s", error)
                    self.failure = error
                    self._query.stop()

    def _follow(self) -> None:
        begins = self._begins()
        if begins is None:
            return
        self._said, self._ahead = begins, self._read(begins)
        pause = threading.Event()
        try:
            while self._query.isActive:
                # while a batch runs, for the next one
                self._ahead.read(self._wanted())
                if self._ends.planned() == self._said and not self._go_on(self._ahead) and self._is_done(self._ahead):
                    self._rounds += 1
                    if self._bounded and self._is_committed():
                        self._query.stop()
                pause.wait(_LOOK_SECONDS)
        finally:
            ahead, self._ahead = self._ahead, None
            ahead.close()

    def _begins(self) -> Mapping[Place, int] | None:
        """Where the first batch begins that is to be planned; None: the query has ended before."""
        pause = threading.Event()
        while self._query.isActive:
            if self._ends.find() and (found := self._ends.planned()) is not None:
                return found
            pause.wait(_LOOK_SECONDS)
        return None

    def _wanted(self) -> int:
        partitions = max(1, len(self._said))
        return max(_LEAST, min(self._limit(), _SHARES * self._limit() // partitions))

    def _go_on(self, ahead: ReadAhead) -> bool:
        """Whether the next batch may be planned."""
        waits = {place: ahead.resting(place) for place in ahead.order.begins}
        awaited = [
            place
            for place, seconds in waits.items()
            if seconds is None or (seconds < self._idle_seconds and not self._bounded)
        ]
        ends = ahead.order.take(awaited, self._limit())
        if ends is None:
            return False
        self._said = ends
        self._ends.set(ends)
        return True

    def _is_committed(self) -> bool:
        """Whether the last batch is, and Spark has its progress."""
        return self._ends.committed() == self._said and not self._query.status["isDataAvailable"]

    def _is_done(self, ahead: ReadAhead) -> bool:
        """Whether nothing is left that was there."""
        return not ahead.order.waits() and all(ahead.resting(place) is not None for place in ahead.order.begins)
