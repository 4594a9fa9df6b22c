"""avg: the mean."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.kernels.numbers.sum import Total
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet.aggregates.declared import AnyAggregate


def avg(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return Average(kept.state)


class Average(Total):
    """The mean, of sum and count."""

    def finish(self, kept: pa.Array) -> pa.Array:
        return pc.divide(super().finish(kept), kept.field("count").cast(pa.float64()))
