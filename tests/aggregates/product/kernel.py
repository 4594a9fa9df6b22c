"""product: what it does to rows."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from tests.aggregates.product.declared import Product as Declared
from watersmeet._engine.aggregates.kernel import AggregateKernel, Bag, KernelTypes


def kernel(how: Declared, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    if kept.takes_back:
        return Bag(kept.state, finish=lambda states: _products(states, how.modulo))
    return Product(kept.state, how.modulo)


def _products(states: pa.Array, modulo: int) -> pa.Array:
    return pa.array([math.prod(each or ()) % modulo for each in states.to_pylist()])


class Product(AggregateKernel):
    """The product so far."""

    def __init__(self, state: pa.DataType, modulo: int) -> None:
        super().__init__(state)
        self._modulo = modulo

    def init(self, count: int) -> pa.Array:
        """See `AggregateKernel`."""
        return pa.repeat(pa.scalar(1, pa.int64()), count)

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        """See `AggregateKernel`."""
        return self._rest(pc.multiply(states, pc.coalesce(values, pa.scalar(1, pa.int64()))))

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        """See `AggregateKernel`."""
        return self._rest(pc.multiply(left, right))

    def _rest(self, numbers: pa.Array) -> pa.Array:
        return pc.subtract(numbers, pc.multiply(pc.divide(numbers, self._modulo), self._modulo))
