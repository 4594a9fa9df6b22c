"""An operator in the engine: a function of (settings, input rows of one shard and batch, state).

Owns the contract and the helpers that the operators share; `operators.run_operator` calls them for every
(operator, shard) of a batch. An operator is pure but for its state: the same input and state give the same
rows in the same order (laws 1 and 2), so a replayed batch produces the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa

from watersmeet._engine.keys import KeyGroups, group_keys
from watersmeet._engine.row_sizes import Columns, Picked, in_pieces
from watersmeet._engine.rows import (
    BEFORE_KEY,
    HEADERS,
    HELD_KEY,
    Bools,
    Int64s,
    bools,
    gather,
    held_keys,
    held_together,
    ints,
    joined,
    order_by,
    position_columns,
    ranks,
    valid,
    visible_columns,
)
from watersmeet._engine.state.runs import State, Table
from watersmeet._plan.declaration import Params, TableSchema
from watersmeet._plan.physical import Operator, OperatorTime, StoreReader
from watersmeet._plan.reasons import Reason

P = TypeVar("P", bound=Params)
_NOTHING = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Dropped:
    """Rows that end in an operator, which yields them beside its results (law 6)."""

    reason: Reason  # why they end
    rows: pa.Table  # the rows of a side
    at: Int64s  # which of them end

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True)
class Failed:
    """Rows that end in an operator since a function raises for them."""

    rows: pa.Table  # the rows of a side
    errors: Mapping[int, Exception]  # of those of them that end, by their numbers, what was raised


@dataclass(frozen=True)
class Noted:
    """The numbers of a processor's own, which its operator yields behind its results."""

    numbers: Mapping[tuple[str, str], int]  # by kind, one of those of `exchange.OWN`, and name


@dataclass(frozen=True)
class OperatorContext:
    """The facts of the plan that an operator needs."""

    operator: Operator  # the operator
    slots: int  # path slots of the plan
    key: pa.DataType  # Arrow type of the key
    values: tuple[pa.DataType, ...]  # Arrow type of the value of each side
    headers: bool  # whether rows carry headers
    extras: tuple[tuple[str, pa.DataType], ...] = ()  # name and Arrow type of what sides carry beside key and value
    kept: tuple[TableSchema, ...] = ()  # its tables as their stores have them, with Arrow types
    # of its results' columns that are structs, the numbers of the fields that are read behind it; all of those that
    # are not named
    fields: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tolerates_errors: bool = False  # whether a record for which a function raises ends, and does not fail the query
    reader: StoreReader | None = None  # how it reads its store, if another operator owns that

    def params(self, kind: type[P]) -> P:
        """The operator's own parameters, of the class that its declaration makes."""
        params = self.operator.params
        assert isinstance(params, kind), f"{self.operator.stem} has {type(params).__name__}, not {kind.__name__}"
        return params

    @property
    def time(self) -> OperatorTime:
        assert self.operator.time is not None, f"{self.operator.stem} does not go by time"
        return self.operator.time

    def in_pieces(self, columns: Columns) -> Iterator[pa.Table]:
        """Results as tables of bounded size, in which only that is gathered which is read of them (`fields`)."""
        narrow = {
            name: column for name, column in columns.items() if name in self.fields and isinstance(column, Picked)
        }
        read = {name: replace(column, fields=self.fields[name]) for name, column in narrow.items()}
        return in_pieces({**columns, **read})

    def side_schema(self, side: int) -> pa.Schema:
        """Columns of the rows that come in on a side, headers apart."""
        names = position_columns(self.slots)
        if self.operator.shared_root or "visible" in self.operator.emits:
            names += visible_columns(self.slots)
        fields = [pa.field(name, pa.int64()) for name in (*names, "ts", "hash")]
        fields += [pa.field("key", self.key), pa.field("value", self.values[side])]
        return pa.schema(fields + ([pa.field("headers", HEADERS)] if self.headers else []))

    @cached_property
    def empty_sides(self) -> tuple[pa.Table, ...]:
        return tuple(self.side_schema(side).empty_table() for side in range(len(self.values)))


