"""Kafka Connect's JSON: what Debezium and its flattening write with schemas, and what is like it and is none."""

from __future__ import annotations

import json
from base64 import b64encode
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import watersmeet as wm
from dev.debezium.captures import events_of
from watersmeet._worker.formats.connect import AbsentColumns
from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.formats.serdes import Decoded
from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format
from watersmeet.testing.driver import TopologyTestDriver

CUSTOMERS = "shop.public.customers"
ID, NAME = StructField("id", LongType()), StructField("name", StringType())
ROW = StructType([ID, NAME])
SCHEMA = {"type": "struct", "fields": [{"type": "int64", "field": "id"}, {"type": "string", "field": "name"}]}


def read(form: Format, raws: list[bytes | None]) -> Decoded:
    found = serde_of(form).read(pa.array(raws, pa.binary()))
    found.values.validate(full=True)
    return found


def values(form: Format, raws: list[bytes | None]) -> list[Any]:
    found = read(form, raws)
    assert not found.bad.any(), serde_of(form).fault(raws[int(found.bad.argmax())] or b"")
    return list(found.values.to_pylist())


def fault(kind: DataType, payload: Any, schema: Any = SCHEMA) -> str:
    """Why a text is refused, beside others that are not."""
    form, raw, fine = wm.json(kind), json.dumps({"schema": schema, "payload": payload}).encode(), b"{}"
    assert read(form, [fine, raw, fine]).bad.tolist() == [False, True, False]
    return serde_of(form).fault(raw)


@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_flattened_events_are_the_same_rows_and_deletes_with_their_schemas_and_without(database: str) -> None:
    topic = CUSTOMERS if database == "postgres" else "shop.shop.customers"
    bare, whole = (events_of(f"{database}.changes.{mode}", topic) for mode in ("flat", "flat_schemas"))
    for part, kind in ((1, StructType([ID])), (2, ROW)):
        rows = [values(wm.json(kind), [event[part] for event in events]) for events in (bare, whole)]
        assert rows[0] == rows[1]
        assert all(row is None or row["id"] for row in rows[0])
        # the converter writes a delete as a text that is null, or as a payload that is null
        assert [row is None for row in rows[0]] == [event[part] in (b"null", None) for event in bare]
        assert None in rows[0] or part == 1


def test_envelopes_and_their_keys_are_the_same_rows_with_their_schemas_and_without() -> None:
    bare, whole = (events_of(f"postgres.changes.{mode}", CUSTOMERS) for mode in ("json", "schemas"))
    assert values(wm.debezium(ROW), [each[2] for each in bare]) == values(wm.debezium(ROW), [each[2] for each in whole])
    keys = wm.debezium_key(StructType([ID]))
    assert values(keys, [each[1] for each in bare]) == values(keys, [each[1] for each in whole])


def test_texts_of_several_schemas_stay_in_their_order_beside_texts_without_one_and_nulls() -> None:
    other = {**SCHEMA, "version": 2}
    raws: list[bytes | None] = []
    expected: list[Any] = []
    for n in range(300):
        row = {"id": n, "name": "é" * (n % 3)}
        each = {"schema": (SCHEMA, other, None)[n % 3], "payload": row}
        turned = dict(reversed(each.items()))
        texts = [json.dumps(each), json.dumps(turned), json.dumps(row), "null", json.dumps({**each, "payload": None})]
        raws += [None, *(text.encode() for text in texts)]
        expected += [None, row, row, row, None, None]
    assert values(wm.json(ROW), raws) == expected


def test_simple_values_and_arrays_lie_in_connects_object_too() -> None:
    wrapped = b'{"schema":{"type":"int64","optional":false},"payload":7}'
    assert values(wm.json(LongType()), [wrapped, b"8", b"null"]) == [7, 8, None]
    many = b'{"schema":{"type":"array","items":{"type":"string"}},"payload":["a",null]}'
    assert values(wm.json(ArrayType(StringType())), [many]) == [["a", None]]


