"""Protobuf and JSON Schema with a registry from Kafka to Kafka, in one query; Avro has a test of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.registry import SchemaRegistryServer
from tests.formats.test_protobuf import order
from tests.kafka.topics import committed, new_topic

ORDER = order()
SCHEMA = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": "string"}, "at": {"$ref": "#/definitions/time"}},
        "required": ["id"],
        "definitions": {"time": {"type": "string", "format": "date-time"}},
    }
)
DEPRECATED = {"use.deprecated.format": False}


def shout(value: Column) -> Column:
    return value.withField("note", F.upper(value["note"]))


def write(broker: KafkaBroker, topic: str, serializer: Callable[..., Any], *values: Any) -> None:
    """Values as a serializer writes them, but for what is bytes already, or null."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    context = SerializationContext(topic, MessageField.VALUE)
    for value in values:
        raw = value if value is None or isinstance(value, bytes) else serializer(value, context)
        producer.produce(topic, raw, b"k", partition=0, timestamp=1_000)
    producer.flush()


def test_messages_and_json_with_a_schema_go_through_kafka(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    with SchemaRegistryServer().running() as server:
        client, registry = SchemaRegistryClient({"url": server.url}), wm.SchemaRegistry(server.url)
        messages, objects = new_topic(broker, "messages"), new_topic(broker, "objects")
        to_messages, to_objects = new_topic(broker), new_topic(broker)
        messaged = ProtobufSerializer(ORDER, client, {**DEPRECATED, "skip.known.types": True})
        write(broker, messages, messaged, ORDER(id=1, note="a", tags=["x"]), b"no message", None, ORDER(id=2))
        written = JSONSerializer(SCHEMA, client)
        rows = [{"id": 1, "note": "é", "at": "2026-02-28T01:02:03Z"}, b"no JSON", None, {"id": 2}]
        write(broker, objects, written, *rows)

        b = wm.StreamsBuilder("schemas")
        form = wm.protobuf(ORDER, registry=registry)
        read = b.stream(messages, key="string", value=form, on_undecodable="skip")
        read.map_values(shout).to(to_messages, value=wm.protobuf(ORDER, registry=registry))
        read = b.stream(objects, key="string", value=wm.json_schema(registry=registry), on_undecodable="skip")
        read.map_values(shout).to(to_objects, value=wm.json_schema(SCHEMA, registry=registry, validate=True))
        query = b.build().start(spark, checkpoint=str(tmp_path / "c"), kafka=kafka, available_now=True)
        query.awaitTermination()

        assert sorted(query.drops.values()) == [1, 1]
        context = SerializationContext("", MessageField.VALUE)
        read_message, read_object = ProtobufDeserializer(ORDER, DEPRECATED), JSONDeserializer(SCHEMA)
        raw = [[record.value for record in committed(broker, topic)] for topic in (to_messages, to_objects)]
        found = [None if each is None else read_message(each, context) for each in raw[0]]
        assert found == [ORDER(id=1, note="A", tags=["x"]), None, ORDER(id=2)]
        shouted = {"id": 1, "note": "É", "at": "2026-02-28T01:02:03.000000Z"}
        assert [None if each is None else read_object(each, context) for each in raw[1]] == [shouted, None, {"id": 2}]
        assert sorted(server.subjects) == sorted(f"{t}-value" for t in (messages, objects, to_messages, to_objects))
