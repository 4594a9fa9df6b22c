"""A transaction on a table of any database; a database adds the words in which it differs.

One row of `watersmeet_batches` belongs to each table: who writes it, and the last batch that it has. Reading it locks
it until the transaction ends, so of two writers one waits, and then sees what the other has done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.databases.columns import DatabaseColumn
from watersmeet._worker.databases.checks import GivenColumn, Mark, check_columns
from watersmeet._worker.databases.sql import definition, listed, quoted
from watersmeet.errors import ConfigError
from watersmeet.io.databases import BATCHES, DatabaseTable

_PLAN = "plan"
_BATCHES_COLUMNS = f"(table_name text PRIMARY KEY, writer text NOT NULL, batch bigint NOT NULL, {_PLAN} text)"


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
        """Make what is missing, if it may be made, and check the columns.

        Raises
        ------
        ConfigError : the table is missing, or has other columns.
        """
        statement = definition(quoted(*self._table), self._columns, self._types)
        given = self._given(*self._table)
        if not given:
            if not self._target.create:
                raise ConfigError(
                    f"Unknown table {self._target!r}: the database does not have it.",
                    given=repr(self._target),
                    hint=f"Let watersmeet create it: wm.DatabaseTable(..., create=True). Or create it: {statement}",
                )
            self._run(statement)
            given = self._given(*self._table)
        wanted = [(column.name, kind) for column, kind in zip(self._columns, self._types, strict=True)]
        check_columns(self._target, wanted, given, self._fits, statement)
        self._check_key()
        batches = {column.name for column in self._given(*self._batches)}
        if not batches:
            self._run(f"CREATE TABLE {quoted(*self._batches)} {_BATCHES_COLUMNS}")
        elif _PLAN not in batches:
            # an earlier watersmeet has made it
            self._run(f"ALTER TABLE {quoted(*self._batches)} ADD COLUMN {_PLAN} text")

    def is_empty(self) -> bool:
        """Whether the table has no rows."""
        return not self._run(f"SELECT 1 FROM {quoted(*self._table)} LIMIT 1")

    def mark(self) -> Mark | None:
        """The mark of the table, which is locked from now on; None: nobody has written it."""
        found = self._run(
            f"SELECT writer, batch, coalesce({_PLAN}, '') FROM {quoted(*self._batches)}"
            f" WHERE table_name = {self.parameter}{self.locking}",
            (self._marked,),
        )
        return Mark(*found[0]) if found else None

    def set_mark(self, mark: Mark) -> None:
        """Write down what the table has."""
        self._run(
            f"INSERT INTO {quoted(*self._batches)} (table_name, writer, batch, {_PLAN})"
            f" VALUES ({', '.join([self.parameter] * 4)}) ON CONFLICT (table_name) DO UPDATE"
            f" SET writer = excluded.writer, batch = excluded.batch, {_PLAN} = excluded.{_PLAN}",
            (self._marked, mark.writer, mark.batch, mark.plan),
        )

    def apply(self, changes: pa.Table) -> None:
        """Put and delete rows: the table's columns in order, then whether a row is deleted."""
        deleted = changes.column(len(self._columns))
        gone, put = changes.filter(deleted), changes.filter(pc.invert(deleted))
        if len(gone):
            self._delete(gone.select([number for number, column in enumerate(self._columns) if column.is_key]))
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
    def _given(self, *table: str) -> list[GivenColumn]:
        """The columns of a table, which may be in a schema; none: it is not there."""

    @abstractmethod
    def _unique(self) -> Iterable[frozenset[str]]:
        """Sets of columns that no two rows of the table have alike."""

    @abstractmethod
    def _fits(self, given: str, wanted: str) -> bool:
        """Whether a column of one type keeps values of another as they are."""

    @abstractmethod
    def _delete(self, rows: pa.Table) -> None:
        """Delete the rows of these keys; there is at least one."""

    @abstractmethod
    def _put(self, rows: pa.Table) -> None:
        """Insert these rows, or change those of their keys to them; there is at least one."""

    def _check_key(self) -> None:
        wanted = frozenset(column.name for column in self._keys)
        if wanted not in set(self._unique()):
            raise ConfigError(
                "The table may have two rows of one key.",
                given=f"{self._target!r}: no primary key or unique index of just {', '.join(sorted(wanted))}",
                hint=f"CREATE UNIQUE INDEX ON it ({listed(self._keys)}); or key=... names its columns.",
            )
