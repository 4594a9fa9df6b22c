"""Tables of databases: checks, the dialects of SQL, transactions, and the changes that tasks hand back.

A piece of changes for Postgres is one statement with an array for each column as parameters: measured, it is as fast as
COPY with a merge behind it for large pieces, and faster for small ones (docs/decisions/outputs.md).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine import row_sizes
from watersmeet._engine.database_rows import DatabaseColumn, last_changes
from watersmeet._worker.batch_plan import BatchPlan, Marker, is_in
from watersmeet._worker.formats.arrow_types import spark_type
from watersmeet._worker.formats.json import encoded
from watersmeet._worker.process import freeze_imports, give_back
from watersmeet.errors import ConfigError, CorruptData, SinkError
from watersmeet.io.databases import BATCHES, DatabaseTable, Dialect, TableTarget

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


# The dialects of SQL. All in which databases differ is in a row of `DIALECTS`; `SqlDialect` makes the statements.

_Kinds = tuple[tuple[Callable[[pa.DataType], bool], str], ...]
DELETED = "deleted"
MERGED = "watersmeet_changes"
"""The view of the changes that Spark merges."""


@dataclass(frozen=True)
class SqlDialect:
    """How a database writes SQL.

    The texts of statements have {table}, {lines}, {columns}, {keys}, {values}, {same}, {update} and {valid_to}; those
    of a column {name}, {place} and {type}.
    """

    title: str
    quote: str
    type_of: Callable[[pa.DataType], str]
    fits: Callable[[str, str], bool]  # whether a column of one type keeps values of another as they are
    tells_capitals: bool
    definition: str
    upsert: str
    update: str  # {update}, where there are {sets}
    no_update: str  # the same where all columns are the key's
    key: str  # a column of the key in {lines}
    value: str  # a column in {values}
    assignment: str  # a column in {sets}
    same: str  # a column of the key in {same}
    deletion: str = ""
    version: str = ""  # closes the rows of keys, and adds their versions
    parameter: str = "?"
    locking: str = ""  # ends a query for a row, so that nobody else reads it for writing
    opening: str = ""  # begins a transaction
    preparing: str = ""  # lets one after the other make tables
    columns: str = ""  # name, type, and whether it is required, of each column of {table} or {name}
    unique: str = ""  # index and column of what no two rows of {table} or {name} have alike
    driver: str = ""  # the module
    connect: Callable[[DatabaseTable], Any] = lambda target: None
    unreachable: tuple[str, str] = ("", "")  # what cannot be done, and the hint
    takes_arrays: bool = False  # a statement for many rows, with an array for each column

    def quoted(self, *names: str) -> str:
        """Names, one within the other: schema and table."""
        quote = self.quote
        return ".".join(quote + name.replace(quote, quote * 2) + quote for name in names)

    def statement(self, text: str, table: str, columns: Sequence[DatabaseColumn]) -> str:
        """The statement that a text of the dialect makes of these columns, those of the key first."""

        def column_texts(text: str, *, keys: bool = True, values: bool = True) -> list[str]:
            return [
                text.format(name=self.quoted(column.name), place=place(number), type=self.type_of(column.kind))
                for number, column in enumerate(columns)
                if (keys if column.is_key else values)
            ]

        sets = ", ".join(column_texts(self.assignment, keys=False))
        return text.format(
            table=table,
            lines=", ".join(column_texts(self.key, values=False) + column_texts("{name} {type}", keys=False)),
            columns=", ".join(column_texts("{name}")),
            keys=", ".join(column_texts("{name}", values=False)),
            values=", ".join(column_texts(self.value)),
            same=" AND ".join(column_texts(self.same, values=False)),
            update=self.update.format(sets=sets) if sets else self.no_update,
            # of a table with versions
            valid_to=place(len(columns) - 2),
        )


def place(number: int) -> str:
    return f"c{number}"


def _kind_in(kinds: _Kinds, otherwise: str, kind: pa.DataType) -> str:
    return next((name for is_kind, name in kinds if is_kind(kind)), otherwise).format(kind)


def _is_wider(wider: Mapping[str, frozenset[str]], existing: str, target: str) -> bool:
    return existing == target or existing in wider.get(target, ())


_POSTGRES_KINDS: _Kinds = (
    (pt.is_nested, "jsonb"),
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
    (pt.is_decimal, "numeric({0.precision},{0.scale})"),
    (lambda kind: pt.is_timestamp(kind) and kind.tz is not None, "timestamp with time zone"),
    (pt.is_timestamp, "timestamp without time zone"),
)
_POSTGRES_WIDER = {
    "smallint": frozenset({"integer", "bigint", "numeric"}),
    "integer": frozenset({"bigint", "numeric"}),
    "bigint": frozenset({"numeric"}),
    "real": frozenset({"double precision"}),
    "jsonb": frozenset({"json"}),
}
"""Other types whose columns keep the values as they are, or refuse them."""
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_POSTGRES_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod),
       attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = ''
FROM pg_attribute WHERE attrelid = to_regclass('{table}') AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_POSTGRES_UNIQUE = """
SELECT i.indexrelid, a.attname::text FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = to_regclass('{table}') AND i.indisunique AND i.indimmediate AND i.indpred IS NULL
  AND i.indexprs IS NULL
