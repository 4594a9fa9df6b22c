"""A table in a file of SQLite's, through Python's own driver."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.databases.columns import DatabaseColumn
from watersmeet._worker.databases.checks import GivenColumn
from watersmeet._worker.databases.sql import conflict, listed, quoted
from watersmeet._worker.databases.transaction import Database, Transaction
from watersmeet.errors import ConfigError, SinkError

WAIT_SECONDS = 60.0
"""For others that write the file."""
_AFFINITIES = (("INT", "INTEGER"), ("CHAR", "TEXT"), ("CLOB", "TEXT"), ("TEXT", "TEXT"), ("BLOB", "BLOB"))
_REALS = ("REAL", "FLOA", "DOUB")
_FITTING = {
    "INTEGER": {"INTEGER", "NUMERIC", "BLOB"},
    "REAL": {"REAL", "BLOB"},
    "TEXT": {"TEXT", "BLOB"},
    "BLOB": {"BLOB", "TEXT", "NUMERIC", "INTEGER", "REAL"},
}
"""Of a type the affinities that leave its values as they are."""


class SqliteTable(Database):
    """A table in a file on the driver's machine."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        file = self.target.file
        try:
            connection = sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise ConfigError(
                "The file of the database cannot be opened.",
                given=f"{self.target!r}: {error}",
                hint="Its folder must exist on the driver's machine, and be writable.",
            ) from None
        with closing(connection):
            try:
                # one writer at a time, from here on
                connection.execute("BEGIN IMMEDIATE")
                yield _SqliteTransaction(self, connection)
            except sqlite3.Error as error:
                raise SinkError(
                    "SQLite refuses to write the table; nothing of the batch is in it.",
                    given=f"{self.target!r}: {error}",
                    hint="Remove the cause and start the query again: it continues with this batch.",
                ) from None


class _SqliteTransaction(Transaction):
    parameter = "?"

    def __init__(self, database: Database, connection: sqlite3.Connection) -> None:
        super().__init__(database, [_type(column) for column in database.columns])
        self._connection = connection
        # SQLite does not tell capitals apart
        self._written = {column.name.casefold(): column.name for column in self._columns}

    @cached_property
    def _marked(self) -> str:
        # a mark that stands there in other capitals is the same table's
        names = [str(name) for (name,) in self._run(f"SELECT table_name FROM {quoted(*self._batches)}")]
        return min(filter(self._is_table, names), default=self._target.table)

    def _is_table(self, name: str) -> bool:
        # of ASCII's letters alone
        return name.encode().lower() == self._target.table.encode().lower()

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def _given(self, *table: str) -> list[GivenColumn]:
        found = self._run('SELECT name, type, "notnull" AND dflt_value IS NULL FROM pragma_table_info(?)', table)
        return [GivenColumn(self._name(name), kind, bool(is_required)) for name, kind, is_required in found]

    def _unique(self) -> Iterator[frozenset[str]]:
        yield self._names("SELECT name FROM pragma_table_info(?) WHERE pk", *self._table)
        for (index,) in self._run('SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', self._table):
            yield self._names("SELECT name FROM pragma_index_info(?)", index)

    def _names(self, statement: str, of: str) -> frozenset[str]:
        return frozenset(self._name(str(name)) for (name,) in self._run(statement, (of,)))

    def _name(self, name: str) -> str:
        return self._written.get(name.casefold(), name)

    def _fits(self, given: str, wanted: str) -> bool:
        return _affinity(given) in _FITTING[wanted]

    def _delete(self, rows: pa.Table) -> None:
        equal = " AND ".join(f"{quoted(column.name)} = ?" for column in self._keys)
        self._run_each(f"DELETE FROM {quoted(*self._table)} WHERE {equal}", rows)

    def _put(self, rows: pa.Table) -> None:
        marks = ", ".join("?" * len(self._columns))
        statement = f"INSERT INTO {quoted(*self._table)} ({listed(self._columns)}) VALUES ({marks})"
        self._run_each(f"{statement} {conflict(self._columns)}", rows)

    def _run_each(self, statement: str, rows: pa.Table) -> None:
        self._connection.executemany(statement, zip(*map(_values, rows.columns), strict=True))


def _type(column: DatabaseColumn) -> str:
    """Of what SQLite has no type for it keeps the text, which sorts and compares as the value does."""
    if pt.is_boolean(column.kind) or pt.is_integer(column.kind):
        return "INTEGER"
    if pt.is_floating(column.kind):
        return "REAL"
    return "BLOB" if pt.is_binary(column.kind) or pt.is_large_binary(column.kind) else "TEXT"


def _affinity(declared: str) -> str:
    """What SQLite makes of a declared type (its documentation, "Datatypes", section 3.1)."""
    kind = declared.upper()
    found = next((affinity for word, affinity in _AFFINITIES if word in kind), "NUMERIC" if kind else "BLOB")
    return "REAL" if found == "NUMERIC" and any(word in kind for word in _REALS) else found


def _values(column: pa.ChunkedArray) -> list[object]:
    values: list[object] = column.to_pylist()
    if pt.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        # SQLite would make null of what is no number; a driver's rows are Python's anyway
        return ["NaN" if value is not None and value != value else value for value in values]
    return values
