"""last_k: the values that came last."""

from __future__ import annotations

from functools import partial

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.kernels.bag import Bag
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet.aggregates.lists.last_k import LastK


def last_k(how: LastK, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return Bag(kept.state, trim=partial(lists.ending, most=how.k))
