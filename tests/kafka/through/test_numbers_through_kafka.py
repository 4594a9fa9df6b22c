"""Keys and values that are numbers, from Kafka to Kafka: through functions that ask for them, and past all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic

EDGES = [0, 1, -1, 2**31 - 1, -(2**31)]
LARGE = [2**53 + 1, -(2**63), 2**63 - 1, 7, -8]


def as_int(number: int | None) -> bytes | None:
    return None if number is None else number.to_bytes(4, "big", signed=True)


def as_long(number: int | None) -> bytes | None:
    return None if number is None else number.to_bytes(8, "big", signed=True)


Pairs = list[tuple[bytes | None, bytes | None]]


def produced(broker: KafkaBroker) -> tuple[str, str]:
    """Topics of a stream and of a table."""
    streamed, kept = new_topic(broker, "stream"), new_topic(broker, "table")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for at, (key, value) in enumerate(zip(EDGES, LARGE, strict=True)):
        producer.produce(kept, key=as_int(key), value=as_long(value), timestamp=10 + at)
        producer.produce(streamed, key=as_int(key), value=as_long(key), timestamp=1_000 + at)
    producer.produce(kept, key=as_int(-1), value=None, timestamp=100)
    producer.produce(streamed, key=None, value=as_long(5), timestamp=2_000)
    # undecodable: counted, and not to be seen anywhere
    producer.produce(streamed, key=b"abc", value=as_long(6), timestamp=2_001)
    producer.produce(streamed, key=as_int(6), value=b"123456789", timestamp=2_002)
    assert producer.flush(60) == 0
    return streamed, kept


@dataclass(frozen=True)
class Look:
    """A function for `peek`: writes down what it is shown."""

    file: Path

    def __call__(self, key: Any, value: Any) -> None:
        with self.file.open("a") as file:
            file.write(f"{key} {value}\n")


def found(broker: KafkaBroker, topic: str) -> Pairs:
    return sorted(((record.key, record.value) for record in committed(broker, topic)), key=repr)


def wanted(pairs: list[tuple[int | None, int]]) -> Pairs:
    return sorted(((as_int(key), as_long(value)) for key, value in pairs), key=repr)


def test_numbers_nulls_and_wrong_widths_come_through_every_way(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    (streamed, kept), seen = produced(broker), tmp_path / "seen"
    plain, doubled, joined = (new_topic(broker, name) for name in ("plain", "twice", "joined"))
    b = wm.StreamsBuilder("numbers")
    stream = b.stream(streamed, key="int", value="long", on_undecodable="skip").peek(Look(seen))
    table = b.table(kept, key="int", value="long")
    stream.to(plain)
    stream.flat_map_values(lambda key, value: F.array(value, key.cast("bigint"))).to(doubled)
    stream.left_join(table, lambda one, other: F.coalesce(other, F.lit(0).cast("bigint"))).to(joined)
    given = {"checkpoint": str(tmp_path / "cp"), "local_cache": str(tmp_path / "cache")}
    query = b.build().start(spark, kafka=kafka, available_now=True, **given)
    query.awaitTermination()
    records: list[tuple[int | None, int]] = [*((key, key) for key in EDGES), (None, 5)]
    assert sorted(seen.read_text().splitlines()) == sorted(f"{key} {value}" for key, value in records)
    assert found(broker, plain) == wanted(records)
    twice = [pair for pair in found(broker, doubled) if pair[0] is not None]
    assert twice == wanted([(key, key) for key in EDGES for _ in range(2)])
    rows = dict(zip(EDGES, LARGE, strict=True)) | {-1: 0}
    # a left join keeps a record without a key (KIP-962)
    assert found(broker, joined) == wanted([*rows.items(), (None, 0)])
    assert sum(count for (_, reason), count in query.drops.items() if reason == "undecodable") == 2
