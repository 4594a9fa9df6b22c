"""collect_list: all values."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_comparable, list_of
from watersmeet.names import answered_as


@dataclass(frozen=True, repr=False)
class CollectList(OfOne):
    """See `collect_list`."""

    stem = name = "collect_list"
    in_agg = "all"

    def types(self, use: Use) -> Types:
        check_comparable(self, use.argument)
        values = list_of(use.argument)
        return values, values


@answered_as(CollectList.use())
def collect_list(argument: Function) -> AnyAggregate:
    """All values in the order in which they came."""
    return CollectList(argument)
