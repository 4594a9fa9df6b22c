"""A topic that is both read and written: what is written comes back in a later batch, once."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic


def test_what_is_written_comes_back_in_a_later_batch_and_is_counted_once(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    numbers, counts = new_topic(broker, "numbers"), new_topic(broker, "counts")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for key, value in (("a", 2), ("b", 1)):
        producer.produce(numbers, key=key.encode(), value=value.to_bytes(8, "big"), timestamp=1_000)
    assert producer.flush(60) == 0
    builder = wm.StreamsBuilder("countdown")
    stream = builder.stream(numbers, key="string", value="long")
    stream.group_by_key().count().to_stream().to(counts)
    stream.filter(lambda value: value > 0).map_values(lambda value: value - 1).to(numbers, feedback=True)
    topology = builder.build()
    given = {"checkpoint": str(tmp_path / "cp"), "local_cache": str(tmp_path / "cache")}
    seen = []
    for _ in range(4):
        # what a batch writes lies behind the ends that available_now has found, so the next start reads it
        topology.start(spark, kafka=kafka, available_now=True, **given).awaitTermination()
        found = [(r.key, int.from_bytes(r.value or b"", "big")) for r in committed(broker, counts)]
        seen.append(sorted(found))
    assert seen[0] == [(b"a", 1), (b"b", 1)]
    assert seen[1] == sorted([*seen[0], (b"a", 2), (b"b", 2)])
    assert seen[2] == seen[3] == sorted([*seen[1], (b"a", 3)])
