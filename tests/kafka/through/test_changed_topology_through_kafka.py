"""A topology that is changed between two topics: offsets and exactly-once go on."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic
from watersmeet._spark import deploy


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
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

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


def with_history(
    spark: SparkSession, servers: str, topics: tuple[str, str], outputs: dict[str, Any], *, joined: bool
) -> wm.Topology:
    """A table of orders, and its join with users, whose topic is read four records a batch."""
    b, (orders, users) = wm.StreamsBuilder("behind"), topics
    order = b.table(orders, key="string", value="string", name="orders", store="orders")
    order.to(outputs["seen"], name="seen")
    if joined:
        options = {"subscribe": users, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
        history = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).options(**options).load()
        texts = [F.col(name).cast("string") for name in ("key", "value")]
        history = history.select(*texts, "timestamp", "partition", "offset")
        places: Any = {"order": ["partition", "offset"], "partitioned": True}
        rows = wm.Rows(history, key="key", value="value", timestamp="timestamp", **places)
        user = b.table(rows, name="users", store="users")
        named = order.join(user, lambda o, u: F.concat(o, u), name="joined", store="view")
        named.to(outputs["named"], name="named")
    return b.build()


def test_the_history_of_an_added_table_is_read_at_its_own_rate_beside_all_that_lives(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    servers, topics = broker.bootstrap_servers, (new_topic(broker), new_topic(broker))
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    batches: dict[str, list[tuple[int, str, str]]] = {"seen": [], "named": []}

    def put(topic: str, values: str) -> None:
        for number, value in enumerate(values):
            producer.produce(topic, key=str(number), value=value, partition=number % 2)
        assert producer.flush(30) == 0

    def collect(name: str) -> wm.ForeachBatch:
        def write(frame: Any, batch: int) -> None:
            batches[name] += [(batch, row["key"], row["value"]) for row in frame.collect()]

        return wm.ForeachBatch(write)

    def run(*, joined: bool, **options: Any) -> dict[str, str]:
        topology = with_history(spark, servers, topics, {name: collect(name) for name in batches}, joined=joined)
        options |= {"kafka": wm.Kafka(servers), "shards": 2, "tasks": 2, "available_now": True}
        topology.start(spark, checkpoint=str(tmp_path / "cp"), **options).awaitTermination()
        return {key: value for _, key, value in batches["named"]}

    put(topics[0], "ab")
    run(joined=False)
    put(topics[1], "ABCDEFGHIJKLMNOP")
    put(topics[0], "efgh")
    named = run(joined=True, evolve=True)
    # four records of the history a batch, and no live one waits for them
    assert len({batch for batch, _, value in batches["seen"] if value in "efgh"}) == 1
    assert len([*(tmp_path / "cp").rglob("commits/[0-9]*")]) >= 5
    assert named == {"0": "eA", "1": "fB", "2": "gC", "3": "hD"}
    put(topics[0], "x" * 16)
    assert run(joined=True) == {str(number): f"x{user}" for number, user in enumerate("ABCDEFGHIJKLMNOP")}


def marked_counts(orders: str, out: str, version: str) -> wm.Topology:
    b = wm.StreamsBuilder("deployed")
    counts = b.stream(orders, key="string", value="string", name="orders").group_by_key()
    numbers = counts.agg(n=wm.count(), name="counted").to_stream(name="counts")
    numbers.map_values(lambda v: F.concat(v["n"].cast("string"), F.lit(version)), name="n").to(out, name="out")
    return b.build()


@pytest.mark.filterwarnings("ignore:A function has changed since the last start")
def test_while_records_come_in_a_topic_has_each_result_from_one_of_two_topologies(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "LONGEST_PAUSE", float("inf"))
    orders, out = new_topic(broker), new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    sent, ended = Counter[str](), threading.Event()

    def send() -> None:
        key = "abc"[sent.total() % 3]
        producer.produce(orders, key=key, value="v", partition=sent.total() % 2)
        sent[key] += 1
        assert producer.flush(30) == 0

    def produce() -> None:
        while not ended.wait(0.5):
            send()

    options: Any = {"kafka": wm.Kafka(broker.bootstrap_servers), "checkpoint": str(tmp_path / "cp")}
    blue = marked_counts(orders, out, "").start(spark, shards=2, tasks=2, **options)
    send()
    blue.processAllAvailable()
    thread = threading.Thread(target=produce)
    thread.start()
    try:
        green = marked_counts(orders, out, "!").start(spark, deploy=True, **options)
        assert not blue.isActive
        before = sent.total()
        while sent.total() < before + 3:
            ended.wait(0.1)
    finally:
        ended.set()
        thread.join()
    green.processAllAvailable()
    assert green.drain()
    for key, count in sent.items():
        check_versions([r.value.decode() for r in committed(broker, out) if r.key == key.encode()], count)


def check_versions(values: list[str], count: int) -> None:
    """Each number once, and the versions change once."""
    assert [value.removesuffix("!") for value in values] == [*map(str, range(1, count + 1))]
    marks = [value.endswith("!") for value in values]
    assert marks == sorted(marks)
    assert set(marks) == {False, True}


def viewed(orders: str, users: str, out: str, *, left: bool) -> wm.Topology:
    """A stored view of two topics by a foreign key, written to a third one."""
    b = wm.StreamsBuilder("viewed")
    # an inner join does not remember orders without a user, so another kind of it is computed from their store
    order = b.table(orders, key="string", value="string", name="orders", store="orders")
    user = b.table(users, key="string", value="string", name="users")
    join = order.left_join if left else order.join
    view = join(
        user,
        lambda o, u: F.concat(o, F.lit(" of "), F.coalesce(u, F.lit("nobody"))) if left else F.concat(o, u),
        foreign_key=lambda o: o.substr(1, 1),
        name="view",
        store="view",
    )
    view.to(out, name="out")
    return b.build()


def test_a_table_that_is_computed_anew_sends_the_rows_that_differ_to_its_topic_once(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    orders, users, out = (new_topic(broker) for _ in range(3))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

    def put(topic: str, key: str, value: str) -> None:
        producer.produce(topic, key=key, value=value)
        assert producer.flush(30) == 0

    def run(left: bool, **options: Any) -> None:
        made = viewed(orders, users, out, left=left)
        options |= {"kafka": wm.Kafka(broker.bootstrap_servers), "shards": 2, "tasks": 2}
        made.start(spark, checkpoint=str(tmp_path / "cp"), available_now=True, **options).awaitTermination()

    def written() -> list[tuple[str, str]]:
        found = ((record.key.decode(), (record.value or b"-").decode()) for record in committed(broker, out))
        return sorted(found)

    for key, value in (("1", "a1"), ("2", "b2"), ("3", "c3")):
        put(orders, key, value)
    put(users, "a", "A")
    put(users, "b", "B")
    run(False)
    first = written()
    assert dict(first) == {"1": "a1A", "2": "b2B"}
    # the left join gives all rows a new value, and one more
    put(orders, "4", "a4")
    run(True, evolve=True, replace=["view"])
    told = [("1", "a1 of A"), ("2", "b2 of B"), ("3", "c3 of nobody"), ("4", "a4 of A")]
    assert written() == sorted([*first, *told])
    put(users, "c", "C")
    run(True, evolve=True, replace=["view"])
    assert written() == sorted([*first, *told, ("3", "c3 of C")])
    # and back; all have users now
    run(False, evolve=True, replace=["view"])
    again = [("1", "a1A"), ("2", "b2B"), ("3", "c3C"), ("4", "a4A")]
    assert written() == sorted([*first, *told, ("3", "c3 of C"), *again])


def addresses(customers: str, countries: str, out: str, *, left: bool) -> wm.Topology:
    """Customers as Debezium tells them, with their countries."""
    b = wm.StreamsBuilder("stored")
    form = wm.debezium("email string, country string", unavailable_columns="stored")
    key = wm.debezium_key("id long")
    customer = b.table(customers, key=key, value=form, name="customers", store="c", on_undecodable="skip")
    country = b.table(countries, key="string", value="string", name="countries")
    join = customer.left_join if left else customer.join
    view = join(
        country,
        lambda row, name: F.concat(row["email"], F.lit("@"), F.coalesce(name, F.lit("none"))),
        foreign_key=lambda row: row["country"],
        name="view",
        store="view",
    )
    view.to(out, name="out")
    return b.build()


def test_columns_that_a_database_does_not_send_keep_their_values_over_restarts_more_shards_and_a_replaced_join(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    customers, countries, out = (new_topic(broker) for _ in range(3))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    drops: list[int] = []

    def put(number: int, country: str, email: str = "__debezium_unavailable_value") -> None:
        after = {"id": number, "email": email, "country": country}
        value = json.dumps({"op": "u", "after": after, "source": {"ts_ms": 1}})
        producer.produce(customers, key=json.dumps({"id": number}), value=value)
        assert producer.flush(30) == 0

    def run(*, left: bool, **options: Any) -> list[tuple[int, str]]:
        options |= {"kafka": wm.Kafka(broker.bootstrap_servers), "checkpoint": str(tmp_path / "cp")}
        made = addresses(customers, countries, out, left=left)
        query = made.start(spark, available_now=True, tasks=2, **options)
        query.awaitTermination()
        drops.append(sum(query.drops.values()))
        last = {int.from_bytes(record.key or b""): record.value for record in committed(broker, out)}
        return sorted((number, value.decode()) for number, value in last.items() if value is not None)

    producer.produce(countries, key="x", value="X")
    for number in range(20):
        put(number, "y", f"e{number}")
    put(3, "x")
    put(99, "x")
    assert run(left=False, shards=2) == [(3, "e3@X")]
    for number in range(10):
        put(number, "x")
    assert run(left=False, shards=3, evolve=True) == [(number, f"e{number}@X") for number in range(10)]
    for number in range(10, 20):
        put(number, "z")
    every = [(number, f"e{number}@{'X' if number < 10 else 'none'}") for number in range(20)]
    assert run(left=True, evolve=True, replace=["view"]) == every
    assert drops == [1, 0, 0]
