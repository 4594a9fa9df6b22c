"""collect_set: the different values."""

from __future__ import annotations

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.kernels.bag import Bag
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet.aggregates.declared import AnyAggregate


def collect_set(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return Bag(kept.state, finish=lists.distinct) if kept.takes_back else Bag(kept.state, trim=lists.distinct)
