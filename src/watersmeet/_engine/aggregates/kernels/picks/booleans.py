"""bool_and and bool_or: as the smallest and the largest of conditions; what is taken back is counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.kernels.numbers.count import CountKernel
from watersmeet._engine.aggregates.kernels.picks.extremes import Extreme
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.arrays import Int64s
from watersmeet._engine.rows.columns import valid
from watersmeet.aggregates.declared import AnyAggregate


def of_all(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return Tally(kept.state, every=True) if kept.takes_back else Extreme(kept.state, largest=False)


def of_any(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return Tally(kept.state, every=False) if kept.takes_back else Extreme(kept.state, largest=True)


class Tally(AggregateKernel):
    """How often a condition holds, and how often it does not."""

    def __init__(self, state: pa.DataType, *, every: bool) -> None:
        super().__init__(state)
        self._every = every
        self._count = CountKernel(pa.int64())

    def init(self, count: int) -> pa.Array:
        return self._state([self._count.init(count)] * 2)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        parts = zip(kept.flatten(), _apart(values), strict=True)
        return self._state([self._count.add(one, some) for one, some in parts])

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        parts = zip(kept.flatten(), _apart(values), strict=True)
        return self._state([self._count.subtract(one, some) for one, some in parts])

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        parts = zip(kept.flatten(), other.flatten(), strict=True)
        return self._state([self._count.merge(one, two) for one, two in parts])

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        gone = (None, None) if olds is None else _apart(olds)
        parts = zip(kept.flatten(), _apart(values), gone, strict=True)
        return self._state([self._count.run(groups, one, some, back) for one, some, back in parts])

    def finish(self, kept: pa.Array) -> pa.Array:
        holds, not_so = (_numbers(each) for each in kept.flatten())
        found = not_so == 0 if self._every else holds > 0
        return pa.array(found, mask=holds + not_so == 0)

    def _state(self, columns: list[pa.Array]) -> pa.Array:
        return pa.StructArray.from_arrays(columns, fields=list(self.state))


def _apart(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Which values are true, and which false, as values that are there."""
    true = np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    there = valid(values)
    return pa.array(true, mask=~true), pa.array(true, mask=true | ~there)


def _numbers(counts: pa.Array) -> Int64s:
    return np.asarray(counts.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
