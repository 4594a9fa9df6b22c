"""Columns of every type, as a real Debezium wrote them of a real PostgreSQL and a real MariaDB."""

from __future__ import annotations

import datetime as dt
import re
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from dev.debezium.captures import events_of, schemas_of
from dev.jars import ROOT
from watersmeet._worker.formats.avro import other_meaning
from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.formats.serdes import Decoded, Serde
from watersmeet.testing import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")

# -- values that the database did not send -----------------------------------------------------------------

UNSENT = {
    **dict.fromkeys(("c_text", "c_varchar", "c_citext", "c_json", "c_jsonb", "c_xml", "c_tsvector"), "string"),
    "c_bytea": "binary",
    **dict.fromkeys(("a_text", "a_varchar", "a_uuid", "a_jsonb"), "array<string>"),
    "a_bytea": "array<binary>",
    "a_int": "array<int>",
    "a_bigint": "array<long>",
    "a_date": "array<int>",
}
ONLY_NULL = {
    "c_varbit": "binary",
    "c_numeric": "struct<scale int, value binary>",
    "a_numeric": "array<struct<scale int, value binary>>",
    "a_numeric_5_2": "array<binary>",
    "a_boolean": "array<boolean>",
    "a_smallint": "array<int>",
    "a_real": "array<float>",
    "a_double": "array<double>",
    "a_time": "array<long>",
    "a_timestamp": "array<long>",
    "a_timestamptz": "array<timestamp>",
}
FORMS = [
    *((mode, column, kind) for mode in ("json", "schemas") for column, kind in UNSENT.items()),
    ("json", "a_uuid", "array<string>"),
    ("json", "c_hstore", "string"),
    ("hstore_map", "c_hstore", "map<string,string>"),
    ("schemas", "a_date", "array<date>"),
    ("json", "c_bytea", "string"),
    ("json", "a_bytea", "array<string>"),
    ("json", "a_int", "array<long>"),
]


def read(form: Any, capture: str, topic: str) -> tuple[Decoded, list[bytes]]:
    raws = [value for _, _, value in events_of(capture, topic) if value is not None]
    found = serde_of(form).read(pa.array(raws, pa.binary()))
    found.values.validate(full=True)
    return found, raws


@pytest.mark.parametrize(("mode", "column", "kind"), FORMS)
def test_a_value_that_the_database_did_not_send_is_no_value_in_any_form(mode: str, column: str, kind: str) -> None:
    form = wm.debezium(f"id int, n int, {column} {kind}")
    found, raws = read(form, f"postgres.toast.{mode}", "shop.public.large")
    fine = [row and row["n"] for row in found.values.to_pylist()]
    # the snapshot, the insert, the deletes and the row without large values; c_text and c_jsonb were changed, too
    known = {"c_text": [3, 4, 4], "c_jsonb": [4, 4]}.get(column, [])
    assert fine.count(None) == found.bad.sum() + 2
    assert [n for n in fine if n is not None] == [0, 1, *known, 1]
    why = serde_of(form).fault(raws[int(found.bad.argmax())])
    assert why == f"the database did not send the column {column!r} (PostgreSQL: REPLICA IDENTITY FULL)"
    whole, _ = read(form, f"postgres.toast.{mode}", "shop.public.full_rows")
    assert not whole.bad.any()
    assert whole.values.to_pylist()[0][column] == whole.values.to_pylist()[1][column]


