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
from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.registry import SchemaRegistryServer
from tests.lengths import examples
from watersmeet._plan.nodes import Shape, SinkNode
from watersmeet._spark import formats
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import ConfigError, SinkError, TopologyError
from watersmeet.io.formats import SchemaFormat, SchemaRegistry, protobuf
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


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ROWS | st.none(), max_size=3))
def test_what_is_written_is_read_to_the_last_digit(rows: list[Any]) -> None:
    made, flaws = read(form(), *written(rows).to_pylist())
    assert not flaws
    assert made.equals(rows_of(ORDER, rows))


@settings(max_examples=examples(100), deadline=None)
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
    (sink,) = formats.sinks_with_schemas([node], formats.fix_schemas([], [node], {}))
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


def paid_by() -> Any:
    """The class of a message with a oneof, and another within a field that may be absent."""
    file = descriptor_pb2.FileDescriptorProto(name="paid.proto", package="shop", syntax="proto3")
    made = file.message_type.add(name="Paid")
    field(made, 1, "id", Field.TYPE_INT64)
    made.oneof_decl.add(name="means")
    for number, (name, kind) in enumerate((("card", Field.TYPE_STRING), ("cents", Field.TYPE_INT64)), 2):
        field(made, number, name, kind)
        made.field[-1].oneof_index = 0
    field(made, 4, "note", Field.TYPE_STRING, optional=True)
    field(made, 5, "before", Field.TYPE_MESSAGE, ".shop.Paid.Before")
    before = made.nested_type.add(name="Before")
    before.oneof_decl.add(name="way")
    for number, name in enumerate(("x", "y"), 1):
        field(before, number, name, Field.TYPE_INT32)
        before.field[-1].oneof_index = 0
    return message_class(file, "shop.Paid")


def test_two_fields_of_a_oneof_are_an_error_as_they_are_to_protobufs_own_readers_of_json() -> None:
    message = paid_by()
    write = schemas.writer(form(message), schemas.type_of(form(message)))
    plain = {"id": 1, "card": None, "cents": None, "note": "n", "before": None}
    right = [plain, plain | {"card": ""}, plain | {"cents": 0, "before": {"x": 0, "y": None}}, None]
    assert read(form(message), *write(rows_of(message, right)).to_pylist())[0].to_pylist() == right
    for wrong, why in (
        ({"card": "", "cents": 0}, r"value: the oneof means has card and cents, and may have one of them"),
        ({"before": {"x": 0, "y": 1}}, r"value\.before: the oneof way has x and y"),
    ):
        with pytest.raises(SinkError, match=why):
            write(rows_of(message, [plain, plain | wrong]))
    with pytest.raises(ParseError):
        Parse('{"id":"1","card":"","cents":"0"}', message())


def test_of_two_fields_of_a_oneof_the_last_on_the_wire_is_read() -> None:
    message = paid_by()
    card, cents = message(card="c").SerializeToString(), message(cents=5).SerializeToString()
    for raw, found in ((card + cents, (None, 5)), (cents + card, ("c", None))):
        (value,) = read(form(message), raw)[0].to_pylist()
        assert (value["card"], value["cents"]) == found


def odd(syntax: str) -> Any:
    """The class of a message of texts, a map of texts, and an enum of which a number has two names."""
    file = descriptor_pb2.FileDescriptorProto(name="odd.proto", package="shop", syntax=syntax)
    made = file.message_type.add(name="Odd")
    field(made, 1, "text", Field.TYPE_STRING)
    entry = made.nested_type.add(name="TextsEntry")
    entry.options.map_entry = True
    field(entry, 1, "key", Field.TYPE_STRING)
    field(entry, 2, "value", Field.TYPE_INT32)
    field(made, 2, "texts", Field.TYPE_MESSAGE, ".shop.Odd.TextsEntry", many=True)
    state = made.enum_type.add(name="State")
    state.options.allow_alias = True
    for name, number in (("ZERO", 0), ("FIRST", 1), ("SECOND", 1)):
        state.value.add(name=name, number=number)
    field(made, 3, "state", Field.TYPE_ENUM, ".shop.Odd.State")
    return message_class(file, "shop.Odd")


def test_of_two_names_of_a_number_the_first_is_read() -> None:
    made, flaws = read(form(odd("proto3")), b"\x18\x01")
    assert (made[0]["state"].as_py(), flaws) == ("FIRST", {})


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x0a\x01\xff", "a string is not valid UTF-8"),
        (b"\x12\x03\x0a\x01\xff", "a string is not valid UTF-8"),
        # a map drops an entry with a third field
        (b"\x12\x07\x0a\x01a\x10\x01\x18\x01", "an entry of a map has more than a key and a value"),
        (b"\x23\x00\x00\x24", "a tag is zero"),
    ],
)
def test_what_protobuf_sets_aside_has_a_reason(raw: bytes, why: str) -> None:
    good = b"\x0a\x01a\x28\x01\x33\x08\x01\x34"
    made, flaws = read(form(odd("proto2")), good, raw, good)
    assert [each["text"] for each in made.to_pylist() if each] == ["a", "a"]
    assert [*flaws] == [1]
    assert why in flaws[1]


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
        formats.fix_schemas([], [node], {})
