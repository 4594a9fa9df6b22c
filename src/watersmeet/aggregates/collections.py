"""Aggregates of several values: top_k, last_k, percentile, mode, count_distinct, collect_list and collect_set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.aggregates.declaration import (
    AnyAggregate,
    Function,
    OfOne,
    OfTwo,
    Types,
    Use,
    check_comparable,
    check_k,
    check_number,
    check_ordered,
    list_of,
)
from watersmeet.errors import TopologyError, WrongCall
from watersmeet.hints import answered_as

_TOP_K_EXAMPLE = "wm.top_k(lambda value: value['amount'], k=3)"
_BY = "wm.top_k(k=3, by=lambda value: value['amount'], value=lambda value: value['name'])"


@dataclass(frozen=True, repr=False)
class TopK(OfOne):
    """See `top_k`."""

    k: int = 1

    stem = name = "top_k"
    in_agg = "top"

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return f"wm.top_k(lambda value: {of}, k=3)"

    def types(self, use: Use) -> Types:
        check_ordered(self, use.argument)
        check_comparable(self, use.argument)
        values = list_of(use.argument)
        return values, values


@dataclass(frozen=True, repr=False)
class TopBy(OfTwo):
    """See `top_k`, with `by`."""

    k: int = 1

    stem, name = "top_k_by", "top_k"
    in_agg = "top"

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return f"wm.top_k(k=3, by=lambda value: {of})"

    @property
    def text(self) -> str:
        return f"top_k({self.k}, by)"

    def types(self, use: Use) -> Types:
        value, by = use.arguments["value"], use.arguments["by"]
        check_ordered(self, by, "by")
        if use.takes_back:
            check_comparable(self, value, "value")
        return list_of(pa.struct([("value", value), ("by", by)])), list_of(value)


@answered_as(f"For example {_TOP_K_EXAMPLE}, or {_BY}")
def top_k(
    argument: Function | None = None,
    k: int | None = None,
    *,
    by: Function | None = None,
    value: Function | None = None,
) -> AnyAggregate:
    """The `k` largest values, the largest first; with `by` the values of the `k` records with the largest `by`.

    NaN is larger than all numbers. Of equal values the earlier one comes first, and stays if there are more than `k`.

    >>> top_k(lambda order: order["amount"], k=3)
    wm.top_k(k=3)
    >>> top_k(k=3, by=lambda order: order["amount"], value=lambda order: order["customer"])
    wm.top_k(k=3)

    Parameters
    ----------
    argument : the values; not with `by`.
    k : how many.
    by : what records are ordered by; those of which it is null are left out.
    value : what is shown of each record, which may be null; by default the whole value. With `by` only.
    """
    _check(argument, k, by, value)
    assert k is not None, "checked"
    return TopK(argument, k) if by is None else TopBy(value or _identity, by, k)


def _identity(value: Any) -> Any:
    return value


def _check(argument: Any, k: Any, by: Any, value: Any) -> None:
    if k is None or (by is None and argument is None):
        lacks = "argument" if k is not None else "k" if by is not None or argument is not None else "argument and k"
        got = "" if argument is None else f", and got {argument!r:.80}"
        raise WrongCall(f"wm.top_k needs {lacks}{got}.", hint=f"For example {_TOP_K_EXAMPLE}, or {_BY}.")
    check_k("top_k", k, _TOP_K_EXAMPLE)
    if by is not None and argument is not None:
        raise WrongCall(
            f"wm.top_k takes an argument or by=, and got both: {argument!r:.80}.",
            hint=f"Give the result of each record as value=: {_BY}.",
        )
    if by is None and value is not None:
        raise WrongCall(f"wm.top_k takes value={value!r:.80} only with by=.", hint=f"For example {_BY}.")


# last_k: the values that came last.

_LAST_K_EXAMPLE = "wm.last_k(lambda value: value['amount'], k=10)"


@dataclass(frozen=True, repr=False)
class LastK(OfOne):
    """See `last_k`."""

    k: int = 1

    stem = name = "last_k"
    in_agg = "recent"

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return f"wm.last_k(lambda value: {of}, k=10)"

    def types(self, use: Use) -> Types:
        if use.takes_back:
            raise TopologyError(
                f"A grouped table has no last values, as wm.last_k(k={self.k}) wants them: its rows come and go.",
                hint="Use wm.top_k, or group the stream of its changes: table.to_stream().group_by(...).",
            )
        values = list_of(use.argument)
        return values, values


@answered_as(f"For example {_LAST_K_EXAMPLE}")
def last_k(argument: Function, k: int) -> AnyAggregate:
    """The `k` values that came last, the earliest of them first; of a grouped stream only.

    With `wm.count()` beside it, it gives windows of so many records: see docs/aggregates.md.

    >>> last_k(lambda order: order["amount"], k=10)
    wm.last_k(k=10)

    Parameters
    ----------
    argument : the values; null is left out.
    k : how many.

    Raises
    ------
    TopologyError : `k` is no whole number of more than zero.
    """
    check_k("last_k", k, _LAST_K_EXAMPLE)
    return LastK(argument, k)


# The state of an aggregate that counts each distinct value.


def counts_of(kind: pa.DataType) -> pa.DataType:
    """Different values, each with how often it is there."""
    return list_of(pa.struct([("value", kind), ("count", pa.int64())]))


# percentile: the exact percentile of numbers.

_PERCENTILE_EXAMPLE = "wm.percentile(lambda value: value['amount'], p=0.5)"


@dataclass(frozen=True, repr=False)
class Percentile(OfOne):
    """See `percentile`."""

    p: float = 0.5

    stem = name = "percentile"

    def types(self, use: Use) -> Types:
        check_number(self, use.argument)
        return counts_of(use.argument), pa.float64()

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return f"wm.percentile(lambda value: {of}, p=0.5)"


@answered_as(f"For example {_PERCENTILE_EXAMPLE}")
def percentile(argument: Function, p: float) -> AnyAggregate:
    """The exact percentile of numbers, a double, as Spark's `percentile`; null of no records.

    Between two values it lies on the line from one to the other; NaN is larger than all numbers. Kept is how often each
    value is there.

    >>> percentile(lambda order: order["amount"], p=0.5)
    wm.percentile(p=0.5)

    Parameters
    ----------
    argument : the numbers.
    p : from 0.0, the smallest, to 1.0, the largest; 0.5 is the median.
    """
    fraction: Any = p
    if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not 0 <= fraction <= 1:
        raise TopologyError(
            f"percentile takes a number from 0.0 to 1.0: p={fraction!r:.80}.",
            hint=f"For example {_PERCENTILE_EXAMPLE}.",
        )
    return Percentile(argument, float(fraction))


# mode: the value that is there most often.


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


# count_distinct: how many different values there are.


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


# collect_list: all values.


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


# collect_set: the different values.


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
