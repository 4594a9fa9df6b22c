"""sum: of integers, floats and decimals."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_number
from watersmeet.aggregates.numbers.totals import counted, exact
from watersmeet.names import answered_as


@dataclass(frozen=True, repr=False)
class Sum(OfOne):
    """See `sum`."""

    stem = name = "sum"
    in_agg = "total"

    def types(self, use: Use) -> Types:
        argument = use.argument
        check_number(self, argument)
        if pt.is_decimal(argument):
            total = pa.decimal128(min(argument.precision + 10, 38), argument.scale)
        else:
            total = pa.float64() if pt.is_floating(argument) else pa.int64()
        return counted(exact(total)) if use.takes_back else total, total


@answered_as(Sum.use())
def sum(argument: Function) -> AnyAggregate:
    """The sum: a long of integers, a double of floats, a decimal of decimals; null of no records.

    Of a grouped table a sum of floats is exact and rounded once: what leaves the table leaves nothing behind, NaN and
    infinities included.
    """
    return Sum(argument)
