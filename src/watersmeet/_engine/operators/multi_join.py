"""multi_join: join of several tables by their common key (docs/semantics, section 27).

Each change of a table looks up the current values of all others. Results are tuples of pointers; values are gathered
last. The rows of each table are kept as a table of their own, and no result is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.matching.lookup import values_at
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, OperatorContext, SideValues, operator_table, sent, store_last
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._plan.operators.table_joins.multi_join import MultiJoinParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    sides = range(len(context.values))
    events = Events(context, inputs, sides=len(sides))
    if not len(events):
        return
    tables = [operator_table(context, state, side) for side in sides]
    values = [SideValues(events, side, table) for side, table in enumerate(tables)]
    ordered = Ordered(events.groups)
    current, before = _lookups(events, values, ordered)
    for side in inputs:
        store_last(events, side, ordered.last_of_each(events.side == side), values[side].prior, tables[side])
    yield from _results(events, values, current, before)


def _lookups(events: Events, values: list[SideValues], ordered: Ordered) -> tuple[list[Int64s], list[Int64s]]:
    """Pointers to the value of each table behind each row, and before it; -1 for none."""
    current, before = [], []
    for side, of_side in enumerate(values):
        mine = events.side == side
        current.append(values_at(events, ordered.last_before(mine, inclusive=True), of_side))
        own = values_at(events, ordered.last_before(mine, inclusive=False), of_side)
        before.append(np.where(mine, own, current[side]))
    return current, before


def _results(
    events: Events, values: list[SideValues], current: list[Int64s], before: list[Int64s]
) -> Iterator[pa.Table]:
    """A result for each row that makes one, or ends one."""
    operator = events.context.operator
    needed = events.context.params(MultiJoinParams).needed
    joins, old_joins = _has_result(current, needed), _has_result(before, needed)
    # a tombstone of a row that was not there changes nothing
    changes = events.present | np.any([np.not_equal(*pair) for pair in zip(current, before, strict=True)], axis=0)
    rows = np.flatnonzero((joins | old_joins) & changes)
    firsts, rows = sent(operator, events.groups.group_of_row, rows, joins, old_joins)
    if not len(rows):
        return
    ts = events.ts[rows]
    for of_side, pointers in zip(values, current, strict=True):
        ts = np.maximum(ts, of_side.ts(pointers[rows]))
    out: dict[str, pa.Array | Picked] = dict(events.meta(rows, ts))
    out |= _operands(values, current, joins, rows, "")
    if operator.emits_old:
        out |= _operands(values, before, old_joins, firsts, "old_")
    yield from events.context.in_pieces(out)


def _has_result(pointers: list[Int64s], needed: tuple[bool, ...]) -> Bools:
    """Of each row, whether there is a result with these values."""
    there = [rows >= 0 for rows in pointers]
    found = there if not any(needed) else [rows for rows, needs in zip(there, needed, strict=True) if needs]
    stands: Bools = np.any(found, axis=0) if not any(needed) else np.all(found, axis=0)
    return stands


def _operands(
    values: list[SideValues], pointers: list[Int64s], joins: Bools, rows: Int64s, prefix: str
) -> dict[str, pa.Array | Picked]:
    """Operands of the joiner; a tombstone carries none."""
    called = joins[rows]
    out: dict[str, pa.Array | Picked] = {
        f"{prefix}side{side}": of_side.picked(np.where(called, pointers[side][rows], -1))
        for side, of_side in enumerate(values)
    }
    return out | {f"{prefix}joined": pa.array(called)}
