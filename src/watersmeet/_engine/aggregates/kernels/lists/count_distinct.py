"""count_distinct: how many different values there are."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.kernels.bag import Bag
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet.aggregates.declared import AnyAggregate


def count_distinct(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    if kept.takes_back:
        return Bag(kept.state, finish=lambda states: _lengths(lists.distinct(states)))
    return Bag(kept.state, trim=lists.distinct, finish=_lengths)


def _lengths(states: pa.Array) -> pa.Array:
    return pc.list_value_length(states).cast(pa.int64())
