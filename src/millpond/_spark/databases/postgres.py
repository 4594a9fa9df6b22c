"""A table of Postgres, through psycopg.

A piece of changes is one statement whose parameters are an array for each column: measured, it is as fast as COPY with
a merge behind it for large pieces, and faster for small ones (decision 22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from millpond._engine.databases.columns import DatabaseColumn
from millpond._spark.databases.transaction import (
    BATCHES,
    Database,
    Mark,
    Transaction,
    check_columns,
    conflict,
    definition,
    listed,
    missing,
    quoted,
)
from millpond.errors import ConfigError, SinkError

if TYPE_CHECKING:
    import psycopg

_LEAVES: tuple[tuple[Any, str], ...] = (
    (pt.is_boolean, "boolean"),
    (pt.is_int8, "smallint"),
    (pt.is_int16, "smallint"),
    (pt.is_int32, "integer"),
    (pt.is_int64, "bigint"),
    (pt.is_float32, "real"),
    (pt.is_float64, "double precision"),
    (pt.is_binary, "bytea"),
    (pt.is_large_binary, "bytea"),
    (pt.is_date, "date"),
)
_WIDER = {
    "smallint": {"integer", "bigint", "numeric"},
    "integer": {"bigint", "numeric"},
    "bigint": {"numeric"},
    "real": {"double precision"},
    "text": {"character varying"},
    "jsonb": {"json"},
}
"""Other types whose columns keep the values as they are, or refuse them."""
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod),
       attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = ''
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEYS = """
SELECT array_agg(a.attname::text) FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('millpond'))"
"""Of those that make tables one comes after the other."""


class PostgresTable(Database):
    """A table of a Postgres, to which the driver connects for each batch."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """See `Database`."""
        import psycopg

        connection = self._connected()
        try:
            with connection.cursor() as cursor:
                yield _PostgresTransaction(self, connection, cursor)
        except psycopg.Error as error:
            raise SinkError(
                "Postgres refuses to write the table; nothing of the batch is in it.",
                given=f"{self.target!r}: {self._said(error)}",
                hint="Put right what it says and start the query again: it goes on with this batch.",
            ) from None
        finally:
            connection.close()

    def _connected(self) -> psycopg.Connection[Any]:
        import psycopg

        try:
            return psycopg.connect(**self.target.connection)  # type: ignore[arg-type]
        except (psycopg.Error, UnicodeError) as error:
            raise ConfigError(
                "The database cannot be reached.",
                given=f"{self.target!r}: {self._said(error)}",
                hint="See host, port, database, user and password in the url; a sign such as @ or / is %40 or %2F.",
            ) from None

    def _said(self, error: Exception) -> str:
        """What Postgres says, without what is secret."""
        text = " ".join(str(error).split())
        # a password that stands in the wrong place of the url is taken for something else, and shown as that
        secrets = {self.target.url, *(t for n, t in self.target.connection.items() if "password" in n)}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "...")
        return text


class _PostgresTransaction(Transaction):
    def __init__(self, database: Database, connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any]) -> None:
        self._database, self._connection, self._cursor = database, connection, cursor
        self._target, self._columns = database.target, database.columns
        *schema, table = self._target.table.split(".")
        self._table = quoted(*schema, table)
        self._batches = quoted(*schema, BATCHES)
        self._types = [_type(column) for column in self._columns]

    def prepare(self) -> None:
        """See `Transaction`."""
        self._run(_LOCK)
        statement = definition(self._table, self._columns, self._types)
        given = self._run(_COLUMNS, (self._table,)).fetchall()
        if not given:
            if not self._target.create:
                raise missing(self._target, statement)
            self._run(statement)
            given = self._run(_COLUMNS, (self._table,)).fetchall()
        kinds = {name: kind for name, kind, _ in given}
        fits = [
            _fits(kinds[column.name], kind) if column.name in kinds else None
            for column, kind in zip(self._columns, self._types, strict=True)
        ]
        keys = [frozenset(names) for (names,) in self._run(_KEYS, (self._table,)).fetchall()]
        required = [name for name, _, is_required in given if is_required]
        check_columns(self._database, statement, kinds, fits, self._types, required, keys)
        if not self._run("SELECT to_regclass(%s) IS NOT NULL", (self._batches,)).fetchone()[0]:  # type: ignore[index]
            self._run(
                f"CREATE TABLE {self._batches}"
                " (table_name text PRIMARY KEY, writer text NOT NULL, batch bigint NOT NULL)"
            )

    def is_empty(self) -> bool:
        """See `Transaction`."""
        return self._run(f"SELECT 1 FROM {self._table} LIMIT 1").fetchone() is None

    def mark(self) -> Mark | None:
        """See `Transaction`."""
        found = self._run(
            f"SELECT writer, batch FROM {self._batches} WHERE table_name = %s FOR UPDATE", (self._target.table,)
        ).fetchone()
        return None if found is None else Mark(*found)

    def set_mark(self, mark: Mark) -> None:
        """See `Transaction`."""
        self._run(
            f"INSERT INTO {self._batches} VALUES (%s, %s, %s)"
            " ON CONFLICT (table_name) DO UPDATE SET writer = excluded.writer, batch = excluded.batch",
            (self._target.table, mark.writer, mark.batch),
        )

    def apply(self, changes: pa.Table) -> None:
        """See `Transaction`."""
        deleted = changes.column(len(self._columns))
        gone, put = changes.filter(deleted), changes.filter(pc.invert(deleted))
        keys = [number for number, column in enumerate(self._columns) if column.is_key]
        if len(gone):
            equal = " AND ".join(f"t.{quoted(self._columns[n].name)} = g.{quoted(self._columns[n].name)}" for n in keys)
            given = f"{self._arrays(keys)} AS g ({listed(self._columns[number] for number in keys)})"
            self._run(f"DELETE FROM {self._table} t USING {given} WHERE {equal}", _values(gone, keys))
        if len(put):
            places = list(range(len(self._columns)))
            statement = f"INSERT INTO {self._table} ({listed(self._columns)}) SELECT * FROM {self._arrays(places)} g"
            self._run(f"{statement} {conflict(self._columns)}", _values(put, places))

    def commit(self) -> None:
        """See `Transaction`."""
        self._connection.commit()

    def _run(self, statement: str, parameters: Any = None) -> psycopg.Cursor[Any]:
        return self._cursor.execute(statement.encode(), parameters)

    def _arrays(self, places: list[int]) -> str:
        """Rows, made of a parameter for each column."""
        return f"unnest({', '.join(f'%b::{self._types[place]}[]' for place in places)})"


def _values(rows: pa.Table, places: list[int]) -> list[list[Any]]:
    return [rows.column(place).to_pylist() for place in places]


def _type(column: DatabaseColumn) -> str:
    kind = column.kind
    if column.is_json:
        return "jsonb"
    if pt.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp without time zone"
    if pt.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return next((name for is_kind, name in _LEAVES if is_kind(kind)), "text")


def _fits(there: str, wanted: str) -> bool:
    """Whether a column of one type keeps values of another as they are."""
    if there == wanted or there in _WIDER.get(wanted.partition("(")[0], ()):
        return True
    if wanted == "text" and there.startswith("character varying"):
        return True
    ours, theirs = _NUMERIC.fullmatch(wanted), _NUMERIC.fullmatch(there)
    if ours is None:
        return False
    if theirs is None:
        return there == "numeric"
    (precision, scale), (other, others) = (tuple(map(int, found.groups())) for found in (ours, theirs))
    return bool(others >= scale and other - others >= precision - scale)
