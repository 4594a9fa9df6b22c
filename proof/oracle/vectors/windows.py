"""Vectors of windowed aggregates, alone and joined.

Owns how the described windowed aggregates are put together. Law: caching and the order of iteration of the
test's store are taken from the vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proof.oracle.functions import plus
from proof.oracle.graph import Node, Topology
from proof.oracle.tables.table_table import table_table_join
from proof.oracle.vectors.untold import IncompleteVectorError, aggregate_of_vector, described_value
from proof.oracle.vectors.vectors import (
    Builder,
    Vector,
    cache,
    joiner,
    observe,
    sink_names,
    store,
    stream_source,
)
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator
from proof.oracle.windows.window_session import SessionWindowAggregate
from proof.oracle.windows.window_sliding import SlidingWindowAggregate
from proof.oracle.windows.window_time import TimeWindowAggregate, TimeWindows
from proof.oracle.windows.windowed import Emission, WindowAggregate

_SORTED = Aggregator(lambda: "", lambda aggregate, value: "".join(sorted(aggregate + value)))
_EMPTY_LOG = Aggregator(lambda: "", plus)


def aggregator_of(vector: Vector) -> Aggregator:
    """The aggregate of a vector, as its results show it."""
    return {**AGGREGATORS, "sorted": _SORTED, "empty log": _EMPTY_LOG}[aggregate_of_vector(vector)]


def operators_of(params: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The operators of a vector's parameters; where the vector is of a processor alone, these are that one's."""
    return params.get("operators") or [params]


def retention_of(vector: Vector, operator: Mapping[str, Any]) -> int | None:
    """How long a vector's store keeps windows, in ms, where the test has made it.

    Raises
    ------
    NotToldError : the test has the processor in its own hands, and the vector does not tell how it was set up.
    """
    if "operators" in vector["params"]:
        return None
    if operator["emit"] == "ON_WINDOW_CLOSE":
        described_value(vector, "emit_interval_ms")
    return described_value(vector, "retention_gaps") * operator["gap_ms"] if operator["type"] == "session" else None


def _aggregate(topology: Topology, parent: Node, vector: Vector, operator: Mapping[str, Any]) -> WindowAggregate:
    kind, grace = operator["type"], operator["grace_ms"]
    cached = any(variant["display"] == "[3] ON_WINDOW_CLOSE, true" for variant in vector.get("variants", ()))
    emission = Emission(
        on_close=operator["emit"] == "ON_WINDOW_CLOSE",
        retention_ms=retention_of(vector, operator),
        lookups_cached=cached,
    )
    aggregator = aggregator_of(vector)
    if kind == "time":
        spec = TimeWindows(operator["size_ms"], operator["advance_ms"], grace)
        return TimeWindowAggregate(topology, parent, aggregator, spec, emission)
    if kind == "session":
        return SessionWindowAggregate(topology, parent, aggregator, emission, gap_ms=operator["gap_ms"], grace_ms=grace)
    if kind == "sliding":
        return SlidingWindowAggregate(
            topology,
            parent,
            aggregator,
            emission,
            difference_ms=operator["time_difference_ms"],
            grace_ms=grace,
            ascending=bool(vector["params"].get("in_order_iterator_store")),
        )
    raise IncompleteVectorError(f"unknown window {kind!r}")


def _windowed(topology: Topology, vector: Vector) -> None:
    operator = operators_of(vector["params"])[0]
    aggregate = _aggregate(topology, stream_source(topology, "input"), vector, operator)
    cache(topology, aggregate, store(vector, 0))
    observe(topology, aggregate, vector)


def windowed_table_join(topology: Topology, vector: Vector) -> None:
    """Two windowed aggregates, each with a sink, joined window by window."""
    names = sink_names(vector)
    operators = vector["params"]["operators"]
    aggregates = []
    for place, side in enumerate(("left", "right")):
        aggregate = _aggregate(topology, stream_source(topology, side), vector, operators[place])
        cache(topology, aggregate, store(vector, place))
        observe(topology, aggregate, vector, names[place])
        aggregates.append(aggregate)
    left, right = aggregates
    join = table_table_join(topology, (left, right), operators[2]["type"], joiner(vector))
    observe(topology, join, vector, names[2])


BUILDERS: dict[str, Builder] = {
    "window-aggregate": _windowed,
    "window-aggregate(session)": _windowed,
}
