"""Aggregates that pick a value: min_by and max_by, min and max, first and last, bool_and and bool_or."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregates.declaration import (
    AnyAggregate,
    Function,
    OfOne,
    OfTwo,
    Types,
    Use,
    check_comparable,
    check_ordered,
    list_of,
)
from watersmeet.errors import TopologyError
from watersmeet.hints import answered_as


class _ExtremeBy(OfTwo):
    """Base of `min_by` and `max_by`."""

    def types(self, use: Use) -> Types:
        value, by = use.arguments["value"], use.arguments["by"]
        check_ordered(self, by, "by")
        if use.takes_back:
            check_comparable(self, value, "value")
        pair = pa.struct([("value", value), ("by", by)])
        return list_of(pair) if use.takes_back else pair, value


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


# bool_and and bool_or: whether a condition holds of all records, or of any.


class _Boolean(OfOne):
    """Base of `bool_and` and `bool_or`."""

    def types(self, use: Use) -> Types:
        if not pt.is_boolean(use.argument):
            raise TopologyError(
                f"The aggregate {self.name} takes conditions, and its argument is {use.argument}.",
                hint=f"Compare: wm.{self.name}(lambda value: value['field'] > 0).",
            )
        state = pa.struct([("true", pa.int64()), ("false", pa.int64())]) if use.takes_back else pa.bool_()
        return state, pa.bool_()

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return f"wm.{cls.name}(lambda value: {of} > 0)"


@dataclass(frozen=True, repr=False)
class BoolAnd(_Boolean):
    """See `bool_and`."""

    stem = name = "bool_and"


@dataclass(frozen=True, repr=False)
class BoolOr(_Boolean):
    """See `bool_or`."""

    stem = name = "bool_or"


@answered_as(BoolAnd.use())
def bool_and(argument: Function) -> AnyAggregate:
    """Whether a condition holds of all records of which it is not null; null of none, as Spark's `bool_and`."""
    return BoolAnd(argument)


@answered_as(BoolOr.use())
def bool_or(argument: Function) -> AnyAggregate:
    """Whether a condition holds of any record; null where it is null of all, as Spark's `bool_or`."""
    return BoolOr(argument)


# min and max: the smallest and the largest value.


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


# first and last: the values that came first and last.


class _Edge(OfOne):
    """Base of `first` and `last`."""

    def types(self, use: Use) -> Types:
        if use.takes_back:
            raise TopologyError(
                f"A grouped table has no {self.name} value, as wm.{self.name} wants it: its rows come and go.",
                hint="Use wm.min or wm.max, or group the stream of its changes: table.to_stream().group_by(...).",
            )
        return use.argument, use.argument


@dataclass(frozen=True, repr=False)
class First(_Edge):
    """See `first`."""

    stem = name = "first"


@dataclass(frozen=True, repr=False)
class Last(_Edge):
    """See `last`."""

    stem = name = "last"


@answered_as(First.use())
def first(argument: Function) -> AnyAggregate:
    """The value that came first; of a grouped stream only."""
    return First(argument)


@answered_as(Last.use())
def last(argument: Function) -> AnyAggregate:
    """The value that came last; of a grouped stream only."""
    return Last(argument)