class Events:
    """The rows of all sides, numbered in order of position, grouped by key.

    Attributes
    ----------
    side : side of each row, 0 left.
    own : number of the row within its side's own table, as it was given.
    silent : rows that only say what lookups see.
    held : turns and serialized keys that rows were held back under, null where one was not; None: none was.
    groups : rows by key.
    """

    def __init__(self, context: OperatorContext, inputs: Mapping[int, pa.Table], sides: int) -> None:
        self.context = context
        self.tables = [inputs[s] if s in inputs else context.empty_sides[s] for s in range(sides)]
        columns = [self._concat(name) for name in position_columns(context.slots)]
        keys = joined([table.column("key") for table in self.tables], context.key)
        lengths = [len(table) for table in self.tables]
        turns = held_together([held_keys(table) for table in self.tables], lengths)
        order = order_by(columns, turns)
        self.held = None if turns is None else turns.take(pa.array(order))
        self.position = [column[order] for column in columns]
        self.side = np.repeat(np.arange(sides), lengths)[order]
        self.own = np.concatenate([np.arange(n, dtype=np.int64) for n in lengths])[order]
        self.ts = self._concat("ts")[order]
        self.hash = self._concat("hash")[order]
        self.key = keys.take(pa.array(order))
        self.present = np.concatenate([valid(table.column("value")) for table in self.tables])[order]
        self.silent = np.concatenate([silent_rows(table) for table in self.tables])[order]
        self.groups: KeyGroups = group_keys(self.hash, self.key)
        self._order = order

    def __len__(self) -> int:
        return len(self.side)

    def drops(self, reason: Reason, rows: Int64s) -> Iterator[Dropped]:
        """These rows end, side by side."""
        for side, table in enumerate(self.tables):
            numbers = self.own[rows[self.side[rows] == side]]
            if len(numbers):
                yield Dropped(reason, table, numbers)

    def _concat(self, name: str) -> Int64s:
        parts = [ints(table, name) for table in self.tables if len(table)]
        return parts[0] if len(parts) == 1 else np.concatenate([_NOTHING, *parts])

    def numbers(self, name: str) -> Int64s:
        """A column of whole numbers that some sides carry; 0 in rows of the others."""
        parts = [ints(t, name) if name in t.column_names else np.zeros(len(t), dtype=np.int64) for t in self.tables]
        return np.concatenate(parts)[self._order]

    @cached_property
    def number_of_record(self) -> Int64s:
        """The number of each row's input record among those of the batch."""
        root = np.stack(self.position[:3])
        number: Int64s = np.append(0, np.cumsum((root[:, 1:] != root[:, :-1]).any(axis=0)))[: len(self)]
        return number

    def ranked(self, columns: list[Int64s]) -> list[Int64s]:
        """Columns of positions of all rows with one more, after which integers alone say the order."""
        if self.held is None:
            return columns
        return [*columns[:BEFORE_KEY], self._rank, *columns[BEFORE_KEY:]]

    @cached_property
    def _rank(self) -> Int64s:
        return ranks(self.held)

    def visible(self) -> list[Int64s]:
        """The position from which lookups see each row, most significant column first."""
        slots = self.context.slots
        columns = []
        for name in visible_columns(slots):
            parts = [ints(t, name) if name in t.column_names else ints(t, name.replace("v", "p")) for t in self.tables]
            columns.append(np.concatenate(parts)[self._order])
        return self.position[: len(self.position) - slots] + columns

    def meta(self, rows: Int64s, ts: Int64s) -> dict[str, pa.Array]:
        """Metadata columns of results that the given rows trigger."""
        names = position_columns(self.context.slots)
        out = {n: pa.array(c[rows]) for n, c in zip(names, self.position, strict=True)}
        if "visible" in self.context.operator.emits:
            for name, column in zip(visible_columns(self.context.slots), self.visible()[3:], strict=True):
                out[name] = pa.array(column[rows])
        out |= {"ts": pa.array(ts), "hash": pa.array(self.hash[rows]), "key": self.key.take(pa.array(rows))}
        if self.held is not None:
            out[HELD_KEY] = self.held.take(pa.array(rows))
        if self.context.headers:
            out["headers"] = self._headers.take(pa.array(self._order[rows]))
        return out

    @cached_property
    def _headers(self) -> pa.Array | pa.ChunkedArray:
        return joined([t.column("headers") for t in self.tables], HEADERS)

    def headers(self, of: Int64s, state_headers: pa.Array | pa.ChunkedArray) -> Picked:
        """Headers of rows, by their numbers, and from the number of rows on stored ones; null for -1."""
        pool = joined([self._headers, state_headers], HEADERS)
        return Picked(pool, np.concatenate([self._order, np.arange(len(self), len(pool)), [-1]])[of])


