"""Aggregates that add up: sum, count, avg and stddev."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregates.declaration import AnyAggregate, Function, OfOne, Types, Use, check_number
from watersmeet.hints import answered_as

# The state of sums, means and deviations.

EXACT = pa.struct(
    [("low", pa.int64()), ("digits", pa.binary())] + [(name, pa.int64()) for name in ("nan", "most", "least")]
)
"""An exact sum of doubles: place of the lowest digit, the digits up to that of the sign, and how many NaN, infinities
and -infinities there are."""


def exact(total: pa.DataType) -> pa.DataType:
    """The state of a sum that subtracts values: integers and decimals are exact as they are."""
    return EXACT if pt.is_floating(total) else total


def counted(total: pa.DataType) -> pa.DataType:
    """A sum, and how many values there are."""
    return pa.struct([("sum", total), ("count", pa.int64())])


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


# stddev: the standard deviation of a sample.


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


# count: how many records, or how many values.


@dataclass(frozen=True, repr=False)
class Count(OfOne):
    """See `count`."""

    stem = name = "count"
    # what is grouped has it as a method, too
    in_agg = None

    def types(self, use: Use) -> Types:
        return pa.int64(), pa.int64()

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return "wm.count()"


@answered_as(Count.use())
def count(argument: Function | None = None) -> AnyAggregate:
    """The number of records, or of records with an argument that is not null: a long."""
    return Count(argument)


# avg: the mean.


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
