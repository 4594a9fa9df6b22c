"""Builds the oracle's topology for a vector: the dispatch by operator.

Law: a vector that does not describe a buildable topology is refused with the reason; nothing is skipped.
"""

from __future__ import annotations

from millpond.testing.oracle import vectors_joins, vectors_tables, vectors_windows
from millpond.testing.oracle.graph import Topology
from millpond.testing.oracle.semantics import Semantics
from millpond.testing.oracle.topologies import NotBuildableError
from millpond.testing.oracle.vectors import Vector

_INSIDE = "internal processor: its stores were filled by the test, the vector does not show with what"
_REFUSED = {
    "join-windows": "facts of a window builder, no records",
    "fk-subscription-send": "internal processor: changes and wire messages (a test of its own compares them)",
    "fk-subscription-join": _INSIDE,
    "fk-response-join": _INSIDE,
    "fk-foreign-table-join": _INSIDE,
}
_CLOCK = "the test moved a clock between records, which the steps do not show"
_DISPUTED = "section A row 11: the page's table closes one step early, the engine's recordings are followed"
_REFUSED_NAMES = {
    "KStreamWindowAggregateTest.shouldEmitFromLastEmitTime#2": _CLOCK,
    "KStreamWindowAggregateTest.shouldEmitWithLargeInterval#2": _CLOCK,
    "seed.stream_stream_left_31": _DISPUTED,
    "seed.stream_stream_outer_31": _DISPUTED,
}


def build_vector(vector: Vector, semantics: Semantics) -> Topology:
    """The topology of a vector, ready to pipe; its inputs are named by their sides."""
    builders = {**vectors_joins.BUILDERS, **vectors_tables.BUILDERS, **vectors_windows.BUILDERS}
    operator = vector["operator"]
    if operator in _REFUSED:
        raise NotBuildableError(_REFUSED[operator])
    if vector["name"] in _REFUSED_NAMES:
        raise NotBuildableError(_REFUSED_NAMES[vector["name"]])
    if operator not in builders:
        raise NotBuildableError(f"no topology for vectors of {operator!r}")
    topology = Topology(semantics)
    builders[operator](topology, vector)
    return topology
