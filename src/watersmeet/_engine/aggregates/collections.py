"""Aggregates that keep values: collected, counted, or distinct, in the order in which they first came."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates import kernel
from watersmeet._engine.aggregates.extremes import with_by
from watersmeet._engine.aggregates.kernel import AggregateKernel, Bag, KernelTypes
from watersmeet._engine.aggregates.sums import typed
from watersmeet._engine.keys import group_keys, hash_keys
from watersmeet._engine.rows import Int64s, gather, valid
from watersmeet.aggregates.collections import LastK, TopBy, TopK
from watersmeet.aggregates.collections import Percentile as Declared
from watersmeet.aggregates.declaration import AnyAggregate


class ValueCounts(AggregateKernel):
    """Values with their counts; values subtracted as often as added are gone. NaN is one value; -0.0 is 0.0."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        self.grows = True

    def init(self, count: int) -> pa.Array:
        return kernel.empty_lists(self.state, count)

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return _tallied(kernel.concat_lists(states, self._single(values, 1)))

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return _tallied(kernel.concat_lists(states, self._single(values, -1)))

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return _tallied(kernel.concat_lists(left, right))

    def _single(self, values: pa.Array, count: int) -> pa.Array:
        """Each value so many times."""
        pair = self.state.value_type
        columns = [kernel.normalized(values.cast(pair.field("value").type)), pa.array(np.full(len(values), count))]
        pairs = pa.StructArray.from_arrays(columns, fields=list(pair), mask=pa.array(~valid(values)))
        return kernel.single(pairs, self.state)


def _tallied(states: pa.Array) -> pa.Array:
    rows, pairs = kernel.flat(states)
    value, count = pairs.flatten()
    keys = pa.StructArray.from_arrays([pa.array(rows), value], names=["row", "value"])
    groups = group_keys(hash_keys(keys), keys)
    total = np.zeros(len(groups.first), dtype=np.int64)
    np.add.at(total, groups.group_of_row, count.to_numpy())
    survivors = np.flatnonzero(total > 0)
    first = groups.first[survivors]
    columns = [value.take(pa.array(first)), pa.array(total[survivors])]
    entries = pa.StructArray.from_arrays(columns, fields=list(states.type.value_type))
    order = np.argsort(first)
    return kernel.from_rows(states.type, len(states), rows[first[order]], entries.take(pa.array(order)))


def in_order(states: pa.Array) -> tuple[Int64s, pa.Array, Int64s, Int64s]:
    """(row, value, its rank, its number) of each pair, row by row and the smallest value first."""
    rows, pairs = kernel.flat(states)
    value, count = pairs.flatten()
    rank = kernel.ranks(value)
    order = np.lexsort((rank, rows))
    return rows[order], value.take(pa.array(order)), rank[order], count.to_numpy()[order]


# top_k: the largest values, or what stands beside them; of equal ones the first come first.


def top_k(aggregate: TopK, types: KernelTypes) -> AggregateKernel:
    largest = partial(kernel.descending, most=aggregate.k)
    return Bag(types.state, finish=largest) if types.takes_back else Bag(types.state, trim=largest)


def top_by(aggregate: TopBy, types: KernelTypes) -> AggregateKernel:
    return BagBy(types, aggregate.k)


class BagBy(Bag):
    """Pairs of a value and what it is found by."""

    def __init__(self, types: KernelTypes, most: int) -> None:
        trim = partial(kernel.descending, most=most, by=lambda elements: elements.flatten()[1])
        result = types.result
        if types.takes_back:
            super().__init__(types.state, finish=lambda states: _values(trim(states), result))
        else:
            super().__init__(types.state, trim=trim, finish=lambda states: _values(states, result))

    def given(self, values: pa.Array) -> pa.Array:
        return with_by(values)


def _values(states: pa.Array, kind: pa.DataType) -> pa.Array:
    rows, elements = kernel.flat(states)
    return kernel.from_rows(kind, len(states), rows, elements.flatten()[0].cast(kind.value_type))


# percentile: on the line between the two values next to a place, in Spark's own steps.


def percentile(aggregate: Declared, types: KernelTypes) -> AggregateKernel:
    return PercentileKernel(types.state, aggregate.p)


class PercentileKernel(ValueCounts):
    """The value at a place among all, which are in order."""

    def __init__(self, state: pa.DataType, p: float) -> None:
        super().__init__(state)
        self._p = p

    def finish(self, states: pa.Array) -> pa.Array:
        rows, value, rank, count = in_order(states)
        number = typed(value, pa.float64()).to_numpy(zero_copy_only=False)
        up_to = np.append(0, np.cumsum(count))
        ends = np.searchsorted(rows, np.arange(len(states)), side="right")
        begins = np.append(0, ends[:-1])
        present = np.flatnonzero(ends > begins)
        offset, total = up_to[begins[present]], up_to[ends[present]] - up_to[begins[present]]
        place = (total - 1) * self._p
        low, high = np.floor(place), np.ceil(place)
        lower, upper = (
            np.searchsorted(up_to[1:], offset + index.astype(np.int64) + 1, side="left") for index in (low, high)
        )
        with np.errstate(invalid="ignore", over="ignore"):
            between = number[lower] + (place - low) * (number[upper] - number[lower])
        percentiles = np.zeros(len(states))
        percentiles[present] = np.where((low == high) | (rank[lower] == rank[upper]), number[lower], between)
        return pa.array(percentiles, mask=ends == begins)


# mode: the value that is there most often, of several the smallest.


def mode(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return ModeKernel(types.state)


class ModeKernel(ValueCounts):
    """The value with the largest number."""

    def finish(self, states: pa.Array) -> pa.Array:
        rows, value, rank, count = in_order(states)
        order = np.lexsort((rank, -count, rows))
        present, first = np.unique(rows[order], return_index=True)
        pointers = np.full(len(states), -1, dtype=np.int64)
        pointers[present] = order[first]
        return gather(value, pointers)


# count_distinct: how many different values there are.


def count_distinct(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    if types.takes_back:
        return Bag(types.state, finish=lambda states: _lengths(kernel.distinct(states)))
    return Bag(types.state, trim=kernel.distinct, finish=_lengths)


def _lengths(states: pa.Array) -> pa.Array:
    return pc.list_value_length(states).cast(pa.int64())


# last_k: the values that came last.


def last_k(aggregate: LastK, types: KernelTypes) -> AggregateKernel:
    return Bag(types.state, trim=partial(kernel.ending, most=aggregate.k))


# collect_set: the different values.


def collect_set(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return Bag(types.state, finish=kernel.distinct) if types.takes_back else Bag(types.state, trim=kernel.distinct)


# collect_list: all values.


def collect_list(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return Bag(types.state)