def test_what_is_not_quite_connects_object_is_read_as_it_stands() -> None:
    own = StructType([StructField("payload", StructType([ID]))])
    assert values(wm.json(own), [b'{"schema":{"type":"struct"},"payload":{"id":1}}']) == [{"payload": {"id": 1}}]
    nothing = {"id": None, "name": None}
    for text in (
        '{"schema":"v1","payload":{"id":1}}',
        '{"schema":{"type":"order"},"payload":{"id":1}}',
        '{"schema":{"type":"struct"},"payload":{"id":1},"more":1}',
        '{"payload":{"id":1}}',
        '{"schema":{"type":"struct"}}',
    ):
        assert values(wm.json(ROW), [text.encode()]) == [nothing]
    whole = '{"schema":{"type":"struct"},"payload":{"id":1}}'
    for text in (whole[:-1], f"{whole} x", whole.replace(',"pay', ' "pay'), f"{whole[:-1]},}}"):
        assert read(wm.json(ROW), [text.encode()]).bad.all()
    assert read(wm.json(ROW), [b'{"schema":{},"payload":' + b"[" * 100_000]).bad.all()


def test_a_payload_is_read_as_strictly_as_a_text_alone() -> None:
    assert "a bigint is wanted" in fault(ROW, {"id": "1", "name": "a"})
    assert "case-sensitive" in fault(ROW, {"Id": 1, "name": "a"})
    doubled = b'{"schema":{"type":"struct"},"payload":{"id":1,"id":2}}'
    # as of a text alone, the last value counts
    assert serde_of(wm.json(ROW)).read(pa.array([doubled])).values.to_pylist() == [{"id": 2, "name": None}]


def test_a_column_that_the_events_own_schema_has_not_is_a_reason_that_names_it_and_those_that_are_there() -> None:
    misspelt = StructType([ID, StructField("nmae", StringType())])
    reason = fault(misspelt, {"id": 1, "name": "ann"})
    assert "has no column 'nmae'; it has id, name" in reason
    inner = {"type": "struct", "fields": [{**SCHEMA, "field": "who"}]}
    assert "'who.nmae'" in fault(StructType([StructField("who", misspelt)]), {"who": {"id": 1}}, inner)
    raws = [value for _, _, value in events_of("postgres.changes.schemas", CUSTOMERS)]
    serde = serde_of(wm.debezium(misspelt))
    assert "has no column 'after.nmae'; it has id, name, total" in serde.fault(raws[0] or b"")
    assert serde.read(pa.array(raws, pa.binary())).bad.sum() == len([raw for raw in raws if raw])


def test_an_optional_column_that_the_schema_has_and_the_payload_not_is_null() -> None:
    assert values(wm.json(ROW), [json.dumps({"schema": SCHEMA, "payload": {"id": 1}}).encode()]) == [
        {"id": 1, "name": None}
    ]


@pytest.mark.parametrize("mode", ["flat_schemas", "schemas"])
def test_events_from_before_a_column_was_added_are_refused_or_have_null_there(mode: str) -> None:
    kind, raws = (
        StructType([ID, StructField("city", StringType())]),
        [value for _, _, value in events_of(f"postgres.altered.{mode}", CUSTOMERS)],
    )
    make = wm.json if "flat" in mode else wm.debezium
    assert read(make(kind), raws).bad[:2].all()
    assert 'missing_columns="null"' in serde_of(make(kind)).fault(raws[0] or b"")
    rows = [row for row in values(make(kind, missing_columns="null"), raws) if row]
    assert [row["city"] for row in rows][:4] == [None, None, "Oslo", "Oslo"]


@pytest.mark.parametrize("mode", ["json", "schemas"])
def test_change_events_read_as_plain_json_are_refused_and_the_answer_names_wm_debezium(mode: str) -> None:
    for _, _, value in events_of(f"postgres.changes.{mode}", CUSTOMERS):
        if value is not None:
            assert read(wm.json(ROW), [value]).bad.all()
            assert "wm.debezium" in serde_of(wm.json(ROW)).fault(value)
    flat = events_of(f"postgres.changes.flat{'_schemas' if mode == 'schemas' else ''}", CUSTOMERS)[0][2] or b""
    assert "no change event of Debezium's" in serde_of(wm.debezium(ROW)).fault(flat)