"""


def _fits_postgres(existing: str, target: str) -> bool:
    if _is_wider(_POSTGRES_WIDER, existing, target):
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


def _connect_postgres(target: DatabaseTable) -> Any:
    import psycopg

    return psycopg.connect(**target.connection)  # type: ignore[arg-type]


WAIT_SECONDS = 60.0
"""For others that write SQLite's file."""
_SQLITE_KINDS: _Kinds = (
    (pt.is_boolean, "INTEGER"),
    (pt.is_integer, "INTEGER"),
    (pt.is_floating, "REAL"),
    (pt.is_binary, "BLOB"),
    (pt.is_large_binary, "BLOB"),
)
"""Of what SQLite has no type for it keeps the text, which sorts and compares as the value does."""
_AFFINITIES = (("INT", "INTEGER"), ("CHAR", "TEXT"), ("CLOB", "TEXT"), ("TEXT", "TEXT"), ("BLOB", "BLOB"))
_REALS = ("REAL", "FLOA", "DOUB")
_SQLITE_FITTING = {
    "INTEGER": {"INTEGER", "NUMERIC", "BLOB"},
    "REAL": {"REAL", "BLOB"},
    "TEXT": {"TEXT", "BLOB"},
    "BLOB": {"BLOB", "TEXT", "NUMERIC", "INTEGER", "REAL"},
}
"""Of a type the affinities that leave its values as they are."""
_SQLITE_COLUMNS = """SELECT name, type, "notnull" AND dflt_value IS NULL FROM pragma_table_info('{name}')"""
_SQLITE_UNIQUE = """
SELECT '', name FROM pragma_table_info('{name}') WHERE pk
UNION ALL SELECT i.name, c.name FROM pragma_index_list('{name}') i, pragma_index_info(i.name) c
WHERE i."unique" AND NOT i.partial
"""


def _fits_sqlite(existing: str, target: str) -> bool:
    """By what SQLite makes of a declared type (its documentation, "Datatypes", section 3.1)."""
    kind = existing.upper()
    affinity = next((affinity for word, affinity in _AFFINITIES if word in kind), "NUMERIC" if kind else "BLOB")
    is_real = affinity == "NUMERIC" and any(word in kind for word in _REALS)
    return ("REAL" if is_real else affinity) in _SQLITE_FITTING[target]


def _connect_sqlite(target: DatabaseTable) -> Any:
    return sqlite3.connect(target.file, timeout=WAIT_SECONDS, isolation_level=None)


_SPARK_WIDER = {
    "tinyint": frozenset({"smallint", "int", "bigint"}),
    "smallint": frozenset({"int", "bigint"}),
    "int": frozenset({"bigint"}),
    "float": frozenset({"double"}),
}
"""Other types whose columns keep the values as they are."""

