"""global_view: lookup of a global table, or through the tables behind a view, one after the other.

Each shard keeps a copy of every table. A row of a table that is not the last carries the key of its row in the
next one. The tables' updates are stored here; they give no results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keys import hash_keys
from watersmeet._engine.matching.lookup import Sides
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, OperatorContext, SideValues, operator_table, store_last
from watersmeet._engine.rows.columns import gather, joined
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table
from watersmeet._plan.operators.global_lookup import LookupParams

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
            found = _look_up(_setting_of(context, number), left, inputs.get(1 + number), table)
            self._founds.append(found)
            if number < len(context.params(LookupParams).views):
                left = _at_next(left, found, *context.extras[1 + number])
        self._joined = _joined(context, self._founds)
        self.present = self._joined[0] if self._joined else self._founds[0].rows >= 0

    def columns(self, own: Int64s) -> dict[str, pa.Array | Picked]:
        """Result columns of rows of the left side: keys and values found and, of views, whether they have a row."""
        out: dict[str, pa.Array | Picked] = {}
        for number, found in enumerate(self._founds):
            out[f"mapped_key{number or ''}"] = gather(found.keys, own)
            out[f"right{number or ''}"] = found.values.picked(found.rows[own])
        return out | {f"view{n}": pa.array(flags[own]) for n, flags in enumerate(self._joined)}


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
    found = Sides(events, [values, values]).other_side()
    store_last(events, 1, Ordered(events.groups).last_of_each(events.side == 1), values.prior, table)
    driving = events.side == LEFT
    rows = np.full(len(left), -1, dtype=np.int64)
    rows[events.own[driving]] = found[driving]
    return FoundKeys(joined([left.column("key")], context.key), values, rows)


def _at_next(left: pa.Table, found: FoundKeys, name: str, kind: pa.DataType) -> pa.Table:
    """The rows of the left side under the keys that the rows they found carry."""
    keys = found.values.gather_column(name, kind, found.rows)
    for column, values in (("key", keys), ("hash", pa.array(hash_keys(keys)))):  # the two columns
        left = left.set_column(left.schema.get_field_index(column), column, values)
    return left


def _joined(context: OperatorContext, founds: list[FoundKeys]) -> list[Bools]:
    """Whether each view has a row, outermost first: an inner one has it only where its right side has."""
    flags: list[Bools] = []
    present = founds[-1].rows >= 0
    for how, found in zip(reversed(context.params(LookupParams).views), reversed(founds[:-1]), strict=True):
        present = (found.rows >= 0) & (present | (how == "left"))
        flags.insert(0, present)
    return flags