def test_an_unknown_way_with_missing_columns_is_refused() -> None:
    with pytest.raises(TopologyError, match="missing_columns='skip'"):
        wm.json(ROW, missing_columns="skip")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="missing_columns"):
        wm.debezium(wm.json(ROW), missing_columns="null")


def logical(name: str, form: str, **parameters: str) -> dict[str, Any]:
    """Connect's schema of a row with one column."""
    column = {"type": form, "field": "x", "name": name, "parameters": parameters}
    return {"type": "struct", "fields": [column]}


def column(kind: DataType) -> StructType:
    return StructType([StructField("x", kind)])


DECIMAL = logical("org.apache.kafka.connect.data.Decimal", "bytes", scale="2")
VARIABLE = logical("io.debezium.data.VariableScaleDecimal", "struct")
MICROS = logical("io.debezium.time.MicroTimestamp", "int64")


@pytest.mark.parametrize(
    ("kind", "schema", "payload", "reason"),
    [
        (DoubleType(), DECIMAL, "MDk=", "declare it as decimal or string; as double with decimal.handling.mode=double"),
        (DecimalType(4, 2), DECIMAL, "MDk=", "x: a number does not fit its decimal type exactly"),
        (DecimalType(4, 1), DECIMAL, "MDk=", "x: a number does not fit its decimal type exactly"),
        (LongType(), DECIMAL, "MDk=", "x: a bigint is wanted"),
        # -26588.24 as bytes, and never 1234 or 12345
        (DecimalType(6, 2), DECIMAL, "1234", "x: a number does not fit its decimal type exactly"),
        (DecimalType(7, 2), DECIMAL, "12345", "x: bytes are a string in base64"),
        (DecimalType(4, 2), DECIMAL, "", "x: there is no byte of a decimal"),
        (
            StringType(),
            VARIABLE,
            {"scale": -2_000_000_000, "value": "AQ=="},
            "x: there is no byte of a decimal, or too",
        ),
        (StringType(), VARIABLE, {"scale": 0, "value": "AQID" * 25_000}, "a decimal, or too many"),
        (StringType(), VARIABLE, {"scale": 0, "value": ""}, "x: there is no byte"),
        (DateType(), MICROS, 1, "x is io.debezium.time.MicroTimestamp: declare it as timestamp"),
        (TimestampType(), logical("io.debezium.time.MicroTime", "int64"), 1, "MicroTime: declare it as bigint"),
        (TimestampType(), logical("", "int64"), 1, "x is int64: declare it as bigint"),
        (DecimalType(4, 2), logical("", "bytes"), "MDk=", "x is bytes: declare it as binary"),
        (TimestampType(), logical("io.debezium.time.Timestamp", "int64"), 1 << 62, "declare it as long"),
    ],
)
def test_a_column_of_another_logical_type_is_a_reason_that_names_it_and_the_cure(
    kind: DataType, schema: Any, payload: Any, reason: str
) -> None:
    assert reason in fault(column(kind), {"x": payload}, schema)
    # a null is null as any type
    assert values(wm.json(column(kind)), [json.dumps({"schema": schema, "payload": {"x": None}}).encode()]) == [
        {"x": None}
    ]