_POSTGRES = SqlDialect(
    title="Postgres",
    quote='"',
    type_of=partial(_kind_in, _POSTGRES_KINDS, "text"),
    fits=_fits_postgres,
    tells_capitals=True,
    definition="CREATE TABLE {table} ({lines}, PRIMARY KEY ({keys}))",
    key="{name} {type} NOT NULL",
    upsert="INSERT INTO {table} ({columns}) SELECT * FROM unnest({values}) g ON CONFLICT ({keys}) DO {update}",
    update="UPDATE SET {sets}",
    no_update="NOTHING",
    value="%b::{type}[]",
    assignment="{name} = excluded.{name}",
    same="t.{name} = g.{name}",
    deletion="DELETE FROM {table} t USING unnest({values}) AS g ({columns}) WHERE {same}",
    parameter="%s",
    locking=" FOR UPDATE",
    preparing="SELECT pg_advisory_xact_lock(hashtext('watersmeet'))",
    columns=_POSTGRES_COLUMNS,
    unique=_POSTGRES_UNIQUE,
    driver="psycopg",
    connect=_connect_postgres,
    unreachable=(
        "reached",
        "Check host, port, database, user and password in the url; a sign such as @ or / is %40 or %2F.",
    ),
    takes_arrays=True,
)
DIALECTS: Mapping[Dialect, SqlDialect] = {
    "postgresql": _POSTGRES,
    "sqlite": replace(
        _POSTGRES,
        title="SQLite",
        type_of=partial(_kind_in, _SQLITE_KINDS, "TEXT"),
        fits=_fits_sqlite,
        tells_capitals=False,
        upsert="INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT ({keys}) DO {update}",
        value="?",
        same="{name} = ?",
        deletion="DELETE FROM {table} WHERE {same}",
        parameter="?",
        locking="",
        # one writer at a time, from here on
        opening="BEGIN IMMEDIATE",
        preparing="",
        columns=_SQLITE_COLUMNS,
        unique=_SQLITE_UNIQUE,
        driver="sqlite3",
        connect=_connect_sqlite,
        unreachable=(
            "opened",
            "Its folder must exist on the driver's machine, and be writable.",
        ),
        takes_arrays=False,
    ),
    "spark": SqlDialect(
        title="Spark",
        quote="`",
        type_of=lambda kind: spark_type(kind).simpleString(),
        fits=partial(_is_wider, _SPARK_WIDER),
        tells_capitals=False,
        definition="CREATE TABLE {table} ({lines}) USING delta (or iceberg)",
        key="{name} {type}",
        upsert=f"MERGE INTO {{table}} t USING {MERGED} c ON {{same}} WHEN MATCHED AND c.{DELETED} THEN DELETE{{update}}"
        f" WHEN NOT MATCHED AND NOT c.{DELETED} THEN INSERT ({{columns}}) VALUES ({{values}})",
        update=" WHEN MATCHED THEN UPDATE SET {sets}",
        no_update="",
        version=f"MERGE INTO {{table}} t USING {MERGED} c ON c.{DELETED} AND t.`current` AND {{same}} WHEN MATCHED "
        f"THEN UPDATE SET t.`valid_to` = c.{{valid_to}}, t.`current` = false WHEN NOT MATCHED AND NOT c.{DELETED} THEN "
        "INSERT ({columns}) VALUES ({values})",
        value="c.{place}",
        assignment="t.{name} = c.{place}",
        # a field of a key may be null
        same="t.{name} <=> c.{place}",
    ),
}


# A transaction on a table of a database.
#
# One row of `watersmeet_batches` belongs to each table: who writes it, and the last batch that it has. Reading it locks
# it until the transaction ends, so of two writers one waits, and then sees what the other has done.

_BATCHES_COLUMNS = "(table_name text PRIMARY KEY, writer text NOT NULL, batch bigint NOT NULL, plan text NOT NULL)"


