"""Values with a registered schema: Confluent's own serializers, schemas that change, and registries that fail."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from dev.registry import SchemaRegistryServer
from watersmeet._plan.nodes import Shape, SinkNode, SourceNode
from watersmeet._spark import formats
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.registry import RegistryClient
from watersmeet.errors import ChangedTopology, ConfigError, SourceError, TopologyError
from watersmeet.io.formats import SchemaFormat, SchemaRegistry, avro
from watersmeet.io.topics import Topic, TopicSink

VALUE = SerializationContext("orders", MessageField.VALUE)
PLACE = "orders/value"
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def order(*more: dict[str, Any], id_: Any = "long") -> dict[str, Any]:
    fields = [{"name": "id", "type": id_}, {"name": "state", "type": STATE}, {"name": "price", "type": PRICE}, *more]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}


NOTE = {"name": "note", "type": ["null", "string"], "default": None}
ROW = {"id": 1, "state": "PAID", "price": Decimal("12.34")}


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer().running() as running:
        # another test's server may have had the same port
        schemas.forget()
        yield running


def registry(server: SchemaRegistryServer, **more: Any) -> SchemaRegistry:
    return SchemaRegistry(server.url, max_retries=0, **more)


def source(schema: Any = None, **options: Any) -> SchemaFormat:
    form = Topic("orders", key="long", value=avro(schema, **options)).value
    assert isinstance(form, SchemaFormat)
    return form


def read(form: SchemaFormat, *raw: bytes | None) -> tuple[list[Any], dict[int, str]]:
    made, flaws = schemas.reader(form).decode(pa.array(raw, pa.binary()))
    return made.to_pylist(), flaws


def by_confluent(server: SchemaRegistryServer, schema: Any, value: Any) -> bytes:
    serializer = AvroSerializer(SchemaRegistryClient({"url": server.url}), json.dumps(schema))
    made = serializer(value, VALUE)
    assert made is not None
    return made


def test_what_confluents_serializer_writes_is_read(server: SchemaRegistryServer) -> None:
    raw = by_confluent(server, order(), ROW)
    assert read(source(registry=registry(server)), raw, None) == ([ROW, None], {})


def test_confluents_deserializer_reads_what_is_written(server: SchemaRegistryServer) -> None:
    kind = schemas.type_of(source(order()))
    sink = written_by(server, kind)
    (raw,) = schemas.writer(sink, kind)(pa.array([ROW], arrow_type(kind))).to_pylist()
    assert AvroDeserializer(SchemaRegistryClient({"url": server.url}))(raw, VALUE) == ROW


def sink_node(kind: Any, form: Any) -> SinkNode:
    return SinkNode("to", ("above",), Shape("stream", kind, kind), output="o", target=TopicSink("orders", "long", form))


def written_by(server: SchemaRegistryServer, kind: Any, schema: Any = None, **options: Any) -> SchemaFormat:
    node = sink_node(kind, avro(schema, registry=registry(server), **options))
    known = formats.fix_schemas([], [node], {})
    (made,) = formats.sinks_with_schemas([node], known)
    form = made.target.value
    assert isinstance(form, SchemaFormat)
    return form


def test_an_older_and_a_newer_writer_are_read_by_the_readers_schema(server: SchemaRegistryServer) -> None:
    older = by_confluent(server, order(id_="int"), ROW)
    newer = by_confluent(server, order(NOTE, {"name": "more", "type": "long"}), ROW | {"note": "x", "more": 5})
    form = source(order(NOTE), registry=registry(server))
    assert read(form, older, newer) == ([ROW | {"note": None}, ROW | {"note": "x"}], {})
    assert read(form, older, newer)[1] == {}
    assert server.calls.count("GET /schemas/ids/11") == 1


def test_bytes_of_a_readers_default_are_those_that_its_text_stands_for(server: SchemaRegistryServer) -> None:
    more = [
        {"name": "tax", "type": PRICE, "default": "\u00ff"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "fix", "type": {"type": "fixed", "name": "Two", "size": 2}, "default": "a\u0080"},
    ]
    found, flaws = read(source(order(*more), registry=registry(server)), by_confluent(server, order(), ROW))
    assert (found, flaws) == ([ROW | {"tax": Decimal("-0.01"), "raw": b"\xff", "fix": b"a\x80"}], {})


@pytest.mark.parametrize(
    ("written", "row", "why"),
    [
        (order(id_="string"), ROW | {"id": "x"}, "does not take it"),
        (order(id_={"type": "long", "logicalType": "timestamp-millis"}), ROW | {"id": 5}, "is timestamp-millis there"),
        (
            {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]},
            {"id": 1},
            "does not take it",
        ),
    ],
)
def test_an_incompatible_writer_has_a_reason_with_its_number(
    server: SchemaRegistryServer, written: Any, row: Any, why: str
) -> None:
    raw = by_confluent(server, written, row)
    values, flaws = read(source(order(), registry=registry(server)), raw)
    assert values == [None]
    assert flaws[0].startswith("schema 11: ")
    assert why in flaws[0]


def test_bytes_without_a_known_schema_have_a_reason(server: SchemaRegistryServer) -> None:
    good = by_confluent(server, order(), ROW)
    proto = server.add("other-value", "syntax", "PROTOBUF")
    raw = [b"", b"\0\0\0", b"\x01" + good[1:], b"\0\0\0\0\x63" + good[5:], good[:-1], good + b"x"]
    raw += [b"\0" + proto.to_bytes(4, "big") + b"x", b"\0\xff\xff\xff\xffx"]
    values, flaws = read(source(order(), registry=registry(server)), *raw, good)
    assert values == [None] * len(raw) + [ROW]
    expected = ("0 bytes", "3 bytes", "first byte is 1", "no schema 99", "end within", "1 bytes behind", "PROTOBUF")
    assert [why in flaws[at] for at, why in enumerate((*expected, "no registry gives"))] == [True] * len(raw)
    # no registry is asked for that one: its answer to a number that it does not know what to do with says nothing
    assert "GET /schemas/ids/4294967295" not in server.calls


def test_a_registry_that_fails_fails_the_query_and_makes_nothing_undecodable(server: SchemaRegistryServer) -> None:
    form, raw = source(order(), registry=registry(server)), by_confluent(server, order(), ROW)
    broken = (500, {"error_code": 50001, "message": "in the store"}), (200, b"no JSON")
    for failing, why in zip(broken, ("in the store", "does not answer"), strict=True):
        server.failing = failing
        with pytest.raises(SourceError, match=why):
            read(form, raw)
    server.failing, server.delay = None, 0.5
    with pytest.raises(SourceError, match="does not answer"):
        read(replace(form, registry=registry(server, timeout=0.05)), raw)


def test_a_name_that_stands_in_another_subject_is_found(server: SchemaRegistryServer) -> None:
    server.add("state", STATE)
    whole = order()
    whole["fields"][1]["type"] = "State"
    whole.pop("namespace")
    reference = {"name": "State", "subject": "state", "version": 1}
    number = server.add("orders-value", whole, references=[reference])
    raw = by_confluent(server, order(), ROW)
    good = b"\0" + number.to_bytes(4, "big") + raw[5:]
    form = source(registry=registry(server), version=1)
    assert read(form, good) == ([ROW], {})


def test_two_sources_read_each_by_its_own_subjects_schema(server: SchemaRegistryServer) -> None:
    server.add("one", order())
    server.add("two", order(NOTE))
    both = [source(registry=registry(server), subject=name) for name in ("one", "two")]
    assert [len(schemas.type_of(each).fields) for each in both] == [3, 4]


def test_a_source_without_a_schema_asks_for_the_latest_or_the_version(server: SchemaRegistryServer) -> None:
    server.add("orders-value", order())
    server.add("orders-value", order(NOTE))
    assert len(schemas.type_of(source(registry=registry(server))).fields) == 4
    assert len(schemas.type_of(source(registry=registry(server), version=1)).fields) == 3
    with pytest.raises(ConfigError, match="does not have the schema of"):
        schemas.type_of(source(registry=registry(server), subject="nothing"))
    server.add("proto", "syntax", "PROTOBUF")
    with pytest.raises(TopologyError, match="are read as avro"):
        schemas.type_of(source(registry=registry(server), subject="proto"))


def source_node(form: SchemaFormat) -> Any:

    kind = schemas.type_of(form)
    origin = Topic("orders", key="long", value=form)
    return SourceNode("orders", (), Shape("stream", kind, kind), input="orders", origin=origin)


def settled_read(server: SchemaRegistryServer, known: Any, **options: Any) -> Any:
    node = source_node(source(registry=registry(server), **options))
    # what the type was asked of goes with the format of the topic
    return formats.fix_schemas([node], [], known)


def test_a_restart_reads_by_the_schema_of_the_checkpoint(server: SchemaRegistryServer) -> None:
    server.add("orders-value", order())
    first = settled_read(server, {})
    assert first["reads"][PLACE]["version"] == 1
    documented = order() | {"doc": "an order"}
    server.add("orders-value", documented)
    assert settled_read(server, first) == first
    server.add("orders-value", order(NOTE))
    with pytest.raises(ChangedTopology, match=r"version=1\)"):
        settled_read(server, first)
    assert settled_read(server, first, version=1)["reads"][PLACE]["version"] == 1


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "orders-value"),
        ("RecordNameStrategy", "shop.Order"),
        ("TopicRecordNameStrategy", "orders-shop.Order"),
    ],
)
def test_a_sink_registers_its_schema_under_its_strategys_name(
    server: SchemaRegistryServer, strategy: Any, subject: str
) -> None:
    kind = schemas.type_of(source(order()))
    assert written_by(server, kind, order(), subject_name_strategy=strategy).id == 11
    assert server.subjects == {subject: [11]}


def test_without_auto_register_an_unknown_schema_is_refused_and_a_known_one_is_found(
    server: SchemaRegistryServer,
) -> None:
    kind = schemas.type_of(source(order()))
    for _ in ("no subject", "no schema"):
        with pytest.raises(ConfigError, match="auto_register=False forbids"):
            written_by(server, kind, order(), auto_register=False)
        server.add("orders-value", "string")
    number = server.add("orders-value", json.dumps(order()))
    assert written_by(server, kind, order(), auto_register=False).id == number
    assert not [call for call in server.calls if call.endswith("/versions") and call.startswith("POST")]


@pytest.mark.parametrize("status", [409, 422])
def test_what_the_registry_refuses_is_shown_as_it_says_it(server: SchemaRegistryServer, status: int) -> None:
    said = "Schema being registered is incompatible with an earlier schema: READER_FIELD_MISSING_DEFAULT_VALUE"
    server.refuses["orders-value"] = (status, {"error_code": status, "message": said})
    with pytest.raises(ConfigError, match=f"{said} .HTTP {status}"):
        written_by(server, schemas.type_of(source(order())), order())


def test_a_type_that_is_not_the_schemas_does_not_fit(server: SchemaRegistryServer) -> None:
    form = source(order(), registry=registry(server))
    assert schemas.misfit(form, schemas.type_of(form)) is None
    why = schemas.misfit(form, schemas.type_of(source(order(NOTE))))
    assert why is not None
    assert "struct<id:bigint" in why


def test_a_login_reaches_the_registry_and_is_in_no_text_and_no_pickle(server: SchemaRegistryServer) -> None:
    server.login = "ann:canary-5431"
    with pytest.raises(ConfigError, match="Unauthorized"):
        schemas.type_of(source(registry=registry(server)))
    server.subjects["orders-value"] = [server.add("x", order())]
    one = registry(server, username="ann", password="canary-5431")
    form = source(registry=one)
    assert len(schemas.type_of(form).fields) == 3
    assert "canary" not in f"{one!r} {one} {form!r} {form}"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(schemas.reader(form))
    with pytest.raises(ConfigError) as refused:
        RegistryClient({"url": server.url, "basic.auth.user.info": "canary-5431", "no.such": "canary-5431"})
    assert "canary" not in str(refused.value)
    with pytest.raises(ConfigError) as refused:
        SchemaRegistry("http://ann:canary-5431@localhost:8081")
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("mistake", "why"),
    [
        ({}, "needs a schema, or a registry"),
        ({"schema": "string", "version": 1}, "version= is the number"),
        ({"schema": "string", "subject_name_strategy": "Topic"}, "Unknown subject_name_strategy"),
        ({"schema": '{"type": '}, "cannot be read as JSON"),
        ({"registry": SchemaRegistry("http://host"), "version": 0}, "version= is the number"),
    ],
)
def test_a_mistake_in_a_format_is_refused_where_it_is_written(mistake: Any, why: str) -> None:
    with pytest.raises(TopologyError, match=why):
        avro(**mistake)
    with pytest.raises(TopologyError, match="asked for a subject"):
        source(registry=SchemaRegistry("http://host"), subject_name_strategy="RecordNameStrategy")


def test_the_client_is_the_one_that_confluents_mock_stands_for() -> None:
    settings = {"url": "mock://formats"}
    number = SchemaRegistryClient.new_client(settings).register_schema(
        "orders-value", Schema(json.dumps(order()), "AVRO")
    )
    assert number >= 1
