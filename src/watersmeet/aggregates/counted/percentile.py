"""percentile: the exact percentile of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.aggregates.counted.counts import counts_of
from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_number
from watersmeet.errors import TopologyError
from watersmeet.names import answered_as

_EXAMPLE = "wm.percentile(lambda value: value['amount'], p=0.5)"


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


@answered_as(f"For example {_EXAMPLE}")
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
    given: Any = p
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= 1:
        raise TopologyError(
            f"percentile takes a number from 0.0 to 1.0: p={given!r:.80}.", hint=f"For example {_EXAMPLE}."
        )
    return Percentile(argument, float(given))
