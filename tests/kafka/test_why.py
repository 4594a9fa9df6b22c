"""`why` upon topics: records are named by partition and offset, also beside some that cannot be read."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic
from watersmeet.io.kafka import Kafka


def test_records_of_topics_are_named_by_partition_and_offset(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    orders, totals = new_topic(broker, "orders"), new_topic(broker, "totals")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for partition, value, ts in (
        (0, b'{"customer": "ann", "amount": 3}', 1),
        (1, b'{"customer": "bob", "amount": 9}', 2),
        (1, b"no JSON", 3),
        (1, b'{"customer": "ann", "amount": 4}', 4),
    ):
        producer.produce(orders, key=b"order", value=value, timestamp=ts, partition=partition)
    assert producer.flush(30) == 0

    def summed(factor: int) -> wm.Topology:
        builder = wm.StreamsBuilder("topics")
        source = wm.Topic(orders, "string", wm.json("customer string, amount long"), on_undecodable="skip")
        by_customer = builder.stream(source, name="orders").group_by(lambda key, value: value["customer"])
        sums = by_customer.agg(total=wm.sum(lambda value: value["amount"] * factor), store="totals")
        sums.to(totals, value=wm.json())
        return builder.build()

    topology = summed(1)
    options: Any = {"checkpoint": tmp_path / "checkpoint", "kafka": kafka, "explain": "1 day"}
    query = topology.start(spark, shards=2, tasks=2, available_now=True, **options)
    query.awaitTermination()
    found = query.why("totals", "ann")
    query.stop()
    assert [record.place for record in found.records] == [f"{orders}-0@0", f"{orders}-1@2"]
    assert [record.value["amount"] for record in found.records] == [3, 4]
    assert found.notes == ()
    assert found.rows[0]["value"]["total"] == 7
    written = committed(broker, totals)
    assert [record.value for record in written] == [b'{"total":3}', b'{"total":9}', b'{"total":7}']
    replayed = summed(2).replay(spark, previous=topology, kafka=kafka)
    assert replayed.records == 4
    assert {each.name: each.changed for each in replayed.comparisons} == {f"output {totals}": 2, "store totals": 2}
    assert committed(broker, totals) == written


def test_records_of_a_pattern_are_named_by_their_topics_and_run_in_the_order_of_the_query(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    name = f"shop-{uuid.uuid4().hex[:8]}"
    topics = [f"{name}-{part}" for part in ("north", "east")]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

    def put(topic: str, value: str, ts: int) -> None:
        producer.produce(topic, key=b"ann", value=value.encode(), timestamp=ts, partition=0)
        assert producer.flush(30) == 0

    builder = wm.StreamsBuilder("patterns")
    source = wm.TopicPattern(f"{name}-.*")
    visits = builder.stream(source, key="string", value="string", name="visits").to_table(store="last")
    visits.to_stream().to(wm.ForeachBatch(lambda rows, batch: rows.count()), name="out")
    topology = builder.build()
    # the one that joins later has the smaller name
    for topic, ts in zip(topics, (5, 3), strict=True):
        broker.create_topics([topic], partitions=2)
        put(topic, f"first of {topic}", ts)
        put(topic, f"second of {topic}", ts)
        options = {"kafka": kafka, "shards": 2, "tasks": 2, "available_now": True, "explain": True}
        query = topology.start(spark, checkpoint=tmp_path / "checkpoint", **options)
        query.awaitTermination()
    found = query.why("last", "ann")
    query.stop()
    assert found.notes == ()
    assert found.rows[0]["value"] == f"second of {topics[1]}"
    assert [record.place for record in found.records] == [f"{topics[1]}-0@1"]
    assert {(cause.record.topic, cause.role) for cause in found.causes} == {
        (topics[0], "replaced"),
        (topics[1], "replaced"),
        (topics[1], "made"),
    }
    assert f'"topic": "{topics[1]}"' in found.as_json()
