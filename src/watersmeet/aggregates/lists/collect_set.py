"""collect_set: the different values."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_comparable, list_of
from watersmeet.names import answered_as


@dataclass(frozen=True, repr=False)
class CollectSet(OfOne):
    """See `collect_set`."""

    stem = name = "collect_set"
    in_agg = "different"

    def types(self, use: Use) -> Types:
        check_comparable(self, use.argument)
        values = list_of(use.argument)
        return values, values


@answered_as(CollectSet.use())
def collect_set(argument: Function) -> AnyAggregate:
    """The different values, in the order in which they first came; -0.0 is 0.0 and NaN is one, as in Spark."""
    return CollectSet(argument)
