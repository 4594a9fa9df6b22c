"""global_lookup, global_table_lookup: rows of a global table, or through the tables behind a view, one after the other.

Each shard keeps a copy of every table. A row of a table that is not the last carries the key of its row in the
next one. The tables' updates are stored here; they give no results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.keys import KeyGroups, group_keys, hash_keys
from watersmeet._engine.matching import Ordered, Sides
from watersmeet._engine.operator import Events, OperatorContext, SideValues, operator_table, sent, store_last
from watersmeet._engine.row_sizes import Picked, in_pieces
from watersmeet._engine.rows import Bools, Int64s, gather, joined
from watersmeet._engine.state.runs import State, Table
from watersmeet._plan.operators.joins import LookupParams

LEFT = 0


@dataclass(frozen=True)
class FoundKeys:
    """The lookups of the left side's rows in one table: the key looked up, and where its row is (-1: nowhere)."""

    keys: pa.Array
    values: SideValues
    rows: Int64s


class View:
    """All that the rows of the left side find, by their number in the left side's own table.

    Attributes
    ----------
    present : whether the table, or the view as a whole, has a row.
    """

    def __init__(self, context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> None:
        self._founds: list[FoundKeys] = []
        left = inputs.get(LEFT, context.side_schema(LEFT).empty_table())
        for number, table in enumerate(tables(context, state)):
            lookup = _look_up(_setting_of(context, number), left, inputs.get(1 + number), table)
            self._founds.append(lookup)
            if number < len(context.params(LookupParams).views):
                left = _at_next(left, lookup, *context.extras[1 + number])
        self._joined = _joined(context, self._founds)
        self.present = self._joined[0] if self._joined else self._founds[0].rows >= 0

    def columns(self, indices: Int64s) -> dict[str, pa.Array | Picked]:
        """Result columns of rows of the left side: keys and values found and, of views, whether they have a row."""
        out: dict[str, pa.Array | Picked] = {}
        for number, lookup in enumerate(self._founds):
            out[f"mapped_key{number or ''}"] = gather(lookup.keys, indices)
            out[f"right{number or ''}"] = lookup.values.picked(lookup.rows[indices])
        return out | {f"view{n}": pa.array(flags[indices]) for n, flags in enumerate(self._joined)}


def tables(context: OperatorContext, state: State) -> tuple[Table, ...]:
    """The shard's copies of the tables, in the order of a lookup."""
    return tuple(
        operator_table(context, state, number) for number in range(1 + len(context.params(LookupParams).views))
    )


def _setting_of(context: OperatorContext, number: int) -> OperatorContext:
    """The setting as if only this table were looked up; its rows may carry the key of the next."""
    key = context.extras[number][1] if number else context.key
    carried = context.extras[1 + number : 2 + number]
    return replace(context, key=key, values=(context.values[LEFT], context.values[1 + number]), extras=carried)


def _look_up(context: OperatorContext, left: pa.Table, updates: pa.Table | None, table: Table) -> FoundKeys:
    events = Events(context, {LEFT: left} if updates is None else {LEFT: left, 1: updates}, sides=2)
    values = SideValues(events, 1, table)
    pointers = Sides(events, [values, values]).other_side()
    store_last(events, 1, Ordered(events.groups).last_of_each(events.side == 1), values.prior, table)
    driving = events.side == LEFT
    rows = np.full(len(left), -1, dtype=np.int64)
    rows[events.own[driving]] = pointers[driving]
    return FoundKeys(joined([left.column("key")], context.key), values, rows)


def _at_next(left: pa.Table, lookup: FoundKeys, name: str, kind: pa.DataType) -> pa.Table:
    """The rows of the left side under the keys that the rows they found carry."""
    keys = lookup.values.gather_column(name, kind, lookup.rows)
    for column, values in (("key", keys), ("hash", pa.array(hash_keys(keys)))):  # the two columns
        left = left.set_column(left.schema.get_field_index(column), column, values)
    return left


def _joined(context: OperatorContext, founds: list[FoundKeys]) -> list[Bools]:
    """Whether each view has a row, outermost first: an inner one has it only where its right side has."""
    flags: list[Bools] = []
    present = founds[-1].rows >= 0
    for mode, lookup in zip(reversed(context.params(LookupParams).views), reversed(founds[:-1]), strict=True):
        present = (lookup.rows >= 0) & (present | (mode == "left"))
        flags.insert(0, present)
    return flags


# global_lookup: join of a stream with a global table by a mapped key, driven by it (docs/semantics/global_lookup.md).
#
# Every shard keeps a copy of the table; rows of the stream stand in the shard of their own key and come in under
# the key that they look up. Updates of the table give no results. Results keep the stream record's key,
# timestamp and headers.


def run_global_lookup(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    view = View(context, inputs, state)
    if LEFT not in inputs:
        return
    events = Events(context, inputs, sides=1)
    present = view.present[events.own]
    rows = np.flatnonzero(present | (context.params(LookupParams).how == "left"))
    if len(rows):
        is_joined = np.ones(len(rows), dtype=np.bool_)
        yield from in_pieces(results(events, rows, view, is_joined))


def results(events: Events, rows: Int64s, view: View, is_joined: Bools) -> dict[str, pa.Array | Picked]:
    """Columns of results of the given rows of the left side; no left value for a tombstone."""
    left = events.tables[LEFT]
    indices = events.own[rows]
    out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
    out["key"] = gather(joined([left.column("left_key")], dict(events.context.extras)["left_key"]), indices)
    del out["hash"]
    out["left"] = Picked(left.column("value"), np.where(is_joined, indices, -1))
    return out | view.columns(indices) | {"joined": pa.array(is_joined)}


# global_table_lookup: join of a table with a global table, driven by the former alone (semantics/global_lookup.md).
#
# As `global_lookup`, but a row without result deletes the one that stands, and only what stands is deleted. So
# each shard keeps, beside its copy of the global table, which of its keys have a result.


def run_global_table_lookup(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    view = View(context, inputs, state)
    if LEFT not in inputs:
        return
    events = Events(context, inputs, sides=1)
    is_joined = events.present & (view.present[events.own] | (context.params(LookupParams).how == "left"))
    groups, was_joined = _previous_results(context, events, state, is_joined)
    _, rows = sent(context.operator, groups.group_of_row, np.flatnonzero(is_joined | was_joined), is_joined, was_joined)
    if len(rows):
        yield from in_pieces(results(events, rows, view, is_joined[rows]))


def _previous_results(
    context: OperatorContext, events: Events, state: State, is_joined: Bools
) -> tuple[KeyGroups, Bools]:
    """The rows by the table's own keys, and whether a result stands before each; what stands at last is stored."""
    (_, kind), *_ = context.extras
    table = operator_table(context, state, -1)
    keys = gather(joined([events.tables[LEFT].column("left_key")], kind), events.own)
    hashes = hash_keys(keys)
    groups = group_keys(hashes, keys)
    previous = Ordered(groups).last_before(np.ones(len(keys), dtype=np.bool_), inclusive=False)
    first = groups.first
    has_result = table.point(hashes[first], keys.take(pa.array(first))).found
    last = groups.last
    written = last[is_joined[last] | has_result]
    rows = pa.table({"hash": hashes[written], "key": keys.take(pa.array(written))})
    table.put(rows.cast(table.schema), ~is_joined[written])
    return groups, np.where(previous >= 0, is_joined[previous], has_result[groups.group_of_row])
