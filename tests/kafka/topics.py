"""Topics of a test."""

from __future__ import annotations

import itertools

from dev import reader
from dev.broker import KafkaBroker
from dev.reader import Record

__all__ = ["PARTITIONS", "Record", "committed", "new_topic"]

_numbers = itertools.count()
PARTITIONS = 4


def new_topic(broker: KafkaBroker, name: str = "out", **config: str) -> str:
    """A topic that no other test uses."""
    topic = f"{name}-{next(_numbers)}"
    broker.create_topics([topic], partitions=PARTITIONS, config={n.replace("_", "."): v for n, v in config.items()})
    return topic


def committed(broker: KafkaBroker, *topics: str, partitions: int = PARTITIONS) -> list[Record]:
    """What a `read_committed` reader sees, in order of topic, partition and offset, once nothing is open."""
    return reader.committed(broker.bootstrap_servers, topics, partitions)
