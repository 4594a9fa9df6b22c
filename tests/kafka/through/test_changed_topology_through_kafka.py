"""A topology that is changed between two topics: offsets and exactly-once go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic


def topology(orders: str, users: str, out: str, more: str, *, joined: bool, counted: bool) -> wm.Topology:
    """Counts of orders, and orders with their users; the users come first, so that with them every place is another."""
    b = wm.StreamsBuilder("changing")
    table = b.table(users, key="string", value="string", name="users", store="users") if joined else None
    stream = b.stream(orders, key="string", value="string", name="orders")
    if counted:
        counts = stream.group_by_key().agg(n=wm.count(), name="counted").to_stream(name="counts")
        counts.map_values(lambda v: v["n"].cast("string"), name="n").to(out, name="out")
    if table is not None:
        stream.join(table, lambda o, u: F.concat(o, u), name="joined").to(more, name="more")
    return b.build()


def test_topics_that_are_added_and_removed_leave_the_others_where_they_are(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    orders, users, out, more = (new_topic(broker) for _ in range(4))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def put(topic: str, value: str) -> None:
        producer.produce(topic, key="k", value=value)
        assert producer.flush(30) == 0

    def run(*, joined: bool, counted: bool = True, **options: Any) -> None:
        made = topology(orders, users, out, more, joined=joined, counted=counted)
        options |= {"kafka": wm.Kafka(broker.bootstrap_servers), "local_cache": str(tmp_path / "cache")}
        made.start(
            spark, checkpoint=str(tmp_path / "cp"), available_now=True, shards=2, tasks=2, **options
        ).awaitTermination()

    def written(topic: str) -> list[str]:
        return [record.value.decode() for record in committed(broker, topic)]

    put(orders, "a")
    put(orders, "b")
    run(joined=False)
    put(users, "U")
    put(orders, "c")
    run(joined=True, evolve=True)
    put(orders, "d")
    run(joined=True)
    assert written(out) == ["1", "2", "3", "4"]
    assert written(more)[-1] == "dU"
    put(orders, "e")
    run(joined=True, counted=False, evolve=True)
    put(orders, "f")
    put(users, "V")
    # users is no longer read; what it brought meanwhile is never read, and orders goes on
    run(joined=False, evolve=True)
    put(orders, "g")
    run(joined=False)
    assert written(out) == ["1", "2", "3", "4", "1", "2"]
    assert written(more)[-1] == "eU"
