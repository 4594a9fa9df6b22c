"""Writes records to Kafka from a Python worker: plainly, or as one transaction per task and batch.

Exactly once: the number of the batch is committed as an offset of the task's own consumer group, with the batch's plan
as its metadata, in the transaction that writes the batch, so both are in or neither is. A task that is run again
finds its number there and writes nothing; where the number has another plan, it fails. The transactional id fences a
writer that was given up but still lives. A producer outlives the task: making one costs a connection and a round of
fencing.
"""

from __future__ import annotations

import operator
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan, Marker, is_in, older
from watersmeet._worker.writers.kafka_client import (
    MARKS,
    RETRY,
    UNCONFIRMED,
    client,
    client_settings,
    explained,
    make,
    patiently,
    returning,
    seconds,
)
from watersmeet.errors import SinkError
from watersmeet.io.kafka import Kafka

DEFAULTS: dict[str, Any] = {
    # where Kafka's own clients put a key: so that Kafka Streams can read the topic as co-partitioned
    "partitioner": "murmur2_random",
    # keeps the order over retries, and with it each key's
    "enable.idempotence": True,
    # memory of a worker is bounded by this, not by what the broker is behind with
    "queue.buffering.max.kbytes": 65_536,
    "linger.ms": 20,
}
TRANSACTION_TIMEOUT = 300_000
RETRY_MS = 300_000
"""As `Kafka(..., retry_timeout=)`, where nothing says otherwise."""
_LEEWAY = 3
"""How many times as long as Kafka has for an answer the client has to come back with it."""
KEPT = 4
"""Producers that a worker keeps: each has threads and connections, and tasks move from worker to worker."""

BY_KEY = -1
"""The partition of a record whose key decides it: the client's own word for it."""
Headers = list[tuple[str, bytes | None]]
_kept: dict[tuple[Any, ...], Sender] = {}


