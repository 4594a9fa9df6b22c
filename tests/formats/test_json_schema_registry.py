"""JSON Schema in a registry: Confluent's own serializers, references, names, and what a checkpoint records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql.types import DataType, LongType

from dev.registry import SchemaRegistryServer
from tests.formats.test_json_schema import ORDER, ROW, form, read, written
from watersmeet._plan.nodes import Shape, SinkNode, SourceNode
from watersmeet._spark import formats
from watersmeet._worker.formats import schemas
from watersmeet.errors import ChangedTopology, ConfigError
from watersmeet.io.formats import SchemaFormat, SchemaRegistry, json_schema
from watersmeet.io.topics import Topic, TopicSink

VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer().running() as running:
        schemas.forget()
        yield running


def registry(server: SchemaRegistryServer) -> SchemaRegistry:
    return SchemaRegistry(server.url, max_retries=0)


def by_confluent(server: SchemaRegistryServer, schema: Any, value: Any) -> bytes:
    made = JSONSerializer(json.dumps(schema), SchemaRegistryClient({"url": server.url}))(value, VALUE)
    assert made is not None
    return made


def sink_of(server: SchemaRegistryServer, kind: DataType, schema: Any = None, **options: Any) -> SchemaFormat:
    target = TopicSink("orders", "long", json_schema(schema, registry=registry(server), **options))
    node = SinkNode("to", ("above",), Shape("stream", kind, kind), output="o", target=target)
    (made,) = formats.sinks_with_schemas([node], formats.fix_schemas([], [node], {}))
    assert isinstance(made.target.value, SchemaFormat)
    return made.target.value


def test_what_confluents_serializer_writes_is_read_whichever_schema_it_has(server: SchemaRegistryServer) -> None:
    raw = by_confluent(server, ORDER, ROW)
    newer = ORDER | {"properties": ORDER["properties"] | {"more": {"type": "boolean"}}}
    more = by_confluent(server, newer, ROW | {"more": True})
    for one in (form(registry=registry(server)), form(None, registry=registry(server), version=1)):
        found, flaws = read(one, raw, more, None)
        assert ([row and row["state"] for row in found], flaws) == (["NEW", "NEW", None], {})
    assert "more" in schemas.type_of(form(None, registry=registry(server))).simpleString()


@pytest.mark.parametrize("schema", [None, ORDER])
def test_confluents_deserializer_reads_and_validates_what_is_written(server: SchemaRegistryServer, schema: Any) -> None:
    sink = sink_of(server, schemas.type_of(form()), schema)
    (raw,) = written(sink, [ROW], schemas.type_of(form()))
    client = SchemaRegistryClient({"url": server.url})
    found = JSONDeserializer(None, schema_registry_client=client)(raw, VALUE)
    assert {name: each for name, each in found.items() if each is not None} == ROW
    assert list(server.subjects) == ["orders-value"]


def test_bytes_without_a_known_schema_have_a_reason(server: SchemaRegistryServer) -> None:
    good, avro = by_confluent(server, ORDER, ROW), server.add("avro-value", "string")
    raw = [b"", b"\0\0\0", good[5:], b"\x01" + good[1:], b"\0\0\0\0\x63" + good[5:], good[:-1], good + b"x"]
    raw += [b"\0" + avro.to_bytes(4, "big") + good[5:], good[:5] + b"\xff", good[:5], good[:5] + b"null"]
    values, flaws = read(form(registry=registry(server)), *raw, good)
    assert values[:-1] == [None] * len(raw)
    expected = ["0 bytes", "3 bytes", "first byte is 123", "first byte is 1", "no schema 99", "not JSON", "not JSON"]
    expected += ["AVRO", "not valid UTF-8", "not JSON", "JSON text null"]
    assert [why in flaws[at] for at, why in enumerate(expected)] == [True] * len(raw)
    assert server.calls.count("GET /schemas/ids/99") == 1


def test_what_a_schema_refers_to_may_stand_in_another_subject(server: SchemaRegistryServer) -> None:
    person = {"$id": "https://shop/person.json", "$defs": {"name": {"type": "string"}}, "type": "object"}
    person["properties"] = {"name": {"$ref": "#/$defs/name"}}
    server.add("person", person, "JSON")
    whole = {"type": "object", "properties": {"by": {"$ref": "person.json"}}}
    reference = {"name": "person.json", "subject": "person", "version": 1}
    number = server.add("orders-value", whole, "JSON", [reference])
    raw = b"\0" + number.to_bytes(4, "big") + b'{"by": {"name": "ann"}}'
    one = form(None, registry=registry(server))
    assert read(one, raw) == ([{"by": {"name": "ann"}}], {})
    assert "ref" not in schemas.whole_text(one)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("RecordNameStrategy", "Order"), ("TopicRecordNameStrategy", "orders-Order")],
)
def test_a_sink_registers_its_schema_under_its_title(server: SchemaRegistryServer, strategy: Any, subject: str) -> None:
    kind = schemas.type_of(form())
    assert sink_of(server, kind, ORDER, subject_name_strategy=strategy).id == 11
    assert server.subjects == {subject: [11]}
    assert server.schemas[11]["schemaType"] == "JSON"
    assert json.loads(server.schemas[11]["schema"]) == ORDER
    with pytest.raises(ConfigError, match="a schema with a name"):
        sink_of(server, LongType(), {"type": "integer"}, subject_name_strategy=strategy)
    with pytest.raises(ConfigError, match="auto_register=False forbids"):
        sink_of(server, LongType(), {"type": "integer"}, auto_register=False)


def test_a_restart_reads_by_the_schema_of_the_checkpoint(server: SchemaRegistryServer) -> None:
    def fix_schemas(known: Any) -> Any:
        one = form(None, registry=registry(server))
        kind = schemas.type_of(one)
        origin = Topic("orders", key="long", value=one)
        return formats.fix_schemas(
            [SourceNode("orders", (), Shape("stream", kind, kind), input="o", origin=origin)], [], known
        )

    server.add("orders-value", ORDER, "JSON")
    first = fix_schemas({})
    server.add("orders-value", ORDER | {"description": "an order"}, "JSON")
    assert fix_schemas(first) == first
    assert first["reads"]["orders/value"]["version"] == 1
    server.add("orders-value", ORDER | {"properties": ORDER["properties"] | {"more": {"type": "boolean"}}}, "JSON")
    with pytest.raises(ChangedTopology, match=r"wm\.json_schema\(registry=\.\.\., version=1\)"):
        fix_schemas(first)
