"""A table of Postgres, through psycopg.

A piece of changes is one statement with an array for each column as parameters: measured, it is as fast as COPY with
a merge behind it for large pieces, and faster for small ones (docs/decisions/outputs.md).
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine import row_sizes
from watersmeet._engine.database_rows import DatabaseColumn, last_changes
from watersmeet._worker.batch_plan import BatchPlan, Marker, is_in
from watersmeet._worker.formats.arrow_types import spark_type
from watersmeet._worker.formats.json import encoded
from watersmeet._worker.process import give_back, settle
from watersmeet.errors import ConfigError, CorruptData, SinkError
from watersmeet.io.databases import BATCHES, DatabaseTable, Dialect, TableTarget

if TYPE_CHECKING:
    import psycopg


# Checks of a table before a query writes it: its columns, its writer, and its batches.


@dataclass(frozen=True)
class Mark:
    """The state of a table."""

    writer: str  # who writes it
    batch: int  # number of the last batch that it has; -1: none
    plan: str = ""  # of that batch, as text; "": of none


class Marked(Protocol):
    """A table that says who writes it."""

    def is_empty(self) -> bool:
        """Whether it has no rows."""

    def mark(self) -> Mark | None:
        """The mark of the table; None: nobody has written it."""

    def set_mark(self, mark: Mark) -> None:
        """Write down what it has."""


@dataclass(frozen=True)
class ExistingColumn:
    """A column that a table has."""

    name: str  # its name, in the topology's capitals where that has it too
    kind: str  # its type, as the database calls it; "": none
    is_required: bool  # whether no row may be without it


def check_columns(
    target: TableTarget,
    columns: Sequence[tuple[str, str]],
    existing: Iterable[ExistingColumn],
    fits: Callable[[str, str], bool],
    statement: str,
) -> None:
    """Compare a table with what is to be written.

    Parameters
    ----------
    columns : name and type of each column that is to be written.
    existing : the table's columns.
    fits : whether a column of one type keeps values of another as they are.
    statement : what would make the table.
    """
    kinds, ours = {column.name: column.kind for column in existing}, {name for name, _ in columns}
    wrong = []
    for name, kind in columns:
        if name not in kinds:
            wrong.append(f"{name} ({kind}) is missing")
        elif not fits(kinds[name], kind):
            wrong.append(f"{name} is {kinds[name] or 'of no type'}, and the topology writes {kind}")
    required = [column.name for column in existing if column.is_required and column.name not in ours]
    wrong += [f"{name} must not be null, and the topology does not give it" for name in required]
    if wrong:
        raise ConfigError(
            f"The columns of {target!r} are not those of the topology.",
            given=f"{target!r}: {'; '.join(wrong)}",
            hint=f"Change the table (ALTER TABLE), or write another one. The topology's table is: {statement}",
        )


def take_over(table: Marked, target: TableTarget, identity: str, planned: int | None) -> None:
    """Make a query the one that writes a table, if it is not.

    Parameters
    ----------
    identity : names the application and its checkpoint.
    planned : number of the last batch that the checkpoint has a plan of; -1: none; None: not known.
    """
    mark = table.mark()
    if mark is None or mark.writer != identity:
        if not target.adopt:
            _check_history(table, target, planned)
        table.set_mark(Mark(identity, -1))
    elif planned is not None and mark.batch > planned:
        raise CorruptData(
            "The table has later batches than the checkpoint: new batches with their numbers would not be written.",
            given=f"{target!r}: batch {mark.batch} is there, the last one planned is {planned}",
            hint="Restore the newest checkpoint; or begin with a new one and an empty table.",
        )


def check_writer(mark: Mark | None, target: TableTarget, identity: str) -> Mark:
    """The columns of a table that this query still writes."""
    if mark is None or mark.writer != identity:
        raise SinkError(
            "Another query has taken the table over.",
            given=f"{target!r}: it is marked as written by {'nobody' if mark is None else 'another one'}",
            hint="A table has one writer: stop one of the two queries, or give each a table of its own.",
        )
    return mark


def has_batch(mark: Mark, target: TableTarget, batch: int, plan: BatchPlan) -> bool:
    """Whether a table has a batch, made of this plan."""
    return is_in(Marker.of(mark.batch, mark.plan), batch, plan, repr(target))


def _check_history(table: Marked, target: TableTarget, planned: int | None) -> None:
    adopt = f"or take it as it is: wm.{type(target).__name__}(..., adopt=True)."
    if not table.is_empty():
        raise ConfigError(
            "The table has rows of others than this query: it could not delete them.",
            given=repr(target),
            hint=f"Empty it; {adopt}",
        )
    if planned is not None and planned >= 0:
        raise ConfigError(
            "The table is behind the checkpoint: rows that no longer change would be missing.",
            given=f"{target!r}: it is empty, the last batch planned is {planned}",
            hint=f"Start with a new checkpoint, {adopt}",
        )


# Words of SQL that SQLite and Postgres have in common.


def quoted(*names: str) -> str:
    """Names, one within the other: schema and table."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def listed(columns: Iterable[DatabaseColumn]) -> str:
    return ", ".join(quoted(column.name) for column in columns)


