"""min_by and max_by: the value of the record in which another one is smallest or largest."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.aggregates.declared import (
    AnyAggregate,
    Function,
    OfTwo,
    Types,
    Use,
    check_comparable,
    check_ordered,
    list_of,
)
from watersmeet.names import answered_as


class _ExtremeBy(OfTwo):
    """Base of `min_by` and `max_by`."""

    def types(self, use: Use) -> Types:
        value, by = use.arguments["value"], use.arguments["by"]
        check_ordered(self, by, "by")
        if use.takes_back:
            check_comparable(self, value, "value")
        both = pa.struct([("value", value), ("by", by)])
        return list_of(both) if use.takes_back else both, value


@dataclass(frozen=True, repr=False)
class MinBy(_ExtremeBy):
    """See `min_by`."""

    stem = name = "min_by"


@dataclass(frozen=True, repr=False)
class MaxBy(_ExtremeBy):
    """See `max_by`."""

    stem = name = "max_by"


@answered_as(MinBy.use())
def min_by(value: Function, by: Function) -> AnyAggregate:
    """The value of the record with the smallest `by`; of equal ones the last, like Spark's `min_by`.

    Records with a null `by` are ignored; the value may be null. Of a grouped table all pairs are kept.
    """
    return MinBy(value, by)


@answered_as(MaxBy.use())
def max_by(value: Function, by: Function) -> AnyAggregate:
    """The value of the record with the largest `by`, NaN above all numbers; of equal ones the last.

    Like Spark's `max_by`, it ignores records with a null `by`, and the value may be null. For a grouped table all pairs
    are kept, and of equal ones the last that came into the group counts.
    """
    return MaxBy(value, by)
