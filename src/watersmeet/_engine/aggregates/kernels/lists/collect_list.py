"""collect_list: all values."""

from __future__ import annotations

from watersmeet._engine.aggregates.kernels.bag import Bag
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet.aggregates.declared import AnyAggregate


def collect_list(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return Bag(kept.state)
