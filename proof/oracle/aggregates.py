"""Aggregates by name, once more: each a function of the arguments that are there, in the order in which they came.

Law: an aggregate is what it is of the values which are left. So the oracle keeps all arguments, and its rules for
adding, taking back and merging are the same for all. An argument of None is left out, and so is a pair whose second is.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from proof.oracle.records import Value
from proof.oracle.windows.aggregation import Aggregator

Result = Callable[[Sequence[Any]], Any]


def aggregator_of(argument: Callable[[Value], Any]) -> Aggregator:
    """What is kept of records: their arguments."""

    def subtracted(kept: Any, value: Value) -> Any:
        left, gone = list(kept), argument(value)
        if gone in left:
            left.remove(gone)
        return left

    return Aggregator(list, lambda kept, value: [*kept, argument(value)], subtracted, lambda one, two: [*one, *two])


def visible_result(result: Result) -> Callable[[Value], Any]:
    """What an aggregate shows of what is kept."""
    return lambda kept: result([each for each in kept if each is not None])


def by_pairs(result: Result) -> Result:
    """An aggregate of pairs of a value and what it is found by."""
    return lambda pairs: result([pair for pair in pairs if pair[1] is not None])


def total(values: Sequence[Any]) -> Any:
    """sum."""
    return sum(values) if values else None


def mean(values: Sequence[Any]) -> Any:
    """avg, to six places, as all that is no whole number is shown."""
    return _digits(sum(values) / len(values)) if values else None


def deviation(values: Sequence[Any]) -> Any:
    """stddev."""
    return _digits(statistics.stdev(values)) if len(values) > 1 else None


def largest(values: Sequence[Any]) -> Any:
    """max."""
    return max(values, default=None)


def smallest(values: Sequence[Any]) -> Any:
    """min."""
    return min(values, default=None)


def first(values: Sequence[Any]) -> Any:
    """first."""
    return values[0] if values else None


def last(values: Sequence[Any]) -> Any:
    """last."""
    return values[-1] if values else None


def different(values: Sequence[Any]) -> Any:
    """collect_set."""
    return list(dict.fromkeys(values))


def top(values: Sequence[Any]) -> Any:
    """top_k: two of them."""
    return sorted(values, reverse=True)[:2]


def top_by(pairs: Sequence[Any]) -> Any:
    """top_k by another value: two of them, of equal ones the first."""
    return [value for value, _ in sorted(pairs, key=lambda pair: -pair[1])[:2]]


def max_by(pairs: Sequence[Any]) -> Any:
    """max_by: of equal ones the last."""
    best = max((by for _, by in pairs), default=None)
    return last([value for value, by in pairs if by == best])


def min_by(pairs: Sequence[Any]) -> Any:
    """min_by: of equal ones the last."""
    best = min((by for _, by in pairs), default=None)
    return last([value for value, by in pairs if by == best])


def every(values: Sequence[Any]) -> Any:
    """bool_and."""
    return all(values) if values else None


def some(values: Sequence[Any]) -> Any:
    """bool_or."""
    return any(values) if values else None


def mode(values: Sequence[Any]) -> Any:
    """mode: of those that are there most often the smallest."""
    count = Counter(values)
    return min((value for value in count if count[value] == max(count.values())), default=None)


def percentile(values: Sequence[Any]) -> Any:
    """percentile of 0.3."""
    if not values:
        return None
    order, place = sorted(values), (len(values) - 1) * 0.3
    one, other = order[math.floor(place)], order[math.ceil(place)]
    return _digits(one + (place - math.floor(place)) * (other - one))


def _digits(value: float) -> float:
    return round(float(value), 6) + 0.0


RESULTS: dict[str, Result] = {
    "count": len,
    "sum": total,
    "avg": mean,
    "stddev": deviation,
    "min": smallest,
    "max": largest,
    "first": first,
    "last": last,
    "collect_list": list,
    "collect_set": different,
    "count_distinct": lambda values: len(set(values)),
    "last_k": lambda values: values[-2:],
    "top_k": top,
    "top_k_by": by_pairs(top_by),
    "min_by": by_pairs(min_by),
    "max_by": by_pairs(max_by),
    "bool_and": every,
    "bool_or": some,
    "mode": mode,
    "percentile": percentile,
    "own": lambda values: "/".join(values),
}
"""What each shows, by its stem."""
