"""count_distinct: how many different values there are."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_comparable, list_of
from watersmeet.names import answered_as


@dataclass(frozen=True, repr=False)
class CountDistinct(OfOne):
    """See `count_distinct`."""

    stem = name = "count_distinct"
    in_agg = "n"

    def types(self, use: Use) -> Types:
        check_comparable(self, use.argument)
        return list_of(use.argument), pa.int64()


@answered_as(CountDistinct.use())
def count_distinct(argument: Function) -> AnyAggregate:
    """How many different values there are: a long. They are kept; -0.0 is 0.0, and NaN is one, as in Spark."""
    return CountDistinct(argument)