# which form it is in is read above; what is stored does not depend on the events' schema
@pytest.mark.parametrize(
    ("mode", "column", "kind"), [each for each in FORMS if each[0] != "schemas" or "date>" in each[2]]
)
def test_a_table_keeps_the_stored_value_where_the_database_did_not_send_one(mode: str, column: str, kind: str) -> None:
    b, topic = wm.StreamsBuilder("stored"), "shop.public.large"
    form = wm.debezium(f"id int, n int, {column} {kind}", unavailable_columns="stored")
    b.table(topic, key=wm.debezium_key("id int"), value=form, on_undecodable="skip").to("rows")
    driver, results = TopologyTestDriver(b.build()), []
    for _, key, event in events_of(f"postgres.toast.{mode}", topic):
        driver.pipe(topic, key, event, ts=0)
        # of arrays each event is a batch
        results += driver.read("rows") if kind.startswith("array") else []
    rows = [(record.key, record.value) for record in results + driver.read("rows")]
    complete, _ = read(form, f"postgres.toast.{mode}", "shop.public.full_rows")
    value = complete.values[0].as_py()[column]
    value = dict(value) if kind.startswith("map") else value
    other = {"c_text": ["u" * 2100, None], "c_jsonb": [value, None]}.get(column, [value, value])
    kept = [value, value, *other]
    assert [(row["n"], row[column]) for key, row in rows if key == 1 and row] == list(enumerate(kept, start=1))
    # under its new key the row is there only if all of it was sent
    new_key = [4] if column in ("c_text", "c_jsonb") else []
    assert [row["n"] for key, row in rows if key == 2 and row] == new_key
    assert sum(driver.drops.values()) == driver.drops.get(("process-" + topic, "undecodable"), 0) == 1 - len(new_key)
    assert [key for key, row in rows if row is None] == [1, 2]


@pytest.mark.parametrize(("column", "kind"), ONLY_NULL.items())
def test_of_some_types_debezium_writes_null_for_what_was_not_sent(column: str, kind: str) -> None:
    found, _ = read(wm.debezium(f"id int, n int, {column} {kind}"), "postgres.toast.json", "shop.public.large")
    rows = [row for row in found.values.to_pylist() if row]
    assert not found.bad.any()
    assert [row[column] is None for row in rows] == [True, False, *(True for _ in rows[2:])]


