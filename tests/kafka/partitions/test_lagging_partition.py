"""Topics whose partitions are hours apart in time: nothing of the one that lags is late, down a chain of joins."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.engine.joins.lagging import FIRST, HOUR, RECORDS, SECOND, Said, chain, said
from tests.kafka.topics import committed, new_topic

BASE = 1_700_000_000_000
LEADS = {0: HOUR, 1: 0, 2: HOUR // 2}


def produce(broker: KafkaBroker, topics: dict[str, str], start: int, end: int) -> None:
    """Some of the records, into every partition, each under a key of its own."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for partition, lead in LEADS.items():
        for number, (stream, ts) in enumerate(RECORDS[start:end], start):
            body, key = f"{stream[0]}{number}".encode(), f"k{partition}".encode()
            producer.produce(topics[stream], body, key, partition, timestamp=BASE + lead + ts)
    assert producer.flush(60) == 0


def plus(left: Column, right: Column) -> Column:
    return F.concat_ws("+", F.coalesce(left, F.lit("null")), F.coalesce(right, F.lit("null")))


def test_nothing_of_a_partition_that_lags_an_hour_is_late(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    topics = {name: new_topic(broker, name) for name in ("left", "right", "third", "out")}
    builder = wm.StreamsBuilder("lagging")
    left, right, third = (builder.stream(topics[n], key="string", value="string") for n in ("left", "right", "third"))
    left.outer_join(right, plus, FIRST).left_join(third, plus, SECOND).to(topics["out"])
    topology = builder.build()
    for start, end in ((0, 8), (8, len(RECORDS))):
        produce(broker, topics, start, end)
        query = topology.start(
            spark, checkpoint=str(tmp_path / "cp"), kafka=kafka, available_now=True, local_cache=str(tmp_path / "c")
        )
        query.awaitTermination()
    found: Said = defaultdict(list)
    for record in committed(broker, topics["out"]):
        key = (record.key or b"").decode()
        found[key].append(((record.value or b"").decode(), record.time - BASE - LEADS[int(key[1:])]))
    alone = said(chain(("outer", "left")), {1: 0}, size=8)["k1"]
    assert found == {f"k{partition}": alone for partition in LEADS}
