"""Builds the oracle's topology for a vector: the dispatch by operator.

Law: a vector that does not describe a buildable topology is refused with the reason; nothing is skipped.
"""

from __future__ import annotations

from proof.oracle.graph import Topology
from proof.oracle.semantics import Semantics
from proof.oracle.vectors import joins, tables, windows
from proof.oracle.vectors.untold import IncompleteVectorError, NotBuildableError, described
from proof.oracle.vectors.vectors import Vector

_INSIDE = "internal processor: its stores were filled by the test, the vector does not show with what"
_REFUSED = {
    "join-windows": "facts of a window builder, no records",
    "fk-subscription-send": "internal processor: changes and wire messages (a test of its own compares them)",
    "fk-subscription-join": _INSIDE,
    "fk-response-join": _INSIDE,
    "fk-foreign-table-join": _INSIDE,
}
_BUILDERS = {**joins.BUILDERS, **tables.BUILDERS, **windows.BUILDERS}


def known_vector(operator: str) -> bool:
    """Whether vectors of this operator are known, be it that they cannot be run."""
    return operator in _REFUSED or operator in _BUILDERS


def build_vector(vector: Vector, semantics: Semantics) -> Topology:
    """The topology of a vector, ready to pipe; its inputs are named by their sides.

    Raises
    ------
    NotBuildableError : there is none, or the vector does not tell enough.
    """
    operator = vector["operator"]
    if operator in _REFUSED:
        raise NotBuildableError(_REFUSED[operator])
    if operator not in _BUILDERS:
        raise IncompleteVectorError(f"no topology for vectors of {operator!r}")
    topology = Topology(semantics)
    _BUILDERS[operator](topology, described(vector))
    return topology
