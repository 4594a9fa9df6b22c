"""Operators that are computed anew when a topology changes, and the table that is compared with what they give.

Runs once, over the state that the changed topology has taken over, before its first batch (docs/decisions/changes.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.exchange import DropCounts
from watersmeet._engine.keys import equal_values, group_keys
from watersmeet._engine.operator import Events, OperatorContext, operator_table, stored_time
from watersmeet._engine.operators import run_operator
from watersmeet._engine.operators.foreign_key_join import PUT, TELL
from watersmeet._engine.row_sizes import Picked, in_pieces
from watersmeet._engine.rows import (
    HEADERS,
    Bools,
    Int64s,
    gather,
    ints,
    joined,
    position_columns,
    stacked,
    visible_columns,
)
from watersmeet._engine.state.runs import State
from watersmeet._plan.declaration import JoinParams
from watersmeet._plan.evolve import Difference, Recomputation

BEFORE_RECORDS = -1
"""order_ts of the rows of a replaced table: before all records, which have no negative times."""


def run_anew(
    context: OperatorContext, role: Recomputation, inputs: Mapping[int, pa.Table], state: State, drops: DropCounts
) -> Iterator[pa.Table]:
    """The results of an operator over all rows of its sides, from an empty state on.

    Parameters
    ----------
    role : the sides that its own tables have.
    inputs : the rows of the other sides.
    """
    tables = {side: _own_rows(context, side, state) for side in role.own}
    sides = {side: rows for side, rows in (*inputs.items(), *tables.items()) if len(rows)}
    state.clear()
    yield from run_operator(context, sides, state, drops)


def _own_rows(context: OperatorContext, side: int, state: State) -> pa.Table:
    """The rows of a side's table as they come in on that side, one after the other."""
    rows = _stored_rows(context, state, side)
    count = len(rows)
    columns = {name: rows.column(name) for name in rows.column_names} | _no_position(context, count)
    columns["srcpart"] = pa.array(np.full(count, side, dtype=np.int64))
    columns["offset"] = pa.array(np.arange(count, dtype=np.int64))
    if context.headers:
        columns["headers"] = pa.nulls(count, HEADERS)
    if side == 0 and context.operator.declaration.messages == "received":
        columns["verb"] = _puts(context, count)
    return pa.table(columns)


def _stored_rows(context: OperatorContext, state: State, number: int = 0) -> pa.Table:
    table = operator_table(context, state, number)
    return stacked([table.schema.empty_table(), *table.scan()])


def _no_position(context: OperatorContext, count: int) -> dict[str, pa.Array]:
    zeros = pa.array(np.zeros(count, dtype=np.int64))
    return dict.fromkeys(position_columns(context.slots), zeros)


def _puts(context: OperatorContext, count: int) -> pa.Array:
    """The verbs of messages that put rows."""
    flag = TELL if context.params(JoinParams).how == "left" else 0
    return pa.array(np.full(count, PUT + flag, dtype=np.int8))


@dataclass(frozen=True)
class RowCounts:
    """How many rows of a table differ from its new contents."""

    added: int
    changed: int
    removed: int


def differing_rows(
    context: OperatorContext, role: Difference, inputs: Mapping[int, pa.Table], state: State
) -> tuple[RowCounts, Iterator[pa.Table]]:
    """The rows of a table's new contents that differ from what it has, with null for those that are gone.

    They are as they come in on the table's side, before all records of a batch, by the hash of the key. A timestamp
    alone is no difference.
    """
    old = _stored_rows(context, state)
    new = _last_rows(context, inputs, old.schema)
    hashes = np.concatenate([ints(new, "hash"), ints(old, "hash")])
    keys = joined([new.column("key"), old.column("key")], context.key)
    groups = group_keys(hashes, keys)
    at = [np.full(groups.count, -1, dtype=np.int64) for _ in range(2)]
    at[0][groups.group_of_row[: len(new)]] = np.arange(len(new))
    at[1][groups.group_of_row[len(new) :]] = np.arange(len(old))
    is_new, was = at[0] >= 0, at[1] >= 0
    changed = is_new & was & ~_equal(new, old, at)
    counts = RowCounts(int((is_new & ~was).sum()), int(changed.sum()), int((was & ~is_new).sum()))
    differences = np.flatnonzero((is_new != was) | changed)
    return counts, _rows(
        context, role, (new, old), (at[0][differences], at[1][differences]), hashes[groups.first[differences]]
    )


def _last_rows(context: OperatorContext, inputs: Mapping[int, pa.Table], schema: pa.Schema) -> pa.Table:
    """The row that is last of each key, if it has a value, in the columns of the table."""
    events = Events(context, inputs, sides=1)
    rows, last = events.tables[0], events.groups.last
    indices = pa.array(events.own[last[events.present[last]]])
    time = stored_time(rows)
    columns = {name: rows.column(time if name == "ts" else name).take(indices) for name in schema.names}
    return pa.table(columns).cast(schema)


def _equal(new: pa.Table, old: pa.Table, at: Sequence[Int64s]) -> Bools:
    """Which groups have two rows with equal values."""
    pairs = np.flatnonzero((at[0] >= 0) & (at[1] >= 0))
    values = [gather(rows.column("value"), pointers[pairs]) for rows, pointers in zip((new, old), at, strict=True)]
    equal = np.zeros(len(at[0]), dtype=np.bool_)
    equal[pairs] = equal_values(*values)
    return equal


def _rows(
    context: OperatorContext,
    role: Difference,
    rows: tuple[pa.Table, pa.Table],
    at: tuple[Int64s, Int64s],
    hashes: Int64s,
) -> Iterator[pa.Table]:
    """Rows for the table's side: the new ones, or those that were there without a value."""
    new, old = rows
    count, pointers = len(hashes), np.where(at[0] >= 0, at[0], len(new) + at[1])

    def of_both(name: str) -> Picked:
        return Picked(joined([new.column(name), old.column(name)], new.schema.field(name).type), pointers)

    columns: dict[str, pa.Array | Picked] = {**_no_position(context, count)}
    columns["order_ts"] = pa.array(np.full(count, BEFORE_RECORDS, dtype=np.int64))
    # in an order of their own, however many shards there are; equal hashes lie side by side
    columns["offset"] = pa.array(hashes + _repeats(hashes))
    if "visible" in role.columns:
        columns |= dict.fromkeys(visible_columns(context.slots), columns["p0"])
    columns |= {"ts": of_both("ts"), "hash": pa.array(hashes), "key": of_both("key")}
    columns["value"] = Picked(new.column("value"), at[0])
    if "stored_ts" in role.columns:
        columns["stored_ts"] = columns["ts"]
    if "old" in role.columns:
        columns["old"] = Picked(old.column("value"), at[1])
    if "silent" in role.columns:
        columns["silent"] = pa.array(np.zeros(count, dtype=np.bool_))
    if context.headers:
        columns["headers"] = pa.nulls(count, HEADERS)
    if count:
        yield from in_pieces(columns)


def _repeats(hashes: Int64s) -> Int64s:
    """Of hashes in order, how many equal ones stand directly before each."""
    number = np.arange(len(hashes))
    begins = np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]
    return number - np.maximum.accumulate(np.where(begins, number, 0))