class SideValues:
    """Values of one side: the batch's rows, then those found in state, then the old values that rows carry.

    Pointers count over all three.

    Attributes
    ----------
    prior : pointer to the stored value of each key group, -1 where there is none.
    carried : pointer to the old value that each of the side's rows carries, -1 for none; None where they do not.
    """

    def __init__(self, events: Events, side: int, table: Table) -> None:
        groups = events.groups
        lookup = table.point(events.hash[groups.first], events.key.take(pa.array(groups.first)))
        batch = events.tables[side]
        self.type = events.context.values[side]
        self._rows = (batch, lookup.rows)
        self._times = np.concatenate([ints(batch, stored_time(batch)), ints(lookup.rows, "ts")])
        self.prior = np.where(lookup.index >= 0, lookup.index + len(batch), -1)
        self.carried = None
        self._old: list[pa.ChunkedArray] = []
        if "old" in batch.column_names:
            offset = len(self._times)
            self.carried = np.where(valid(batch.column("old")), np.arange(offset, offset + len(batch)), -1)
            self._old = [batch.column("old")]

    def picked(self, pointers: Int64s) -> Picked:
        """The values pointed to; null for -1."""
        return Picked(self._values, pointers)

    @cached_property
    def _values(self) -> pa.Array | pa.ChunkedArray:
        return joined([*(rows.column("value") for rows in self._rows), *self._old], self.type)

    def gather_column(self, name: str, kind: pa.DataType, pointers: Int64s) -> pa.Array:
        """Another column that the rows carry, where pointed to; not for old values."""
        parts = [rows.column(name) for rows in self._rows if name in rows.column_names]
        return gather(joined(parts, kind), pointers)

    def ts(self, pointers: Int64s) -> Int64s:
        """Timestamps of the values pointed to; the smallest integer for -1."""
        if not len(self._times):
            return np.full(len(pointers), np.iinfo(np.int64).min)
        return np.where(pointers >= 0, self._times[pointers], np.iinfo(np.int64).min)


def failed_rows(events: Events, errors: Mapping[int, Exception]) -> Iterator[Failed]:
    """Rows of events for which a function has raised, by their numbers, side by side."""
    for side, table in enumerate(events.tables):
        side_errors = {int(events.own[row]): error for row, error in errors.items() if events.side[row] == side}
        if side_errors:
            yield Failed(table, side_errors)


def sent(operator: Operator, group: Int64s, rows: Int64s, present: Bools, was_present: Bools) -> tuple[Int64s, Int64s]:
    """(rows that know what was before, rows that are sent): with the record cache each group's first and last.

    Parameters
    ----------
    group : each row's; of all rows.
    rows : those that give a result, ascending.
    present, was_present : per row, whether there is a result then, and before: the cache sends no null after null.
    """
    if not operator.cached:
        return rows, rows
    lasts = np.full(group.max(initial=-1) + 1, -1, dtype=np.int64)
    firsts = lasts.copy()
    lasts[group[rows]] = rows
    firsts[group[rows[::-1]]] = rows[::-1]
    groups = np.flatnonzero(lasts >= 0)
    groups = groups[present[lasts[groups]] | was_present[firsts[groups]]]
    groups = groups[np.argsort(lasts[groups])]
    return firsts[groups], lasts[groups]


def silent_rows(rows: pa.Table) -> Bools:
    return bools(rows, "silent") if "silent" in rows.column_names else np.zeros(len(rows), dtype=np.bool_)


def stored_time(rows: pa.Table) -> str:
    """Name of the column with the timestamps that lookups see."""
    return "stored_ts" if "stored_ts" in rows.column_names else "ts"


def operator_table(context: OperatorContext, state: State, number: int = 0) -> Table:
    return state.table(context.kept[number])


def store_last(events: Events, side: int, last: Int64s, prior: Int64s, table: Table) -> None:
    """Write the last row of each key group of `side` (-1: none); a null value deletes.

    A delete of a key that is nowhere is not written, so that tombstones leave nothing behind.
    """
    exists = prior >= 0
    rows = last[(last >= 0) & (exists | events.present[last])]
    if not len(rows):
        return
    batch = events.tables[side]
    columns = {name: batch.column(stored_time(batch) if name == "ts" else name) for name in table.schema.names}
    indices = events.own[rows]
    table.put({name: Picked(column, indices) for name, column in columns.items()}, ~events.present[rows])


def keep_rows(inputs: Mapping[int, pa.Table], events: Events, keep: Bools) -> dict[int, pa.Table]:
    """The inputs without the rows that `keep` (one flag per row of `events`) leaves out."""
    tables = {}
    for side in inputs:
        mask = np.zeros(len(events.tables[side]), dtype=np.bool_)
        mask[events.own[(events.side == side) & keep]] = True
        tables[side] = events.tables[side].filter(pa.array(mask))
    return tables
