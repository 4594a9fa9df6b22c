"""Lists as state: functions of arrays of lists, a list each row, without a loop over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.folds import Groups
from watersmeet._engine.keys import equal_values, group_keys, hash_keys
from watersmeet._engine.rows import Bools, Int64s, gather, joined, valid
from watersmeet.errors import WatersmeetError


def empty_lists(kind: pa.DataType, count: int) -> pa.Array:
    """So many lists without elements."""
    return _lists(kind, np.zeros(count, dtype=np.int64), pa.array([], type=kind.value_type))


def flat(lists: pa.Array) -> tuple[Int64s, pa.Array]:
    """(row of each element, elements); a null list has none."""
    rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return rows, pc.list_flatten(lists)


def concat_lists(left: pa.Array, right: pa.Array) -> pa.Array:
    """The elements of both lists, the other's behind."""
    (rows, elements), (rows2, elements2) = flat(left), flat(right)
    return from_rows(left.type, len(left), np.append(rows, rows2), pa.concat_arrays([elements, elements2]))


def single(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Lists of one element each; of none where it is null."""
    present = valid(values)
    return _lists(kind, present.astype(np.int64), values.filter(pa.array(present)).cast(kind.value_type))


def filtered_lists(lists: pa.Array, keep: Bools) -> pa.Array:
    """The lists without the elements that `keep`, one flag for each of `flat`, leaves out."""
    rows, elements = flat(lists)
    return from_rows(lists.type, len(lists), rows[keep], elements.filter(pa.array(keep)))


def without(lists: pa.Array, values: pa.Array) -> pa.Array:
    """The lists without the first element that is equal to the row's value; null takes nothing away."""
    rows, elements = flat(lists)
    same = equal_values(elements, values.cast(elements.type).take(pa.array(rows))) & valid(elements)
    matches = np.flatnonzero(same)
    _, first = np.unique(rows[matches], return_index=True)
    keep = np.ones(len(rows), dtype=np.bool_)
    keep[matches[first]] = False
    return filtered_lists(lists, keep)


def distinct(lists: pa.Array) -> pa.Array:
    """The lists with the first of equal elements, as Spark has them: 0.0 stands for -0.0, too, and NaN is one."""
    rows, elements = flat(lists)
    elements = normalized(elements)
    pairs = pa.StructArray.from_arrays([pa.array(rows), elements], names=["row", "element"])
    keep = np.zeros(len(rows), dtype=np.bool_)
    keep[group_keys(hash_keys(pairs), pairs).first] = True
    return from_rows(lists.type, len(lists), rows[keep], elements.filter(pa.array(keep)))


def normalized(values: pa.Array) -> pa.Array:
    """The values with 0.0 in place of -0.0, and one NaN in place of all, also within structs and lists."""
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = np.asarray(values.fill_null(0.0).to_numpy(zero_copy_only=False)) + 0.0
        numbers = np.where(np.isnan(numbers), np.nan, numbers).astype(kind.to_pandas_dtype())
        return pa.array(numbers, kind, mask=~valid(values))
    if pa.types.is_struct(kind) and kind.num_fields:
        parts = [normalized(part) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array(~valid(values)))
    if pa.types.is_list(kind):
        rows, elements = flat(values)
        lists = from_rows(kind, len(values), rows, normalized(elements))
        return pc.if_else(values.is_valid(), lists, pa.scalar(None, kind))
    return values


def descending(
    lists: pa.Array, most: int | None = None, by: Callable[[pa.Array], pa.Array] = lambda elements: elements
) -> pa.Array:
    """The elements of each list, the largest first; at most so many.

    Parameters
    ----------
    by : gives what elements are ordered by.
    """
    rows, elements = flat(lists)
    order = np.lexsort((-ranks(by(elements)), rows))
    lengths = np.bincount(rows, minlength=len(lists))
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    order = order if most is None else order[place < most]
    return from_rows(lists.type, len(lists), rows[order], elements.take(pa.array(order)))


def ending(lists: pa.Array, most: int) -> pa.Array:
    """The last elements of each list, at most so many."""
    rows, _ = flat(lists)
    lengths = np.bincount(rows, minlength=len(lists))
    distance = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(rows))
    return lists if lengths.max(initial=0) <= most else filtered_lists(lists, distance <= most)


