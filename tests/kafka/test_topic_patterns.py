"""A stream of all topics that a pattern matches, which are created and deleted while its checkpoint lives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.test_recreated_topics import make_anew
from tests.kafka.topics import committed, new_topic
from watersmeet._spark.query.query import Query

PATIENCE = 300.0
"""Seconds after which what is waited for is not believed in."""
BASE = 1_700_000_000_000


def create(broker: KafkaBroker, topic: str, partitions: int) -> None:
    broker.create_topics([topic], partitions=partitions, config={})


def produce(broker: KafkaBroker, topic: str, *values: str, partition: int = 0, ts: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value.encode(), b"k", partition, timestamp=BASE + ts)
    assert producer.flush(60) == 0


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end
        time.sleep(0.2)


def topology_of(prefix: str, out: str, **options: Any) -> wm.Topology:
    """Counts the records of a key, and says of each from where it is."""
    builder = wm.StreamsBuilder("patterns", **options)
    records = builder.stream(
        wm.TopicPattern(f"{prefix}-.*"), key="string", value="string", starting_offsets="earliest", name="all"
    )
    place = lambda value, record: F.concat_ws("/", record["topic"], record["partition"], value)  # noqa: E731
    counted = records.group_by_key().aggregate(
        lambda: F.lit(""), lambda value, done, record: F.concat_ws(",", done, place(value, record))
    )
    counted.to_stream().to(out)
    return builder.build()


def start(spark: SparkSession, topology: wm.Topology, kafka: wm.Kafka, folder: Path, **options: Any) -> Query:
    given: dict[str, Any] = {"kafka": kafka, "local_cache": None, "checkpoint": str(folder / "cp")}
    return topology.start(spark, **given, **options)


def values(broker: KafkaBroker, out: str) -> list[str]:
    return [(record.value or b"").decode() for record in committed(broker, out)]


def test_topics_that_are_created_while_the_query_runs_and_before_a_restart_join_from_their_beginning(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    prefix, out = new_topic(broker, "pattern"), new_topic(broker)
    # its name ends with one that matches
    create(broker, f"my-{prefix}-x", 1)
    produce(broker, f"my-{prefix}-x", "0")
    create(broker, f"{prefix}-m", 1)
    produce(broker, f"{prefix}-m", "1")
    topology = topology_of(prefix, out)
    query = start(spark, topology, kafka, tmp_path)
    one = f",{prefix}-m/0/1"
    until(lambda: values(broker, out) == [one])
    create(broker, f"{prefix}-a", 3)
    produce(broker, f"{prefix}-a", "2", partition=2)
    two = f"{one},{prefix}-a/2/2"
    until(lambda: values(broker, out) == [one, two])
    query.stop()
    create(broker, f"{prefix}-b", 1)
    produce(broker, f"{prefix}-b", "3")
    start(spark, topology, kafka, tmp_path, available_now=True).awaitTermination()
    assert values(broker, out) == [one, two, f"{two},{prefix}-b/0/3"]


def test_topics_of_one_and_three_partitions_in_one_batch_are_one_stream_in_order_of_time(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    prefix, other, out = new_topic(broker, "pattern"), new_topic(broker), new_topic(broker)
    for topic, partitions in ((f"{prefix}-1", 1), (f"{prefix}-3", 3)):
        create(broker, topic, partitions)
    for ts, (topic, partition) in enumerate([("3", 2), ("1", 0), ("3", 0), ("3", 1), ("1", 0)]):
        produce(broker, f"{prefix}-{topic}", f"v{ts}", partition=partition, ts=ts)
    builder = wm.StreamsBuilder("joined")
    read: dict[str, Any] = {"key": "string", "value": "string", "starting_offsets": "earliest"}
    records, table = builder.stream(wm.TopicPattern(f"{prefix}-[13]"), **read), builder.table(other, **read)
    place = lambda value, record: F.concat_ws("/", record["topic"], record["partition"], value)  # noqa: E731
    records.map_values(place).join(table, lambda value, of: F.concat(value, of)).to(out)
    produce(broker, other, "!", ts=-5)
    start(spark, builder.build(), kafka, tmp_path, available_now=True).awaitTermination()
    assert values(broker, out) == [f"{prefix}-{at}!" for at in ("3/2/v0", "1/0/v1", "3/0/v2", "3/1/v3", "1/0/v4")]


def test_a_pattern_without_a_topic_warns_and_reads_those_that_are_created_later(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    prefix, out = new_topic(broker, "pattern"), new_topic(broker)
    topology = topology_of(prefix, out)
    with pytest.warns(UserWarning, match=rf"TopicPattern\('{prefix}-\.\*'\) matches no topic yet(.|\n)*Hint: "):
        start(spark, topology, kafka, tmp_path, available_now=True).awaitTermination()
    create(broker, f"{prefix}-x", 2)
    produce(broker, f"{prefix}-x", "1", partition=1)
    start(spark, topology, kafka, tmp_path, available_now=True).awaitTermination()
    assert values(broker, out) == [f",{prefix}-x/1/1"]


def test_a_topic_of_a_pattern_that_is_deleted_is_told_and_the_query_goes_on_when_that_is_accepted(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    prefix, out = new_topic(broker, "pattern"), new_topic(broker)
    for name in "ab":
        create(broker, f"{prefix}-{name}", 1)
        produce(broker, f"{prefix}-{name}", name)
    topology = topology_of(prefix, out)
    start(spark, topology, kafka, tmp_path, available_now=True).awaitTermination()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([f"{prefix}-a"])[f"{prefix}-a"].result(30)
    until(lambda: f"{prefix}-a" not in admin.list_topics(timeout=10).topics)
    produce(broker, f"{prefix}-b", "c")
    with pytest.raises(wm.SourceError, match=rf"are gone(.|\n)*{prefix}-a-0(.|\n)*Hint: .*failOnDataLoss"):
        start(spark, topology, kafka, tmp_path, available_now=True).awaitTermination()
    accepting = wm.Kafka(broker.bootstrap_servers, source={"failOnDataLoss": "false"})
    with pytest.warns(UserWarning, match=rf"are gone: {prefix}-a\."):
        start(spark, topology, accepting, tmp_path, available_now=True).awaitTermination()
    create(broker, f"{prefix}-a", 1)
    produce(broker, f"{prefix}-a", "d")
    start(spark, topology, kafka, tmp_path, available_now=True).awaitTermination()
    found = values(broker, out)[-1].removeprefix(",").split(",")
    assert sorted(found[:2]) == [f"{prefix}-a/0/a", f"{prefix}-b/0/b"]
    assert found[2:] == [f"{prefix}-b/0/c", f"{prefix}-a/0/d"]


def test_a_topic_of_a_pattern_that_was_made_anew_is_refused_until_it_is_allowed(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    prefix, out = new_topic(broker, "pattern"), new_topic(broker)
    create(broker, f"{prefix}-a", 1)
    produce(broker, f"{prefix}-a", "1")
    topology = topology_of(prefix, out)
    start(spark, topology, kafka, tmp_path, available_now=True).awaitTermination()
    make_anew(broker, f"{prefix}-a")
    produce(broker, f"{prefix}-a", "2", "3")
    with pytest.raises(wm.SourceError, match=rf"made anew(.|\n)*topic {prefix}-a(.|\n)*Hint: .*allow_recreated_topics"):
        start(spark, topology, kafka, tmp_path, available_now=True)
    start(spark, topology, kafka, tmp_path, available_now=True, allow_recreated_topics=True).awaitTermination()
    assert values(broker, out)[-1] == f",{prefix}-a/0/1,{prefix}-a/0/3"


def test_a_pattern_that_is_added_to_a_checkpoint_reads_its_topics_from_where_it_says(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    prefix, one, two, out = new_topic(broker, "pattern"), new_topic(broker), new_topic(broker), new_topic(broker)
    create(broker, f"{prefix}-a", 2)
    produce(broker, one, "1")
    produce(broker, f"{prefix}-a", "2")

    def topology(*, added: bool, more: bool = False) -> wm.Topology:
        builder = wm.StreamsBuilder("added")
        read: dict[str, Any] = {"key": "string", "value": "string"}
        builder.stream(one, **read, starting_offsets="earliest", name="one").to(out)
        if added:
            builder.stream(wm.TopicPattern(f"{prefix}-.*"), **read, starting_offsets="latest", name="all").to(out)
        if more:
            builder.stream(two, **read, name="two").to(out)
        return builder.build()

    start(spark, topology(added=False), kafka, tmp_path, available_now=True).awaitTermination()
    start(spark, topology(added=True), kafka, tmp_path, available_now=True, evolve=True).awaitTermination()
    produce(broker, f"{prefix}-a", "3", partition=1)
    create(broker, f"{prefix}-b", 1)
    produce(broker, f"{prefix}-b", "4", ts=1)
    start(spark, topology(added=True), kafka, tmp_path, available_now=True).awaitTermination()
    # the pattern has not changed: a topic that is created before a change of the topology is read from its beginning
    create(broker, f"{prefix}-c", 1)
    produce(broker, f"{prefix}-c", "5")
    latest = wm.Kafka(broker.bootstrap_servers, starting_offsets="latest")
    start(spark, topology(added=True, more=True), latest, tmp_path, available_now=True, evolve=True).awaitTermination()
    start(spark, topology(added=False), kafka, tmp_path, available_now=True, evolve=True).awaitTermination()
    assert values(broker, out) == ["1", "3", "4", "5"]
