"""top_k: the largest values, or what stands in the records in which another one is largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.aggregates.declared import (
    AnyAggregate,
    Function,
    OfOne,
    OfTwo,
    Types,
    Use,
    check_comparable,
    check_k,
    check_ordered,
    list_of,
)
from watersmeet.errors import WrongCall
from watersmeet.names import answered_as

_EXAMPLE = "wm.top_k(lambda value: value['amount'], k=3)"
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


@answered_as(f"For example {_EXAMPLE}, or {_BY}")
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
    return TopK(argument, k) if by is None else TopBy(value or _whole, by, k)


def _whole(value: Any) -> Any:
    return value


def _check(argument: Any, k: Any, by: Any, value: Any) -> None:
    if k is None or (by is None and argument is None):
        lacks = "argument" if k is not None else "k" if by is not None or argument is not None else "argument and k"
        got = "" if argument is None else f", and got {argument!r:.80}"
        raise WrongCall(f"wm.top_k needs {lacks}{got}.", hint=f"For example {_EXAMPLE}, or {_BY}.")
    check_k("top_k", k, _EXAMPLE)
    if by is not None and argument is not None:
        raise WrongCall(
            f"wm.top_k takes an argument or by=, and got both: {argument!r:.80}.",
            hint=f"Give the result of each record as value=: {_BY}.",
        )
    if by is None and value is not None:
        raise WrongCall(f"wm.top_k takes value={value!r:.80} only with by=.", hint=f"For example {_BY}.")
