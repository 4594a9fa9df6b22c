"""Tables in databases without Spark: addresses, columns, the last change of each key, SQLite's and Postgres' own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.databases.kit import Place, all_rows
from tests.lengths import examples
from watersmeet._engine import row_sizes
from watersmeet._engine.database_rows import columns_of, last_changes
from watersmeet._worker.databases import DIALECTS, Database, LastChanges, Mark
from watersmeet.errors import ConfigError, SinkError, TopologyError, WatersmeetError

FILE = "sqlite:////data/x.db"
WINDOWED = pa.struct([("key", pa.string()), ("start", pa.int64()), ("end", pa.int64())])
VALUE = pa.struct([("total", pa.float64()), ("parts", pa.list_(pa.int64()))])


def names(target: wm.DatabaseTable, key: pa.DataType, value: pa.DataType) -> list[str]:
    return [column.name for column in columns_of(target, key, value)]


def test_columns_are_the_fields_of_key_and_value_or_are_called_as_one_says() -> None:
    table = wm.DatabaseTable(FILE, table="t")
    assert names(table, pa.int64(), pa.string()) == ["key", "value"]
    assert names(table, WINDOWED, VALUE) == ["key", "start", "end", "total", "parts"]
    named = wm.DatabaseTable(FILE, table="t", key=["user", "starts", "ends"], value="content")
    assert names(named, WINDOWED, VALUE) == ["user", "starts", "ends", "content"]
    inner = pa.struct([("key", pa.struct([("a", pa.int32()), ("b", pa.date32())])), ("start", pa.int64())])
    assert names(table, inner, VALUE) == ["a", "b", "start", "total", "parts"]


@pytest.mark.parametrize(
    ("options", "key", "value", "what"),
    [
        ({}, pa.float64(), VALUE, "equal values would differ"),
        ({}, pa.list_(pa.int64()), VALUE, "equal values would differ"),
        ({}, pa.int64(), pa.struct([("KEY", pa.int64())]), "(?s)Two columns.*of key and of value.KEY"),
        ({"key": "total"}, pa.int64(), VALUE, 'Hint: Name the key\'s columns: key="total_key"'),
        ({"key": ("a", "b")}, WINDOWED, VALUE, "the key has 3 columns"),
        ({}, pa.int64(), pa.struct([("took", pa.duration("us"))]), "databases have no type for it"),
    ],
)
def test_what_no_table_could_hold_is_refused(options: Any, key: pa.DataType, value: pa.DataType, what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        columns_of(wm.DatabaseTable(FILE, table="t", **options), key, value)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (
            lambda: wm.DatabaseTable("mysql://ann:canary@db/shop", table="t"),
            "cannot write to the database of this address",
        ),
        (lambda: wm.DatabaseTable("sqlite://", table="t"), "SQLite needs a file"),
        (lambda: wm.DatabaseTable("sqlite:///:memory:", table="t"), "SQLite needs a file"),
        (lambda: wm.DatabaseTable("postgresql://ann:can:ary/x@db:canary/shop", table="t"), "its port is not a number"),
        (lambda: wm.DatabaseTable("postgresql://ann:12/canary@db/shop", table="t"), "cannot be parsed"),
        (lambda: wm.DatabaseTable("postgresql://ann:12#canary@db/shop", table="t"), "cannot be parsed"),
        (lambda: wm.DatabaseTable(FILE, table="main.t"), "cannot be the name of a table"),
        (lambda: wm.DatabaseTable(FILE, table="t; drop table t"), "cannot be the name of a table"),
        (lambda: wm.DatabaseTable(FILE, table="Watersmeet_Batches"), "is reserved"),
        (lambda: wm.DatabaseTable("postgresql://h/shop", table="s.watersmeet_batches"), "is reserved"),
        (lambda: wm.CatalogTable("lake..t"), "cannot be the name of a table"),
        (lambda: wm.CatalogTable("lake.t", key=""), "column's name must be a text"),
        (lambda: wm.DatabaseTable("postgresql://h/shop", table="t", key="x" * 64), "at most 63 bytes"),
        (lambda: wm.DatabaseTable(FILE, table="t", value=""), "column's name must be a text"),
    ],
)
def test_a_table_that_cannot_be_is_refused_where_it_is_named_and_shows_no_password(
    make: Callable[[], Any], what: str
) -> None:
    with pytest.raises(WatersmeetError, match=what) as refused:
        make()
    assert "canary" not in str(refused.value)


def test_an_address_is_taken_apart_and_its_secrets_are_not_shown() -> None:
    table = wm.DatabaseTable("postgresql://ann:c%40na@ry@[::1]:5433/shop?sslmode=require&sslpassword=canary", table="t")
    assert table.connection == {
        **{"user": "ann", "password": "c@na@ry", "host": "::1", "port": "5433", "dbname": "shop"},
        **{"sslmode": "require", "sslpassword": "canary"},
    }
    assert repr(table) == "DatabaseTable('postgresql://[::1]:5433/shop', table='t')"
    assert repr(wm.CatalogTable("lake.shop.t", key="id")) == "CatalogTable('lake.shop.t')"
    assert wm.DatabaseTable("sqlite:////data/../x.db", table="t").file == "/x.db"


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.text("ab", max_size=1)), max_size=20)), st.booleans())
def test_the_last_changes_are_those_of_a_dictionary(pieces: list[list[tuple[int, str]]], many: bool) -> None:
    times = 3_000 if many else 1
    rows = [(*row, number) for number, row in enumerate(row for piece in pieces for row in piece * times)]
    batches, at = [], 0
    for piece in pieces:
        part, at = rows[at : at + len(piece) * times], at + len(piece) * times
        columns = [list(column) for column in zip(*part, strict=True)] or [[], [], []]
        types = [pa.int64(), pa.string(), pa.int64()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(arrays, names=["a", "b", "n"]))
    found = last_changes(batches, ["a", "b"])
    assert (found is None) == (not rows)
    wanted = {(a, b): n for a, b, n in rows}
    if found is not None:
        assert found.column("n").to_pylist() == sorted(wanted.values())


def test_each_dialect_changes_the_rows_of_keys_and_inserts_others() -> None:
    both = columns_of(wm.DatabaseTable(FILE, table="t"), WINDOWED, pa.struct([('a"`', pa.float64())]))
    texts = {
        name: (sql.statement(sql.upsert, "t", both), sql.statement(sql.upsert, "t", both[:3]))
        for name, sql in DIALECTS.items()
    }
    insert = 'INSERT INTO t ("key", "start", "end", "a""`") '
    assert texts["sqlite"] == (
        f'{insert}VALUES (?, ?, ?, ?) ON CONFLICT ("key", "start", "end") DO UPDATE SET "a""`" = excluded."a""`"',
        'INSERT INTO t ("key", "start", "end") VALUES (?, ?, ?) ON CONFLICT ("key", "start", "end") DO NOTHING',
    )
    arrays = "%b::text[], %b::bigint[], %b::bigint[]"
    assert texts["postgresql"][0] == (
        f"{insert}SELECT * FROM unnest({arrays}, %b::double precision[]) g"
        ' ON CONFLICT ("key", "start", "end") DO UPDATE SET "a""`" = excluded."a""`"'
    )
    same = "t.`key` <=> c.c0 AND t.`start` <=> c.c1 AND t.`end` <=> c.c2"
    merge = f"MERGE INTO t t USING watersmeet_changes c ON {same} WHEN MATCHED AND c.deleted THEN DELETE"
    names, values = "`key`, `start`, `end`", "c.c0, c.c1, c.c2"
    assert texts["spark"] == (
        f'{merge} WHEN MATCHED THEN UPDATE SET t.`a"``` = c.c3 WHEN NOT MATCHED AND NOT c.deleted THEN'
        f' INSERT ({names}, `a"```) VALUES ({values}, c.c3)',
        f"{merge} WHEN NOT MATCHED AND NOT c.deleted THEN INSERT ({names}) VALUES ({values})",
    )


def database(target: wm.DatabaseTable, key: pa.DataType, value: pa.DataType) -> Database:
    return Database(target, columns_of(target, key, value))


def written(made: Database, rows: list[tuple[Any, Any]], key: pa.DataType, value: pa.DataType) -> None:
    keys, values = (
        pa.array(list(part), kind) for part, kind in zip(zip(*rows, strict=True), (key, value), strict=True)
    )
    given = pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])
    told = LastChanges(made.columns, made.target.dialect, 0)(iter([given]))
    pieces = [row_sizes.decode(batch.column("changes")[0].as_py()) for batch in told]
    with made.transaction() as transaction:
        transaction.prepare()
        for piece in pieces:
            transaction.apply(piece)
        transaction.commit()


def test_values_of_every_type_are_kept_and_taken_back_by_a_null(place: Place) -> None:
    key = pa.struct([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    kinds = {
        **{"f": pa.float64(), "g": pa.float32(), "m": pa.decimal128(20, 5), "b": pa.binary(), "ok": pa.bool_()},
        **{"tiny": pa.int8(), "day": pa.date32(), "moment": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")},
        **{"items": pa.list_(pa.int64()), "deep": pa.struct([("q\"'%s", pa.string())])},
    }
    value = pa.struct(list(kinds.items()))
    row = {
        **{"f": float("-inf"), "g": 1.5, "m": Decimal("12345.67890"), "b": b"\0\1", "ok": True, "tiny": -3},
        **{"day": date(1500, 2, 28), "moment": datetime(1999, 1, 1, tzinfo=UTC)},
        **{"local": datetime(2020, 5, 5, 1, 2, 3, 4), "items": [1, None], "deep": {"q\"'%s": "é"}},
    }
    at = datetime(2000, 1, 1, tzinfo=UTC)
    keys = [{"id": n, "name": name, "at": at} for n, name in ((1, "x"), (2, "y'\"%"), (3, ""), (2**62, "x"))]
    made = database(place.table("all_types", create=True), key, value)
    rows = [(keys[0], dict.fromkeys(kinds)), (keys[1], row), (keys[2], row), (keys[0], row), (keys[3], None)]
    written(made, rows, key, value)
    written(made, [(keys[2], None), (keys[1], dict.fromkeys(kinds)), (keys[3], row)], key, value)
    found = {kept["id"]: kept for kept in all_rows(place, "all_types")}
    assert sorted(found) == [1, 2, 2**62]
    assert [found[2][name] for name in ("name", *kinds)] == ["y'\"%", *[None] * len(kinds)]
    if place.dialect == "postgresql":
        assert {name: found[1][name] for name in kinds} == row
        return
    texts = {"m": "12345.67890", "day": "1500-02-28", "moment": "1999-01-01 00:00:00.000000Z", "items": "[1,null]"}
    texts |= {"local": "2020-05-05 01:02:03.000004", "deep": '{"q\\"\'%s":"é"}', "ok": 1}
    assert {name: found[1][name] for name in kinds} == {**row, **texts}


def test_what_is_no_number_stays_so(place: Place) -> None:
    made = database(place.table("nan", create=True), pa.int64(), pa.float64())
    written(made, [(1, float("nan")), (2, 0.5), (3, None)], pa.int64(), pa.float64())
    assert [str(row["value"]).lower() for row in all_rows(place, "nan")] == ["nan", "0.5"]


@pytest.mark.parametrize("key", [{"a": 1, "b": None}, None])
def test_a_key_without_a_value_is_refused(place: Place, key: Any) -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    made = database(place.table("no_key", create=True), kind, pa.int64())
    with pytest.raises(SinkError, match="of a database table has no value"):
        written(made, [(key, 1)], kind, pa.int64())


COLUMNS = pa.struct([("total", pa.decimal128(8, 2)), ("note", pa.string())])


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("", r"(?s)Unknown table.*create=True\). Or create it: CREATE TABLE \"made\" \(\"key\" "),
        ("key bigint primary key, total decimal(8,2)", r"note \(text\) is missing"),
        ("key bigint primary key, total boolean, note text", r"(?i)total is boolean, and the topology writes"),
        ("key bigint primary key, total text, note bigint", r"(?i)note is bigint, and the topology writes text"),
        ("key bigint primary key, total text, note text, more int not null", "more must not be null"),
        ("key bigint, total text, note text", r"(?s)two rows of one key.*CREATE UNIQUE INDEX ON it \(\"key\"\)"),
        ("key bigint, total text, note text, primary key (key, note)", "two rows of one key"),
    ],
)
def test_a_table_of_other_columns_is_refused_with_the_difference(place: Place, columns: str, what: str) -> None:
    if columns:
        # SQLite keeps decimals as text
        kind = "text" if place.dialect == "sqlite" else "numeric(9,2)"
        place.execute(f"CREATE TABLE made ({columns.replace('total text', f'total {kind}')})")
    made = database(place.table("made"), pa.int64(), COLUMNS)
    what = what.replace("text", "(?:text|TEXT)") if "missing" in what or "note is" in what else what
    with pytest.raises(ConfigError, match=what), made.transaction() as transaction:
        transaction.prepare()


def test_a_table_that_has_more_columns_and_wider_ones_is_taken(place: Place) -> None:
    kind = "text" if place.dialect == "sqlite" else "numeric"
    place.execute(
        f"CREATE TABLE wide (note varchar(9), total {kind}, key bigint not null, made int default 7, why text)"
    )
    place.execute("CREATE UNIQUE INDEX one_row ON wide (key)")
    made = database(place.table("wide"), pa.int32(), COLUMNS)
    written(made, [(1, {"total": Decimal("1.10"), "note": "a"})], pa.int32(), COLUMNS)
    (row,) = all_rows(place, "wide")
    assert (row["key"], str(row["total"]), row["note"], row["made"], row["why"]) == (1, "1.10", "a", 7, None)


def test_what_is_not_committed_is_as_if_it_had_not_been_and_a_second_writer_waits(place: Place) -> None:
    made = database(place.table("waits", create=True), pa.int64(), pa.int64())
    with made.transaction() as transaction:
        transaction.prepare()
        transaction.set_mark(Mark("a", 3))
        transaction.commit()
    with made.transaction() as transaction:
        transaction.set_mark(Mark("b", 4))
    with made.transaction() as transaction:
        assert transaction.mark() == Mark("a", 3)


def test_a_table_of_sqlite_has_one_mark_in_whatever_capitals_it_is_named(tmp_path: Path) -> None:
    def table(name: str) -> Database:
        return database(
            wm.DatabaseTable(f"sqlite:///{tmp_path}/x.db", table=name, create=True), pa.string(), pa.string()
        )

    for writer, names in (("a", ("Orders", "ORDERS", "orders")), ("b", ("orders", "Orders"))):
        with table(names[0]).transaction() as written:
            written.prepare()
            written.set_mark(Mark(writer, 7))
            written.commit()
        for name in names:
            with table(name).transaction() as read:
                read.prepare()
                assert read.mark() == Mark(writer, 7)
    # SQLite itself tells other letters' capitals apart
    for name in ("ä", "Ä"):
        with table(name).transaction() as written:
            written.prepare()
            assert written.mark() is None
            written.set_mark(Mark(name, 1))
            written.commit()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    made = database(wm.DatabaseTable(f"sqlite:///{tmp_path}/no/x.db", table="t"), pa.int64(), pa.int64())
    with pytest.raises(ConfigError, match=r"cannot be opened(.|\n)*Hint: Its folder must exist"), made.transaction():
        pass
