"""What a transaction on a table can do, whichever database it is of.

One row of `millpond_batches` belongs to each table: who writes it, and the last batch that it has. Reading it locks it
until the transaction ends, so of two writers one waits, and then sees what the other has done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa

from millpond._engine.databases.columns import DatabaseColumn
from millpond.errors import ConfigError
from millpond.io.databases import DatabaseTable

BATCHES = "millpond_batches"


@dataclass(frozen=True)
class Mark:
    """What a table has.

    Parameters
    ----------
    writer : who writes it.
    batch : number of the last batch that it has; -1: none.
    """

    writer: str
    batch: int


class Transaction(ABC):
    """One transaction; what is not committed when it is left is as if it had not been."""

    @abstractmethod
    def prepare(self) -> None:
        """Make what is missing, if it may be made, and check the columns.

        Raises
        ------
        ConfigError : the table is missing, or has other columns.
        """

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the table has no rows."""

    @abstractmethod
    def mark(self) -> Mark | None:
        """What the table has, which is locked from now on; None: nobody has written it."""

    @abstractmethod
    def set_mark(self, mark: Mark) -> None:
        """Write down what the table has."""

    @abstractmethod
    def apply(self, changes: pa.Table) -> None:
        """Put and delete rows: the table's columns in order, then whether a row is deleted."""

    @abstractmethod
    def commit(self) -> None:
        """Make all of it last."""


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
        """A connection, with a transaction begun, both of which end with the context.

        Raises
        ------
        ConfigError : the database cannot be reached.
        SinkError : it refuses something.
        """


def quoted(*names: str) -> str:
    """Names in SQL, one within the other: schema and table."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def listed(columns: Iterable[DatabaseColumn]) -> str:
    """Names of columns in SQL."""
    return ", ".join(quoted(column.name) for column in columns)


def conflict(columns: Sequence[DatabaseColumn]) -> str:
    """What an insert does where the key is there: the row gets the new values."""
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


def missing(target: DatabaseTable, statement: str) -> ConfigError:
    """That the table is not there."""
    return ConfigError(
        "The database has no such table.",
        given=repr(target),
        hint=f"Have it made: mp.DatabaseTable(..., create=True). Or make it: {statement}",
    )


def check_columns(
    database: Database,
    statement: str,
    given: dict[str, str],
    fits: Sequence[bool | None],
    types: Sequence[str],
    required: Iterable[str],
    keys: Iterable[frozenset[str]],
) -> None:
    """Compare the table with what is to be written.

    Parameters
    ----------
    statement : that would make it.
    given : its columns and their types.
    fits : of each column that is to be written whether it fits; None: it is not there.
    types : theirs.
    required : columns that no row may be without.
    keys : sets of columns that no two rows have alike.

    Raises
    ------
    ConfigError : it does not fit.
    """
    columns, target = database.columns, database.target
    wrong = []
    for column, fit, kind in zip(columns, fits, types, strict=True):
        if fit is None:
            wrong.append(f"{column.name} ({kind}) is missing")
        elif not fit:
            wrong.append(f"{column.name} is {given[column.name] or 'of no type'}, and the topology gives {kind}")
    ours = {column.name for column in columns}
    wrong += [f"{name} must not be null, and the topology does not give it" for name in required if name not in ours]
    if wrong:
        raise ConfigError(
            "The table's columns are not those of the topology.",
            given=f"{target!r}: {'; '.join(wrong)}",
            hint=f"Change the table (ALTER TABLE), or write another one. What the topology gives would be: {statement}",
        )
    wanted = frozenset(column.name for column in columns if column.is_key)
    if wanted not in set(keys):
        raise ConfigError(
            "The table may have two rows of one key.",
            given=f"{target!r}: no primary key or unique index of just {', '.join(sorted(wanted))}",
            hint=f"CREATE UNIQUE INDEX ON it ({listed(c for c in columns if c.is_key)}); or key=... names its columns.",
        )
