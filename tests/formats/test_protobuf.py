"""Protobuf messages as bytes and back: exact, and never a value where the bytes are none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.registry import SchemaRegistryServer
from watersmeet._plan.nodes import Shape, SinkNode
from watersmeet._spark.formats import recorded_schemas as settled
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import ConfigError, SinkError, TopologyError
from watersmeet.io.registry import SchemaRegistry
from watersmeet.io.schema_formats import SchemaFormat, protobuf
from watersmeet.io.topics import Topic, TopicSink

Field = descriptor_pb2.FieldDescriptorProto
IMPORTED = (timestamp_pb2, duration_pb2, wrappers_pb2)
VALUE = SerializationContext("orders", MessageField.VALUE)


def field(message: Any, number: int, name: str, kind: int, of: str = "", *, many: bool = False, optional: bool = False):
    label = Field.LABEL_REPEATED if many else Field.LABEL_OPTIONAL
    made = message.field.add(name=name, number=number, type=kind, label=label)
    if of:
        made.type_name = of
    if optional:
        made.oneof_index, made.proto3_optional = len(message.oneof_decl), True
        message.oneof_decl.add(name=f"_{name}")


def order(id_: int = Field.TYPE_INT64, name: str = "Order", more: bool = False) -> Any:
    """The class of a message with fields of all kinds."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(each.DESCRIPTOR.name for each in IMPORTED)
    file.message_type.add(name="First")
    made = file.message_type.add(name=name)
    field(made, 1, "id", id_)
    field(made, 2, "big", Field.TYPE_UINT64)
    field(made, 3, "note", Field.TYPE_STRING, optional=True)
    field(made, 4, "tags", Field.TYPE_STRING, many=True)
    field(made, 5, "at", Field.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    field(made, 6, "count", Field.TYPE_MESSAGE, ".google.protobuf.UInt64Value")
    field(made, 7, "took", Field.TYPE_MESSAGE, ".google.protobuf.Duration")
    state = made.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=2)
    field(made, 8, "state", Field.TYPE_ENUM, f".shop.{name}.State")
    entry = made.nested_type.add(name="PartsEntry")
    entry.options.map_entry = True
    field(entry, 1, "key", Field.TYPE_INT32)
    field(entry, 2, "value", Field.TYPE_MESSAGE, f".shop.{name}.Part")
    field(made, 9, "parts", Field.TYPE_MESSAGE, f".shop.{name}.PartsEntry", many=True)
    part = made.nested_type.add(name="Part")
    field(part, 1, "weight", Field.TYPE_DOUBLE)
    field(part, 2, "raw", Field.TYPE_BYTES)
    if more:
        field(made, 10, "more", Field.TYPE_BOOL)
    return message_class(file, f"shop.{name}")


def message_class(file: Any, name: str) -> Any:
    pool = DescriptorPool()
    for each in IMPORTED:
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


ORDER = order()
MOMENTS = st.integers(-(10**15), 10**15)
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "big": st.integers(0, 2**64 - 1),
        "note": st.none() | st.text(max_size=3),
        "tags": st.lists(st.text(max_size=3), max_size=3),
        "at": st.none() | MOMENTS.map(lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)),
        "count": st.none() | st.integers(0, 2**64 - 1),
        "took": st.none() | MOMENTS.map(lambda n: timedelta(microseconds=n)),
        "state": st.sampled_from(["NEW", "PAID"]),
        "parts": st.dictionaries(
            st.integers(-(2**31), 2**31 - 1),
            st.fixed_dictionaries({"weight": st.floats(allow_nan=False), "raw": st.binary(max_size=3)}),
            max_size=2,
        ).map(lambda parts: sorted(parts.items())),
    }
)
PLAIN = {
    "id": 1,
    "big": 2,
    "note": None,
    "tags": [],
    "at": None,
    "count": None,
    "took": None,
    "state": "PAID",
    "parts": [],
}


def form(message: Any = ORDER, **options: Any) -> SchemaFormat:
    made = Topic("orders", key="long", value=protobuf(message, **options)).value
    assert isinstance(made, SchemaFormat)
    return made


def rows_of(message: Any, rows: list[Any]) -> pa.Array:
    return pa.array(rows, arrow_type(schemas.type_of(form(message))))


def written(rows: list[Any]) -> pa.Array:
    return schemas.writer(form(), schemas.type_of(form()))(rows_of(ORDER, rows))


def read(one: SchemaFormat, *raw: bytes | None) -> tuple[pa.Array, dict[int, str]]:
    return schemas.reader(one).decode(pa.array(raw, pa.binary()))


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS | st.none(), max_size=3))
def test_what_is_written_is_read_to_the_last_digit(rows: list[Any]) -> None:
    made, flaws = read(form(), *written(rows).to_pylist())
    assert not flaws
    assert made.equals(rows_of(ORDER, rows))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=20))
