"""count: how many values there are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.rows.columns import valid
from watersmeet.aggregates.declared import AnyAggregate


def count(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return CountKernel(kept.state)


class CountKernel(AggregateKernel):
    """How many values there are."""

    def init(self, count: int) -> pa.Array:
        return pa.array(np.zeros(count, dtype=np.int64))

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return pc.add(kept, _ones(values))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return pc.subtract(kept, _ones(values))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return pc.add(kept, other)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        deltas = valid(values).astype(np.int64)
        if olds is not None:
            deltas -= valid(olds)
        return pa.array(np.repeat(kept.to_numpy(), groups.sizes) + groups.running_counts(deltas))


def _ones(values: pa.Array) -> pa.Array:
    return values.is_valid().cast(pa.int64())
