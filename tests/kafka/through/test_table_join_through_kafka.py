"""Two changing tables in Kafka, joined: the final table is plain pandas' own, and each key's records in order."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import PARTITIONS, Record, committed, new_topic

KEYS, RECORDS = 200, 3_000


def changes(seed: int) -> list[tuple[int, int | None, int]]:
    """(key, value or None for a tombstone, ts): out of order, with many equal timestamps."""
    chance = random.Random(seed)
    base = 1_700_000_000_000
    return [
        (chance.randrange(KEYS), None if chance.random() < 0.15 else number, base + chance.randrange(500))
        for number in range(RECORDS)
    ]


def produce(broker: KafkaBroker, topic: str, records: list[tuple[int, int | None, int]], partitioner: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for key, value, ts in records:
        # "spread" is a partitioner of its own: what a key's partition is depends on nothing but the key.
        partition = {"murmur2": -1, "spread": (key * 7 + 3) % PARTITIONS}[partitioner]
        body = None if value is None else json.dumps({"n": value}).encode()
        producer.produce(topic, value=body, key=str(key).encode(), timestamp=ts, partition=partition)
    assert producer.flush(60) == 0


def last_values(records: list[tuple[int, int | None, int]]) -> pd.Series[Any]:
    """The table that a changelog leaves: the last record of each key, in the order in which it was written."""
    frame = pd.DataFrame(records, columns=["key", "value", "ts"], dtype=object)
    last = frame.groupby("key").tail(1).dropna(subset=["value"])
    return last.set_index("key")["value"].astype(int)


def joined_by_pandas(left: list[Any], right: list[Any]) -> dict[int, tuple[int, int | None]]:
    both = pd.concat({"a": last_values(left), "b": last_values(right)}, axis=1)
    kept = both.dropna(subset=["a"])
    return {int(k): (int(row["a"]), None if pd.isna(row["b"]) else int(row["b"])) for k, row in kept.iterrows()}


def joined_by_watersmeet(records: list[Record]) -> dict[int, tuple[int, int | None]]:
    table: dict[int, tuple[int, int | None]] = {}
    for record in records:
        key = int(record.key or b"")
        if record.value is None:
            table.pop(key, None)
        else:
            value = json.loads(record.value)
            table[key] = (value["a"], value.get("b"))
    return table


@pytest.mark.parametrize("partitioner", ["murmur2", "spread"])
def test_the_final_table_is_the_one_that_pandas_computes(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, partitioner: str
) -> None:
    left, right, out = (new_topic(broker, name) for name in ("left", "right", "joined"))
    lefts, rights = changes(1), changes(2)
    produce(broker, left, lefts, partitioner)
    produce(broker, right, rights, "murmur2")
    b = wm.StreamsBuilder("pandas")
    tables = [b.table(topic, key="string", value=wm.json("n long")) for topic in (left, right)]
    tables[0].left_join(tables[1], lambda a, c: F.struct(a["n"].alias("a"), c["n"].alias("b"))).to(
        out, key="string", value="json"
    )
    limited = wm.Kafka(kafka.bootstrap_servers, max_records_per_batch=2_000)
    query = b.build().start(
        spark, checkpoint=str(tmp_path / "cp"), kafka=limited, available_now=True, local_cache=str(tmp_path / "c")
    )
    query.awaitTermination()
    records = committed(broker, out)
    assert query.lastProgress["batchId"] >= 2
    assert joined_by_watersmeet(records) == joined_by_pandas(lefts, rights)
    assert_each_keys_records_are_in_order(records, lefts)


def assert_each_keys_records_are_in_order(records: list[Record], lefts: list[Any]) -> None:
    """The left values that a key shows never go back: they were numbered in the order of writing."""
    assert len(records) > RECORDS
    latest: dict[bytes | None, int] = {}
    for record in records:
        if record.value is not None:
            number = json.loads(record.value)["a"]
            assert number >= latest.get(record.key, -1), record
            latest[record.key] = number
