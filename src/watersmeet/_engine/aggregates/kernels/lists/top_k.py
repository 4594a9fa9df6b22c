"""top_k: the largest values, or what stands beside them; of equal ones the first come first."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.kernels.bag import Bag
from watersmeet._engine.aggregates.kernels.picks.extremes_by import with_by
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet.aggregates.lists.top_k import TopBy, TopK


def top_k(how: TopK, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    largest = partial(lists.descending, most=how.k)
    return Bag(kept.state, finish=largest) if kept.takes_back else Bag(kept.state, trim=largest)


def top_by(how: TopBy, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return BagBy(kept, how.k)


class BagBy(Bag):
    """Pairs of a value and what it is found by."""

    def __init__(self, kept: KernelTypes, most: int) -> None:
        trim = partial(lists.descending, most=most, by=lambda elements: elements.flatten()[1])
        shown = kept.result
        if kept.takes_back:
            super().__init__(kept.state, finish=lambda states: _values(trim(states), shown))
        else:
            super().__init__(kept.state, trim=trim, finish=lambda states: _values(states, shown))

    def given(self, values: pa.Array) -> pa.Array:
        return with_by(values)


def _values(states: pa.Array, kind: pa.DataType) -> pa.Array:
    rows, elements = lists.flat(states)
    return lists.from_rows(kind, len(states), rows, elements.flatten()[0].cast(kind.value_type))
