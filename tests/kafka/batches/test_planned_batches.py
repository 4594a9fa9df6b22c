"""Batches of topics that have too many bytes have fewer records from then on, and the same results."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic
from watersmeet._spark.batches import batches as planned_batches
from watersmeet._spark.batches.batches import LEAST, next_batch_records

RECORDS, A_BATCH = 9_000, 3_000


def test_the_records_of_a_batch_follow_from_the_bytes_of_the_last_one() -> None:
    most, largest = 1_000_000, 1 << 30
    assert next_batch_records(most, largest // 2, most, most, largest) == most
    assert next_batch_records(most, 4 * largest, most, most, largest) == most // 4
    assert next_batch_records(10, largest, most, most, largest) == LEAST
    assert next_batch_records(10, largest, most, 400, largest) == 400
    # a batch with little in it says little of a record, and lets the next one grow
    assert next_batch_records(10, 20_000, LEAST, most, largest) == 8 * LEAST
    assert next_batch_records(10, 0, most // 4, most, largest) == most


def batches(spark: SparkSession, kafka: wm.Kafka, topics: tuple[str, str], out: str, folder: Path) -> list[int]:
    """The records of each batch of a join of tables."""
    builder = wm.StreamsBuilder("planned")
    left, right = (builder.table(name, key="long", value="string") for name in topics)
    left.join(right, F.concat).to_stream().to(out)
    query = builder.build().start(
        spark, checkpoint=str(folder / "cp"), kafka=kafka, available_now=True, local_cache=str(folder / "cache")
    )
    query.awaitTermination()
    return [each.numInputRows for each in query.recentProgress if each.numInputRows]


@pytest.mark.parametrize("way", ["Spark lets us", "Spark is another"])
def test_a_batch_behind_a_large_one_has_fewer_records(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    left, right, out = new_topic(broker), new_topic(broker), new_topic(broker)
    settings, texts = {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}, random.Random(1)
    producer = Producer(settings)
    expected: dict[bytes, bytes] = {}
    for number in range(RECORDS):
        for topic, value in ((left, texts.randbytes(300).hex()), (right, "|")):
            if topic == left or number < 100:
                key = (number % 100).to_bytes(8, "big", signed=True)
                producer.produce(topic, key=key, value=value.encode(), timestamp=1_000 + number)
                expected[key] = value.encode() + b"|" if topic == left else expected[key]
    assert producer.flush(60) == 0
    if way == "Spark is another":

        def no_such(spark: SparkSession) -> Any:
            raise AttributeError("streamingQuery")

        monkeypatch.setattr(planned_batches, "streaming_execution", no_such)
    # Spark divides a limit among partitions, and rounds down
    full = 0.9 * A_BATCH
    kafka = wm.Kafka(broker.bootstrap_servers, max_records_per_batch=A_BATCH, max_bytes_per_batch=1 << 20)
    first, *later = batches(spark, kafka, (left, right), out, tmp_path)
    for key in sorted(expected) * 40:
        producer.produce(left, key=key, value=b"again" * 100, timestamp=20_000)
        expected[key] = b"again" * 100 + b"|"
    assert producer.flush(60) == 0
    again = batches(spark, kafka, (left, right), out, tmp_path)
    assert sum(again) == 4_000
    # a start goes on with the limit of the last batch
    assert (again[0] < full) == (way == "Spark lets us")
    assert sum((first, *later)) == RECORDS + 100
    assert full < first <= A_BATCH
    if way == "Spark lets us":
        assert max(later) < full
        assert min(later[:-1]) > 0.9 * LEAST
    else:
        assert max(later) > full
    assert {record.key: record.value for record in committed(broker, out)} == expected
