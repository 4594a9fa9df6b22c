"""Records that are made to break a decoder, from Kafka to Kafka: each ends as a dead letter, and those beside go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from google.protobuf import timestamp_pb2
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.registry import SchemaRegistryServer
from tests.formats.fuzz.draws import MIN
from tests.formats.fuzz.registered import DEEP, READ, WITHIN, _list, framed, registry
from tests.formats.test_budgets import LAST, holding
from tests.kafka.topics import committed, new_topic
from watersmeet._worker.formats.limits import VALIDATED_LEVELS

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "R",
    "type": "object",
    "properties": {"a": {"type": "string"}, "u": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}},
}
MOMENTS = holding(timestamp_pb2.Timestamp)


def moment(seconds: int, nanos: int = 0) -> bytes:
    message = MOMENTS()
    message.at.seconds, message.at.nanos = seconds, nanos
    written: bytes = message.SerializeToString()
    return written


def produce(broker: KafkaBroker, topic: str, good: list[bytes], bad: list[bytes]) -> None:
    """A good record before, between and behind the bad ones; keys say which they are."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "message.max.bytes": 4_000_000}
    )
    for number in range(max(len(good), len(bad) + 1)):
        producer.produce(topic, good[number % len(good)], b"good", 0, timestamp=1_000)
        if number < len(bad):
            producer.produce(topic, bad[number], b"bad", 0, timestamp=1_000)
    assert producer.flush(60) == 0


def subjects(server: SchemaRegistryServer, numbers: dict[str, int]) -> dict[str, tuple[Any, list[bytes], list[bytes]]]:
    """By name: a format, records of it, and records that are made to break what reads it."""
    circle = [{"name": "c", "subject": "circle-value", "version": 1}]
    numbers["circle"] = server.add("circle-value", '"string"', references=circle)
    there = wm.SchemaRegistry(server.url, max_retries=0)
    brackets = "[" * (VALIDATED_LEVELS + 1) + "]" * (VALIDATED_LEVELS + 1)
    known = server.add("validated-value", json.dumps(SCHEMA), "JSON")
    texts = ['{"z":' + brackets + "}", '{"z":' + "9" * 5_000 + "}", '{"u":[1,1]}', "[" * 100_000, "{", ""]
    lists = [framed(numbers["list"], _list(depth)) for depth in DEEP]
    named = ("circle", "garbage", "brackets", "proto", "doubled")
    return {
        "registered": (
            wm.avro(json.dumps(READ), registry=there),
            [framed(numbers["read"], b"\2"), *lists[:WITHIN]],
            [*lists[WITHIN + 1 :], *(framed(numbers[name], b"\2") for name in named), framed(10**6, b"\2"), b""],
        ),
        "validated": (
            wm.json_schema(json.dumps(SCHEMA), registry=there, validate=True),
            [framed(known, b'{"a":"x"}'), framed(known, b'{"u":[1,2]}')],
            [framed(known, text.encode()) for text in texts],
        ),
        "messages": (
            wm.protobuf(MOMENTS),
            [moment(0), moment(LAST, 999_999_999)],
            [moment(LAST + 1), moment(0, 2 * 10**9), moment(MIN), b"\xff" * 50, b"\n" + b"\xff" * 9],
        ),
        "objects": (
            wm.json("a string"),
            [b'{"a":"x"}', b'{"a":"y","own":{"u17":1}}'],
            [b'{"a":' + b"[" * 50_000, b"\xff", b'{"a":"\xc3"}', b"nil"],
        ),
    }


def test_no_record_of_any_format_ends_the_query_or_takes_another_with_it(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    builder = wm.StreamsBuilder("hostile")
    outputs: dict[str, tuple[str, str]] = {}
    with registry() as (server, numbers):
        given = subjects(server, numbers)
        for name, (form, good, bad) in given.items():
            read, out, dead = new_topic(broker, name), new_topic(broker, "out"), new_topic(broker, "dead")
            stream = builder.stream(read, key="string", value=form, on_undecodable=wm.DeadLetter(dead), name=name)
            stream.map_values(lambda value: F.lit("read")).to(out)
            outputs[name] = out, dead
            produce(broker, read, good, bad)
        query = builder.build().start(spark, checkpoint=str(tmp_path / "c"), kafka=kafka, available_now=True)
        query.awaitTermination()
    for name, (_, good, bad) in given.items():
        written, letters = (committed(broker, topic) for topic in outputs[name])
        assert [record.key for record in written] == [b"good"] * max(len(good), len(bad) + 1), name
        assert [record.value for record in letters] == bad, name
        assert {record.key for record in letters} == {b"bad"}, name
