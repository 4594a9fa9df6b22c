"""product: what an aggregate says of itself."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.aggregates.declaration import AnyAggregate, Function, OfOne, Types, Use, check_number
from watersmeet.hints import answered_as


@dataclass(frozen=True, repr=False)
class Product(OfOne):
    """See `product`."""

    modulo: int = 1

    stem = name = "product"

    def types(self, use: Use) -> Types:
        """See `AnyAggregate`."""
        check_number(self, use.argument)
        values = pa.list_(pa.field("element", pa.int64()))
        return values if use.takes_back else pa.int64(), pa.int64()


@answered_as(Product.use())
def product(argument: Function, modulo: int) -> AnyAggregate:
    """The product of whole numbers, modulo another one; 1 of none."""
    return Product(argument, modulo)