def extreme(lists: pa.Array, *, largest: bool) -> pa.Array:
    """The largest or smallest element of each list; null of one without elements."""
    rows, elements = flat(lists)
    rank = ranks(elements)
    order = np.lexsort((-rank if largest else rank, rows))
    present, first = np.unique(rows[order], return_index=True)
    pointers = np.full(len(lists), -1, dtype=np.int64)
    pointers[present] = order[first]
    return gather(elements, pointers)


def ranks(values: pa.Array) -> Int64s:
    """The place of each value among the different ones: NaN behind all numbers, as Spark has it, null behind that."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    rank: Int64s = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return rank


def from_rows(kind: pa.DataType, count: int, rows: Int64s, elements: pa.Array) -> pa.Array:
    order = np.argsort(rows, kind="stable")
    return _lists(kind, np.bincount(rows, minlength=count), elements.take(pa.array(order)))


def _lists(kind: pa.DataType, lengths: Int64s, elements: pa.Array) -> pa.Array:
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, elements, type=kind)


# The kernel of an aggregate: the state of a key, as functions of Arrow arrays, a row each.
#
# Null arguments are left out. If an aggregate cannot subtract from its result, a grouped table keeps all its values.


@dataclass(frozen=True)
class KernelTypes:
    """The questions that a kernel answers."""

    # state, result: types of what is kept and of what is shown, as the aggregate's declaration says them
    state: pa.DataType
    result: pa.DataType
    takes_back: bool = False  # whether values are subtracted, too: of a grouped table


class AggregateKernel:
    """One aggregate.

    Parameters
    ----------
    state : type of what is kept.

    Attributes
    ----------
    grows : whether it may become larger with each row.
    how_it_runs : in words, where `describe` says it.
    """

    grows = False
    how_it_runs: str | None = None

    def __init__(self, state: pa.DataType) -> None:
        self.state = state

    def given(self, values: pa.Array) -> pa.Array:
        """Arguments as they are added and subtracted: null where there is nothing to add."""
        return values

    def init(self, count: int) -> pa.Array:
        return pa.nulls(count, self.state)

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        raise NotImplementedError

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        raise WatersmeetError("This aggregate cannot subtract.")

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        """The state of the records of both, the other's later."""
        raise NotImplementedError

    def finish(self, states: pa.Array) -> pa.Array:
        """The result."""
        return states

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """The state after each row, which subtracts an old value and then adds one.

        Parameters
        ----------
        states : what each group begins with.
        """
        largest_first = np.argsort(-groups.sizes, kind="stable")
        sizes, starts = groups.sizes[largest_first], groups.starts[:-1][largest_first]
        current = states.take(pa.array(largest_first))
        place = np.empty(groups.rows, dtype=np.int64)
        pieces, count = [], 0
        for number in range(int(sizes.max(initial=0))):
            current = current.slice(0, int(np.searchsorted(-sizes, -number, side="left")))
            rows = starts[: len(current)] + number
            if olds is not None:
                current = self.subtract(current, olds.take(pa.array(rows)))
            current = self.add(current, values.take(pa.array(rows)))
            place[rows] = count + np.arange(len(rows))
            pieces.append(current)
            count += len(rows)
        return gather(joined(pieces, self.state), place)


Kernel = Callable[[Any, KernelTypes], AggregateKernel]
"""Of an aggregate, as it is declared and without its arguments, what it does to rows."""


# Base of the kernels that keep values.


class Bag(AggregateKernel):
    """All values, or those of them that `trim` keeps, and what is made of them in the end."""

    def __init__(
        self,
        state: pa.DataType,
        trim: Callable[[pa.Array], pa.Array] = lambda states: states,
        finish: Callable[[pa.Array], pa.Array] = lambda states: states,
    ) -> None:
        super().__init__(state)
        self.grows = True
        self._trim = trim
        self._finish = finish

    def init(self, count: int) -> pa.Array:
        return empty_lists(self.state, count)

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return self._trim(concat_lists(states, single(values, self.state)))

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return without(states, values)

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return self._trim(concat_lists(left, right))

    def finish(self, states: pa.Array) -> pa.Array:
        return self._finish(states)