def conflict(columns: Sequence[DatabaseColumn]) -> str:
    """The clause of an insert for an existing key: the row gets the new values."""
    keys = [column for column in columns if column.is_key]
    values = ", ".join(f"{quoted(c.name)} = excluded.{quoted(c.name)}" for c in columns if not c.is_key)
    return f"ON CONFLICT ({listed(keys)}) DO " + (f"UPDATE SET {values}" if values else "NOTHING")


def definition(table: str, columns: Sequence[DatabaseColumn], types: Sequence[str]) -> str:
    """The statement that makes the table."""
    keys = [column for column in columns if column.is_key]
    lines = [
        f"{quoted(column.name)} {kind}{' NOT NULL' if column.is_key else ''}"
        for column, kind in zip(columns, types, strict=True)
    ]
    return f"CREATE TABLE {table} ({', '.join([*lines, f'PRIMARY KEY ({listed(keys)})'])})"


# A transaction on a table of any database; a database adds the words in which it differs.
#
# One row of `watersmeet_batches` belongs to each table: who writes it, and the last batch that it has. Reading it locks
# it until the transaction ends, so of two writers one waits, and then sees what the other has done.

_BATCHES_COLUMNS = "(table_name text PRIMARY KEY, writer text NOT NULL, batch bigint NOT NULL, plan text NOT NULL)"


class Database(ABC):
    """A table and the database that it lies in.

    Parameters
    ----------
    target : as the user named it.
    columns : of the table.
    """

    def __init__(self, target: DatabaseTable, columns: tuple[DatabaseColumn, ...]) -> None:
        self.target, self.columns = target, columns

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """A connection, with a transaction begun, both of which end with the context."""


