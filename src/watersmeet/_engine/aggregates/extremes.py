"""min, max, min_by and max_by, and what is kept so that values can be taken back; of equal ones the last, as Spark."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates import kernel
from watersmeet._engine.aggregates.folds import Groups
from watersmeet._engine.aggregates.kernel import AggregateKernel, Bag, KernelTypes
from watersmeet._engine.aggregates.sums import CountKernel
from watersmeet._engine.rows import Bools, Int64s, gather, valid
from watersmeet.aggregates.declaration import AnyAggregate

# Which of a group's values up to each row is found.


def headed(groups: Groups, column: Int64s, count: int) -> Int64s:
    """A column of what groups begin with and rows, behind one another, with the former at the heads."""
    return np.asarray(groups.headed(column[:count], column[count:]), dtype=np.int64)


def pointed(groups: Groups, values: pa.Array, select: Callable[[Bools], Int64s]) -> pa.Array:
    """Of what groups begin with and rows, behind one another, what is found among the headed ones that are not null."""
    numbers = headed(groups, np.arange(len(values)), len(groups.sizes))
    place = select(valid(values)[numbers])
    return gather(values, np.where(place >= 0, numbers[place], -1))


def least_by(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return _extreme_by(types, largest=False)


def most_by(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return _extreme_by(types, largest=True)


def _extreme_by(types: KernelTypes, *, largest: bool) -> AggregateKernel:
    return PairsBy(types.state, largest=largest) if types.takes_back else ExtremeBy(types.state, largest=largest)


def with_by(values: pa.Array) -> pa.Array:
    """Pairs of a value and what it is found by, null where there is nothing to find it by."""
    present = valid(values) & valid(values.flatten()[1])
    return values if present.all() else gather(values, np.where(present, np.arange(len(values)), -1))


class ExtremeBy(AggregateKernel):
    """The pair with the largest, or smallest, second value; of equal ones the last."""

    def __init__(self, state: pa.DataType, *, largest: bool) -> None:
        super().__init__(state)
        # a large value stands behind each row that comes after it
        self.grows = not pa.types.is_primitive(state.field("value").type)
        self._largest = largest

    def given(self, values: pa.Array) -> pa.Array:
        return with_by(values)

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        """Of equal scores the later value wins."""
        count, candidates = len(states), pa.concat_arrays([states, values.cast(self.state)])
        score = self._scores(candidates)
        wins = valid(values) & ((score[count:] >= score[:count]) | ~valid(states))
        return gather(candidates, np.arange(count) + np.where(wins, count, 0))

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return self.add(left, right)

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        candidates = pa.concat_arrays([states, values.cast(self.state)])
        score = headed(groups, self._scores(candidates), len(states))
        return pointed(groups, candidates, lambda member: groups.largest_of(member, score, last=True))

    def finish(self, states: pa.Array) -> pa.Array:
        return states.flatten()[0]

    def _scores(self, pairs: pa.Array) -> Int64s:
        rank = kernel.ranks(pairs.flatten()[1])
        return rank if self._largest else np.asarray(rank.max(initial=0) - rank)


class PairsBy(Bag):
    """All pairs, since the one that is found may go."""

    def __init__(self, state: pa.DataType, *, largest: bool) -> None:
        super().__init__(state, finish=self._extremes)
        self._largest = largest

    def given(self, values: pa.Array) -> pa.Array:
        return with_by(values)

    def _extremes(self, states: pa.Array) -> pa.Array:
        rows, pairs = kernel.flat(states)
        value, by = pairs.flatten()
        rank = kernel.ranks(by)
        order = np.lexsort((rank if self._largest else -rank, rows))
        lasts = order[np.flatnonzero(np.diff(rows[order], append=-1))]
        pointers = np.full(len(states), -1, dtype=np.int64)
        pointers[rows[lasts]] = lasts
        return gather(value, pointers)


# min and max: of equal values the first.


def least(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return _extreme(types, largest=False)


def most(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return _extreme(types, largest=True)


def _extreme(types: KernelTypes, *, largest: bool) -> AggregateKernel:
    if types.takes_back:
        return Bag(types.state, finish=lambda states: kernel.extreme(states, largest=largest))
    return Extreme(types.state, largest=largest)


class Extreme(AggregateKernel):
    """The largest or the smallest value; of equal ones the first."""

    def __init__(self, state: pa.DataType, *, largest: bool) -> None:
        super().__init__(state)
        self._largest = largest

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        """Of equal values the earlier one stays."""
        values = values.cast(self.state)
        count, candidates = len(states), pa.concat_arrays([states, values])
        rank = kernel.ranks(candidates)
        old, new = rank[:count], rank[count:]
        better = new > old if self._largest else new < old
        wins = valid(values) & (better | ~valid(states))
        return gather(candidates, np.arange(count) + np.where(wins, count, 0))

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        candidates = pa.concat_arrays([states, values.cast(self.state)])
        rank = kernel.ranks(candidates)
        score = rank if self._largest else rank.max(initial=0) - rank
        return pointed(groups, candidates, lambda member: groups.largest_of(member, headed(groups, score, len(states))))

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return self.add(left, right)


# bool_and and bool_or: as the smallest and the largest of conditions; what is taken back is counted.


def of_all(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return Tally(types.state, every=True) if types.takes_back else Extreme(types.state, largest=False)


def of_any(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return Tally(types.state, every=False) if types.takes_back else Extreme(types.state, largest=True)


class Tally(AggregateKernel):
    """How often a condition holds, and how often it does not."""

    def __init__(self, state: pa.DataType, *, every: bool) -> None:
        super().__init__(state)
        self._every = every
        self._count = CountKernel(pa.int64())

    def init(self, count: int) -> pa.Array:
        return self._state([self._count.init(count)] * 2)

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        parts = zip(states.flatten(), _split(values), strict=True)
        return self._state([self._count.add(count, column) for count, column in parts])

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        parts = zip(states.flatten(), _split(values), strict=True)
        return self._state([self._count.subtract(count, column) for count, column in parts])

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        parts = zip(left.flatten(), right.flatten(), strict=True)
        return self._state([self._count.merge(count, addend) for count, addend in parts])

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        removed = (None, None) if olds is None else _split(olds)
        parts = zip(states.flatten(), _split(values), removed, strict=True)
        return self._state([self._count.run(groups, count, column, old) for count, column, old in parts])

    def finish(self, states: pa.Array) -> pa.Array:
        holds, not_so = (_numbers(column) for column in states.flatten())
        results = not_so == 0 if self._every else holds > 0
        return pa.array(results, mask=holds + not_so == 0)

    def _state(self, columns: list[pa.Array]) -> pa.Array:
        return pa.StructArray.from_arrays(columns, fields=list(self.state))


def _split(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    true = np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    present = valid(values)
    return pa.array(true, mask=~true), pa.array(true, mask=true | ~present)


def _numbers(counts: pa.Array) -> Int64s:
    return np.asarray(counts.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


# first and last: the values that came first and last.


def first(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return FirstOrLastKernel(types.state, first=True)


def last(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return FirstOrLastKernel(types.state, first=False)


class FirstOrLastKernel(AggregateKernel):
    """The value that came first, or last."""

    def __init__(self, state: pa.DataType, *, first: bool) -> None:
        super().__init__(state)
        self._first = first

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        values = values.cast(self.state)
        return pc.coalesce(states, values) if self._first else pc.coalesce(values, states)

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        candidates = pa.concat_arrays([states, values.cast(self.state)])
        return pointed(groups, candidates, groups.first_of if self._first else groups.last_of)

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return self.add(left, right)
