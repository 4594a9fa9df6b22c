"""last_k: the values that came last."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use, check_k, list_of
from watersmeet.errors import TopologyError
from watersmeet.names import answered_as

_EXAMPLE = "wm.last_k(lambda value: value['amount'], k=10)"


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


@answered_as(f"For example {_EXAMPLE}")
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
    check_k("last_k", k, _EXAMPLE)
    return LastK(argument, k)
