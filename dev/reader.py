"""Topics read to their end by a plain Kafka consumer that knows nothing of watersmeet, as `read_committed` has it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

_SILENCE_SECONDS = 60.0
_SETTLES_WITHIN_SECONDS = 400.0
"""A transaction that nobody goes on with is aborted by the broker after 300 s."""


@dataclass(frozen=True)
class Record:
    """One record of a topic; `time` is its timestamp in ms."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    time: int
    headers: tuple[tuple[str, bytes | None], ...]


def committed(servers: str, topics: Sequence[str], partitions: int) -> list[Record]:
    """All committed records, in order of topic, partition and offset, once no transaction is open.

    Parameters
    ----------
    servers : of the broker.
    topics : which topics.
    partitions : how many each has.

    Raises
    ------
    RuntimeError : the broker says nothing, or a transaction stays open.
    """
    _wait_for_last_commit(servers, topics, partitions)
    settings = {
        "bootstrap.servers": servers,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    try:
        found = [_records(consumer, topic, partition) for topic in topics for partition in range(partitions)]
        return [record for records in found for record in records]
    finally:
        consumer.close()


def _records(consumer: Consumer, topic: str, partition: int) -> list[Record]:
    consumer.assign([TopicPartition(topic, partition, 0)])
    return list(_until_the_end(consumer, topic))


def _until_the_end(consumer: Consumer, topic: str) -> Iterator[Record]:
    while True:
        message = consumer.poll(_SILENCE_SECONDS)
        if message is None:
            raise RuntimeError(f"The broker sent nothing of {topic!r} for {_SILENCE_SECONDS:.0f} s.")
        error = message.error()
        if error is None:
            headers = tuple(message.headers() or ())
            place = (topic, message.partition() or 0, message.offset() or 0)
            yield Record(*place, message.key(), message.value(), message.timestamp()[1], headers)  # type: ignore[arg-type]
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        elif not error.retriable() and error.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            raise KafkaException(error)


def _wait_for_last_commit(servers: str, topics: Sequence[str], partitions: int) -> None:
    """A commit is sure before its end can be seen in the partitions: until then a reader stops too early."""
    # at 4, warnings: what it says of its own end is no news
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 4})
    places = itertools.product(topics, range(partitions))
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in places}  # type: ignore[no-untyped-call]

    def ends(level: IsolationLevel) -> dict[TopicPartition, int]:
        asked = admin.list_offsets(wanted, isolation_level=level)
        return {partition: future.result().offset for partition, future in asked.items()}

    until = time.monotonic() + _SETTLES_WITHIN_SECONDS
    while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
        if time.monotonic() > until:
            raise RuntimeError(f"A transaction stays open in {topics}.")
        time.sleep(0.05)
