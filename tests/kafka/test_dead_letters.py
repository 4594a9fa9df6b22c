"""Dead letters through a real broker: byte for byte, in the transaction of the results, whatever way the rows take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import millpond as mp
from dev.broker import KafkaBroker
from millpond.io.kafka import Kafka
from tests.kafka.topics import Record, committed, new_topic

HEADERS = [("trace", b"\xff\0"), ("empty", b""), ("none", None)]
PREFIX = "__streams.errors."


def produced(broker: KafkaBroker, topic: str) -> None:
    """Good and bad records in turn, on one partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(40):
        value = b"\xff%d" % number if number % 4 == 1 else b'{"n": %d}' % number
        given: dict[str, Any] = {"headers": HEADERS} if number % 8 == 1 else {}
        producer.produce(topic, key=b"k%d" % number, value=value, partition=0, timestamp=1000 + number, **given)
    assert producer.flush(30) == 0


def check_letters(found: list[Record], topic: str) -> None:
    """Each bad record of `produced` is there, as it came."""
    letters = {record.key or b"": record for record in found}
    assert len(found) == 10
    assert sorted(letters) == sorted(b"k%d" % number for number in range(1, 40, 4))
    for number in range(1, 40, 4):
        letter = letters[b"k%d" % number]
        assert (letter.value, letter.time) == (b"\xff%d" % number, 1000 + number)
        own, told = list(letter.headers or [])[:-8], dict(list(letter.headers or [])[-8:])
        assert own == (HEADERS if number % 8 == 1 else [])
        message = (told.pop(PREFIX + "message") or b"").decode()
        assert message.endswith(f"topic {topic}, partition 0, offset {number}, value as json: not valid UTF-8")
        assert told == {
            PREFIX + "exception": b"millpond.errors.SourceError",
            PREFIX + "topic": topic.encode(),
            PREFIX + "partition": b"0",
            PREFIX + "offset": b"%d" % number,
            PREFIX + "timestamp": b"%d" % (1000 + number),
            PREFIX + "operator": b"in",
            PREFIX + "reason": b"undecodable",
        }


@pytest.mark.parametrize("way", ["in the level", "by Spark", "to files"])
def test_bad_records_leave_as_they_came_with_where_they_were_and_why(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path, way: str
) -> None:
    name, out, dead = (new_topic(broker, part) for part in ("in", "out", "dead"))
    produced(broker, name)
    builder = mp.StreamsBuilder("dead-letters")
    records = builder.stream(name, key="string", value=mp.json("n int"), on_undecodable=mp.DeadLetter(dead), name="in")
    numbers = records.map_values(lambda value: value["n"])
    if way == "by Spark":
        numbers = numbers.flat_map_values(lambda n: F.array(n))
    counted = numbers.group_by_key().count().to_stream()
    if way == "to files":
        counted.to(mp.Writer("json", path=str(tmp_path / "out")), name="files")
    else:
        counted.to(out)
    query = builder.build().start(
        spark, checkpoint=tmp_path / "cp", local_cache=tmp_path / "cache", available_now=True, kafka=kafka
    )
    query.awaitTermination()
    if way == "to files":
        assert spark.read.json(str(tmp_path / "out")).select("key").distinct().count() == 30
        assert "headers" not in spark.read.json(str(tmp_path / "out")).columns
    else:
        results = committed(broker, out)
        assert len(results) == 30
        assert not any(record.headers for record in results)
    check_letters(committed(broker, dead), name)
    assert query.drops == {("in", "dead_letter"): 10}
    now = query.metrics()
    assert (now.consumed, now.drops, now.lag) == ({"in": 40}, query.drops, {name: dict.fromkeys(range(4), 0)})
    assert set(now.produced.values()) == {10, 30}


@pytest.mark.parametrize("way", ["to Kafka", "to files"])
def test_records_for_which_a_function_raises_leave_beside_those_that_cannot_be_decoded(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path, way: str
) -> None:
    name, out, dead = (new_topic(broker, part) for part in ("in", "out", "dead"))
    produced(broker, name)
    letter = mp.DeadLetter(dead)
    builder = mp.StreamsBuilder("function-errors", on_undecodable=letter, on_error=letter)
    numbers = builder.stream(name, key="string", value=mp.json("n int"), name="in")
    tenths = numbers.map_values(lambda value: F.lit(100) / (value["n"] - 10))
    if way == "to Kafka":
        tenths.to(out)
    else:
        tenths.to(mp.Writer("json", path=str(tmp_path / "out")), name="files")
    query = builder.build().start(
        spark, checkpoint=tmp_path / "cp", local_cache=tmp_path / "cache", available_now=True, kafka=kafka
    )
    query.awaitTermination()
    letters = committed(broker, dead)
    check_letters([record for record in letters if record.key != b"k10"], name)
    failed = [(record.value, record.time) for record in letters if record.key == b"k10"]
    assert failed == [(b'{"n": 10}', 1010)]
    if way == "to Kafka":
        assert len(committed(broker, out)) == 29
    else:
        assert spark.read.json(str(tmp_path / "out")).count() == 29
    assert query.drops == {("in", "dead_letter"): 11}