# -- what the page says ------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "debezium.md").read_text(encoding="utf-8")
AT, DAY = dt.datetime(2020, 3, 29, 2, 30), dt.date(2020, 2, 29)
UUID = "9f0d7b0e-0000-4000-8000-000000000000"
BITS = bytes([1, 0, 0, 0, 0, 0, 0, 0x80])
POINT = {"x": 1.5, "y": 2.5, "wkb": struct.pack("<bIdd", 1, 1, 1.5, 2.5), "srid": None}
JANUARY = dt.datetime(2020, 1, 1)
POSTGRES: dict[str, Any] = {
    **{"c_boolean": True, "c_bit1": True, "c_smallint": -32768, "c_int": -(2**31), "c_bigint": 2**63 - 1},
    **{"c_oid": 2**32 - 1, "c_real": np.float32(0.1), "c_double": 1e300},
    **{"c_numeric_5_2": Decimal("123.45"), "c_price": Decimal("999999.99"), "c_money": Decimal("1234.56")},
    **{"c_numeric_10_0": 42, "c_numeric": "1.5"},
    "c_numeric_50_10": "1234567890123456789012345678901234567890.0123456789",
    **{"c_char": "ab   ", "c_varchar": "vär", "c_text": 'line\n"q"', "c_citext": "MiXed", "c_uuid": UUID},
    **{"c_json": '{"k": 1.0}', "c_jsonb": '{"k": [1.0, null]}', "c_xml": "<a>x</a>", "c_hstore": '{"k":"v","n":null}'},
    **{"c_ltree": "a.b", "c_mood": 'it\'s "fine"', "c_inet": "10.0.0.1/24", "c_cidr": "10.0.0.0/8"},
    **{"c_macaddr": "08:00:2b:01:02:03", "c_macaddr8": "08:00:2b:01:02:03:04:05", "c_tsvector": "'a' 'cat' 'fat'"},
    **{"c_int4range": "[1,5)", "c_int8range": "[1,5)", "c_numrange": "[1.5,2.5)"},
    "c_tsrange": '["2020-01-01 00:00:00","2020-01-02 00:00:00")',
    "c_tstzrange": '["2020-01-01 00:00:00+00","2020-01-02 00:00:00+00")',
    "c_daterange": "[2020-01-01,2020-01-02)",
    **{"c_bytea": b"\x00\xff\x10", "c_bit3": b"\x05", "c_bit64": BITS, "c_varbit": b"\x0d"},
    **{"c_date": DAY, "c_time": 45_296_123_456, "c_time3": 45_296_123, "c_timetz": "10:34:56.123456Z"},
    "c_timestamp": AT.replace(microsecond=123_456),
    **{"c_timestamp3": AT.replace(microsecond=123_000), "c_timestamp0": AT},
    "c_timestamptz": AT.replace(hour=0, microsecond=123_456, tzinfo=dt.UTC),
    **{"c_interval": 37_091_106_700_000, "c_point": POINT},
    **{"a_boolean": [True, None], "a_smallint": [1, None], "a_int": [1, None], "a_bigint": [1, None]},
    **{"a_real": [np.float32(0.1), np.nan], "a_double": [1.5, np.inf], "a_int_int": [None, None]},
    **{"a_numeric_5_2": [Decimal("1.50"), None], "a_numeric": ["1.5", "22.25"], "a_text": ["a", None, 'b "c"']},
    **{"a_varchar": ["v"], "a_char": ["c  "], "a_bytea": [b"\x00\xff", None], "a_date": [JANUARY.date()]},
    **{"a_time": [36_000_000_000], "a_timestamp": [JANUARY.replace(microsecond=500_000)]},
    "a_timestamptz": [dt.datetime(2019, 12, 31, 22, tzinfo=dt.UTC)],
    **{"a_uuid": [UUID], "a_jsonb": ['{"k": 1}'], "a_mood": ["sad", "ok"], "a_inet": ["10.0.0.1"]},
}
GEOMETRIES = ("c_linestring", "c_polygon", "c_geometry", "c_geometrycollection")
MARIADB: dict[str, Any] = {
    **{"c_boolean": 1, "c_tinyint": -128, "c_tinyint_u": 255, "c_smallint": -32768, "c_smallint_u": 65535},
    **{"c_mediumint": -(2**23), "c_mediumint_u": 2**24 - 1, "c_int": -(2**31), "c_int_u": 2**32 - 1},
    **{"c_bigint": -(2**63), "c_bigint_u": -1, "c_int_zerofill": 42, "c_year": 2020},
    **{"c_float": np.float32(0.1), "c_float_7_4": np.float64(np.float32(123.4567)), "c_double": 1e300, "c_real": -1.5},
    **{"c_decimal_5_2": Decimal("123.45"), "c_decimal_10_0": 42, "c_numeric": Decimal("-1.250")},
    "c_decimal_65_30": "12345678901234567890123456789012345.012345678901234567890123456789",
    **{"c_bit1": True, "c_bit3": b"\x05", "c_bit64": BITS, "c_char": "ab", "c_varchar": "vär"},
    **{"c_varchar_latin1": "ä", "c_tinytext": "tiny", "c_text": 'line\n"q"', "c_mediumtext": "medium"},
    **{"c_longtext": "long", "c_enum": 'it\'s "fine"', "c_set": "a,c", "c_json": '{"k": [1.0, null]}'},
    **{"c_binary": b"\x00\xff\x00\x00", "c_varbinary": b"\x00\xff\x10", "c_tinyblob": b"\x01", "c_blob": b"\x02"},
    **{"c_mediumblob": b"\x03", "c_longblob": b"\x04", "c_date": DAY},
    **{"c_time": 45_296_000_000, "c_time3": 45_296_123_000, "c_time6": 45_296_123_456},
    **{
        "c_datetime": AT,
        "c_datetime3": AT.replace(microsecond=123_000),
        "c_datetime6": AT.replace(microsecond=123_456),
    },
    "c_timestamp": AT.replace(tzinfo=dt.UTC),
    "c_timestamp3": AT.replace(microsecond=123_000, tzinfo=dt.UTC),
    "c_timestamp6": AT.replace(microsecond=123_456, tzinfo=dt.UTC),
    "c_point": POINT,
    **dict.fromkeys(GEOMETRIES, ...),
    # Debezium 3.4 reads MariaDB's uuid as it is stored, not as it is shown
    "c_uuid": "00000000-0000-009f-0d7b-0e0000400080",
}
DATABASES = {"postgres": ("shop.public.types", POSTGRES), "mariadb": ("shop.shop.types", MARIADB)}


