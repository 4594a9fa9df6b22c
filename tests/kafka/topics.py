"""Topics of a test, read by a plain Kafka consumer that knows nothing of millpond."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from dev.broker import KafkaBroker

_numbers = itertools.count()
PARTITIONS = 4


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    time: int
    headers: tuple[tuple[str, bytes | None], ...]


def new_topic(broker: KafkaBroker, name: str = "out", **config: str) -> str:
    """A topic that no other test uses."""
    topic = f"{name}-{next(_numbers)}"
    broker.create_topics([topic], partitions=PARTITIONS, config={n.replace("_", "."): v for n, v in config.items()})
    return topic


def committed(broker: KafkaBroker, *topics: str) -> list[Record]:
    """What a `read_committed` reader sees, in order of topic, partition and offset, once nothing is open."""
    _wait_until_settled(broker, topics)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    found: list[Record] = []
    for topic, partition in itertools.product(topics, range(PARTITIONS)):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(30)
            assert message is not None, "the broker is silent"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                break
            found.append(
                Record(
                    topic,
                    partition,
                    message.key(),
                    message.value(),
                    message.timestamp()[1],
                    tuple(message.headers() or ()),
                )
            )
    consumer.close()
    return found


def _wait_until_settled(broker: KafkaBroker, topics: tuple[str, ...]) -> None:
    """A commit is sure before its end can be seen in the partitions: until then a reader stops too early."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = {TopicPartition(t, p): OffsetSpec.latest() for t, p in itertools.product(topics, range(PARTITIONS))}

    def ends(level: IsolationLevel) -> dict[TopicPartition, int]:
        asked = admin.list_offsets(wanted, isolation_level=level)
        return {partition: future.result().offset for partition, future in asked.items()}

    for _ in range(200):
        if ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED):
            return
        time.sleep(0.05)
    raise AssertionError(f"a transaction stays open in {topics}")