def test_noise_has_a_reason_or_is_a_message_by_protobufs_own_word(raw: bytes) -> None:
    made, flaws = read(form(), raw)
    assert (made[0].as_py() is None) == bool(flaws)


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer().running() as running:
        schemas.forget()
        yield running


def registry(server: SchemaRegistryServer) -> SchemaRegistry:
    return SchemaRegistry(server.url, max_retries=0)


def by_confluent(server: SchemaRegistryServer, message: Any) -> bytes:
    client = SchemaRegistryClient({"url": server.url})
    options = {"use.deprecated.format": False, "skip.known.types": True}
    made = ProtobufSerializer(type(message), client, options)(message, VALUE)
    assert made is not None
    return made


def test_what_confluents_serializer_writes_is_read(server: SchemaRegistryServer) -> None:
    raw = by_confluent(server, ORDER(id=1, big=2, state=2))
    newer = by_confluent(server, order(more=True)(id=1, big=2, state=2, more=True))
    assert raw[5:7] == b"\x02\x02"
    made, flaws = read(form(registry=registry(server)), raw, newer, None)
    assert (made.to_pylist(), flaws) == ([PLAIN, PLAIN, None], {})


def test_confluents_deserializer_reads_what_is_written(server: SchemaRegistryServer) -> None:
    kind = schemas.type_of(form())
    target = TopicSink("orders", "long", protobuf(ORDER, registry=registry(server)))
    node = SinkNode("to", ("above",), Shape("stream", kind, kind), output="o", target=target)
    (sink,) = settled.sinks_with_schemas([node], settled.settle([], [node], {}))
    (raw,) = schemas.writer(sink.target.value, kind)(rows_of(ORDER, [PLAIN])).to_pylist()
    found = ProtobufDeserializer(ORDER, {"use.deprecated.format": False})(raw, VALUE)
    assert found == ORDER(id=1, big=2, state=2)
    assert list(server.subjects) == ["orders-value"]


def test_what_is_not_the_message_has_a_reason_with_its_number(server: SchemaRegistryServer) -> None:
    good = by_confluent(server, ORDER(id=1))
    other = by_confluent(server, order(name="Other")(id=1))
    text = by_confluent(server, order(Field.TYPE_STRING)(id="x"))
    unknown = ORDER(id=1)
    unknown.ParseFromString(b"\x40\x07")
    avro = server.add("avro-value", "string")
    raw = [
        other,
        text,
        by_confluent(server, unknown),
        good[:5] + b"\x02\x10" + good[7:],
        good[:5],
        good[:-1],
        b"\0" + avro.to_bytes(4, "big") + good[5:],
        b"\0\0\0\0\x63" + good[5:],
    ]
    made, flaws = read(form(registry=registry(server)), *raw, good)
    assert made.null_count == len(raw)
    expected = [
        "it is of the message shop.Other, not shop.Order",
        "field 1 (id) is of another type there",
        "has no value of number 7",
        "no message of the index [8]",
        "the bytes end within the place of a message",
        "the bytes are no message",
        "AVRO",
        "no schema 99",
    ]
    assert [why in flaws[at] for at, why in enumerate(expected)] == [True] * len(raw)


def test_a_null_that_the_message_cannot_have_is_an_error() -> None:
    with pytest.raises(SinkError, match=r"value\.id is null"):
        written([PLAIN | {"id": None}])
    with pytest.raises(SinkError, match="'GONE' is not a value of shop"):
        written([PLAIN | {"state": "GONE"}])


def test_what_is_no_message_and_what_holds_itself_is_refused() -> None:
    with pytest.raises(TopologyError, match="class of messages"):
        protobuf("Order")
    with pytest.raises(TopologyError, match="holds itself"):
        schemas.type_of(form(struct_pb2.Struct))


def test_a_sink_whose_file_needs_others_is_refused(server: SchemaRegistryServer) -> None:
    needed = descriptor_pb2.FileDescriptorProto(name="base.proto", package="shop", syntax="proto3")
    file = descriptor_pb2.FileDescriptorProto(name="needs.proto", package="shop", syntax="proto3")
    file.dependency.append("base.proto")
    file.message_type.add(name="Empty")
    pool = DescriptorPool()
    pool.Add(needed)
    pool.Add(file)
    made = GetMessageClass(pool.FindMessageTypeByName("shop.Empty"))
    kind = schemas.type_of(form(made))
    target = TopicSink("orders", "long", protobuf(made, registry=registry(server)))
    node = SinkNode("to", ("above",), Shape("stream", kind, kind), output="o", target=target)
    with pytest.raises(ConfigError, match=r"base\.proto"):
        settled.settle([], [node], {})
