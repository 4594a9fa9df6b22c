"""Partitioners through Kafka: by the driver's commit and by tasks, straight from the level and beside other outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import PARTITIONS, committed, new_topic
from watersmeet.errors import SinkError


def ran(spark: SparkSession, kafka: wm.Kafka, topology: wm.Topology, folder: Path) -> None:
    given = {"checkpoint": str(folder / "cp"), "local_cache": str(folder / "cache")}
    topology.start(spark, kafka=kafka, available_now=True, **given).awaitTermination()


def produced(broker: KafkaBroker, count: int) -> str:
    topic = new_topic(broker, "in")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(count):
        value = None if number % 7 == 6 else str(number).encode()
        producer.produce(topic, key=f"k{number % 5}".encode(), value=value, timestamp=1_000 + number)
    assert producer.flush(60) == 0
    return topic


def number_of(value: Any) -> Any:
    return F.coalesce(value.cast("int"), F.lit(0))


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_each_record_is_where_its_partitioner_says_and_its_value_as_ever(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, delivery: Any
) -> None:
    topic = produced(broker, 40)
    texts, structs, plain = (new_topic(broker, name) for name in ("texts", "structs", "plain"))
    builder = wm.StreamsBuilder("placed")
    stream = builder.stream(topic, key="string", value="string")
    by_value = lambda value: F.pmod(number_of(value), F.lit(3))  # noqa: E731
    stream.to(texts, partitioner=by_value, delivery=delivery)
    stream.filter(lambda value: value.isNull()).to(
        texts, partitioner=lambda value: F.lit(3), delivery=delivery, name="nulls"
    )
    named = stream.map_values(lambda value: F.struct(value.alias("n")))
    named.to(structs, partitioner=number_of_key, on_invalid_partition="modulo", delivery=delivery)
    stream.to(plain, delivery=delivery)
    ran(spark, kafka, builder.build(), tmp_path)
    given = [None if number % 7 == 6 else str(number) for number in range(40)]
    nulls = sum(value is None for value in given)
    found = committed(broker, texts)
    assert len(found) == 40 + nulls
    assert sum(record.partition == 3 for record in found) == nulls
    assert all(record.value is None for record in found if record.partition == 3)
    assert all(record.partition == int(record.value or 0) % 3 for record in found if record.partition != 3)
    assert sorted((record.value or b"") for record in found if record.partition != 3) == sorted(
        (value or "").encode() for value in given
    )
    structured = committed(broker, structs)
    assert {record.value for record in structured} == {
        None if value is None else f'{{"n":"{value}"}}'.encode() for value in given
    }
    assert all(record.partition == (10 + int((record.key or b"k0")[1:])) % PARTITIONS for record in structured)
    # the order of a key within its partition is that of its records
    for key in {record.key for record in structured}:
        mine = [int(record.value[6:-2]) for record in structured if record.key == key and record.value]
        assert mine == sorted(mine)
    assert len(committed(broker, plain)) == 40


def number_of_key(key: Any, value: Any) -> Any:
    return F.substring(key, 2, 9).cast("int") + 10


def test_many_records_are_written_by_the_tasks_with_their_partitions(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    topic, out = produced(broker, 3_000), new_topic(broker, "many")
    builder = wm.StreamsBuilder("placed-many")
    wide = builder.stream(topic, key="string", value="string").map_values(lambda value: F.rpad(value, 400, "."))
    wide.to(out, partitioner=lambda value: F.pmod(F.regexp_replace(value, "[.]+", "").cast("int"), F.lit(PARTITIONS)))
    ran(spark, kafka, builder.build(), tmp_path)
    found = [record for record in committed(broker, out) if record.value is not None]
    assert len(found) == sum(number % 7 != 6 for number in range(3_000))
    assert all(record.partition == int(record.value.rstrip(b".")) % PARTITIONS for record in found)


def test_a_partition_that_the_topic_has_not_ends_the_query_with_what_to_do(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    topic, out = produced(broker, 3), new_topic(broker, "few")
    builder = wm.StreamsBuilder("placed-outside")
    builder.stream(topic, key="string", value="string").to(out, partitioner=lambda value: F.lit(PARTITIONS))
    with pytest.raises(
        SinkError, match=rf"(?s){out}' has not: {PARTITIONS}\..*partitions 0 to 3.*on_invalid_partition="
    ):
        ran(spark, kafka, builder.build(), tmp_path)
    assert committed(broker, out) == []
