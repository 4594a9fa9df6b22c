"""collect_list: all values."""

from __future__ import annotations

from watersmeet._engine.aggregates.kernels.bag import Bag
from watersmeet._engine.aggregates.parts import Kept, Part
from watersmeet.aggregates.declared import AnyAggregate


def collect_list(how: AnyAggregate, kept: Kept) -> Part:
    """See `Kernel`."""
    return Bag(kept.state)