class Database:
    """A table and the database that it lies in, to which the driver connects for each batch.

    Parameters
    ----------
    target : as the user named it.
    columns : of the table.
    """

    def __init__(self, target: DatabaseTable, columns: tuple[DatabaseColumn, ...]) -> None:
        self.target, self.columns, self.dialect = target, columns, DIALECTS[target.dialect]

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A connection, with a transaction begun, both of which end with the context."""
        errors: type[Exception] = import_module(self.dialect.driver).Error
        try:
            connection = self.dialect.connect(self.target)
        except (errors, UnicodeError) as error:
            raise ConfigError(
                f"{self.target!r} cannot be {self.dialect.unreachable[0]}: {self._redact(error)}",
                hint=self.dialect.unreachable[1],
            ) from None
        with closing(connection):
            try:
                if self.dialect.opening:
                    connection.execute(self.dialect.opening)
                yield Transaction(self, connection)
            except errors as error:
                cause = self._redact(error)
                locked = f"End what writes the file for longer than {WAIT_SECONDS:.0f} s (an open transaction)"
                raise SinkError(
                    f"{self.dialect.title} refuses to write the table; nothing of the batch is in it.",
                    given=f"{self.target!r}: {cause}",
                    hint=f"{locked if 'locked' in cause else 'Remove the cause'} and start the query again: it "
                    "continues with this batch.",
                ) from None

    def _redact(self, error: Exception) -> str:
        """The message of the database, without secrets."""
        text = " ".join(str(error).split())
        # a password that stands in the wrong place of the url is taken for something else, and shown as that
        secrets = {self.target.url, *(t for n, t in self.target.connection.items() if "password" in n)}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "...")
        return text


class Transaction:
    """One transaction; what is not committed when it is left is as if it had not been.

    Parameters
    ----------
    database : which it is of.
    connection : as its driver has it.
    """

    def __init__(self, database: Database, connection: Any) -> None:
        self._target, self._columns, self._dialect = database.target, database.columns, database.dialect
        self._connection = connection
        self._keys = tuple(column for column in self._columns if column.is_key)
        self._names = {column.name.casefold(): column.name for column in self._columns}
        *schema, table = self._target.table.split(".")
        self._table, self._batches = (*schema, table), (*schema, BATCHES)

    def prepare(self) -> None:
        """Make what is missing, if it may be made, and check the columns."""
        dialect = self._dialect
        if dialect.preparing:
            self._run(dialect.preparing)
        statement = self._statement(dialect.definition, self._columns)
        existing = self._existing_columns(*self._table)
        if not existing:
            if not self._target.create:
                raise ConfigError(
                    f"Unknown table {self._target!r}: the database does not have it.",
                    hint=f"Let watersmeet create it: wm.DatabaseTable(..., create=True). Or create it: {statement}",
                )
            self._run(statement)
            existing = self._existing_columns(*self._table)
        columns = [(column.name, dialect.type_of(column.kind)) for column in self._columns]
        check_columns(self._target, columns, existing, dialect.fits, statement)
        self._check_key()
        if not any(self._existing_columns(*self._batches)):
            self._run(f"CREATE TABLE {dialect.quoted(*self._batches)} {_BATCHES_COLUMNS}")

    def is_empty(self) -> bool:
        return not self._run(f"SELECT 1 FROM {self._dialect.quoted(*self._table)} LIMIT 1")

    def mark(self) -> Mark | None:
        """The mark of the table, which is locked from now on; None: nobody has written it."""
        rows = self._run(
            f"SELECT writer, batch, plan FROM {self._dialect.quoted(*self._batches)}"
            f" WHERE table_name = {self._dialect.parameter}{self._dialect.locking}",
            self._marked,
        )
        return Mark(*rows[0]) if rows else None

    def set_mark(self, mark: Mark) -> None:
        """Write down what the table has."""
        self._run(
            f"INSERT INTO {self._dialect.quoted(*self._batches)} (table_name, writer, batch, plan)"
            f" VALUES ({', '.join([self._dialect.parameter] * 4)}) ON CONFLICT (table_name) DO UPDATE"
            f" SET writer = excluded.writer, batch = excluded.batch, plan = excluded.plan",
            *(self._marked, mark.writer, mark.batch, mark.plan),
        )

    def apply(self, changes: pa.Table) -> None:
        """Put and delete rows: the table's columns in order, then whether a row is deleted."""
        deleted, dialect = changes.column(len(self._columns)), self._dialect
        keys = [number for number, column in enumerate(self._columns) if column.is_key]
        deletions, upserts = changes.filter(deleted).select(keys), changes.filter(pc.invert(deleted))
        self._write(self._statement(dialect.deletion, self._keys), deletions)
        self._write(self._statement(dialect.upsert, self._columns), upserts.select(range(len(self._columns))))

    def commit(self) -> None:
        """Make all of it last."""
        self._connection.commit()

    @cached_property
    def _marked(self) -> str:
        """The name of the table among the marks: the same for all spellings of its name."""
        if self._dialect.tells_capitals:
            return self._target.table
        # a mark that stands there in other capitals, of ASCII's letters alone, is the same table's
        names = [str(name) for (name,) in self._run(f"SELECT table_name FROM {self._dialect.quoted(*self._batches)}")]
        ours = self._target.table.encode().lower()
        return min((name for name in names if name.encode().lower() == ours), default=self._target.table)

    def _statement(self, text: str, columns: Sequence[DatabaseColumn]) -> str:
        return self._dialect.statement(text, self._dialect.quoted(*self._table), columns)

    def _run(self, statement: str, *values: object) -> list[Any]:
        """Run a statement; the rows that it gives."""
        cursor = self._connection.execute(statement, *([values] if values else []))
        return cursor.fetchall() if cursor.description else []

    def _write(self, statement: str, rows: pa.Table) -> None:
        values = [_python_values(column, is_array=self._dialect.takes_arrays) for column in rows.columns]
        if not len(rows):
            return
        if self._dialect.takes_arrays:
            self._run(statement, *values)
        else:
            self._connection.executemany(statement, zip(*values, strict=True))

    def _existing_columns(self, *table: str) -> list[ExistingColumn]:
        """The columns of a table, which may be in a schema; none: it is not there."""
        rows = self._run(self._dialect.columns.format(table=self._dialect.quoted(*table), name=table[-1]))
        return [ExistingColumn(self._name(name), kind, bool(is_required)) for name, kind, is_required in rows]

    def _name(self, name: str) -> str:
        return name if self._dialect.tells_capitals else self._names.get(name.casefold(), name)

    def _check_key(self) -> None:
        unique: dict[object, set[str]] = {}
        table = self._dialect.quoted(*self._table)
        for index, name in self._run(self._dialect.unique.format(table=table, name=self._table[-1])):
            unique.setdefault(index, set()).add(self._name(str(name)))
        key = {column.name for column in self._keys}
        if key not in unique.values():
            raise ConfigError(
                "The table may have two rows of one key.",
                given=f"{self._target!r}: no primary key or unique index of just {', '.join(sorted(key))}",
                hint=self._statement("CREATE UNIQUE INDEX ON it ({keys}); or key=... names its columns.", self._keys),
            )


