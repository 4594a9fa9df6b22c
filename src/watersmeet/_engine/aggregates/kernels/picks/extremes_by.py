"""min_by and max_by: of equal ones the last, as Spark's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.kernels.bag import Bag
from watersmeet._engine.aggregates.kernels.picks.pointed import headed, pointed
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.arrays import Int64s
from watersmeet._engine.rows.columns import gather, valid
from watersmeet.aggregates.declared import AnyAggregate


def least_by(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return _extreme_by(kept, largest=False)


def most_by(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return _extreme_by(kept, largest=True)


def _extreme_by(kept: KernelTypes, *, largest: bool) -> AggregateKernel:
    return PairsBy(kept.state, largest=largest) if kept.takes_back else ExtremeBy(kept.state, largest=largest)


def with_by(values: pa.Array) -> pa.Array:
    """Pairs of a value and what it is found by, null where there is nothing to find it by."""
    there = valid(values) & valid(values.flatten()[1])
    return values if there.all() else gather(values, np.where(there, np.arange(len(values)), -1))


class ExtremeBy(AggregateKernel):
    """The pair with the largest, or smallest, second value; of equal ones the last."""

    def __init__(self, state: pa.DataType, *, largest: bool) -> None:
        super().__init__(state)
        # a large value stands behind each row that comes after it
        self.grows = not pa.types.is_primitive(state.field("value").type)
        self._largest = largest

    def given(self, values: pa.Array) -> pa.Array:
        return with_by(values)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        count, both = len(kept), pa.concat_arrays([kept, values.cast(self.state)])
        score = self._scores(both)
        taken = valid(values) & ((score[count:] >= score[:count]) | ~valid(kept))
        return gather(both, np.arange(count) + np.where(taken, count, 0))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return self.add(kept, other)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        both = pa.concat_arrays([kept, values.cast(self.state)])
        score = headed(groups, self._scores(both), len(kept))
        return pointed(groups, both, lambda member: groups.largest_of(member, score, last=True))

    def finish(self, kept: pa.Array) -> pa.Array:
        return kept.flatten()[0]

    def _scores(self, pairs: pa.Array) -> Int64s:
        rank = lists.ranks(pairs.flatten()[1])
        return rank if self._largest else np.asarray(rank.max(initial=0) - rank)


class PairsBy(Bag):
    """All pairs, since the one that is found may go."""

    def __init__(self, state: pa.DataType, *, largest: bool) -> None:
        super().__init__(state, finish=self._found)
        self._largest = largest

    def given(self, values: pa.Array) -> pa.Array:
        return with_by(values)

    def _found(self, kept: pa.Array) -> pa.Array:
        rows, pairs = lists.flat(kept)
        value, by = pairs.flatten()
        rank = lists.ranks(by)
        order = np.lexsort((rank if self._largest else -rank, rows))
        lasts = order[np.flatnonzero(np.diff(rows[order], append=-1))]
        pointers = np.full(len(kept), -1, dtype=np.int64)
        pointers[rows[lasts]] = lasts
        return gather(value, pointers)
