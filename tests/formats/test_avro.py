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
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType
from pyspark.sql.types import DayTimeIntervalType as IntervalType

from tests.formats import avro_kit
from tests.lengths import examples
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.avro import WriterSchema, check, names_of, schema_of, type_of_schema, written_schema
from watersmeet._worker.formats.registry import BadSchema, Refused
from watersmeet.errors import SinkError, TopologyError
from watersmeet.io.formats import SchemaFormat, SchemaRegistry, avro

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

REGISTRY = SchemaRegistry("http://registry")


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


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_what_is_written_by_a_schema_is_read_by_it_to_the_last_digit(data: st.DataObject) -> None:
    schema = data.draw(avro_kit.schemas(nullable=False))
    kind = schemas.type_of(form(schema))
    rows = [*data.draw(st.lists(avro_kit.values(schema), max_size=4)), None]
    given_ = pa.array(rows, arrow_type(kind))
    made, flaws = schemas.reader(form(schema)).decode(written(schema, rows))
    assert not flaws
    assert made.equals(given_)


@settings(max_examples=examples(150), deadline=None)
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
    # dates of Arrow reach beyond those of Python
    decoded, flaws = schemas.reader(form(schema)).decode(pa.array([bytes(raw)]))
    whole = schema_of(json.dumps(schema))
    try:
        check(whole, names_of(whole), bytes(raw))
    except Refused:
        assert flaws
    assert decoded.is_valid()[0].as_py() != bool(flaws)


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
    assert read(rows, beyond)[1] == {0: "a: a number does not fit into an int"}


