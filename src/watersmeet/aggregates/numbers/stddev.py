"""stddev: the standard deviation of a sample."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_number
from watersmeet.aggregates.numbers.totals import EXACT
from watersmeet.names import answered_as


@dataclass(frozen=True, repr=False)
class Stddev(OfOne):
    """See `stddev`."""

    stem = name = "stddev"
    in_agg = "spread"

    def types(self, use: Use) -> Types:
        check_number(self, use.argument)
        if use.takes_back:
            return pa.struct([("count", pa.int64()), ("sum", EXACT), ("squares", EXACT)]), pa.float64()
        return pa.struct([(name, pa.float64()) for name in ("count", "mean", "squares")]), pa.float64()


@answered_as(Stddev.use())
def stddev(argument: Function) -> AnyAggregate:
    """The standard deviation of a sample (n - 1), a double; null of fewer than two records, NaN of what is not finite.

    Of a grouped table it is that of the rows which are left, whatever has come and gone.
    """
    return Stddev(argument)