def columns_of(database: str) -> dict[str, str]:
    """Of the capture's table the type of each column, as its script of SQL has it."""
    script = (ROOT / "dev" / "debezium" / database / "types.sql").read_text(encoding="utf-8")
    body = re.sub(r"--.*", "", script[script.index("create table types") : script.index(");\ninsert")])
    found = re.findall(r"\b([ca]_\w+) ((?:[^,()]|\([^()]*\))+)", body)
    return {name: " ".join(kind.split()).removesuffix(" null") for name, kind in found}


def lines_of(database: str) -> dict[str, tuple[str, str]]:
    """Of each type of a column what the page says to declare: with the schemas of the events, and without."""
    part = PAGE[PAGE.index(f'<a id="{database}-types"></a>') :].split("\n\n")[1]
    found: dict[str, tuple[str, str]] = {}
    for line in part.splitlines()[2:]:
        types, _, whole, bare = (cell.strip() for cell in line.strip("|").split(" | "))
        for kind in re.findall(r"`([^`]+)`", types):
            assert kind not in found, f"two lines have {kind}"
            found[kind] = whole.strip("`"), (bare or whole).strip("`")
    return found


@pytest.mark.parametrize("database", DATABASES)
def test_the_page_has_one_line_for_each_type_of_a_column(database: str) -> None:
    assert set(columns_of(database).values()) == set(lines_of(database))


@pytest.mark.parametrize("mode", ["schemas", "json"])
@pytest.mark.parametrize("database", DATABASES)
def test_a_column_declared_as_the_page_says_has_the_value_that_was_inserted(database: str, mode: str) -> None:
    topic, expected = DATABASES[database]
    declared = {
        name: lines_of(database)[kind][mode == "json"]
        for name, kind in columns_of(database).items()
        if lines_of(database)[kind][0] != "nothing"
    }
    assert set(declared) == set(expected)
    (_, _, raw) = next(each for each in events_of(f"{database}.types.{mode}", topic) if b'"id":1,' in (each[2] or b""))
    form = wm.debezium("id int, " + ", ".join(f"{name} {kind}" for name, kind in declared.items()))
    found = serde_of(form).read(pa.array([raw], pa.binary()))
    assert not found.bad.any(), serde_of(form).fault(raw or b"")
    (row,) = found.values.to_pylist()
    for name, kind in declared.items():
        if mode == "json" and kind != lines_of(database)[columns_of(database)[name]][0]:
            # without its schema it is a number of days or of a unit of time, or digits
            assert type(row[name]) in (int, bytes, dict, list)
        elif expected[name] is ...:
            assert row[name]["wkb"][:1] == b"\x01"
        else:
            np.testing.assert_equal(row[name], expected[name], err_msg=f"{name} {kind}")


@pytest.mark.parametrize(
    ("column", "cure"),
    [
        ("c_money decimal(10,2)", "decimal.handling.mode=string"),
        ("c_numeric decimal(10,2)", "decimal.handling.mode=string"),
        ("c_date date", "declare it as int"),
        ("c_timestamp timestamp", "declare it as long"),
    ],
)
def test_the_reason_names_the_column_and_the_setting_where_the_event_has_no_schema(column: str, cure: str) -> None:
    form, name = wm.debezium(f"id int, {column}"), column.split()[0]
    found, raws = read(form, "postgres.types.json", "shop.public.types")
    why = serde_of(form).fault(raws[int(found.bad.argmax())])
    assert why.startswith(f"after.{name}: ")
    assert cure in why
    assert "schemas.enable=true" in why


