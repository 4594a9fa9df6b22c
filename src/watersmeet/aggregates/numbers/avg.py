"""avg: the mean."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_number
from watersmeet.aggregates.numbers.totals import counted, exact
from watersmeet.names import answered_as


@dataclass(frozen=True, repr=False)
class Avg(OfOne):
    """See `avg`."""

    stem = name = "avg"
    in_agg = "mean"

    def types(self, use: Use) -> Types:
        check_number(self, use.argument)
        total = pa.float64()
        return counted(exact(total) if use.takes_back else total), total


@answered_as(Avg.use())
def avg(argument: Function) -> AnyAggregate:
    """The mean, a double: the sum of the values as doubles, as Spark casts them, by their number."""
    return Avg(argument)