def test_avros_null_is_no_tombstone() -> None:
    assert read(["null", "string"], b"\x00", None, b"\x02\x02a") == (
        [None, None, "a"],
        {0: "Avro's null (a tombstone has no bytes at all)"},
    )


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A schema of records; a field is a name, a type, and where there is one a default."""
    made = [{"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})} for f in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def resolved(written_by: Any, value: Any, read_by: Any) -> Any:
    both = (schema_of(json.dumps(each)) for each in (written_by, read_by))
    return WriterSchema(*both).value(plainly(written_by, value))


INNER = record(("x", "int", 7), ("y", ["null", "string"], None), name="N")
A = record(("a", "int"))


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        (INNER, {}, {"x": 7, "y": None}),
        (INNER, {"x": 1}, {"x": 1, "y": None}),
        ([INNER, "null"], {}, {"x": 7, "y": None}),
        (["null", INNER], None, None),
        ({"type": "array", "items": INNER}, [{}, {"y": "s"}], [{"x": 7, "y": None}, {"x": 7, "y": "s"}]),
        ({"type": "map", "values": INNER}, {"k": {}}, {"k": {"x": 7, "y": None}}),
        (record(("n", INNER, {"x": 2}), name="O"), {}, {"n": {"x": 2, "y": None}}),
        (
            record(("n", INNER), ("m", "N"), name="O"),
            {"n": {}, "m": {"x": 3}},
            {"n": {"x": 7, "y": None}, "m": {"x": 3, "y": None}},
        ),
    ],
)
def test_a_default_is_completed_by_the_defaults_of_what_lies_within_it(kind: Any, default: Any, value: Any) -> None:
    assert resolved(A, {"a": 1}, record(("a", "int"), ("e", kind, default))) == {"a": 1, "e": value}


def test_a_default_that_is_no_value_of_its_schema_is_none() -> None:
    needs = record(("x", "int"), name="N")
    for kind, default in ((needs, {}), ("int", "5"), ("string", None), (["null", "string"], 5), (INNER, {"x": "s"})):
        reader = record(("a", "int"), ("e", kind, default))
        with pytest.raises((Refused, BadSchema), match=r"No default value for field e|must match"):
            resolved(A, {"a": 1}, reader)


def named(name: str, *aliases: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "int", "aliases": list(aliases), **more}


def reader_of(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


AB, ROW_AB = record(("a", "int"), ("b", "int")), {"a": 1, "b": 2}


def test_an_alias_names_a_writers_field_as_avros_java_does() -> None:
    assert resolved(AB, ROW_AB, reader_of(named("c", "b"))) == {"c": 2}
    assert resolved(AB, ROW_AB, reader_of(named("b", "a"), named("a", "b"))) == {"a": 2, "b": 1}
    assert resolved(A, {"a": 1}, reader_of(named("b", "a"), named("a", default=9))) == {"a": 9, "b": 1}
    # Java applies aliases twice
    chain = reader_of(named("a", "b", default=9), named("b", "x", default=8))
    assert resolved(record(("x", "int"), ("c", "int")), {"x": 1, "c": 2}, chain) == {"a": 1, "b": 8}
    # the same schema is read as it is
    same = reader_of(named("a"), named("b", "a"))
    assert resolved(same, ROW_AB, same) == ROW_AB == resolved(AB, ROW_AB, same)
    # and so is one with other aliases of the record
    assert resolved(AB, ROW_AB, {**same, "aliases": ["Old"]}) == ROW_AB


def test_two_fields_of_a_writer_are_never_read_as_one() -> None:
    within = record(("n", record(("a", "int"), ("b", "int"), name="N")))
    alias = {"type": "record", "name": "N", "fields": [named("b", "a")]}
    for writer, value, reader in (
        (AB, ROW_AB, reader_of(named("b", "a"))),
        (AB, ROW_AB, reader_of(named("c", "b", "a"))),
        (AB, ROW_AB, reader_of(named("b", "a"), named("a", default=9))),
        (within, {"n": ROW_AB}, record(("n", alias))),
    ):
        with pytest.raises(Refused, match=r"the fields a and b of [RN] are both read as [bc]"):
            resolved(writer, value, reader)


def test_a_record_of_another_name_is_read_by_its_fields() -> None:
    writer = record(
        ("n", record(("x", "int"), name="w.Inner")), ("e", {"type": "enum", "name": "w.E", "symbols": ["A"]})
    )
    reader = record(
        ("n", ["null", record(("x", "long"), ("y", "int", 7), name="r.Other")]),
        ("e", {"type": "enum", "name": "r.E", "symbols": ["A"]}),
        name="Row",
    )
    assert resolved(writer, {"n": {"x": 1}, "e": "A"}, reader) == {"n": {"x": 1, "y": 7}, "e": "A"}


def test_the_fields_of_an_alias_without_a_namespace_are_those_of_a_record_in_the_readers() -> None:
    reader = {"type": "record", "name": "n.R", "aliases": ["Old"], "fields": [named("b", "a")]}
    assert resolved(record(("a", "int"), name="n.Old"), {"a": 1}, reader) == {"b": 1}
    with pytest.raises(Refused, match="No default value for field b"):
        resolved(record(("a", "int"), name="o.Old"), {"a": 1}, reader)


def test_a_branch_of_another_type_does_not_keep_the_others_from_being_read() -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    writer = record(("at", ["string", millis]))
    assert resolved(writer, {"at": 5}, record(("at", millis))) == {"at": 5}
    with pytest.raises(Refused, match="does not take it"):
        resolved(writer, {"at": "5"}, record(("at", millis)))


def test_a_number_beyond_an_int_is_none_where_it_is_read_as_another_type_or_not_at_all() -> None:
    beyond = plainly("long", 1 << 40)
    for reader in (record(("a", "double")), record(("b", "int", 1))):
        both = (schema_of(json.dumps(each)) for each in (A, reader))
        with pytest.raises(Refused, match="a number does not fit into an int"):
            WriterSchema(*both).value(beyond)


@pytest.mark.parametrize("union", [["null", ["string", "null"]], ["string", {"type": "string"}, "null"]])
def test_a_union_within_a_union_and_a_branch_that_stands_twice_are_refused(union: Any) -> None:
    with pytest.raises(BadSchema, match=r"a union has (another one within it|string twice)"):
        written_schema(json.dumps(record(("a", union))))


def of(**fields: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


@pytest.mark.parametrize(
    "kind",
    [
        of(a=of(b_c=of(x=StringType())), a_b=of(c=of(y=StringType()))),
        of(x=ArrayType(of(p=StringType())), x_item=of(q=StringType())),
        of(x=MapType(StringType(), of(p=StringType())), x_value=of(q=StringType()), x_value_2=of(r=StringType())),
    ],
)
def test_records_within_a_made_schema_have_a_name_each(kind: StructType) -> None:
    text = schemas.written_text(SchemaFormat("avro", None, REGISTRY, topic="t", part="value"), kind)
    assert type_of_schema(schema_of(text)) == kind


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
    sink = SchemaFormat("avro", None, REGISTRY, topic="my.orders", part="value")
    made = json.loads(schemas.written_text(sink, kind))
    assert type_of_schema(made) == kind
    assert made["name"] == "my_orders_value"
    with pytest.raises(BadSchema):
        schemas.written_text(SchemaFormat("avro", None, REGISTRY, topic="t", part="key"), IntervalType())