def test_decimals_are_exact_as_bytes_and_as_numbers_beside_each_other() -> None:
    numbers = ["123.45", "-0.01", "0.00", f"{'9' * 36}.99"]
    raws: list[bytes | None] = []
    for number in numbers:
        digits = int(number.replace(".", ""))
        coded = b64encode(digits.to_bytes(digits.bit_length() // 8 + 1, "big", signed=True)).decode()
        # of the converter's setting decimal.format BASE64 and NUMERIC
        raws += [f'{{"schema":{json.dumps(DECIMAL)},"payload":{{"x":{x}}}}}'.encode() for x in (f'"{coded}"', number)]
    read_as = [row["x"] for row in values(wm.json(column(DecimalType(38, 2))), raws)]
    assert read_as == [Decimal(number) for number in numbers for _ in range(2)]
    assert [row["x"] for row in values(wm.json(column(StringType())), raws[::2])] == numbers


def report(form: Format, raws: list[bytes | None]) -> Any:
    texts = pa.array(raws, pa.binary())
    serde: Any = serde_of(form)
    return serde.absent(serde.read(texts).values, texts)


MISSPELT = StructType([ID, StructField("nmae", StringType())])


def test_a_report_has_the_columns_that_no_record_has_and_the_names_that_are_there_instead() -> None:
    rows = [json.dumps({"id": n, "name": "a", "city": None}).encode() for n in range(3)]
    assert report(wm.json(MISSPELT), [*rows, None, b"null"]) == (4, ["nmae"], ["name", "city"])
    # null is there, and what a record has with its schema says the schema
    assert report(wm.json(MISSPELT), [*rows, b'{"nmae":null}'])[1] == []
    wrapped = json.dumps({"schema": SCHEMA, "payload": {"id": 1}}).encode()
    assert report(wm.json(ROW), [wrapped])[0] == 0
    events = [value for _, _, value in events_of("postgres.changes.json", CUSTOMERS)]
    assert report(wm.debezium(MISSPELT), events)[1:] == (["nmae"], ["name", "total"])
    assert report(wm.debezium(ROW), events)[1:] == ((), ())
    assert report(wm.json(LongType()), [b"1"]) is None


def test_reports_of_many_tasks_are_one_warning_of_the_columns_that_all_of_them_lack() -> None:
    absent = AbsentColumns()
    for each in ((3, ["a", "b"], ["c"]), (0, [], []), (2, ["b", "d"], ["e"])):
        absent.add(each)
    what, cure = absent.warning("orders", "value") or ("", "")
    assert what.startswith("No value of the first 5 of 'orders' has 'b', which its format names. ")
    assert "c, e" in what
    assert "case-sensitive" in cure
    assert absent.warning("orders", "value") is None
    absent.add((1, ["b"], ["c"]))
    assert absent.warning("orders", "value") is None


def test_no_warning_comes_where_a_column_is_there_later_or_no_other_name_is() -> None:
    later, bare = AbsentColumns(), AbsentColumns()
    later.add((5, ["a"], ["b"]))
    later.add((5, [], []))
    bare.add((5, ["a"], []))
    assert later.warning("orders", "value") is bare.warning("orders", "value") is None


def test_the_test_driver_warns_once_of_a_misspelt_column_of_the_bytes_that_it_is_given(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("customers")
    builder.stream("in", key="string", value=wm.json("id long, nmae string")).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", b'{"id":1,"name":"ann"}', ts=1)
        with pytest.warns(UserWarning, match="No value of the first 1 of 'in' has 'nmae'.*name"):
            driver.read("out")
        driver.pipe("in", "k", b'{"id":1,"name":"ann"}', ts=1)
        driver.read("out")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "struct", "fields": 5},
        {"type": "struct", "fields": [5, {"field": ["x"]}, {"field": "x", "type": "int64"}]},
        {"type": "struct", "fields": [{"field": "x"}]},
        {"type": "struct", "fields": [{"field": "x", "type": 7, "name": 7}]},
        logical("org.apache.kafka.connect.data.Decimal", "bytes"),
        logical("org.apache.kafka.connect.data.Decimal", "bytes", scale="two"),
        logical("org.apache.kafka.connect.data.Decimal", "struct", scale="9" * 5_000),
        logical("org.apache.kafka.connect.data.Decimal", "array", scale="2"),
        logical("io.debezium.time.Date", "array"),
        {"type": "struct", "fields": [{"field": "x", "type": "array", "items": "int64"}]},
        {"type": "struct", "fields": [{"field": "x", "type": ["null"], "parameters": []}]},
    ],
)
def test_a_schema_of_any_other_form_gives_no_value_that_is_another_and_no_error(schema: Any) -> None:
    for kind in (DecimalType(4, 2), DateType(), LongType(), DoubleType(), StringType(), ArrayType(DateType()), ROW):
        for payload in ({"x": "MDk="}, {"x": ["a"]}, {"x": {"id": 5}}, {"x": None}, 7):
            raw = json.dumps({"schema": schema, "payload": payload}).encode()
            found = read(wm.json(column(kind)), [raw, b"{}"])
            assert not found.bad[1]
            if found.bad[0]:
                assert serde_of(wm.json(column(kind))).fault(raw)
