"""Inputs that are kept together: results over many batches are those of one merge by time, whatever is read when."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import PARTITIONS, committed, new_topic
from watersmeet._spark.batches import batches
from watersmeet.errors import ChangedTopology, ConfigError

KEYS, A_BATCH = 40, 200
MOST_SECONDS = 300
"""A guard against hanging."""
Records = list[tuple[str, int, int, bytes]]
"""Input, partition, time and value of each; the key is a part of the value."""


def history(seed: int) -> Records:
    """Prices that change all the time, and orders of which each sees the price at its time; some records are late."""
    draw = random.Random(seed)
    found = []
    for ms in range(1_000, 3_000):
        key = draw.randrange(KEYS)
        name = "prices" if draw.random() < 0.7 else "orders"
        late = draw.randrange(50) if draw.random() < 0.02 else 0
        found.append((name, key % PARTITIONS, ms - late, f"{key}:{ms}".encode()))
    return found


def write(broker: KafkaBroker, topics: dict[str, str], records: Records, transaction: str | None = None) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}
    producer = Producer(settings | ({"transactional.id": transaction} if transaction else {}))
    if transaction:
        producer.init_transactions()
    for start in range(0, len(records), 150):
        if transaction:
            producer.begin_transaction()
        for name, partition, ms, value in records[start : start + 150]:
            key = int(value.partition(b":")[0]).to_bytes(8, "big")
            producer.produce(topics[name], key=key, value=value, partition=partition, timestamp=ms)
        if transaction:
            # its end is a record, too, with the time of today
            producer.commit_transaction()
    assert producer.flush(60) == 0


def topology(topics: dict[str, str], out: str) -> wm.Topology:
    builder = wm.StreamsBuilder("together")
    prices = builder.table(topics["prices"], key="long", value="string", name="prices")
    orders = builder.stream(topics["orders"], key="long", value="string", name="orders")
    orders.join(prices, lambda order, price: F.concat_ws("|", order, price)).to(out)
    return builder.build()


def started(
    spark: SparkSession, broker: KafkaBroker, built: wm.Topology, folder: Path, *, now: bool = True, **kafka: Any
) -> Any:
    return built.start(
        spark,
        checkpoint=str(folder / "cp"),
        local_cache=str(folder / "cache"),
        available_now=now,
        kafka=wm.Kafka(broker.bootstrap_servers, **kafka),
    )


def results(broker: KafkaBroker, out: str) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key, in order."""
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in committed(broker, out):
        found.setdefault(record.key, []).append(record.value)
    return found


def in_one_batch(spark: SparkSession, broker: KafkaBroker, records: Records, folder: Path) -> Any:
    topics, out = {name: new_topic(broker, name) for name in ("prices", "orders")}, new_topic(broker)
    write(broker, topics, records)
    query = started(spark, broker, topology(topics, out), folder)
    query.awaitTermination()
    assert sum(1 for each in query.recentProgress if each.numInputRows) == 1
    return results(broker, out)


@pytest.mark.parametrize("transaction", [False, True], ids=["plain", "in transactions"])
def test_many_batches_of_inputs_kept_together_give_what_one_batch_gives(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, transaction: bool
) -> None:
    records = history(1)
    wanted = in_one_batch(spark, broker, records, tmp_path / "one")
    topics, out = {name: new_topic(broker, name) for name in ("prices", "orders")}, new_topic(broker)
    write(broker, topics, records, f"writer-{out}" if transaction else None)
    built = topology(topics, out)
    query = started(spark, broker, built, tmp_path / "many", max_records_per_batch=A_BATCH, max_task_idle="0 seconds")
    query.awaitTermination()
    sizes = [each.numInputRows for each in query.recentProgress if each.numInputRows]
    assert sum(sizes) == len(records)
    assert len(sizes) > 5
    assert results(broker, out) == wanted
    # another start has nothing to do, and ends
    started(spark, broker, built, tmp_path / "many", max_task_idle="0 seconds").awaitTermination()
    assert results(broker, out) == wanted


def test_a_batch_waits_for_an_input_that_is_written_later_and_stops_waiting_in_time(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    records = history(2)
    wanted = in_one_batch(spark, broker, records, tmp_path / "one")
    topics, out = {name: new_topic(broker, name) for name in ("prices", "orders")}, new_topic(broker)
    built = topology(topics, out)
    write(broker, topics, [each for each in records if each[0] == "orders"])
    query = started(spark, broker, built, tmp_path / "many", now=False, max_task_idle="1 hour")
    try:
        _until(lambda: query.metrics().total_lag == sum(each[0] == "orders" for each in records))
        write(broker, topics, [each for each in records if each[0] == "prices"])
        # all but what is later than the last record of some partition
        _until(lambda: query.metrics().total_lag < 60)
    finally:
        query.stop()
    query = started(spark, broker, built, tmp_path / "many", now=False, max_task_idle="500 ms")
    query.processAllAvailable()
    query.stop()
    assert results(broker, out) == wanted


def _until(holds: Any) -> None:
    until = time.monotonic() + MOST_SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.proof
def test_without_it_an_input_that_is_written_later_comes_behind(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    records = history(2)
    wanted = in_one_batch(spark, broker, records, tmp_path / "one")
    topics, out = {name: new_topic(broker, name) for name in ("prices", "orders")}, new_topic(broker)
    for name in topics:
        write(broker, topics, [each for each in records if each[0] == name])
    started(spark, broker, topology(topics, out), tmp_path / "many", max_records_per_batch=A_BATCH).awaitTermination()
    assert results(broker, out) != wanted


def test_a_spark_that_cannot_be_told_ends_the_query_with_the_option_in_its_error(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_such(self: Any) -> Any:
        raise AttributeError("uniqueSources")

    monkeypatch.setattr(batches.QuerySources, "_limits", no_such)
    topics, out = {name: new_topic(broker, name) for name in ("prices", "orders")}, new_topic(broker)
    query = started(spark, broker, topology(topics, out), tmp_path, max_task_idle="0 seconds")
    with pytest.raises(ConfigError, match="max_task_idle and transactions have no effect on this Spark"):
        query.awaitTermination()


def test_a_topic_that_gets_more_partitions_ends_the_query_and_a_start_that_accepts_them_reads_them(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_CHECK_SECONDS", 0.1)
    topics, out = {name: new_topic(broker, name) for name in ("prices", "orders")}, new_topic(broker)
    built = topology(topics, out)
    write(broker, topics, [("prices", 0, 1_000, b"1:a"), ("orders", 0, 2_000, b"1:b")])
    started(spark, broker, built, tmp_path, max_task_idle="0 seconds").awaitTermination()
    query = started(spark, broker, built, tmp_path, now=False, max_task_idle="0 seconds")
    _until(lambda: query.metrics().lag)  # it knows its partitions
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(topic, PARTITIONS + 1) for topic in topics.values()]).values():
        future.result()
    with pytest.raises(ChangedTopology, match="more partitions than at the start"):
        query.awaitTermination()
    write(broker, topics, [("prices", PARTITIONS, 3_000, b"2:c"), ("orders", PARTITIONS, 4_000, b"2:d")])
    query = built.start(
        spark,
        checkpoint=str(tmp_path / "cp"),
        local_cache=str(tmp_path / "cache"),
        available_now=True,
        allow_partition_change=True,
        kafka=wm.Kafka(broker.bootstrap_servers, max_task_idle="0 seconds"),
    )
    query.awaitTermination()
    assert {value for values in results(broker, out).values() for value in values} == {b"1:b|1:a", b"2:d|2:c"}
