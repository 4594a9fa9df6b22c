"""first and last: the values that came first and last."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.kernels.picks.pointed import pointed
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import Groups
from watersmeet.aggregates.declared import AnyAggregate


def first(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return FirstOrLastKernel(kept.state, first=True)


def last(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return FirstOrLastKernel(kept.state, first=False)


class FirstOrLastKernel(AggregateKernel):
    """The value that came first, or last."""

    def __init__(self, state: pa.DataType, *, first: bool) -> None:
        super().__init__(state)
        self._first = first

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        values = values.cast(self.state)
        return pc.coalesce(kept, values) if self._first else pc.coalesce(values, kept)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        both = pa.concat_arrays([kept, values.cast(self.state)])
        return pointed(groups, both, groups.first_of if self._first else groups.last_of)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return self.add(kept, other)
