"""percentile: on the line between the two values next to a place, in Spark's own steps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.kernels.counted.counts import ValueCounts, in_order
from watersmeet._engine.aggregates.kernels.numbers.terms import typed
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet.aggregates.counted.percentile import Percentile as Declared


def percentile(how: Declared, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return PercentileKernel(kept.state, how.p)


class PercentileKernel(ValueCounts):
    """The value at a place among all, which are in order."""

    def __init__(self, state: pa.DataType, p: float) -> None:
        super().__init__(state)
        self._p = p

    def finish(self, kept: pa.Array) -> pa.Array:
        rows, value, rank, count = in_order(kept)
        number = typed(value, pa.float64()).to_numpy(zero_copy_only=False)
        up_to = np.append(0, np.cumsum(count))
        ends = np.searchsorted(rows, np.arange(len(kept)), side="right")
        begins = np.append(0, ends[:-1])
        some = np.flatnonzero(ends > begins)
        before, total = up_to[begins[some]], up_to[ends[some]] - up_to[begins[some]]
        place = (total - 1) * self._p
        low, high = np.floor(place), np.ceil(place)
        one, other = (
            np.searchsorted(up_to[1:], before + each.astype(np.int64) + 1, side="left") for each in (low, high)
        )
        with np.errstate(invalid="ignore", over="ignore"):
            between = number[one] + (place - low) * (number[other] - number[one])
        found = np.zeros(len(kept))
        found[some] = np.where((low == high) | (rank[one] == rank[other]), number[one], between)
        return pa.array(found, mask=ends == begins)
