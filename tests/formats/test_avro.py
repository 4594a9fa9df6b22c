"""Avro values as bytes and back: exact, and never a value where the bytes are none."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DayTimeIntervalType as IntervalType

from tests.formats import avro_kit
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.avro.strict import check
from watersmeet._worker.formats.avro.types import names_of, schema_of, type_of_schema
from watersmeet._worker.formats.registered.language import BadSchema, Refused
from watersmeet.errors import SinkError, TopologyError
from watersmeet.io.schema_formats import SchemaFormat, avro

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "rush", "type": "boolean"},
    ],
}


def form(schema: Any) -> SchemaFormat:
    made = avro(schema)
    assert isinstance(made, SchemaFormat)
    return made


def written(schema: Any, rows: list[Any]) -> pa.Array:
    kind = schemas.type_of(form(schema))
    return schemas.writer(form(schema), kind)(pa.array(rows, arrow_type(kind)))


def read(schema: Any, *raw: bytes | None) -> tuple[list[Any], dict[int, str]]:
    made, flaws = schemas.reader(form(schema)).decode(pa.array(raw, pa.binary()))
    return made.to_pylist(), flaws


def plainly(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_written_by_a_schema_is_read_by_it_to_the_last_digit(data: st.DataObject) -> None:
    schema = data.draw(avro_kit.schemas(nullable=False))
    kind = schemas.type_of(form(schema))
    rows = [*data.draw(st.lists(avro_kit.values(schema), max_size=4)), None]
    given_ = pa.array(rows, arrow_type(kind))
    made, flaws = schemas.reader(form(schema)).decode(written(schema, rows))
    assert not flaws
    assert made.equals(given_)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_broken_bytes_have_a_reason_or_are_to_the_letter_a_value(data: st.DataObject) -> None:
    schema = data.draw(avro_kit.schemas(nullable=False))
    raw = bytearray(written(schema, [data.draw(avro_kit.values(schema))])[0].as_py())
    assume(raw)
    how = data.draw(st.sampled_from(["cut", "flip", "more", "noise"]))
    at = data.draw(st.integers(0, len(raw) - 1))
    if how == "cut":
        raw = raw[:at]
    elif how == "flip":
        raw[at] ^= data.draw(st.integers(1, 255))
    elif how == "more":
        raw += data.draw(st.binary(min_size=1, max_size=3))
    else:
        raw = bytearray(data.draw(st.binary(max_size=12)))
    made, flaws = read(schema, bytes(raw))
    whole = schema_of(json.dumps(schema))
    try:
        check(whole, names_of(whole), bytes(raw))
    except Refused:
        assert flaws
    assert (made[0] is None) == bool(flaws)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x02\x01\x00\x01", "State has no symbol of number -1"),
        (b"\x02\x04\x00\x01", "State has no symbol of number 2"),
        (b"\x02\x00\x01\x01", "a union has no branch of number -1"),
        (b"\x02\x00\x00\x07", "a boolean is 0 or 1"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00\x01", "a number has more than 64 bits"),
        (b"\x02\x00\x02\x04a", "the bytes end within a value"),
        (b"\x02\x00\x02\x02\xff\x01", "a string is not valid UTF-8"),
        (b"\x02\x00\x00\x01\x00", "1 bytes behind the value"),
        (b"", "the bytes end within a value"),
    ],
)
def test_bytes_that_are_no_value_have_a_reason(raw: bytes, reason: str) -> None:
    assert read(ORDER, raw) == ([None], {0: reason})


def test_blocks_with_their_size_are_read_and_keys_that_stand_twice_are_not() -> None:
    array, mapping = {"type": "array", "items": "int"}, {"type": "map", "values": "int"}
    assert read(array, b"\x03\x04\x02\x04\x00") == ([[1, 2]], {})
    assert read(array, b"\x03\x06\x02\x04\x00")[1] != {}
    assert read(mapping, b"\x04\x02a\x02\x02a\x04\x00") == ([None], {0: "a map has a key twice"})


def test_what_is_beyond_its_type_is_refused_and_never_rounded() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    rows = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
    assert read(decimal, plainly("bytes", b"\x03\xe8")) == ([None], {0: "a decimal has more than 3 digits"})
    assert read(millis, plainly("long", 2**62)) == ([None], {0: "a timestamp is beyond its range"})
    beyond = b"\x04\x02" + plainly("long", 2**31) + b"\x00"
    assert read(rows, beyond)[1] == {0: "a number does not fit into an int"}


def test_avros_null_is_no_tombstone() -> None:
    assert read(["null", "string"], b"\x00", None, b"\x02\x02a") == (
        [None, None, "a"],
        {0: "Avro's null (a tombstone has no bytes at all)"},
    )


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}, "holds itself"),
        (["null", "string", "long"], "a union is of null and one other type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "at most 38 digits"),
        ({"type": "array", "items": "null"}, "nothing limits their number"),
        ("null", "no values of null alone"),
        ("Unknown", "Unknown"),
    ],
)
def test_a_schema_without_a_type_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(TopologyError, match=why):
        schemas.type_of(form(schema))


def test_what_cannot_be_written_is_an_error_that_names_it() -> None:
    row = {"id": 1, "state": "NEW", "note": None, "rush": True}
    with pytest.raises(SinkError, match=r"value\.id is null"):
        written(ORDER, [row | {"id": None}])
    with pytest.raises(SinkError, match=r"'GONE' is not a symbol of State"):
        written(ORDER, [row | {"state": "GONE"}])
    with pytest.raises(SinkError, match="beyond milliseconds"):
        written({"type": "long", "logicalType": "timestamp-millis"}, [1_001])


def test_a_type_makes_a_schema_of_that_type() -> None:
    kind = schemas.type_of(form(ORDER))
    sink = SchemaFormat("avro", None, "registry", topic="my.orders", part="value")
    made = json.loads(schemas.written_text(sink, kind))
    assert type_of_schema(made) == kind
    assert made["name"] == "my_orders_value"
    with pytest.raises(BadSchema):
        schemas.written_text(SchemaFormat("avro", None, "registry", topic="t", part="key"), IntervalType())
