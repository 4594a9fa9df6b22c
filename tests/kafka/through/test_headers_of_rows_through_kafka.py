"""Rows of a topic's table have its headers wherever they are read: checkpoint, process, HTTP and Flight."""

from __future__ import annotations

import base64
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import new_topic

Headers = list[tuple[str, bytes | None]]


def topology(users: str, visits: str, *, headers: bool, counted: bool = False) -> wm.Topology:
    """A table that a join keeps, and perhaps another join that has its rows from it."""
    b = wm.StreamsBuilder("traced")
    table = b.table(users, key="string", value="string", name="users", store="users", headers=headers)
    stream = b.stream(visits, key="string", value="string", name="visits")
    nothing = wm.ForeachBatch(lambda rows, batch: rows.count())
    stream.join(table, lambda visit, user: F.concat(visit, user), name="named").to(nothing, name="out")
    if counted:
        other = table.join(table.map_values(lambda v: F.upper(v)), lambda a, b: F.concat(a, b), name="twice")
        other.to_stream(name="changes").to(nothing, name="twice-out")
    return b.build()


def check_served(query: Any) -> None:
    """The rows of both keys, in the process, over Flight and over HTTP."""
    url = query.serve("127.0.0.1:0", tables=["users"]).url
    expected = ("trace", b"3"), ("none", None)
    with wm.connect(str(url)) as tables:
        for table in (query.table("users"), tables.table("users")):
            assert (table.get("ann").value, table.get("ann").headers) == ("Anna", expected)
            assert table.get("bob").headers == table.get("nobody").headers == ()
            assert table.range("a", "b").column("headers").to_pylist() == [
                [{"key": "trace", "value": b"3"}, {"key": "none", "value": None}]
            ]
    with urllib.request.urlopen(f"{url}/tables/users/ann", timeout=60) as response:
        (row,) = json.loads(response.read())["rows"]
    assert row["headers"] == [
        {"key": "trace", "value": base64.b64encode(b"3").decode()},
        {"key": "none", "value": None},
    ]


def test_rows_have_headers_from_the_checkpoint_in_the_process_and_over_the_network(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    users, visits = new_topic(broker, "users"), new_topic(broker, "visits")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

    def put(key: str, value: str | None, headers: Headers) -> None:
        producer.produce(users, key=key, value=value, headers=headers)
        assert producer.flush(30) == 0

    def run(topology: wm.Topology, **options: Any) -> Any:
        options |= {"kafka": wm.Kafka(broker.bootstrap_servers), "shards": 2, "tasks": 2}
        return topology.start(spark, checkpoint=str(tmp_path / "cp"), **options)

    put("ann", "Ann", [("trace", b"1")])
    put("bob", "Bob", [("trace", b"2")])
    run(topology(users, visits, headers=False), available_now=True).awaitTermination()
    assert wm.read_state(spark, tmp_path / "cp", "users").columns == ["key", "value", "timestamp"]
    with pytest.raises(wm.ChangedTopology):
        run(topology(users, visits, headers=True), available_now=True)
    put("ann", "Anna", [("trace", b"3"), ("none", None)])
    query = run(topology(users, visits, headers=True), evolve=True)
    query.processAllAvailable()
    stored = {row["key"]: row["headers"] for row in wm.read_state(spark, tmp_path / "cp", "users").collect()}
    assert [tuple(header) for header in stored["ann"]] == [("trace", bytearray(b"3")), ("none", None)]
    assert stored["bob"] is None
    check_served(query)
    query.stop()
    change = wm.plan_change(str(tmp_path / "cp"), topology(users, visits, headers=True, counted=True))
    assert {item.name for item in change.filled} == {"twice.table0"}
    run(topology(users, visits, headers=True, counted=True), evolve=True, available_now=True).awaitTermination()
    rows = wm.read_state(spark, tmp_path / "cp", "twice.table0")
    assert rows.columns == ["key", "value", "timestamp"]
    assert {row["key"]: row["value"] for row in rows.collect()} == {"ann": "Anna", "bob": "Bob"}