class Transaction(ABC):
    """One transaction; what is not committed when it is left is as if it had not been.

    Parameters
    ----------
    database : which it is of.
    types : of its columns, as the database calls them.
    """

    parameter: ClassVar[str]
    """What stands for a value in a statement."""
    locking: ClassVar[str] = ""
    """What a query for a row ends with, so that nobody else reads it for writing."""

    def __init__(self, database: Database, types: Sequence[str]) -> None:
        self._target, self._columns, self._types = database.target, database.columns, tuple(types)
        self._keys = tuple(column for column in self._columns if column.is_key)
        *schema, table = self._target.table.split(".")
        self._table, self._batches = (*schema, table), (*schema, BATCHES)

    def prepare(self) -> None:
        """Make what is missing, if it may be made, and check the columns."""
        statement = definition(quoted(*self._table), self._columns, self._types)
        existing = self._existing_columns(*self._table)
        if not existing:
            if not self._target.create:
                raise ConfigError(
                    f"Unknown table {self._target!r}: the database does not have it.",
                    given=repr(self._target),
                    hint=f"Let watersmeet create it: wm.DatabaseTable(..., create=True). Or create it: {statement}",
                )
            self._run(statement)
            existing = self._existing_columns(*self._table)
        columns = [(column.name, kind) for column, kind in zip(self._columns, self._types, strict=True)]
        check_columns(self._target, columns, existing, self._fits, statement)
        self._check_key()
        if not any(self._existing_columns(*self._batches)):
            self._run(f"CREATE TABLE {quoted(*self._batches)} {_BATCHES_COLUMNS}")

    def is_empty(self) -> bool:
        return not self._run(f"SELECT 1 FROM {quoted(*self._table)} LIMIT 1")

    def mark(self) -> Mark | None:
        """The mark of the table, which is locked from now on; None: nobody has written it."""
        rows = self._run(
            f"SELECT writer, batch, plan FROM {quoted(*self._batches)}"
            f" WHERE table_name = {self.parameter}{self.locking}",
            (self._marked,),
        )
        return Mark(*rows[0]) if rows else None

    def set_mark(self, mark: Mark) -> None:
        """Write down what the table has."""
        self._run(
            f"INSERT INTO {quoted(*self._batches)} (table_name, writer, batch, plan)"
            f" VALUES ({', '.join([self.parameter] * 4)}) ON CONFLICT (table_name) DO UPDATE"
            f" SET writer = excluded.writer, batch = excluded.batch, plan = excluded.plan",
            (self._marked, mark.writer, mark.batch, mark.plan),
        )

    def apply(self, changes: pa.Table) -> None:
        """Put and delete rows: the table's columns in order, then whether a row is deleted."""
        deleted = changes.column(len(self._columns))
        deletions, put = changes.filter(deleted), changes.filter(pc.invert(deleted))
        if len(deletions):
            self._delete(deletions.select([number for number, column in enumerate(self._columns) if column.is_key]))
        if len(put):
            self._put(put.select(range(len(self._columns))))

    @cached_property
    def _marked(self) -> str:
        """The name of the table among the marks: the same for all spellings of its name."""
        return self._target.table

    @abstractmethod
    def commit(self) -> None:
        """Make all of it last."""

    @abstractmethod
    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Run a statement; the rows that it gives."""

    @abstractmethod
    def _existing_columns(self, *table: str) -> list[ExistingColumn]:
        """The columns of a table, which may be in a schema; none: it is not there."""

    @abstractmethod
    def _unique(self) -> Iterable[frozenset[str]]:
        """Sets of columns that no two rows of the table have alike."""

    @abstractmethod
    def _fits(self, existing: str, target: str) -> bool:
        """Whether a column of one type keeps values of another as they are."""

    @abstractmethod
    def _delete(self, rows: pa.Table) -> None:
        """Delete the rows of these keys; there is at least one."""

    @abstractmethod
    def _put(self, rows: pa.Table) -> None:
        """Insert these rows, or change those of their keys to them; there is at least one."""

    def _check_key(self) -> None:
        key = frozenset(column.name for column in self._keys)
        if key not in set(self._unique()):
            raise ConfigError(
                "The table may have two rows of one key.",
                given=f"{self._target!r}: no primary key or unique index of just {', '.join(sorted(key))}",
                hint=f"CREATE UNIQUE INDEX ON it ({listed(self._keys)}); or key=... names its columns.",
            )


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
                given=f"{self.target!r}: {self._redact(error)}",
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
                given=f"{self.target!r}: {self._redact(error)}",
                hint="Check host, port, database, user and password in the url; a sign such as @ or / is %40 or %2F.",
            ) from None

    def _redact(self, error: Exception) -> str:
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
        super().__init__(database, [_postgres_type(column) for column in database.columns])
        self._connection, self._cursor = connection, cursor

    def prepare(self) -> None:
        self._run(_LOCK)
        super().prepare()

    def commit(self) -> None:
        self._connection.commit()

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        done = self._cursor.execute(statement.encode(), values or None)
        return done.fetchall() if done.description else []

    def _existing_columns(self, *table: str) -> list[ExistingColumn]:
        return [ExistingColumn(*row) for row in self._run(_COLUMNS, (quoted(*table),))]

    def _unique(self) -> Iterator[frozenset[str]]:
        for (names,) in self._run(_KEYS, (quoted(*self._table),)):
            yield frozenset(names)

    def _fits(self, existing: str, target: str) -> bool:
        return _fits(existing, target)

    def _delete(self, rows: pa.Table) -> None:
        equal = " AND ".join(f"t.{quoted(column.name)} = g.{quoted(column.name)}" for column in self._keys)
        source = f"{self._arrays(self._keys)} AS g ({listed(self._keys)})"
        self._run(f"DELETE FROM {quoted(*self._table)} t USING {source} WHERE {equal}", _postgres_values(rows))

    def _put(self, rows: pa.Table) -> None:
        into = f"INSERT INTO {quoted(*self._table)} ({listed(self._columns)})"
        source = f"SELECT * FROM {self._arrays(self._columns)} g"
        self._run(f"{into} {source} {conflict(self._columns)}", _postgres_values(rows))

    def _arrays(self, columns: Sequence[DatabaseColumn]) -> str:
        """Rows, made of a parameter for each column."""
        return f"unnest({', '.join(f'%b::{_postgres_type(column)}[]' for column in columns)})"


def _postgres_values(rows: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in rows.columns]


def _postgres_type(column: DatabaseColumn) -> str:
    kind = column.kind
    if column.is_json:
        return "jsonb"
    if pt.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp without time zone"
    if pt.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return next((name for is_kind, name in _LEAVES if is_kind(kind)), "text")


def _fits(existing: str, target: str) -> bool:
    """Whether a column of one type keeps values of another as they are."""
    if existing == target or existing in _WIDER.get(target.partition("(")[0], ()):
        return True
    if target == "text" and existing.startswith("character varying"):
        return True
    ours, theirs = _NUMERIC.fullmatch(target), _NUMERIC.fullmatch(existing)
    if ours is None:
        return False
    if theirs is None:
        return existing == "numeric"
    (precision, scale), (their_precision, their_scale) = (tuple(map(int, match.groups())) for match in (ours, theirs))
    return bool(their_scale >= scale and their_precision - their_scale >= precision - scale)


# A table in a file of SQLite's, through Python's own driver.

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
        super().__init__(database, [_sqlite_type(column) for column in database.columns])
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

    def _existing_columns(self, *table: str) -> list[ExistingColumn]:
        rows = self._run('SELECT name, type, "notnull" AND dflt_value IS NULL FROM pragma_table_info(?)', table)
        return [ExistingColumn(self._name(name), kind, bool(is_required)) for name, kind, is_required in rows]

    def _unique(self) -> Iterator[frozenset[str]]:
        yield self._names("SELECT name FROM pragma_table_info(?) WHERE pk", *self._table)
        for (index,) in self._run('SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', self._table):
            yield self._names("SELECT name FROM pragma_index_info(?)", index)

    def _names(self, statement: str, of: str) -> frozenset[str]:
        return frozenset(self._name(str(name)) for (name,) in self._run(statement, (of,)))

    def _name(self, name: str) -> str:
        return self._written.get(name.casefold(), name)

    def _fits(self, existing: str, target: str) -> bool:
        return _affinity(existing) in _FITTING[target]

    def _delete(self, rows: pa.Table) -> None:
        equal = " AND ".join(f"{quoted(column.name)} = ?" for column in self._keys)
        self._run_each(f"DELETE FROM {quoted(*self._table)} WHERE {equal}", rows)

    def _put(self, rows: pa.Table) -> None:
        marks = ", ".join("?" * len(self._columns))
        statement = f"INSERT INTO {quoted(*self._table)} ({listed(self._columns)}) VALUES ({marks})"
        self._run_each(f"{statement} {conflict(self._columns)}", rows)

    def _run_each(self, statement: str, rows: pa.Table) -> None:
        self._connection.executemany(statement, zip(*map(_sqlite_values, rows.columns), strict=True))


def _sqlite_type(column: DatabaseColumn) -> str:
    """Of what SQLite has no type for it keeps the text, which sorts and compares as the value does."""
    if pt.is_boolean(column.kind) or pt.is_integer(column.kind):
        return "INTEGER"
    if pt.is_floating(column.kind):
        return "REAL"
    return "BLOB" if pt.is_binary(column.kind) or pt.is_large_binary(column.kind) else "TEXT"


def _affinity(declared: str) -> str:
    """What SQLite makes of a declared type (its documentation, "Datatypes", section 3.1)."""
    kind = declared.upper()
    category = next((affinity for word, affinity in _AFFINITIES if word in kind), "NUMERIC" if kind else "BLOB")
    return "REAL" if category == "NUMERIC" and any(word in kind for word in _REALS) else category


def _sqlite_values(column: pa.ChunkedArray) -> list[object]:
    values: list[object] = column.to_pylist()
    if pt.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        # SQLite would make null of what is no number; a driver's rows are Python's anyway
        return ["NaN" if value is not None and value != value else value for value in values]
    return values


# The changes of a task: the last change of each key, in the columns of the database, as blobs.
#
# A key's rows are all in one task, in order (law 2), so its last one there is its last one in the batch. Tasks write
# nothing to the database: one that runs twice, or breaks off, changes nothing, and no password leaves the driver.

CHANGES = "small boolean, changes binary"
_CHANGES_ARROW = pa.schema([("small", pa.bool_()), ("changes", pa.binary())])
DELETED = "deleted"
PIECE_ROWS = 10_000
"""Rows of a blob, and of a statement, at most."""


@dataclass(frozen=True)
class LastChanges:
    """mapInArrow function: the last change of each key, in pieces."""

    columns: tuple[DatabaseColumn, ...]  # of the table
    dialect: Dialect  # of the database
    limit: int  # bytes up to which all that a task has is small

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read all rows, then give the pieces."""
        settle()
        keys = [place(number) for number, column in enumerate(self.columns) if column.is_key]
        last = last_changes((self._columns(rows) for rows in batches if len(rows)), keys)
        if last is not None:
            small = last.nbytes <= self.limit
            for piece in row_sizes.pieces(last):
                for start in range(0, len(piece), PIECE_ROWS):
                    yield _read(row_sizes.encode(self._database_values(piece.slice(start, PIECE_ROWS))), small)
        give_back()

    def _columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The table's columns of rows with key and value, and which rows delete."""
        arrays = {place(number): column.of(rows) for number, column in enumerate(self.columns)}
        for number, column in enumerate(self.columns):
            if column.is_key and arrays[place(number)].null_count:
                raise SinkError(
                    f"The key column {column.name!r} of a database table has no value.",
                    given=f"column {column.name!r}",
                    hint="Leave such rows out before, or fill them: F.coalesce(key, F.lit(...)).",
                )
        deleted = rows.column("value").is_null()
        return pa.RecordBatch.from_pydict({**arrays, DELETED: deleted})

    def _database_values(self, rows: pa.Table) -> pa.Table:
        """Values as the database gets them."""
        for number, column in enumerate(self.columns):
            values = rows.column(number)
            array = pa.chunked_array([_database_column(chunk, column, self.dialect) for chunk in values.chunks])
            rows = rows.set_column(number, place(number), array)
        return rows


def place(number: int) -> str:
    return f"c{number}"


def _read(content: bytes, small: bool) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"small": [small], "changes": [content]}, schema=_CHANGES_ARROW)


def _database_column(values: pa.Array, column: DatabaseColumn, dialect: Dialect) -> pa.Array:
    kind = values.type
    if column.is_json:
        return encoded(values, spark_type(column.kind)).cast(pa.string())
    if pt.is_timestamp(kind):
        # a count of microseconds means the same whatever zone the column is shown in
        values = values.cast(pa.timestamp("us", kind.tz)).view(pa.timestamp("us", "UTC" if kind.tz else None))
    if dialect == "sqlite" and (pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_decimal(kind)):
        return pc.cast(values, pa.string())
    return values
