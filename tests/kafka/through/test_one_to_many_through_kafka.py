"""One-to-many results in a topic: KIP-213's bytes as keys, and a prefix's records in the prefix's partition."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import Record, committed, new_topic

PREFIXES = ("a", "ab", "", "\0", "prefix-5")
SUFFIXES = range(40)


def combined(prefix: str, suffix: int) -> bytes:
    """The key's bytes as KIP-213 lays them out."""
    content = prefix.encode()
    return len(content).to_bytes(4, "big") + content + suffix.to_bytes(8, "big", signed=True)


def written(broker: KafkaBroker, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "partitioner": "murmur2_random"}
    )
    for number, (key, value) in enumerate(records):
        producer.produce(topic, value, key, timestamp=1 + number)
    assert producer.flush(60) == 0


@pytest.fixture
def inputs(broker: KafkaBroker) -> tuple[str, str]:
    """Topics `one` and `many`: each of "many" refers to the prefix before its bar; the last one is deleted."""
    one, many = new_topic(broker, "one"), new_topic(broker, "many")
    written(broker, one, [(prefix.encode(), prefix.encode() + b"!") for prefix in PREFIXES])
    rows: list[tuple[bytes, bytes | None]] = [
        (number.to_bytes(8, "big"), f"{prefix}|{place}".encode())
        for place, prefix in enumerate(PREFIXES)
        for number in range(place * len(SUFFIXES), (place + 1) * len(SUFFIXES))
    ]
    written(broker, many, [*rows, (rows[-1][0], None)])
    return one, many


def started(topology: wm.Topology, spark: SparkSession, kafka: wm.Kafka, folder: Path) -> None:
    query = topology.start(
        spark,
        checkpoint=str(folder / "checkpoint"),
        kafka=kafka,
        available_now=True,
        local_cache=str(folder / "cache"),
    )
    query.awaitTermination()


def reference(value: Column) -> Column:
    return F.split(value, r"\|")[0]


def one_to_many(builder: wm.StreamsBuilder, one: str, many: str) -> wm.KTable:
    """The rows of `one` beside the rows of `many` that refer to them."""
    left = builder.table(one, key="string", value="string")
    return left.one_to_many_join(builder.table(many, key="long", value="string"), F.concat, key=reference)


def partitions_of(records: list[Record], prefix_of: Any) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for record in records:
        found.setdefault(prefix_of(record), set()).add(record.partition)
    return found


def test_a_prefix_has_one_partition_where_kafkas_own_clients_put_it(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, inputs: tuple[str, str], tmp_path: Path
) -> None:
    plain, as_json, rekeyed = (new_topic(broker, name) for name in ("plain", "json", "rekeyed"))
    builder = wm.StreamsBuilder("one-to-many")
    joined = one_to_many(builder, *inputs)
    joined.to(plain)
    joined.map_values(lambda value: F.upper(value)).to(as_json, key="json")
    joined.to_stream().select_key(lambda key, value: key["suffix"]).to(rekeyed)
    started(builder.build(), spark, kafka, tmp_path)

    records = committed(broker, plain)
    keys = {combined(prefix, place * 40 + n): prefix for place, prefix in enumerate(PREFIXES) for n in SUFFIXES}
    counts = Counter(record.key for record in records)
    deleted = combined(PREFIXES[-1], 199)
    assert counts == Counter({key: 2 if key == deleted else 1 for key in keys})
    assert [record.key for record in records if record.value is None] == [deleted]
    homes = {(record.key or b"").decode(): {record.partition} for record in committed(broker, inputs[0])}
    assert len(set(map(str, homes.values()))) > 1
    assert partitions_of(records, lambda record: keys[record.key]) == homes

    as_texts = committed(broker, as_json)
    assert partitions_of(as_texts, lambda record: json.loads(record.key)["prefix"]) == homes
    by_suffix = {(record.key or b""): record.partition for record in committed(broker, inputs[1])}
    assert {(record.key or b""): record.partition for record in committed(broker, rekeyed)} == by_suffix
