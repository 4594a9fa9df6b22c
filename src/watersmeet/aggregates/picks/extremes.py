"""min and max: the smallest and the largest value."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.aggregates.declared import (
    AnyAggregate,
    Function,
    OfOne,
    Types,
    Use,
    check_comparable,
    check_ordered,
    list_of,
)
from watersmeet.names import answered_as


class _Extreme(OfOne):
    """Base of `min` and `max`."""

    def types(self, use: Use) -> Types:
        check_ordered(self, use.argument)
        check_comparable(self, use.argument)
        return list_of(use.argument) if use.takes_back else use.argument, use.argument


@dataclass(frozen=True, repr=False)
class Min(_Extreme):
    """See `min`."""

    stem = name = "min"
    in_agg = "least"


@dataclass(frozen=True, repr=False)
class Max(_Extreme):
    """See `max`."""

    stem = name = "max"
    in_agg = "most"


@answered_as(Min.use())
def min(argument: Function) -> AnyAggregate:
    """The smallest value; of a grouped table all values are kept, since the smallest may go."""
    return Min(argument)


@answered_as(Max.use())
def max(argument: Function) -> AnyAggregate:
    """The largest value; NaN is larger than all numbers, as Spark has it."""
    return Max(argument)
