"""The arithmetic of aggregates: what to start from, how to add, subtract and merge.

Owns the aggregators of the recorded topologies. Law: an absent aggregate is None, and None as a result
deletes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from proof.oracle.functions import plus, text
from proof.oracle.graph import Node
from proof.oracle.records import Value


class FoldRaisesError(ValueError):
    """A function of a fold raises for this record."""


@dataclass(frozen=True, slots=True)
class Aggregator:
    """Plain functions; `initial` is None for a reduce, whose first value is taken as it is.

    `raises` says that some may raise `FoldRaisesError`.
    """

    initial: Callable[[], Value] | None
    add: Callable[[Value, Value], Value]
    subtract: Callable[[Value, Value], Value] | None = None
    merge: Callable[[Value, Value], Value] | None = None
    raises: bool = False

    def added(self, aggregate: Value, value: Value) -> Value:
        """Add one value to an aggregate, which may be absent."""
        if aggregate is None:
            if self.initial is None:
                return value
            aggregate = self.initial()
        return self.add(aggregate, value)


Cogrouped: TypeAlias = tuple[Node, Aggregator]
"""A further stream that is aggregated together with the first one, and the arithmetic of its records (KIP-150)."""


def _log_or_reset(aggregate: Value, value: Value) -> Value:
    return None if str(value).endswith("3") else plus(aggregate, value)


def _minus(aggregate: Value, value: Value) -> str:
    return f"{text(aggregate)}-{text(value)}"


def _into_set(aggregate: Value, value: Value) -> Value:
    members = aggregate.split(",") if aggregate else []
    return ",".join(sorted([*members, value]))


def _out_of_set(aggregate: Value, value: Value) -> Value:
    members = aggregate.split(",")
    if value in members:
        members.remove(value)
    return ",".join(members) or None


def _brittle(aggregate: Value, value: Value) -> Value:
    if str(value).endswith("7") or (str(value).endswith("1") and len(aggregate) % 3 == 0):
        raise FoldRaisesError(value)
    return _log_or_reset(aggregate, value)


def _brittle_of_both(one: Value, other: Value) -> Value:
    if str(other).endswith("5"):
        raise FoldRaisesError(other)
    return f"{text(one)}&{text(other)}"


AGGREGATORS: dict[str, Aggregator] = {
    "count": Aggregator(lambda: 0, lambda a, _: a + 1, lambda a, _: a - 1, lambda a, b: a + b),
    "reduce": Aggregator(None, plus, _minus, plus),
    "log": Aggregator(lambda: "0", plus, _minus, lambda a, b: f"{text(a)}&{text(b)}"),
    "reset": Aggregator(lambda: "0", _log_or_reset, merge=plus),
    "brittle": Aggregator(lambda: "0", _brittle, _minus, _brittle_of_both, raises=True),
    "set": Aggregator(lambda: "", _into_set, _out_of_set),
}
