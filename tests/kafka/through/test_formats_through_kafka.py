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

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.reader import Record
from tests.kafka.topics import PARTITIONS, committed, new_topic
from watersmeet._engine.keys import murmur2
from watersmeet._worker.formats.formats import serde_of

UUIDS = [f"123e4567-e89b-12d3-a456-42661417400{digit}" for digit in range(10)]
RECORDS = 40
WINDOW_MS = 10


def run(spark: SparkSession, kafka: wm.Kafka, folder: Path, b: wm.StreamsBuilder) -> Any:
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


def pairs(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return sorted((record.key, record.value) for record in records)  # type: ignore[type-var]


def told(records: list[Record]) -> list[tuple[bytes | None, bytes | None, int]]:
    return sorted((record.key, record.value, record.partition) for record in records)  # type: ignore[type-var]


def counted(spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, folder: Path) -> tuple[str, str, str]:
    """Topics of doubles, of decimals, and of counts in windows."""
    prices = produced(broker)
    doubles, cents, counts = (new_topic(broker, name) for name in ("doubles", "cents", "counts"))
    b = wm.StreamsBuilder("prices")
    stream = b.stream(prices, key="uuid", value="double", on_undecodable="skip")
    stream.to(doubles, key="uuid", value="double")
    stream.map_values(lambda value: value.cast("decimal(10,2)")).to(cents, key="uuid", value=wm.decimal(10, 2))
    windows = wm.TimeWindows.of_size_with_no_grace(f"{WINDOW_MS} ms")
    windowed = stream.group_by_key().windowed_by(windows).count()
    windowed.to_stream().to(counts, key=wm.time_windowed("uuid"), value="long")
    query = run(spark, kafka, folder, b)
    assert sum(count for (_, reason), count in query.drops.items() if reason == "undecodable") == 2
    return doubles, cents, counts


def test_numbers_and_windowed_keys_are_written_alike_straight_and_by_columns_and_read_again(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    doubles, cents, counts = counted(spark, broker, kafka, tmp_path)
    keys = [UUIDS[at % 10].encode() for at in range(RECORDS)]
    # one record of a key in each window: the window's start is what is written, and the key within decides where
    starts = [(1_000 + at) // WINDOW_MS * WINDOW_MS for at in range(RECORDS)]
    prices = [struct.pack(">d", at / 4) for at in range(RECORDS)]
    assert pairs(committed(broker, doubles)) == sorted(zip(keys, prices, strict=True))
    decimals = serde_of(wm.decimal(10, 2)).read(pa.array([r.value for r in committed(broker, cents)])).values
    assert sorted(decimals.to_pylist()) == [Decimal(at) / 4 for at in range(RECORDS)]
    written = committed(broker, counts)
    windows = [key + start.to_bytes(8) for key, start in zip(keys, starts, strict=True)]
    assert pairs(written) == sorted((window, (1).to_bytes(8)) for window in windows)
    inner = pa.array([record.key[:-8] for record in written if record.key])
    assert [record.partition for record in written] == ((murmur2(inner) & 0x7FFFFFFF) % PARTITIONS).tolist()

    again, rows = read_again(spark, broker, kafka, tmp_path, counts)
    assert [told(committed(broker, topic)) for topic in again] == [told(written)] * 2
    found = sorted((row["key"]["key"].encode(), row["key"]["start"], row["key"]["end"]) for row in rows)
    assert found == sorted((key, start, start + WINDOW_MS) for key, start in zip(keys, starts, strict=True))


def read_again(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, folder: Path, counts: str
) -> tuple[list[str], list[Any]]:
    """Topics to which a topic of windowed keys was copied, straight and by columns, and its rows as a function sees."""
    form, rows, made = wm.time_windowed("uuid", size=f"{WINDOW_MS} ms"), list[Any](), []
    for name in ("columns", "straight"):
        b = wm.StreamsBuilder(name)
        stream = b.stream(counts, key=form, value="long")
        made.append(new_topic(broker, name))
        stream.to(made[-1], key=form, value="long")
        if name == "columns":
            # what a function of batches gets, Spark makes columns of, and so it writes the topic too
            stream.to(wm.ForeachBatch(lambda frame, _: rows.extend(frame.collect())), name="rows")
        run(spark, kafka, folder, b)
    return made, rows


def test_debeziums_events_are_a_table_in_time_of_their_changes_with_a_function_of_sparks_and_without(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
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
        b, out = wm.StreamsBuilder(f"debezium-{name}"), new_topic(broker, "names")
        form = wm.debezium("id long, name string")
        table = b.table(customers, key=wm.debezium_key("id long"), value=form, on_undecodable="skip")
        if name == "function":
            # Spark calls it for deletions, too, and leaves out what it says
            positive = F.udf(lambda number: number is not None and number > 0, "boolean")
            table = table.filter(lambda row, positive=positive: positive(row["id"]))
        table.map_values(lambda row: row["name"]).to(out)
        query = run(spark, kafka, tmp_path, b)
        # a deletion's tombstone is read, and no drop
        assert {why: count for (_, why), count in query.drops.items() if count} == {"undecodable": 1}
        assert sum(query.metrics().consumed.values()) == 6
        found = [
            (int.from_bytes(r.key or b""), None if r.value is None else r.value.decode(), r.time)
            for r in committed(broker, out)
        ]
        assert sorted(found, key=lambda record: (record[0], record[2])) == wanted
