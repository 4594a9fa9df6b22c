"""A real registry, Confluent's serializers in Python, and Apicurio's in Java: each reads what the other writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.wrappers_pb2 import Int64Value

import watersmeet as wm
from dev.peers.java import Peers, peers
from dev.peers.registry import CONFLUENT, OWN, real_registry
from watersmeet._plan.nodes import Shape, SinkNode
from watersmeet._spark import formats
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import ConfigError
from watersmeet.io.topics import Topic, TopicSink

NOTE = {"name": "note", "type": ["null", "string"], "default": None}
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}, NOTE]}
JSON_ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"oneOf": [{"type": "null"}, {"type": "string"}]}},
}
ROW = {"id": 7, "note": "é"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with real_registry() as running:
        yield running


@pytest.fixture(scope="module")
def java() -> Iterator[Peers]:
    with peers() as running:
        yield running


@pytest.fixture
def confluent(url: str) -> SchemaRegistryClient:
    schemas.forget()
    return SchemaRegistryClient({"url": f"{url}/{CONFLUENT}"})


def registry(url: str) -> wm.SchemaRegistry:
    return wm.SchemaRegistry(f"{url}/{CONFLUENT}")


def place(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def read(topic: str, form: Any, *raw: bytes) -> tuple[list[Any], dict[int, str]]:
    made, flaws = schemas.reader(Topic(topic, key="long", value=form).value).decode(pa.array(raw, pa.binary()))  # type: ignore[arg-type]
    return made.to_pylist(), flaws


def written(topic: str, form: Any, kind: Any, *rows: Any) -> list[bytes]:
    target = TopicSink(topic, "long", form)
    node = SinkNode("to", ("above",), Shape("stream", kind, kind), output="o", target=target)
    (sink,) = formats.sinks_with_schemas([node], formats.fix_schemas([], [node], {}))
    found: list[bytes] = schemas.writer(sink.target.value, kind)(pa.array(rows, arrow_type(kind))).to_pylist()
    return found


def of(form: Any) -> Any:
    return schemas.type_of(Topic("t", key="long", value=form).value)  # type: ignore[arg-type]


def test_what_confluents_serializers_write_is_read_and_theirs_read_what_is_written(
    url: str, confluent: SchemaRegistryClient
) -> None:
    raw = AvroSerializer(confluent, json.dumps(ORDER))(ROW, place("avro"))
    assert read("avro", wm.avro(registry=registry(url)), raw) == ([ROW], {})
    (made,) = written("avro-out", wm.avro(ORDER, registry=registry(url)), of(wm.avro(ORDER)), ROW)
    assert AvroDeserializer(confluent)(made, place("avro-out")) == ROW

    raw = JSONSerializer(json.dumps(JSON_ORDER), confluent)(ROW, place("json"))
    assert read("json", wm.json_schema(registry=registry(url), validate=True), raw) == ([ROW], {})
    (made,) = written(
        "json-out", wm.json_schema(JSON_ORDER, registry=registry(url)), of(wm.json_schema(JSON_ORDER)), ROW
    )
    assert JSONDeserializer(json.dumps(JSON_ORDER), schema_registry_client=confluent)(made, place("json-out")) == ROW

    plain = {"use.deprecated.format": False}
    message = Int64Value(value=5)
    raw = ProtobufSerializer(Int64Value, confluent, plain)(message, place("protobuf"))
    form = wm.protobuf(Int64Value, registry=registry(url))
    assert read("protobuf", form, raw) == ([{"value": 5}], {})
    (made,) = written("protobuf-out", form, of(wm.protobuf(Int64Value)), {"value": 5})
    assert ProtobufDeserializer(Int64Value, plain)(made, place("protobuf-out")) == message


def test_what_javas_serializers_write_is_read_and_theirs_read_what_is_written(url: str, java: Peers) -> None:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), ROW)
    about = {"url": f"{url}/{OWN}", "format": "avro", "topic": "avro-of-java"}
    found = java.ask("write", **about, schema=ORDER, value=out.getvalue())
    assert read("avro-of-java", wm.avro(registry=registry(url)), found["bytes"]) == ([ROW], {})
    (made,) = written("avro-for-java", wm.avro(ORDER, registry=registry(url)), of(wm.avro(ORDER)), ROW)
    assert json.loads(java.ask("read", **about | {"topic": "avro-for-java"}, bytes=made)["value"]) == ROW

    about |= {"format": "json_schema", "topic": "json-for-java", "latest": "true"}
    form = wm.json_schema(JSON_ORDER, registry=registry(url))
    (made,) = written("json-for-java", form, of(wm.json_schema(JSON_ORDER)), ROW)
    assert json.loads(java.ask("read", **about, bytes=made)["value"]) == ROW
    found = java.ask("write", **about, value=ROW)
    assert read("json-for-java", wm.json_schema(registry=registry(url)), found["bytes"]) == ([ROW], {})


def test_a_made_schema_is_taken_and_an_evolved_writer_is_read(url: str, confluent: SchemaRegistryClient) -> None:
    inner = {"type": "record", "name": "N", "fields": [{"name": "x", "type": "int", "default": 7}]}
    newer = ORDER | {"fields": [*ORDER["fields"], {"name": "n", "type": inner, "default": {}}]}  # type: ignore[misc]
    raw = AvroSerializer(confluent, json.dumps(ORDER))(ROW, place("evolved"))
    assert read("evolved", wm.avro(newer, registry=registry(url)), raw) == ([ROW | {"n": {"x": 7}}], {})
    kind = of(wm.avro(newer))
    for topic, form in (
        ("made", wm.avro(registry=registry(url))),
        ("made-json", wm.json_schema(registry=registry(url))),
    ):
        (made,) = written(topic, form, kind, ROW | {"n": {"x": 1}})
        assert read(topic, form, made) == ([ROW | {"n": {"x": 1}}], {})


def test_what_the_registry_does_not_have_is_said_as_of_the_stand_in(url: str, confluent: SchemaRegistryClient) -> None:
    values, flaws = read("avro", wm.avro(ORDER, registry=registry(url)), b"\0\0\x0f\x42\x3f\x02")
    assert (values, [*flaws]) == ([None], [0])
    assert "999999" in flaws[0]
    with pytest.raises(ConfigError, match="does not have the schema"):
        of(wm.avro(registry=registry(url)))
