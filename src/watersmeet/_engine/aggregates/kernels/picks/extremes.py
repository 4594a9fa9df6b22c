"""min and max: of equal values the first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.kernels.bag import Bag
from watersmeet._engine.aggregates.kernels.picks.pointed import headed, pointed
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.rows.columns import gather, valid
from watersmeet.aggregates.declared import AnyAggregate


def least(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return _extreme(kept, largest=False)


def most(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return _extreme(kept, largest=True)


def _extreme(kept: KernelTypes, *, largest: bool) -> AggregateKernel:
    if kept.takes_back:
        return Bag(kept.state, finish=lambda states: lists.extreme(states, largest=largest))
    return Extreme(kept.state, largest=largest)


class Extreme(AggregateKernel):
    """The largest or the smallest value; of equal ones the first."""

    def __init__(self, state: pa.DataType, *, largest: bool) -> None:
        super().__init__(state)
        self._largest = largest

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        values = values.cast(self.state)
        count, both = len(kept), pa.concat_arrays([kept, values])
        rank = lists.ranks(both)
        before, after = rank[:count], rank[count:]
        better = after > before if self._largest else after < before
        taken = valid(values) & (better | ~valid(kept))
        return gather(both, np.arange(count) + np.where(taken, count, 0))

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        both = pa.concat_arrays([kept, values.cast(self.state)])
        rank = lists.ranks(both)
        score = rank if self._largest else rank.max(initial=0) - rank
        return pointed(groups, both, lambda member: groups.largest_of(member, headed(groups, score, len(kept))))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return self.add(kept, other)
