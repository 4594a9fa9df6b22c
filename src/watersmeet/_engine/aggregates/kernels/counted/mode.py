"""mode: the value that is there most often, of several the smallest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.kernels.counted.counts import ValueCounts, in_order
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.rows.columns import gather
from watersmeet.aggregates.declared import AnyAggregate


def mode(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return ModeKernel(kept.state)


class ModeKernel(ValueCounts):
    """The value with the largest number."""

    def finish(self, kept: pa.Array) -> pa.Array:
        rows, value, rank, count = in_order(kept)
        order = np.lexsort((rank, -count, rows))
        found, first = np.unique(rows[order], return_index=True)
        pointers = np.full(len(kept), -1, dtype=np.int64)
        pointers[found] = order[first]
        return gather(value, pointers)
