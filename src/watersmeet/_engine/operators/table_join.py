"""table_table: primary-key join of two tables, inner, left and outer (KIP-77; docs/semantics/table_table.md).

Each side's change looks up the current value of the other side. Results are pairs of pointers; values are
gathered last. Both sides' values are kept as tables of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.matching import Ordered, Sides, VisibleRows, values_at
from watersmeet._engine.operator import (
    Events,
    OperatorContext,
    SideValues,
    keep_rows,
    operator_table,
    sent,
    store_last,
)
from watersmeet._engine.row_sizes import Picked
from watersmeet._engine.rows import Bools, Int64s, path_columns, visible_columns
from watersmeet._engine.state.runs import State, Table
from watersmeet._plan.declaration import JoinParams
from watersmeet._plan.operators.joins import MultiJoinParams


@dataclass(frozen=True)
class _SideChanges:
    """Per row: whether it changes the left side, and pointers (-1 none) to new, old and other value."""

    is_left: Bools
    new: Int64s
    old: Int64s
    other: Int64s


def run_table_table(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=2)
    if not len(events):
        return
    tables = [operator_table(context, state, side) for side in (0, 1)]
    values = [SideValues(events, side, tables[side]) for side in (0, 1)]
    sides = Sides(events, values)
    old = sides.own_before()
    void = _suppressed(context, events, old)
    if void.any():
        # They change nothing, for this operator and for what comes after: as if they had not come.
        yield from run_table_table(context, keep_rows(inputs, events, ~void), state)
        return
    changes = _SideChanges(
        is_left=events.side == 0,
        new=np.where(events.present, events.own, -1),
        old=old,
        other=sides.other_side(),
    )
    _store(events, values, tables)
    yield from _table_table_results(events, values, changes)


def _suppressed(context: OperatorContext, events: Events, old: Int64s) -> Bools:
    suppress: Bools = np.array(context.params(JoinParams).suppress, dtype=np.bool_)[events.side]
    void: Bools = suppress & ~events.present & (old < 0)
    return void


def _store(events: Events, values: list[SideValues], tables: list[Table]) -> None:
    ordered = Ordered(events.groups)
    for side in (0, 1):
        last = ordered.last_of_each(events.side == side)
        store_last(events, side, last, values[side].prior, tables[side])


def _table_table_results(events: Events, values: list[SideValues], changes: _SideChanges) -> Iterator[pa.Table]:
    operator, params = events.context.operator, events.context.params(JoinParams)
    old_generation = params.generation.startswith("old")
    rule = _old_rule if old_generation else _current_rule
    emitted, joins, old_joins = rule(params.how, changes)
    rows = np.flatnonzero(emitted & ~events.silent)
    firsts, rows = sent(operator, events.groups.group_of_row, rows, joins, old_joins)
    if "silent" in operator.emits:
        yield from _views(events, values)
    if not len(rows):
        return
    left = np.where(changes.is_left, changes.new, changes.other)[rows]
    right = np.where(changes.is_left, changes.other, changes.new)[rows]
    ts = events.ts[rows]
    if not old_generation:
        by_left, partner = changes.is_left[rows], changes.other[rows]
        ts = np.maximum(ts, values[1].ts(np.where(by_left, partner, -1)))
        ts = np.maximum(ts, values[0].ts(np.where(by_left, -1, partner)))
    out = events.meta(rows, ts)
    if "silent" in operator.emits:
        out |= _visible_columns(events, rows, events.position) | {
            "silent": pa.array(np.zeros(len(rows), dtype=np.bool_))
        }
    if "stored_ts" in operator.emits:
        out["stored_ts"] = pa.array(np.maximum(values[0].ts(left), values[1].ts(right)))
    is_joined = joins[rows]
    out |= _pair(values, left, right, is_joined, "")
    if "old" in operator.emits:
        left = np.where(changes.is_left, changes.old, changes.other)[firsts]
        right = np.where(changes.is_left, changes.other, changes.old)[firsts]
        out |= _pair(values, left, right, old_joins[firsts], "old_")
    yield from events.context.in_pieces(out)


def _views(events: Events, values: list[SideValues]) -> Iterator[pa.Table]:
    """The changes for lookups: silent rows, where each change became visible.

    Where one record changes both sides, what is sent lacks what each side left to the other (KAFKA-6443); Kafka
    Streams does not notice, since it looks the result up in the stores of the inputs.
    """
    operator, rows = events.context.operator, np.arange(len(events))
    how = events.context.params(JoinParams).how
    visible = events.visible()
    visible_rows = VisibleRows(events, visible)
    left, right = (visible_rows.pointers(side, values[side]) for side in (0, 1))
    is_joined = {"inner": (left >= 0) & (right >= 0), "left": left >= 0, "outer": (left >= 0) | (right >= 0)}[how]
    ts = np.where(is_joined, np.maximum(values[0].ts(left), values[1].ts(right)), events.ts)
    out = events.meta(rows, ts) | _visible_columns(events, rows, visible)
    out |= dict(zip(path_columns(events.context.slots), _paths(events, rows, visible), strict=True))
    out["silent"] = pa.array(np.ones(len(rows), dtype=np.bool_))
    if "stored_ts" in operator.emits:
        out["stored_ts"] = out["ts"]
    out |= _pair(values, left, right, is_joined, "")
    if "old" in operator.emits:
        nothing = np.full(len(rows), -1, dtype=np.int64)
        out |= _pair(values, nothing, nothing, nothing >= 0, "old_")
    yield from events.context.in_pieces(out)


def _visible_columns(events: Events, rows: Int64s, position: list[Int64s]) -> dict[str, pa.Array]:
    """The columns that say from where lookups see results, where they are wanted."""
    if "visible" not in events.context.operator.emits:
        return {}
    return dict(zip(visible_columns(events.context.slots), _paths(events, rows, position), strict=True))


def _paths(events: Events, rows: Int64s, position: list[Int64s]) -> list[pa.Array]:
    return [pa.array(column[rows]) for column in position[-events.context.slots :]]


def _pair(
    values: list[SideValues], left: Int64s, right: Int64s, is_joined: Bools, prefix: str
) -> dict[str, pa.Array | Picked]:
    """Operands of the joiner; a tombstone carries none."""
    return {
        f"{prefix}left": values[0].picked(np.where(is_joined, left, -1)),
        f"{prefix}right": values[1].picked(np.where(is_joined, right, -1)),
        f"{prefix}joined": pa.array(is_joined),
    }


def _current_rule(how: str, c: _SideChanges) -> tuple[Bools, Bools, Bools]:
    """(emitted, new result is a join, old result is a join) of each change, as section 10 tabulates."""
    new, old, partner = c.new >= 0, c.old >= 0, c.other >= 0
    if how == "inner":
        return partner, new & partner, old & partner
    anything = partner | new | old
    if how == "outer":
        return anything, partner | new, partner | old
    left_side, right_side = c.is_left, ~c.is_left
    emitted = np.where(left_side, anything, partner)
    return emitted, (left_side & new) | (right_side & partner), (left_side & old) | (right_side & partner)


def _old_rule(how: str, c: _SideChanges) -> tuple[Bools, Bools, Bools]:
    """The same for 0.10.0 and 0.10.1: every change gives a result, a tombstone where nothing joins."""
    new, old, partner = c.new >= 0, c.old >= 0, c.other >= 0
    always = np.ones(len(new), dtype=np.bool_)
    if how == "inner":
        return always, new & partner, old & partner
    if how == "outer":
        return always, new | partner, old | partner
    return always, np.where(c.is_left, new, partner), np.where(c.is_left, old, partner)


# multi_join: join of several tables by their common key (docs/semantics/multi_join.md).
#
# Each change of a table looks up the current values of all others. Results are tuples of pointers; values are gathered
# last. The rows of each table are kept as a table of their own, and no result is.


def run_multi_join(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    sides = range(len(context.values))
    events = Events(context, inputs, sides=len(sides))
    if not len(events):
        return
    tables = [operator_table(context, state, side) for side in sides]
    values = [SideValues(events, side, table) for side, table in enumerate(tables)]
    ordered = Ordered(events.groups)
    current, previous = _lookups(events, values, ordered)
    for side in inputs:
        store_last(events, side, ordered.last_of_each(events.side == side), values[side].prior, tables[side])
    yield from _multi_join_results(events, values, current, previous)


def _lookups(events: Events, values: list[SideValues], ordered: Ordered) -> tuple[list[Int64s], list[Int64s]]:
    """Pointers to the value of each table behind each row, and before it; -1 for none."""
    current, previous = [], []
    for side, of_side in enumerate(values):
        mask = events.side == side
        current.append(values_at(events, ordered.last_before(mask, inclusive=True), of_side))
        pointers = values_at(events, ordered.last_before(mask, inclusive=False), of_side)
        previous.append(np.where(mask, pointers, current[side]))
    return current, previous


def _multi_join_results(
    events: Events, values: list[SideValues], current: list[Int64s], previous: list[Int64s]
) -> Iterator[pa.Table]:
    """A result for each row that makes one, or ends one."""
    operator = events.context.operator
    needed = events.context.params(MultiJoinParams).needed
    joins, old_joins = _has_result(current, needed), _has_result(previous, needed)
    # a tombstone of a row that was not there changes nothing
    changes = events.present | np.any([np.not_equal(*pair) for pair in zip(current, previous, strict=True)], axis=0)
    rows = np.flatnonzero((joins | old_joins) & changes)
    firsts, rows = sent(operator, events.groups.group_of_row, rows, joins, old_joins)
    if not len(rows):
        return
    ts = events.ts[rows]
    for of_side, pointers in zip(values, current, strict=True):
        ts = np.maximum(ts, of_side.ts(pointers[rows]))
    out: dict[str, pa.Array | Picked] = dict(events.meta(rows, ts))
    out |= _operands(values, current, joins, rows, "")
    if "old" in operator.emits:
        out |= _operands(values, previous, old_joins, firsts, "old_")
    yield from events.context.in_pieces(out)


def _has_result(pointers: list[Int64s], needed: tuple[bool, ...]) -> Bools:
    """Of each row, whether there is a result with these values."""
    masks = [rows >= 0 for rows in pointers]
    required = masks if not any(needed) else [rows for rows, needs in zip(masks, needed, strict=True) if needs]
    has_result: Bools = np.any(required, axis=0) if not any(needed) else np.all(required, axis=0)
    return has_result


def _operands(
    values: list[SideValues], pointers: list[Int64s], joins: Bools, rows: Int64s, prefix: str
) -> dict[str, pa.Array | Picked]:
    """Operands of the joiner; a tombstone carries none."""
    is_joined = joins[rows]
    out: dict[str, pa.Array | Picked] = {
        f"{prefix}side{side}": of_side.picked(np.where(is_joined, pointers[side][rows], -1))
        for side, of_side in enumerate(values)
    }
    return out | {f"{prefix}joined": pa.array(is_joined)}
