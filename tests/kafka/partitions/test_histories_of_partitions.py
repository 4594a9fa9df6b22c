"""Random topologies with topics of three partitions, from Kafka to Kafka, beside the oracle (laws 1 and 2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from proof.histories.through_kafka import PARTITIONS, KafkaBundle, first_kafka_difference, kafka_bundle_of
from tests.kafka.topics import committed


def create(broker: KafkaBroker, bundle: KafkaBundle) -> None:
    config = {"retention.ms": "-1"}
    broker.create_topics([*bundle.inputs, *bundle.outputs], partitions=PARTITIONS, config=config)


def produce(broker: KafkaBroker, bundle: KafkaBundle, batch: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for record in bundle.batch(batch):
        key, value = (None if text is None else text.encode() for text in (record.key, record.value))
        producer.produce(record.source, value, key, record.partition, timestamp=record.ts)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, 40))])
def test_random_topologies_hold_with_topics_of_several_partitions(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, number: int
) -> None:
    bundle = kafka_bundle_of(1, number, prefix=f"partitions-{number}-")
    create(broker, bundle)
    topology = bundle.topology()
    for batch in range(bundle.batches):
        produce(broker, bundle, batch)
        query = topology.start(
            spark,
            checkpoint=str(tmp_path / "cp"),
            kafka=kafka,
            shards=bundle.shards,
            available_now=True,
            local_cache=str(tmp_path / "cache"),
        )
        query.awaitTermination()
    found = first_kafka_difference(bundle, committed(broker, *bundle.outputs, partitions=PARTITIONS))
    assert found is None, found