class Sender:
    """Writes records; those of one key reach the topic in the order in which they are given.

    Attributes
    ----------
    retry_seconds : for how long a batch is tried again.
    takeovers : how often it has taken its transactional id over, if it has one.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        retry = int(settings.get(RETRY, RETRY_MS))
        # without a transaction the client itself tries again
        self._settings = {**DEFAULTS, "message.timeout.ms": max(retry, 1_000), **settings}
        self.retry_seconds = retry / 1000
        self._wait = seconds(settings)
        self.takeovers = 0
        self._producer: Any = None
        self._failed: Any = None
        self._counts: dict[str, int] = {}

    @property
    def partitions_by_murmur(self) -> bool:
        """Whether the client puts a record where murmur2 of its key says, and one without a key anywhere."""
        return bool(self._settings["partitioner"] == DEFAULTS["partitioner"])

    def begin(self, batch: int, plan: BatchPlan = UNKNOWN) -> bool:
        """Open a batch; False: it is in already."""
        self._counts = {}
        if self._producer is None:
            self._open()
        return True

    def send(
        self,
        topics: Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times: Sequence[int],
        headers: Sequence[Headers | None],
        partitions: Sequence[int],
    ) -> int:
        """Write records, given by their parts, all of one length; their number."""
        nothing = [None] * len(topics)
        # as `produce` takes them; the client has no call for many records that takes headers along
        parts = (topics, values, keys, partitions, nothing, nothing, times, headers)
        moving = [iter(part) for part in parts]
        while True:  # a turn each time that the queue is full
            try:
                deque(map(self._producer.produce, *moving), maxlen=0)
                break
            except BufferError:
                self._put_when_there_is_room(*_last(parts, moving))
            except client().KafkaException as error:
                raise _refused(error, *_last(parts, moving)) from None
        self._producer.poll(0)
        self._check()
        return len(topics)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has, for this batch; 1 for none: the write then says what is wrong."""
        if topic not in self._counts:
            try:
                found = patiently(lambda: self._producer.list_topics(topic, self._wait), self._wait)
            except client().KafkaException as error:
                raise explained(error.args[0], f"topic {topic!r}") from None
            self._counts[topic] = len(found.topics[topic].partitions) or 1
        return self._counts[topic]

    def commit(self, batch: int, plan: BatchPlan = UNKNOWN) -> None:
        """Return when all is written."""
        left = self._producer.flush()
        self._check()
        if left:
            raise SinkError(UNCONFIRMED, given=f"{left} left")

    def abandon(self) -> None:
        """Give up what is under way, and this producer with it."""
        producer, self._producer = self._producer, None
        self._failed = None
        if producer is not None:
            with suppress(Exception):
                producer.purge()

    def _open(self) -> None:
        self._failed = None
        settings = {**self._settings, "on_delivery": self._delivered, "delivery.report.only.error": True}
        self._producer = make(client().Producer, settings)

    def _put_when_there_is_room(self, *record: Any) -> None:
        """The same record until the queue takes it, so that the order stays."""
        while True:
            self._producer.poll(0.1)
            self._check()
            try:
                self._producer.produce(*record)
                return
            except BufferError:
                continue
            except client().KafkaException as error:
                raise _refused(error, *record) from None

    def _delivered(self, error: Any, record: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = (error, f"topic {record.topic()!r}")

    def _check(self) -> None:
        if self._failed is not None:
            raise explained(*self._failed)


class TransactionalSender(Sender):
    """Writes each batch as one transaction of one task, or of the driver."""

    def __init__(self, settings: Mapping[str, Any], name: str, topic: str) -> None:
        timeout = int(settings.get("transaction.timeout.ms", TRANSACTION_TIMEOUT))
        limits = {"transaction.timeout.ms": timeout, "message.timeout.ms": min(timeout, 120_000)}
        super().__init__({**limits, **settings, "transactional.id": name})
        self._name = name
        self._timeout = timeout / 1000
        # an offset is of a partition of a topic that exists
        self._mark = (str(settings.get(MARKS, topic)), 0)
        self._marker: Marker | None = None
        self._group: Any = None

    def holds(self, batch: int, plan: BatchPlan = UNKNOWN) -> bool:
        """Whether Kafka has the batch: asked where this id is yet to be taken over, else as it was seen last.

        Raises
        ------
        ConfigError : it has a later one, or this one with another plan.
        SinkError : it does not say.
        """
        try:
            if self._producer is None:
                self._take_over()
        except client().KafkaException as error:
            self.abandon()
            raise explained(error.args[0], f"transactional id {self._name!r}") from None
        return self._is_in(batch, plan)

    def begin(self, batch: int, plan: BatchPlan = UNKNOWN) -> bool:
        """Open the transaction with its marker.

        The marker goes first: if another worker has taken this task over since we last wrote, Kafka refuses now, before
        a record is read that could not be read again.
        """
        self._counts = {}
        if self._marker is not None and self._marker.batch >= batch:
            # others may have written since: what Kafka says now decides, not what this worker remembers
            self.abandon()
        kept = self._producer is not None
        try:
            return self._begin(batch, plan)
        except client().KafkaException as error:
            self.abandon()
            if not kept:
                raise explained(error.args[0], f"transactional id {self._name!r}") from None
        return self.begin(batch, plan)

    def commit(self, batch: int, plan: BatchPlan = UNKNOWN) -> None:
        """Commit records and marker together."""
        try:
            # it writes out what is left first, which may take as long as the transaction may
            patiently(lambda: self._asked("commit_transaction", limit=self._timeout), self._wait)
        except client().KafkaException as error:
            # a record that was refused says more than the transaction that it broke
            self._check()
            raise explained(error.args[0], f"transactional id {self._name!r}") from None
        self._check()
        self._marker = Marker(batch, plan)

    def abandon(self) -> None:
        """Abort what is under way."""
        if self._producer is not None:
            with suppress(Exception):
                self._producer.purge()
                self._asked("abort_transaction", 10, limit=10)
        super().abandon()

    def _begin(self, batch: int, plan: BatchPlan) -> bool:
        if self._producer is None:
            self._take_over()
        if self._is_in(batch, plan):
            return False
        mark = client().TopicPartition(*self._mark, batch, plan.text())
        self._producer.begin_transaction()
        given = ([mark], self._group, self._wait)
        patiently(lambda: self._asked("send_offsets_to_transaction", *given), self._wait)
        return True

    def _is_in(self, batch: int, plan: BatchPlan) -> bool:
        return is_in(self._marker, batch, plan, self._name)

    def _asked(self, name: str, *given: Any, limit: float = 0.0) -> Any:
        """The result of a transactional call of the client; one that hangs is left behind with its client."""
        call = getattr(self._producer, name)
        try:
            return returning(lambda: call(*given), limit + _LEEWAY * self._wait)
        except SinkError:
            # whatever else it is asked, to abort or to end, would hang as well
            self._producer = None
            raise

    def _take_over(self) -> None:
        """Fence all others that write for this task, end what they left open, and see which batch is in."""
        self._open()
        self.takeovers += 1
        patiently(lambda: self._asked("init_transactions", self._wait), self._wait)
        settings = {n: v for n, v in self._settings.items() if n not in ("transactional.id", *DEFAULTS)}
        settings |= {"group.id": self._name, "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = make(client().Consumer, settings)
        try:
            # only now is the marker final: no transaction of this id is open any more
            self._marker = _read_marker(consumer, self._mark, self._wait)
            self._group = consumer.consumer_group_metadata()
        finally:
            consumer.close()


def refuse_later(kafka: Kafka, names: Sequence[str], topic: str, planned: int) -> None:
    """Raise if Kafka has a batch of one of these tasks that comes after the batch `planned`.

    Parameters
    ----------
    names : the tasks' transactional ids.
    topic : the one with offsets that mark the batches.

    Raises
    ------
    ConfigError : it has.
    SinkError : it does not say.
    """
    settings = {n: v for n, v in client_settings(kafka).items() if n not in DEFAULTS}
    # what an open transaction holds does not count: it will be ended
    settings |= {"isolation.level": "read_uncommitted", "enable.auto.commit": "false"}
    wait = seconds(settings)
    for name in names:  # one question per task
        consumer = make(client().Consumer, {**settings, "group.id": name})
        try:
            marker = _read_marker(consumer, (topic, 0), wait)
        except client().KafkaException as error:
            raise explained(error.args[0], f"group {name!r}") from None
        finally:
            consumer.close()
        if marker is not None and marker.batch > planned:
            raise older(f"the last batch planned is {planned}, batch {marker.batch} is in ({name})")


def _read_marker(consumer: Any, mark: tuple[str, int], wait: float) -> Marker | None:
    """The batch that the consumer's group has committed as offset of this partition, and its plan; None: none."""

    def look() -> Marker | None:
        found = consumer.committed([client().TopicPartition(*mark)], timeout=wait)[0]
        if found.error is not None:
            raise client().KafkaException(found.error)
        return Marker.of(int(found.offset), found.metadata) if found.offset >= 0 else None

    return patiently(look, wait)


def sender(settings: Mapping[str, Any], name: str | None, topic: str) -> Sender:
    """This worker's sender: of the transactional id `name`, or a plain one if None."""
    key = (os.getpid(), name, topic, tuple(sorted(settings.items())))
    found = _kept.pop(key, None)
    if found is None:
        found = Sender(settings) if name is None else TransactionalSender(settings, name, topic)
    _kept[key] = found
    while len(_kept) > KEPT:
        _kept.pop(next(iter(_kept))).abandon()
    return found


def _last(parts: Sequence[Sequence[Any]], moving: Sequence[Any]) -> list[Any]:
    """The record that was given last: what it has of each part, as `produce` takes it."""
    at = len(parts[0]) - operator.length_hint(moving[0]) - 1
    return [part[at] for part in parts]


def _refused(error: Any, topic: str, value: bytes | None, key: bytes | None, *_: Any) -> Exception:
    size = len(key or b"") + len(value or b"")
    return explained(error.args[0], f"topic {topic!r}, a record of {size} bytes")
