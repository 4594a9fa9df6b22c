"""Base of the kernels that keep values."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.parts import AggregateKernel


class Bag(AggregateKernel):
    """All values, or those of them that `trim` keeps, and what is made of them in the end."""

    def __init__(
        self,
        state: pa.DataType,
        trim: Callable[[pa.Array], pa.Array] = lambda kept: kept,
        finish: Callable[[pa.Array], pa.Array] = lambda kept: kept,
    ) -> None:
        super().__init__(state)
        self.grows = True
        self._trim = trim
        self._finish = finish

    def init(self, count: int) -> pa.Array:
        return lists.empty_lists(self.state, count)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return self._trim(lists.together(kept, lists.single(values, self.state)))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return lists.without(kept, values)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return self._trim(lists.together(kept, other))

    def finish(self, kept: pa.Array) -> pa.Array:
        return self._finish(kept)