INFINITE = ("c_date date", "c_timestamp timestamp_ntz", "c_timestamptz timestamp")


@pytest.mark.parametrize("mode", ["schemas", "connect", "isostring", "microseconds"])
@pytest.mark.parametrize("column", INFINITE)
def test_infinite_times_are_refused_and_those_of_far_years_read_in_each_precision(column: str, mode: str) -> None:
    form, name = wm.debezium(f"id int, {column}"), column.split()[0]
    found, raws = read(form, f"postgres.types.{mode}", "shop.public.types")
    # of rows 2 and 3 the one is infinite, the other minus that
    assert found.bad.tolist() == [n in (2, 3) for n in range(len(raws))]
    assert f"after.{name}: an infinite" in serde_of(form).fault(raws[2])
    # 44 before Christ, 12020 and 1, in seconds since 1970
    seconds = found.values.field(name)[4:7].cast(pa.timestamp("us")).cast(pa.timestamp("s")).view(pa.int64())
    assert seconds.to_pylist() == [-63_517_824_000, 317_147_356_800, -62_135_596_800]


AVRO = {
    "postgres.types.avro": ("shop.public.types", POSTGRES),
    # the converter's own types have milliseconds
    "postgres.types.avro_connect": ("shop.public.types", {}),
    "mariadb.types.avro": ("shop.shop.types", MARIADB),
}


def read_avro(capture: str, topic: str) -> tuple[Decoded, Serde, list[bytes]]:
    """The events of a capture by the schema that the registry has for them."""
    raws = [value for _, _, value in events_of(capture, topic) if value is not None]
    (number,) = {int.from_bytes(raw[1:5], "big") for raw in raws}
    serde, bare = serde_of(wm.debezium(wm.avro(schemas_of(capture)[number]))), [raw[5:] for raw in raws]
    found = serde.read(pa.array(bare, pa.binary()))
    found.values.validate(full=True)
    return found, serde, bare


@pytest.mark.parametrize("capture", AVRO)
def test_events_in_avro_have_the_values_that_were_inserted_by_what_connect_says_of_each_type(capture: str) -> None:
    topic, expected = AVRO[capture]
    found, serde, bare = read_avro(capture, topic)
    row = found.values[1].as_py()
    assert row["id"] == 1
    for name, value in expected.items():
        if value is not ...:
            np.testing.assert_equal(row[name], value, err_msg=name)
    # a precision that Connect does not know is 64 there, and one beyond 38 is text
    kinds = {field.name: field.type for field in found.values.type}
    if "c_money" in kinds:
        assert kinds["c_money"] == pa.decimal128(38, 2)
        assert kinds["c_numeric_50_10"] == kinds["c_numeric"] == pa.string()
        assert found.bad.tolist()[2:4] == [True, True]
        assert serde.fault(bare[2]).startswith("after.c_date: an infinite date")


def test_an_update_without_its_large_values_is_undecodable_in_avro_too() -> None:
    found, serde, bare = read_avro("postgres.toast.avro", "shop.public.large")
    first = int(found.bad.argmax())
    assert "did not send the column 'c_text'" in serde.fault(bare[first])
    assert found.bad.sum() == 4


def test_a_time_of_another_unit_than_the_readers_is_refused_and_one_of_no_unit_is_the_number() -> None:
    def of(kind: str, **more: str) -> dict[str, Any]:
        field = {"name": "at", "type": {"type": kind, **more}}
        return {"type": "record", "name": "Row", "fields": [field]}

    micros, millis = (of("long", **{"connect.name": f"io.debezium.time.{unit}Timestamp"}) for unit in ("Micro", ""))
    assert other_meaning(micros, micros) is None
    assert other_meaning(micros, of("long")) is None
    assert "MicroTimestamp there, and read as io.debezium.time.Timestamp" in str(other_meaning(micros, millis))
    assert "long there, and read as" in str(other_meaning(of("long"), millis))
