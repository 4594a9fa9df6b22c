"""mode: the value that is there most often."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.aggregates.counted.counts import counts_of
from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_ordered
from watersmeet.names import answered_as


@dataclass(frozen=True, repr=False)
class Mode(OfOne):
    """See `mode`."""

    stem = name = "mode"

    def types(self, use: Use) -> Types:
        check_ordered(self, use.argument)
        return counts_of(use.argument), use.argument


@answered_as(Mode.use())
def mode(argument: Function) -> AnyAggregate:
    """The value that is there most often; of several the smallest, as Spark's `mode(argument, True)`; null of none.

    Kept is how often each value is there. -0.0 is 0.0, and NaN is one value, above all numbers.
    """
    return Mode(argument)
