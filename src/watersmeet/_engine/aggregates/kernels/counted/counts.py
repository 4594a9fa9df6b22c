"""How often each value is there: pairs of a value and a number, in the order in which they first came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.parts import AggregateKernel
from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import group_keys, hash_keys
from watersmeet._engine.rows.columns import valid


class ValueCounts(AggregateKernel):
    """Values with their counts; values subtracted as often as added are gone. NaN is one value; -0.0 is 0.0."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        self.grows = True

    def init(self, count: int) -> pa.Array:
        return lists.empty_lists(self.state, count)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return _tallied(lists.together(kept, self._single(values, 1)))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return _tallied(lists.together(kept, self._single(values, -1)))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return _tallied(lists.together(kept, other))

    def _single(self, values: pa.Array, count: int) -> pa.Array:
        """Each value so many times."""
        pair = self.state.value_type
        columns = [lists.normalized(values.cast(pair.field("value").type)), pa.array(np.full(len(values), count))]
        pairs = pa.StructArray.from_arrays(columns, fields=list(pair), mask=pa.array(~valid(values)))
        return lists.single(pairs, self.state)


def _tallied(states: pa.Array) -> pa.Array:
    rows, pairs = lists.flat(states)
    value, count = pairs.flatten()
    named = pa.StructArray.from_arrays([pa.array(rows), value], names=["row", "value"])
    groups = group_keys(hash_keys(named), named)
    total = np.zeros(len(groups.first), dtype=np.int64)
    np.add.at(total, groups.group_of_row, count.to_numpy())
    kept = np.flatnonzero(total > 0)
    first = groups.first[kept]
    columns = [value.take(pa.array(first)), pa.array(total[kept])]
    made = pa.StructArray.from_arrays(columns, fields=list(states.type.value_type))
    order = np.argsort(first)
    return lists.from_rows(states.type, len(states), rows[first[order]], made.take(pa.array(order)))


def in_order(states: pa.Array) -> tuple[Int64s, pa.Array, Int64s, Int64s]:
    """(row, value, its rank, its number) of each pair, row by row and the smallest value first."""
    rows, pairs = lists.flat(states)
    value, count = pairs.flatten()
    rank = lists.ranks(value)
    order = np.lexsort((rank, rows))
    return rows[order], value.take(pa.array(order)), rank[order], count.to_numpy()[order]