def _python_values(column: pa.ChunkedArray, *, is_array: bool) -> list[object]:
    values: list[object] = column.to_pylist()
    if not is_array and pt.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        # SQLite would make null of what is no number; a driver's rows are Python's anyway
        return ["NaN" if value is not None and value != value else value for value in values]
    return values


# The changes of a task: the last change of each key, in the columns of the database, as blobs.
#
# A key's rows are all in one task, in order (law 2), so its last one there is its last one in the batch. Tasks write
# nothing to the database: one that runs twice, or breaks off, changes nothing, and no password leaves the driver.

CHANGES = "small boolean, changes binary"
_CHANGES_ARROW = pa.schema([("small", pa.bool_()), ("changes", pa.binary())])
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
        freeze_imports()
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
                    hint="Leave such rows out before, or fill them: F.coalesce(key, F.lit(...)).",
                )
        deleted = rows.column("value").is_null()
        return pa.RecordBatch.from_pydict({**arrays, DELETED: deleted})

    def _database_values(self, rows: pa.Table) -> pa.Table:
        for number, column in enumerate(self.columns):
            values = rows.column(number)
            array = pa.chunked_array([_database_column(chunk, column, self.dialect) for chunk in values.chunks])
            rows = rows.set_column(number, place(number), array)
        return rows


def _read(content: bytes, small: bool) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"small": [small], "changes": [content]}, schema=_CHANGES_ARROW)


def _database_column(values: pa.Array, column: DatabaseColumn, dialect: Dialect) -> pa.Array:
    kind = values.type
    if column.is_json:
        return encoded(values, spark_type(column.kind)).cast(pa.string())
    if pt.is_timestamp(kind):
        # a count of microseconds means the same whatever zone the column is shown in
        values = values.cast(pa.timestamp("us", kind.tz)).view(pa.timestamp("us", "UTC" if kind.tz else None))
    is_text = DIALECTS[dialect].type_of(column.kind).lower() == "text"
    return pc.cast(values, pa.string()) if is_text else values
