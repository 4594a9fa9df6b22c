"""Windowed aggregates of vectors, made with watersmeet's own handles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proof.oracle.vectors.windows import operators_of
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator
from watersmeet.aggregates.user_defined import python
from watersmeet.api.streams import KStream
from watersmeet.api.tables import WTable
from watersmeet.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows, Windows

Params = Mapping[str, Any]


def aggregated(stream: KStream, fold: Aggregator, operator: Params) -> WTable:
    """A stream aggregated by key and window, as an operator of a vector says."""
    emit = EmitStrategy(operator["emit"] == "ON_WINDOW_CLOSE")
    grouped: Any = stream.group_by_key().windowed_by(_windows(operator)).emit_strategy(emit)
    table: WTable
    if fold is AGGREGATORS["count"]:
        table = grouped.count()
        return table
    if fold.initial is None:
        table = grouped.reduce(python(fold.add))
        return table
    steps = [python(lambda value, aggregate: fold.add(aggregate, value))]
    if operator["type"] == "session":
        assert fold.merge is not None, "a session aggregate needs a merger"
        steps.append(python(fold.merge))
    table = grouped.aggregate(fold.initial, *steps)
    return table


def is_windowed(vector: Params) -> bool:
    """Whether a vector is of windowed aggregates."""
    operators = vector["params"].get("operators") or [{}]
    return str(vector["operator"]).startswith("window-aggregate") or str(operators[0].get("op")) == "window-aggregate"


def unsupported_windows(params: Params) -> str | None:
    """Why windowed aggregates of these parameters cannot be built; None when they can."""
    if params.get("in_order_iterator_store"):
        return "its store, which only the test has, decides the order of results"
    for operator in operators_of(params):
        if operator.get("type") == "sliding" and operator.get("time_difference_ms") == 0:
            return "refused when it is written down: sliding windows of difference 0"
    return None


def _windows(operator: Params) -> Windows:
    grace = operator["grace_ms"]
    if operator["type"] == "session":
        return SessionWindows(operator["gap_ms"], grace)
    if operator["type"] == "sliding":
        return SlidingWindows(operator["time_difference_ms"], grace)
    return TimeWindows(operator["size_ms"], operator["advance_ms"], grace)
