"""Aggregates by name: what each keeps of a key, as functions of Arrow arrays, a row each.

Null arguments are left out. What cannot be taken back from a result is kept whole where a grouped table asks for that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import gather, joined, valid
from watersmeet.errors import WatersmeetError


class Part:
    """One aggregate.

    Parameters
    ----------
    state : type of what is kept.

    Attributes
    ----------
    grows : whether it may become larger with each row.
    """

    grows = False

    def __init__(self, state: pa.DataType) -> None:
        self.state = state

    def init(self, count: int) -> pa.Array:
        """What is kept of no records."""
        return pa.nulls(count, self.state)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """What is kept with values added."""
        raise NotImplementedError

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """What is kept without values."""
        raise WatersmeetError("This aggregate takes nothing back.")

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """What is kept of the records of both, the other's later."""
        raise NotImplementedError

    def finish(self, kept: pa.Array) -> pa.Array:
        """The result."""
        return kept

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """What is kept after each row, which takes an old value away and then adds one.

        Parameters
        ----------
        kept : what each group begins with.
        """
        largest_first = np.argsort(-groups.sizes, kind="stable")
        sizes, starts = groups.sizes[largest_first], groups.starts[:-1][largest_first]
        now = kept.take(pa.array(largest_first))
        place = np.empty(groups.rows, dtype=np.int64)
        made, count = [], 0
        for number in range(int(sizes.max(initial=0))):
            now = now.slice(0, int(np.searchsorted(-sizes, -number, side="left")))
            rows = starts[: len(now)] + number
            if olds is not None:
                now = self.subtract(now, olds.take(pa.array(rows)))
            now = self.add(now, values.take(pa.array(rows)))
            place[rows] = count + np.arange(len(rows))
            made.append(now)
            count += len(rows)
        return gather(joined(made, self.state), place)


class Count(Part):
    """How many values there are."""

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        return pa.array(np.zeros(count, dtype=np.int64))

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return pc.add(kept, _ones(values))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return pc.subtract(kept, _ones(values))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return pc.add(kept, other)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        deltas = valid(values).astype(np.int64)
        if olds is not None:
            deltas -= valid(olds)
        return pa.array(np.repeat(kept.to_numpy(), groups.sizes) + groups.running_counts(deltas))


class Extreme(Part):
    """The largest or the smallest value; of equal ones the first."""

    def __init__(self, state: pa.DataType, *, largest: bool) -> None:
        super().__init__(state)
        self._largest = largest

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        values = values.cast(self.state)
        count, both = len(kept), pa.concat_arrays([kept, values])
        rank = lists.ranks(both)
        before, after = rank[:count], rank[count:]
        better = after > before if self._largest else after < before
        taken = valid(values) & (better | ~valid(kept))
        return gather(both, np.arange(count) + np.where(taken, count, 0))

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        both = pa.concat_arrays([kept, values.cast(self.state)])
        rank = lists.ranks(both)
        score = rank if self._largest else rank.max(initial=0) - rank
        return _pointed(groups, both, lambda member: groups.largest_of(member, _headed(groups, score, len(kept))))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return self.add(kept, other)


class Edge(Part):
    """The value that came first, or last."""

    def __init__(self, state: pa.DataType, *, first: bool) -> None:
        super().__init__(state)
        self._first = first

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        values = values.cast(self.state)
        return pc.coalesce(kept, values) if self._first else pc.coalesce(values, kept)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        both = pa.concat_arrays([kept, values.cast(self.state)])
        return _pointed(groups, both, groups.first_of if self._first else groups.last_of)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return self.add(kept, other)


class Bag(Part):
    """All values, or those of them that `trim` keeps, and what is made of them in the end."""

    def __init__(
        self,
        state: pa.DataType,
        trim: Callable[[pa.Array], pa.Array] = lambda kept: kept,
        finish: Callable[[pa.Array], pa.Array] = lambda kept: kept,
    ) -> None:
        super().__init__(state)
        self.grows = True
        self._trim = trim
        self._finish = finish

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        return lists.empty_lists(self.state, count)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._trim(lists.together(kept, lists.single(values, self.state)))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return lists.without(kept, values)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._trim(lists.together(kept, other))

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._finish(kept)


def _headed(groups: Groups, column: Int64s, count: int) -> Int64s:
    return np.asarray(groups.headed(column[:count], column[count:]), dtype=np.int64)


def _pointed(groups: Groups, both: pa.Array, found: Callable[[Bools], Int64s]) -> pa.Array:
    """Of what groups begin with and rows, behind one another, what is found among the headed ones that are not null."""
    numbers = _headed(groups, np.arange(len(both)), len(groups.sizes))
    place = found(valid(both)[numbers])
    return gather(both, np.where(place >= 0, numbers[place], -1))


def _ones(values: pa.Array) -> pa.Array:
    return values.is_valid().cast(pa.int64())
