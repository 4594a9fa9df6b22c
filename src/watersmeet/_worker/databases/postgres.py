"""A table of Postgres, through psycopg.

A piece of changes is one statement with an array for each column as parameters: measured, it is as fast as COPY with
a merge behind it for large pieces, and faster for small ones (decision 22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.databases.columns import DatabaseColumn
from watersmeet._worker.databases.checks import GivenColumn
from watersmeet._worker.databases.sql import conflict, listed, quoted
from watersmeet._worker.databases.transaction import Database, Transaction
from watersmeet.errors import ConfigError, SinkError

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
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('watersmeet'))"
"""Of those that make tables one comes after the other."""


class PostgresTable(Database):
    """A table of a Postgres, to which the driver connects for each batch."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        import psycopg

        connection = self._connected()
        try:
            with connection.cursor() as cursor:
                yield _PostgresTransaction(self, connection, cursor)
        except psycopg.Error as error:
            raise SinkError(
                "Postgres refuses to write the table; nothing of the batch is in it.",
                given=f"{self.target!r}: {self._said(error)}",
                hint="Remove the cause and start the query again: it continues with this batch.",
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
                hint="Check host, port, database, user and password in the url; a sign such as @ or / is %40 or %2F.",
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
    parameter = "%s"
    locking = " FOR UPDATE"

    def __init__(self, database: Database, connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any]) -> None:
        super().__init__(database, [_type(column) for column in database.columns])
        self._connection, self._cursor = connection, cursor

    def prepare(self) -> None:
        self._run(_LOCK)
        super().prepare()

    def commit(self) -> None:
        self._connection.commit()

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        done = self._cursor.execute(statement.encode(), values or None)
        return done.fetchall() if done.description else []

    def _given(self, *table: str) -> list[GivenColumn]:
        return [GivenColumn(*found) for found in self._run(_COLUMNS, (quoted(*table),))]

    def _unique(self) -> Iterator[frozenset[str]]:
        for (names,) in self._run(_KEYS, (quoted(*self._table),)):
            yield frozenset(names)

    def _fits(self, given: str, wanted: str) -> bool:
        return _fits(given, wanted)

    def _delete(self, rows: pa.Table) -> None:
        equal = " AND ".join(f"t.{quoted(column.name)} = g.{quoted(column.name)}" for column in self._keys)
        given = f"{self._arrays(self._keys)} AS g ({listed(self._keys)})"
        self._run(f"DELETE FROM {quoted(*self._table)} t USING {given} WHERE {equal}", _values(rows))

    def _put(self, rows: pa.Table) -> None:
        into = f"INSERT INTO {quoted(*self._table)} ({listed(self._columns)})"
        given = f"SELECT * FROM {self._arrays(self._columns)} g"
        self._run(f"{into} {given} {conflict(self._columns)}", _values(rows))

    def _arrays(self, columns: Sequence[DatabaseColumn]) -> str:
        """Rows, made of a parameter for each column."""
        return f"unnest({', '.join(f'%b::{_type(column)}[]' for column in columns)})"


def _values(rows: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in rows.columns]


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
