"""JSON with a JSON Schema as bytes and back: exact, and never a value that the schema does not take."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator  # type: ignore[import-untyped]
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tests.formats.avro_kit import EPOCH, MICROS
from tests.lengths import examples
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.formats import serde_of, type_of
from watersmeet.errors import SinkError, TopologyError
from watersmeet.io.debezium import debezium
from watersmeet.io.formats import SchemaFormat, SchemaRegistry, json_schema
from watersmeet.io.topics import Topic

ORDER: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "price": {"type": "number"},
        "state": {"enum": ["NEW", "PAID"]},
        "note": {"type": ["null", "string"]},
        "by": {"$ref": "#/definitions/person"},
        "day": {"type": "string", "format": "date"},
        "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer", "connect.type": "int32"}},
    },
    "required": ["id", "state"],
    "definitions": {"person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
TYPE = (
    "struct<id:bigint,price:double,state:string,note:string,by:struct<name:string>,day:date,at:timestamp,"
    "tags:array<string>,counts:map<string,int>>"
)
WITHOUT_LIMITS = ORDER | {"properties": ORDER["properties"] | {"id": {"type": "integer"}}}
ROW = {"id": 1, "state": "NEW"}
FULL = ROW | {
    "price": 1.5,
    "note": "é",
    "by": {"name": "ann"},
    "day": date(2026, 2, 28),
    "at": datetime(2026, 2, 28, 1, 2, 3, 4, UTC),
    "tags": ["a"],
    "counts": [("a", 1)],
}


def form(schema: Any = ORDER, **options: Any) -> SchemaFormat:
    made = Topic("orders", key="long", value=json_schema(schema, **options)).value
    assert isinstance(made, SchemaFormat)
    return made


def read(one: SchemaFormat, *raw: bytes | None) -> tuple[list[Any], dict[int, str]]:
    made, flaws = schemas.reader(one).decode(pa.array(raw, pa.binary()))
    return made.to_pylist(), flaws


def written(one: SchemaFormat, rows: list[Any], kind: DataType | None = None) -> list[bytes | None]:
    kind = schemas.type_of(one) if kind is None else kind
    found: list[bytes | None] = schemas.writer(one, kind)(pa.array(rows, arrow_type(kind))).to_pylist()
    return found


def test_a_schema_is_a_type_and_what_it_refers_to_is_within() -> None:
    assert schemas.type_of(form()).simpleString() == TYPE
    assert schemas.described(form()) == f"json_schema({TYPE})"


LEAVES: dict[DataType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    ByteType(): st.integers(-(2**7), 2**7 - 1),
    ShortType(): st.integers(-(2**15), 2**15 - 1),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32, allow_nan=False, allow_infinity=False),
    DoubleType(): st.floats(allow_nan=False, allow_infinity=False),
    StringType(): st.text(max_size=4),
    BinaryType(): st.binary(max_size=4),
    DateType(): st.dates(),
    TimestampType(): MICROS.map(lambda n: datetime.fromtimestamp(0, UTC) + (n * (EPOCH.resolution))),
}


@st.composite
def kinds(draw: Any, depth: int = 2) -> DataType:
    what = draw(st.sampled_from(["leaf", "leaf", *(["struct", "array", "map"] if depth else [])]))
    if what == "leaf":
        return draw(st.sampled_from(list(LEAVES)))
    if what == "array":
        return ArrayType(draw(kinds(depth - 1)))
    if what == "map":
        return MapType(StringType(), draw(kinds(depth - 1)))
    return StructType([StructField(f"f{n}", draw(kinds(depth - 1))) for n in range(draw(st.integers(0, 3)))])


def values(kind: DataType) -> st.SearchStrategy[Any]:
    if isinstance(kind, StructType):
        return st.fixed_dictionaries({each.name: st.none() | values(each.dataType) for each in kind.fields})
    if isinstance(kind, ArrayType):
        return st.lists(st.none() | values(kind.elementType), max_size=3)
    if isinstance(kind, MapType):
        inner = st.dictionaries(st.text(max_size=3), st.none() | values(kind.valueType), max_size=3)
        return inner.map(lambda made: list(made.items()))
    return LEAVES[kind]


@settings(max_examples=examples(120), deadline=None)
@given(st.data())
def test_a_type_makes_a_schema_that_takes_what_is_written_and_reads_it_to_the_last_digit(data: st.DataObject) -> None:
    kind = data.draw(kinds())
    sink = SchemaFormat("json_schema", None, SchemaRegistry("http://registry"), topic="my.orders", part="value", id=7)  # type: ignore[arg-type]
    text = schemas.written_text(sink, kind)
    source = form(text)
    assert schemas.type_of(source) == kind
    rows = [*data.draw(st.lists(values(kind), max_size=4)), None]
    raw = written(sink, rows, kind)
    bare = [None if each is None else each[5:] for each in raw]
    made, flaws = schemas.reader(source).decode(pa.array(bare, pa.binary()))
    assert not flaws
    assert made.equals(pa.array(rows, arrow_type(kind)))
    for each in bare:
        assert each is None or Draft7Validator(json.loads(text)).is_valid(json.loads(each))


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_what_is_read_without_a_reason_is_what_the_validator_takes_but_for_optional_nulls(data: st.DataObject) -> None:
    anything = st.sampled_from(
        [None, 1, 0, 1.5, "NEW", "x", [], ["a", None], ["a"], {}, {"name": None}, {"a": 1}, True]
    )
    names = ["id", "price", "state", "note", "by", "tags", "counts", "more"]
    row = data.draw(st.dictionaries(st.sampled_from(names), anything))
    optional = {name for name in ("price", "by", "tags", "counts") if row.get(name, 0) is None}
    for validate in (False, True):
        (value,), flaws = read(form(validate=validate), json.dumps(row).encode())
        assert (value is None) == bool(flaws)
        # a property that may be missing may also be null
        judged = row if validate else {name: each for name, each in row.items() if name not in optional}
        assert Draft7Validator(ORDER if validate else WITHOUT_LIMITS).is_valid(judged) == (not flaws)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ({"state": "NEW"}, "value.id has to be there, and not null"),
        ({"id": None, "state": "NEW"}, "value.id has to be there, and not null"),
        ({"id": 1, "state": "GONE"}, "value.state is not in its enum"),
        ({"id": 1.5, "state": "NEW"}, "a bigint is wanted where there is a number"),
        ({"id": 1, "state": "NEW", "price": "NaN"}, "value.price is no number that JSON has"),
        ({"id": 1, "state": "NEW", "by": {}}, "value.by.name has to be there"),
        ({"id": 1, "state": "NEW", "tags": ["a", None]}, "value.tags[] may not be null"),
        ({"id": 1, "state": "NEW", "counts": {"a": None}}, "value.counts[] may not be null"),
        ({"id": 1, "state": "NEW", "counts": {"a": 2**31}}, "a number does not fit into an int"),
        ({"id": 1, "state": "NEW", "day": "yesterday"}, "a date is a string of ISO 8601"),
        (None, "the JSON text null"),
    ],
)
def test_a_text_that_its_schema_does_not_take_has_a_reason(text: Any, why: str) -> None:
    values, flaws = read(form(), json.dumps(text).encode(), json.dumps(ROW).encode())
    assert (values[0], values[1]["id"], list(flaws)) == (None, 1, [0])
    assert why in flaws[0]


def test_all_that_a_schema_says_is_looked_at_only_where_that_is_wanted() -> None:
    low = json.dumps(ROW | {"id": 0}).encode()
    assert read(form(), low)[1] == {}
    assert read(form(validate=True), low, None) == ([None, None], {0: "$.id: 0 is less than the minimum of 1"})
    assert written(form(), [ROW | {"id": 0}])
    with pytest.raises(SinkError, match="less than the minimum"):
        written(form(validate=True), [ROW | {"id": 0}])
    with pytest.raises(TopologyError, match="is not of type"):
        schemas.type_of(form({"type": "integer", "minimum": "one"}, validate=True))


def test_what_is_written_leaves_out_a_null_that_the_schema_does_not_have() -> None:
    raw = written(form(validate=True), [ROW, FULL, None])
    assert raw[0] == b'{"id":1,"state":"NEW","note":null,"at":null}'
    assert raw[2] is None
    assert [{k: v for k, v in row.items() if v is not None} for row in read(form(), *raw[:2])[0]] == [ROW, FULL]


def test_a_value_that_the_schema_does_not_take_is_not_written() -> None:
    with pytest.raises(SinkError, match=r"value\.state is not in its enum"):
        written(form(), [ROW | {"state": "GONE"}])
    with pytest.raises(SinkError, match=r"value\.id has to be there"):
        written(form(), [{"state": "NEW"}])
    with pytest.raises(SinkError, match=r"value\.price is no number"):
        written(form(), [ROW | {"price": float("nan")}])


def test_numbers_may_be_narrower_and_fields_fewer_than_the_schemas() -> None:
    kind = StructType().add("state", StringType()).add("id", IntegerType()).add("price", DecimalType(5, 2))
    assert schemas.misfit(form(), kind) is None
    assert written(form(), [{"id": 1, "state": "NEW", "price": Decimal("1.10")}], kind) == [
        b'{"state":"NEW","id":1,"price":1.10}'
    ]
    assert "no property 'more'" in str(schemas.misfit(form(), kind.add("more", LongType())))
    assert "lacks the property 'id'" in str(schemas.misfit(form(), StructType().add("state", StringType())))
    assert "value.id is bigint" in str(schemas.misfit(form(), StructType().add("state", "string").add("id", "string")))
    with pytest.raises(ValueError, match="interval"):
        schemas.LANGUAGES["json_schema"].schema_for(DayTimeIntervalType(), "x")


def test_an_enum_of_integers_is_looked_at_whatever_else_is_in_it() -> None:
    schema = {"type": ["integer", "null"], "enum": [1, 2**40, 2**70, "x", True, None]}
    assert read(form(schema), b"1", b"2", b"1099511627776")[1] == {1: "value is not in its enum"}
    assert written(form(schema), [1], IntegerType()) == [b"1"]
    with pytest.raises(SinkError, match="not in its enum"):
        written(form(schema), [2], IntegerType())


def of(**property_: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": property_}}


def refused(schema: Any, *texts: str, **options: Any) -> list[str]:
    """The texts that have a reason."""
    flaws = read(form(schema, **options), *(f'{{"a":{each}}}'.encode() for each in texts))[1]
    return [texts[row] for row in sorted(flaws)]


@pytest.mark.parametrize(
    ("schema", "kind", "taken", "others"),
    [
        ({"enum": [1, 2]}, "bigint", ["1", "2.0"], ["3", '"1"', "true"]),
        ({"const": 1}, "bigint", ["1"], ["2"]),
        ({"enum": [1.5, 2]}, "double", ["1.5", "2", "2.0"], ["1"]),
        ({"enum": [1.5, 2, None]}, "double", ["null"], ["1"]),
        ({"enum": [True]}, "boolean", ["true"], ["false", "1"]),
        ({"const": False}, "boolean", ["false"], ["true"]),
        ({"enum": ["x", None]}, "string", ['"x"', "null"], ['"y"']),
        ({"type": "number", "enum": [0.1]}, "double", ["0.1"], ["0.2"]),
        ({"type": "string", "format": "date", "enum": ["2026-01-01"]}, "date", ['"2026-01-01"'], ['"2026-01-02"']),
        ({"type": "integer", "connect.type": "int8", "enum": [1, 300]}, "tinyint", ["1"], ["2"]),
    ],
)
def test_an_enum_or_const_has_the_type_of_its_values_and_takes_no_others(
    schema: Any, kind: str, taken: list[str], others: list[str]
) -> None:
    assert schemas.type_of(form(of(**schema))).simpleString() == f"struct<a:{kind}>"
    for validate in (False, True):
        assert refused(of(**schema), *taken, *others, validate=validate) == others


def test_a_number_without_a_fraction_is_an_integer_however_it_is_written() -> None:
    for validate in (False, True):
        one = form(of(type="integer"), validate=validate)
        texts = (b'{"a":5.0}', b'{"a":1e3}', b'{"a":9007199254740993.0}', b'{"a":0.0}')
        assert read(one, *texts) == ([{"a": n} for n in (5, 1000, 9007199254740993, 0)], {})
        odd = ["5.5", "9007199254740993.5", "1e999999", "9223372036854775808.0", '"5"']
        assert refused(of(type="integer"), *odd, validate=validate) == odd
    assert read(form(of(type="number")), b'{"a":-0.0}', b'{"a":1e3}')[0] == [{"a": -0.0}, {"a": 1000.0}]


@pytest.mark.parametrize(
    ("step", "taken", "others"),
    [
        (0.01, [f"{n // 100}.{n % 100:02}" for n in range(1, 1_001)], ["0.001", "19.995", "1e-999999"]),
        (0.1, ["0.3", "-0.3", "0"], ["0.30000000000000004"]),
        (0.0001, ["0.0075", "1e300"], ["0.00751"]),
        (1e-8, ["12391239123.5"], ["1e-9"]),
        (3, ["3.0", "9e3"], ["1e300", "2"]),
    ],
)
def test_a_multiple_is_one_of_the_numbers_as_they_are_written(step: float, taken: list[str], others: list[str]) -> None:
    assert refused(of(type="number", multipleOf=step), *taken, *others, validate=True) == others


@pytest.mark.parametrize(
    ("pattern", "taken", "others"),
    [
        (r"^\p{L}+$", ["äö", "a"], ["1", ""]),
        (r"^\p{Script=Greek}\P{Lu}$", ["λa"], ["aλ", "λA"]),
        (r"(?<n>a)b", ["xab"], ["b"]),
        (r"^[\w-.]+$", ["a.b-c"], ["a b"]),
        (r"^[a\s-z]$", ["-", "z", "\u00a0"], ["b", "t"]),
        (r"^\s$", [" ", "\v", "\u00a0", "\ufeff", "\u2003"], ["x", "\u200b"]),
        (r"^[^\S]$", [" ", "\u00a0"], ["x", "é"]),
        (r"^[\s\S]$", ["\n", "é", " "], [""]),
        (r"^.$", ["😀", "a"], ["\n", "\r", "\u2028"]),
        (r"^[]a]", [], ["]a]", "a]", ""]),
        (r"^[^]$", ["\n", "]"], [""]),
        (r"^[[:alpha:]]$", ["a]", "[]"], ["a", "b]"]),
        (r"^\u00e4\ud83d\ude00\u{1f600}\x41\cA\0$", ["ä😀😀A\x01\x00"], ["ä"]),
        (r"^[\b]\/\-\ü$", ["\b/-ü"], ["b/-ü"]),
        (r"^\d\w$", ["1a"], ["\u0661a", "1é"]),
        (r"^a$", ["a"], ["a\n"]),
    ],
)
def test_a_pattern_means_what_it_means_in_javascript(pattern: str, taken: list[str], others: list[str]) -> None:
    texts, odd = [json.dumps(each) for each in taken], [json.dumps(each) for each in others]
    assert refused(of(type="string", pattern=pattern), *texts, *odd, validate=True) == odd


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?i)a", "group that JavaScript does not have"),
        (r"(?P<n>a)", "group that JavaScript does not have"),
        (r"\Aa\z", r"has \\A, which"),
        (r"\x{41}", r"has \\x, which"),
        (r"\pL", r"has \\p, which"),
        (r"(?=a)", "cannot be searched in one pass"),
        (r"(?<=a)b", "cannot be searched in one pass"),
        (r"(a)\1", "cannot be searched in one pass"),
        (r"(?<n>a)\k<n>", r"has \\k, which"),
        (r"\p{Letter}", "cannot be searched in one pass"),
    ],
)
def test_a_pattern_that_cannot_be_searched_is_refused_at_the_build(pattern: str, why: str) -> None:
    with pytest.raises(TopologyError, match=why):
        schemas.type_of(form(of(type="string", pattern=pattern), validate=True))


TREE = {"type": "object", "properties": {"left": {"$ref": "#"}}}
LOOP = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (TREE, "# holds itself"),
        (LOOP, "#/[$]defs/a holds itself"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "oneOf is of null and one other schema"),
        ({"anyOf": [{"type": "null"}]}, "anyOf is of null and one other schema"),
        ({"allOf": [{"type": "object"}]}, "the keyword allOf"),
        ({"type": "object", "patternProperties": {}}, "the keyword patternProperties"),
        ({"type": "object"}, "without properties"),
        ({"type": "object", "properties": {"a": True}}, "value.a may be anything"),
        ({"type": "object", "properties": {"a": {}}}, "value.a is of any type"),
        ({"type": ["string", "integer"]}, "one of several types"),
        ({"type": "null"}, "of null alone"),
        ({"type": "strng"}, "no type 'strng'"),
        ({"type": "array"}, "no one schema for its items"),
        ({"type": "array", "items": [{"type": "string"}]}, "no one schema for its items"),
        ({"enum": ["a", 1]}, "one of several types"),
        ({"enum": [True, 1]}, "one of several types"),
        ({"enum": [None]}, "of null alone"),
        ({"enum": [{"a": 1}]}, "without properties"),
        ({"$ref": "other.json"}, "not in the document"),
        ({"$ref": "#/definitions/a"}, "leads nowhere"),
        ({"$ref": "#/definitions/a", "type": "string", "definitions": {}}, "type is not allowed beside a"),
    ],
)
def test_a_schema_without_a_type_is_refused_with_a_hint(schema: Any, why: str) -> None:
    with pytest.raises(TopologyError, match=why) as refused:
        schemas.type_of(form(schema))
    assert "Give a schema of objects" in str(refused.value.hint)


@pytest.mark.parametrize("wrong", [{}, {"schema": "[]"}, {"schema": "string"}, {"schema": "{"}, {"schema": 1}])
def test_a_mistake_in_a_format_is_refused_where_it_is_written(wrong: Any) -> None:
    with pytest.raises(TopologyError, match=r"wm\.json_schema\("):
        json_schema(**wrong)


def test_debeziums_envelopes_may_have_a_json_schema() -> None:
    row = {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"id": {"type": "integer"}}}]}
    envelope = {
        "type": "object",
        "properties": {
            "before": row,
            "after": row,
            "op": {"type": "string"},
            "source": {"type": "object", "properties": {"ts_ms": {"type": "integer"}}},
        },
    }
    one = debezium(json_schema(envelope))
    assert type_of(one).simpleString() == "struct<id:bigint>"
    event = {"before": None, "after": {"id": 7}, "op": "c", "source": {"ts_ms": 5}}
    found = serde_of(one).read(pa.array([json.dumps(event).encode()], pa.binary()))
    assert (found.values.to_pylist(), found.ts.to_pylist()) == ([{"id": 7}], [5])
