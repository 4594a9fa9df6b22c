"""The inputs of the workloads from Kafka to Kafka: a data set's records, put into a topic for each side.

Where a workload's data are in two parts, the second one lies in a transaction that is left open: it is in the topics
before a contender starts, so that producing it costs no contender anything, and nobody reads it before `release`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.workloads.workload import ROUNDS, Data
from watersmeet._engine.keys import as_bytes

PARTITIONS = 4
Ends = Mapping[tuple[str, int], int]
"""The offset behind the last record, by topic and partition."""
Files = Sequence[Sequence[tuple[int, Path]]]
"""Files that are of about one time, each with the number of its topic."""
_HELD_MS = 900_000
"""How long a transaction may stay open: the most that a broker allows by default."""
_ASK_SECONDS = 30.0


class Inputs:
    """A data set in its topics, of which the second part may be held back.

    Attributes
    ----------
    topics : in the data's order.
    readable : where the records end that can be read before `release`.
    ends : where all records end; behind them the end of a transaction takes an offset of its own.
    records : of all topics.
    held : whether a part still waits for `release`.
    """

    def __init__(self, topics: Sequence[str], readable: Ends, ends: Ends, producer: Producer | None = None) -> None:
        self.topics = tuple(topics)
        self.readable = readable
        self.ends = ends
        self.records = sum(ends.values())
        self.held = producer is not None
        self._producer = producer

    def release(self) -> None:
        """Let the second part be read, if it is held.

        Raises
        ------
        confluent_kafka.KafkaException : the transaction has been open for too long, or the broker is gone.
        """
        if self.held and self._producer is not None:
            self._producer.commit_transaction()
            self.held = False


def load(servers: str, data: Data, topics: Sequence[str], *, parted: bool) -> Inputs:
    """Produce a data set into topics that are there: longs as 8 bytes, all with one partitioner.

    Parameters
    ----------
    servers, topics : where to.
    parted : whether all rounds but the first wait for `Inputs.release`.

    Raises
    ------
    RuntimeError : not all of it has arrived.
    """
    settings = {
        "bootstrap.servers": servers,
        # what is sent again stays in its place
        "enable.idempotence": True,
        "linger.ms": 50,
        # as Java's clients do: a foreign-key join of Kafka Streams finds right rows only where these put them
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": 1_000_000,
    }
    first, second = parts(data, parted=parted)
    _put(Producer(settings), topics, first)
    readable = _ends(servers, topics)
    held = None
    if second:
        # that a new broker's coordinator is still loading is no news
        own = {"transactional.id": topics[0], "transaction.timeout.ms": _HELD_MS, "log_level": 3}
        held = Producer({**settings, **own})
        held.init_transactions()
        held.begin_transaction()
        _put(held, topics, second)
    inputs = Inputs(topics, readable, _ends(servers, topics), held)
    if inputs.records != data.records:
        raise RuntimeError(f"Of {data.records:,} records {inputs.records:,} have arrived in {topics}.")
    return inputs


def parts(data: Data, *, parted: bool) -> tuple[Files, Files]:
    """A data set's files in their order, in two parts; the second one is empty unless it is `parted`."""
    found: dict[str, list[tuple[int, Path]]] = {}
    for topic, side in enumerate(data.sides):
        for file in sorted((data.folder / side).glob("*.parquet")):
            found.setdefault(file.name, []).append((topic, file))
    files = [found[name] for name in sorted(found)]
    first = len(files) // ROUNDS if parted else len(files)
    return files[:first], files[first:]


def contents(values: pa.ChunkedArray) -> list[Any]:
    """Each number or text as Kafka's serializers write it: 8 bytes, the highest first, or UTF-8; None for null."""
    return list(as_bytes(values.combine_chunks()).to_pylist())


def _put(producer: Producer, topics: Sequence[str], files: Files) -> None:
    # by turns, so that the topics advance together in time
    for together in files:
        for number, file in together:
            rows = pq.read_table(file, columns=["key", "value", "ts"])
            columns = contents(rows.column("key")), contents(rows.column("value")), rows.column("ts").to_pylist()
            for key, value, ts in zip(*columns, strict=True):
                _produce(producer, topics[number], value, key, ts)
            producer.flush()


def _produce(producer: Producer, topic: str, value: bytes | None, key: bytes, ts: int) -> None:
    while True:
        try:
            producer.produce(topic, value, key, timestamp=ts)
            return
        except BufferError:
            producer.poll(0.1)


def _ends(servers: str, topics: Sequence[str]) -> Ends:
    # what an open transaction has written counts, too
    settings = {"bootstrap.servers": servers, "group.id": "inputs", "isolation.level": "read_uncommitted"}
    consumer = Consumer(settings)
    try:
        asked = [(topic, number) for topic in topics for number in range(PARTITIONS)]
        return {each: consumer.get_watermark_offsets(TopicPartition(*each), timeout=_ASK_SECONDS)[1] for each in asked}
    finally:
        consumer.close()
