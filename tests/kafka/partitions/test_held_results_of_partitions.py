"""Two partitions let results go, which are folded under another key: in one order, wherever batches end (law 1)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.engine.time.test_positions_of_held_results import ROWS
from tests.kafka.topics import committed, new_topic

BASE = 1_700_000_000_000


def produce(broker: KafkaBroker, topic: str, start: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for _, key, value, ts, partition in ROWS[start:end]:
        producer.produce(topic, value.encode(), key.encode(), partition, timestamp=BASE + ts)
    assert producer.flush(60) == 0


def chained(done: Column, value: Column) -> Column:
    return F.concat_ws(">", done, value)


@pytest.mark.parametrize("cuts", [(), (3,), (1, 2, 3, 4, 5)], ids=["one batch", "two", "a batch for each record"])
def test_what_two_partitions_let_go_is_folded_in_one_order_wherever_batches_end(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    read, other, out = (new_topic(broker, name) for name in ("s", "r", "out"))
    builder = wm.StreamsBuilder("places")
    s, r = (builder.stream(topic, key="string", value="string") for topic in (read, other))
    joined = s.left_join(r, lambda left, right: left, wm.JoinWindows(10, 10, 0))
    under_one = joined.select_key(lambda key, value: F.lit("all"))
    under_one.group_by_key().reduce(chained).to_stream().to(out)
    topology = builder.build()
    edges = [0, *cuts, len(ROWS)]
    for start, end in pairwise(edges):
        produce(broker, read, start, end)
        query = topology.start(
            spark, checkpoint=str(tmp_path / "cp"), kafka=kafka, available_now=True, local_cache=str(tmp_path / "c")
        )
        query.awaitTermination()
    values = [(record.value or b"").decode() for record in committed(broker, out)]
    assert values == ["b62", "b62>a62", "b62>a62>b83", "b62>a62>b83>a84"]
