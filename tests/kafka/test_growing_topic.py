"""A topic that gets more partitions while a query reads it: the query stops before it writes anything of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic

PARTITIONS = 2
NAMES = ("growing", "growing-too")


@dataclass(frozen=True)
class Grow:
    """A sink by which the first topic grows within the first batch, so that the second one finds everything at once."""

    servers: str

    def __call__(self, _: Any, batch: int) -> None:
        if batch == 0:
            admin = AdminClient({"bootstrap.servers": self.servers})
            admin.create_partitions([NewPartitions(NAMES[0], PARTITIONS + 1)])[NAMES[0]].result(30)
            self.produce("second", PARTITIONS + 1)

    def produce(self, value: str, partitions: int) -> None:
        """A record in each partition of each topic."""
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for topic in NAMES:
            for partition in range(partitions):
                producer.produce(topic, key=topic, value=f"{topic}-{value}-{partition}", partition=partition)
        assert producer.flush(30) == 0


def values(value: str, partitions: int) -> set[bytes]:
    return {f"{topic}-{value}-{partition}".encode() for topic in NAMES for partition in range(partitions)}


def test_a_topic_that_grows_stops_the_query_before_anything_is_written_until_it_is_allowed(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    # of other numbers of partitions: which are known is asked topic by topic
    for partitions, name in enumerate(NAMES, start=PARTITIONS):
        broker.create_topics([name], partitions=partitions)
    out, tables, sink = new_topic(broker), new_topic(broker), Grow(broker.bootstrap_servers)

    def start(**options: Any) -> Any:
        b = wm.StreamsBuilder("growing")
        records = b.stream(NAMES[0], key="string", value="string")
        records.to(out)
        records.to(wm.ForeachBatch(sink), name="grow")
        b.table(NAMES[1], key="string", value="string", store="kept").to_stream().to(tables)
        kafka, cache = wm.Kafka(broker.bootstrap_servers), str(tmp_path / "cache")
        return b.build().start(spark, kafka=kafka, checkpoint=str(tmp_path / "cp"), local_cache=cache, **options)

    def written() -> set[bytes | None]:
        return {record.value for record in committed(broker, out, tables)}

    sink.produce("first", PARTITIONS)
    with pytest.raises(wm.ChangedTopology) as stopped:
        start().processAllAvailable()
    assert stopped.value.given == f"topic growing, partition {PARTITIONS}; {PARTITIONS} partitions at the start"
    assert "allow_partition_change=True" in str(stopped.value.hint)
    assert written() == values("first", PARTITIONS)
    with pytest.raises(wm.ChangedTopology, match="other partition counts"):
        start()
    query = start(allow_partition_change=True)
    query.processAllAvailable()
    query.stop()
    assert written() == values("first", PARTITIONS) | values("second", PARTITIONS + 1)
