"""`why` upon topics: records are named by partition and offset, also beside some that cannot be read."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import new_topic
from watersmeet.io.kafka import Kafka


def test_records_of_topics_are_named_by_partition_and_offset(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    orders, totals = new_topic(broker, "orders"), new_topic(broker, "totals")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition, value, ts in (
        (0, b'{"customer": "ann", "amount": 3}', 1),
        (1, b'{"customer": "bob", "amount": 9}', 2),
        (1, b"no JSON", 3),
        (1, b'{"customer": "ann", "amount": 4}', 4),
    ):
        producer.produce(orders, key=b"order", value=value, timestamp=ts, partition=partition)
    assert producer.flush(30) == 0
    builder = wm.StreamsBuilder("topics")
    source = wm.Topic(orders, "string", wm.json("customer string, amount long"), on_undecodable="skip")
    by_customer = builder.stream(source, name="orders").group_by(lambda key, value: value["customer"])
    summed = by_customer.agg(total=wm.sum(lambda value: value["amount"]), store="totals")
    summed.to(totals, value=wm.json())
    topology = builder.build()
    checkpoint = tmp_path / "checkpoint"
    query = topology.start(
        spark, checkpoint=checkpoint, kafka=kafka, shards=2, tasks=2, available_now=True, explain="1 day"
    )
    query.awaitTermination()
    found = query.why("totals", "ann")
    query.stop()
    assert [record.place for record in found.records] == [f"{orders}-0@0", f"{orders}-1@2"]
    assert [record.value["amount"] for record in found.records] == [3, 4]
    assert found.notes == ()
    assert found.rows[0]["value"]["total"] == 7
