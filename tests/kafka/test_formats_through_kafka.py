"""UUIDs, doubles, decimals and windowed keys from Kafka to Kafka, straight and by columns; Debezium's events."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import millpond as mp
from dev.broker import KafkaBroker
from dev.reader import Record
from millpond._engine.keys.murmur import murmur2
from millpond._spark.formats.formats import serde_of
from tests.kafka.topics import PARTITIONS, committed, new_topic

UUIDS = [f"123e4567-e89b-12d3-a456-42661417400{digit}" for digit in range(10)]
RECORDS = 40
WINDOW_MS = 10


def run(spark: SparkSession, kafka: mp.Kafka, folder: Path, b: mp.StreamsBuilder) -> Any:
    folders = {"checkpoint": str(folder / f"{b.application_id}-cp"), "local_cache": str(folder / b.application_id)}
    query = b.build().start(spark, kafka=kafka, available_now=True, **folders)
    query.awaitTermination()
    return query


def produced(broker: KafkaBroker) -> str:
    topic = new_topic(broker, "prices")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for at in range(RECORDS):
        producer.produce(topic, key=UUIDS[at % 10].encode(), value=struct.pack(">d", at / 4), timestamp=1_000 + at)
    producer.produce(topic, key=b"no uuid", value=struct.pack(">d", 0), timestamp=1_000)
    producer.produce(topic, key=UUIDS[0].encode(), value=b"1.5", timestamp=1_000)
    assert producer.flush(60) == 0
    return topic


def told(records: list[Record]) -> list[tuple[bytes | None, bytes | None, int]]:
    return sorted((record.key, record.value, record.partition) for record in records)  # type: ignore[type-var]


def test_numbers_and_windowed_keys_are_written_alike_straight_and_by_columns_and_read_again(
    spark: SparkSession, broker: KafkaBroker, kafka: mp.Kafka, tmp_path: Path
) -> None:
    prices = produced(broker)
    doubles, cents, counts, again, straight = (new_topic(broker, name) for name in ("d", "c", "n", "again", "straight"))
    b = mp.StreamsBuilder("prices")
    stream = b.stream(prices, key="uuid", value="double", on_undecodable="skip")
    stream.to(doubles, key="uuid", value="double")
    stream.map_values(lambda value: value.cast("decimal(10,2)")).to(cents, key="uuid", value=mp.decimal(10, 2))
    windows = mp.TimeWindows.of_size_with_no_grace(f"{WINDOW_MS} ms")
    stream.group_by_key().windowed_by(windows).count().to_stream().to(
        counts, key=mp.time_windowed("uuid"), value="long"
    )
    query = run(spark, kafka, tmp_path, b)
    assert sum(count for (_, reason), count in query.drops.items() if reason == "undecodable") == 2

    wanted = [(UUIDS[at % 10].encode(), at) for at in range(RECORDS)]
    assert sorted((r.key, r.value) for r in committed(broker, doubles)) == sorted(  # type: ignore[type-var]
        (key, struct.pack(">d", at / 4)) for key, at in wanted
    )
    decimals = serde_of(mp.decimal(10, 2)).read(pa.array([r.value for r in committed(broker, cents)])).values
    assert sorted(decimals.to_pylist()) == [Decimal(at) / 4 for at in range(RECORDS)]
    # one record of a key in each window: the window's start is what is written, and its key decides the partition
    written = committed(broker, counts)
    starts = [(1_000 + at) // WINDOW_MS * WINDOW_MS for _, at in wanted]
    assert sorted((r.key, r.value) for r in written) == sorted(  # type: ignore[type-var]
        (key + start.to_bytes(8), (1).to_bytes(8)) for (key, _), start in zip(wanted, starts, strict=True)
    )
    inner = pa.array([record.key[:-8] for record in written if record.key])
    assert [record.partition for record in written] == ((murmur2(inner) & 0x7FFFFFFF) % PARTITIONS).tolist()

    for name, target in (("columns", again), ("straight", straight)):
        b = mp.StreamsBuilder(name)
        form = mp.time_windowed("uuid", size=f"{WINDOW_MS} ms")
        table = b.stream(counts, key=form, value="long")
        table.to(target, key=form, value="long")
        if name == "columns":
            # what a function of batches gets, Spark makes columns of, and so it writes the topic too
            rows: list[Any] = []
            table.to(mp.ForeachBatch(lambda frame, _, rows=rows: rows.extend(frame.collect())), name="rows")
        run(spark, kafka, tmp_path, b)
    assert {row["key"]["end"] - row["key"]["start"] for row in rows} == {WINDOW_MS}
    assert sorted((row["key"]["key"], row["key"]["start"]) for row in rows) == sorted(
        (key.decode(), start) for (key, _), start in zip(wanted, starts, strict=True)
    )
    assert told(committed(broker, again)) == told(committed(broker, straight)) == told(written)


def test_debeziums_events_are_a_table_in_time_of_their_changes_with_a_function_of_sparks_and_without(
    spark: SparkSession, broker: KafkaBroker, kafka: mp.Kafka, tmp_path: Path
) -> None:
    customers = new_topic(broker, "customers")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

    def changed(at: int, op: str, number: int, name: str | None) -> None:
        after = None if name is None else {"id": number, "name": name, "other": at}
        event = {"before": None, "after": after, "source": {"ts_ms": 5_000 + at, "db": "inventory"}, "op": op}
        key = {"schema": {"type": "struct"}, "payload": {"id": number}}
        producer.produce(customers, key=json.dumps(key), value=json.dumps(event), timestamp=9_000, partition=0)

    for at, (op, number, name) in enumerate([("r", 1, "ann"), ("c", 2, "bob"), ("t", 0, None), ("u", 1, "anna")]):
        changed(at, op, number, name)
    changed(7, "d", 2, None)
    producer.produce(customers, key=json.dumps({"id": 2}), value=None, timestamp=9_000, partition=0)
    assert producer.flush(60) == 0
    wanted = [(1, "ann", 5_000), (1, "anna", 5_003), (2, "bob", 5_001), (2, None, 5_007)]
    for name in ("plain", "function"):
        b, out = mp.StreamsBuilder(f"debezium-{name}"), new_topic(broker, "names")
        form = mp.debezium("id long, name string")
        table = b.table(customers, key=mp.debezium_key("id long"), value=form, on_undecodable="skip")
        (table if name == "plain" else table.filter(lambda row: F.udf(bool, "boolean")(row["id"]))).map_values(
            lambda row: row["name"]
        ).to(out)
        query = run(spark, kafka, tmp_path, b)
        assert {why: count for (_, why), count in query.drops.items() if count} == {
            "undecodable": 1,
            "ignored_tombstone": 1,
        }
        found = [
            (int.from_bytes(r.key or b""), None if r.value is None else r.value.decode(), r.time)
            for r in committed(broker, out)
        ]
        assert sorted(found, key=lambda record: (record[0], record[2])) == wanted
