"""A table in a file of SQLite's, through Python's own driver."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

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
        """See `Database`."""
        file = self.target.file
        try:
            connection = sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise ConfigError(
                "The file of the database cannot be opened.",
                given=f"{self.target!r}: {error}",
                hint="Its folder must be there, on the driver's machine, and may be written.",
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
                    hint="Put right what it says and start the query again: it goes on with this batch.",
                ) from None


class _SqliteTransaction(Transaction):
    def __init__(self, database: Database, connection: sqlite3.Connection) -> None:
        self._database, self._connection = database, connection
        self._target, self._columns = database.target, database.columns
        self._table = quoted(self._target.table)

    def prepare(self) -> None:
        """See `Transaction`."""
        types = [_type(column) for column in self._columns]
        statement = definition(self._table, self._columns, types)
        given = self._given()
        if not given:
            if not self._target.create:
                raise missing(self._target, statement)
            self._connection.execute(statement)
            given = self._given()
        self._check(statement, types, given)
        self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS {BATCHES}"
            " (table_name TEXT PRIMARY KEY, writer TEXT NOT NULL, batch INTEGER NOT NULL)"
        )

    def is_empty(self) -> bool:
        """See `Transaction`."""
        return self._connection.execute(f"SELECT 1 FROM {self._table} LIMIT 1").fetchone() is None

    def mark(self) -> Mark | None:
        """See `Transaction`."""
        found = self._connection.execute(
            f"SELECT writer, batch FROM {BATCHES} WHERE table_name = ?", (self._target.table,)
        ).fetchone()
        return None if found is None else Mark(*found)

    def set_mark(self, mark: Mark) -> None:
        """See `Transaction`."""
        self._connection.execute(
            f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?)", (self._target.table, mark.writer, mark.batch)
        )

    def apply(self, changes: pa.Table) -> None:
        """See `Transaction`."""
        deleted = changes.column(len(self._columns))
        gone, put = changes.filter(deleted), changes.filter(pc.invert(deleted))
        keys = [number for number, column in enumerate(self._columns) if column.is_key]
        if len(gone):
            equal = " AND ".join(f"{quoted(self._columns[number].name)} = ?" for number in keys)
            rows = zip(*(_values(gone.column(number)) for number in keys), strict=True)
            self._connection.executemany(f"DELETE FROM {self._table} WHERE {equal}", rows)
        if len(put):
            marks = ", ".join("?" * len(self._columns))
            statement = f"INSERT INTO {self._table} ({listed(self._columns)}) VALUES ({marks})"
            rows = zip(*(_values(put.column(number)) for number in range(len(self._columns))), strict=True)
            self._connection.executemany(f"{statement} {conflict(self._columns)}", rows)

    def commit(self) -> None:
        """See `Transaction`."""
        self._connection.execute("COMMIT")

    def _given(self) -> list[tuple[str, str, int, object, int]]:
        """(name, type, not null, default, place in the primary key) of each column."""
        found = self._connection.execute(
            'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (self._target.table,)
        )
        return found.fetchall()

    def _check(self, statement: str, types: list[str], given: list[tuple[str, str, int, object, int]]) -> None:
        # SQLite does not tell capitals apart
        known = {name.casefold(): kind for name, kind, *_ in given}
        names = {column.name.casefold(): column.name for column in self._columns}
        fits = [
            None if kind is None else _affinity(kind) in _FITTING[wanted]
            for wanted, kind in zip(types, (known.get(column.name.casefold()) for column in self._columns), strict=True)
        ]
        required = [names.get(n.casefold(), n) for n, _, strict, default, _ in given if strict and default is None]
        keys = [frozenset(names.get(n.casefold(), n) for n, _, _, _, place in given if place)]
        indexes = self._connection.execute(
            'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', (self._target.table,)
        ).fetchall()
        for (index,) in indexes:
            parts = self._connection.execute("SELECT name FROM pragma_index_info(?)", (index,)).fetchall()
            keys.append(frozenset(names.get(str(name).casefold(), str(name)) for (name,) in parts))
        shown = {column.name: known.get(column.name.casefold(), "") for column in self._columns}
        check_columns(self._database, statement, shown, fits, types, required, keys)


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
