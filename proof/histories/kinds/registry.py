"""All operator kinds by name, and both ways of building a blueprint.

Owns the walk over a blueprint. Law: operators are built in the order in which they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from proof.histories.blueprint import Blueprint, Op, name_of
from proof.histories.kinds import (
    aggregates,
    lookups,
    processors,
    streams,
    suppressed,
    tables,
    window_aggregates,
    windows,
    wtables,
)
from proof.histories.kinds.functions import Lifts
from proof.histories.kinds.kind import BuildSite, OperatorKind, OracleSite
from proof.histories.kinds.shapes import TypeShape
from proof.oracle.graph import Node, Topology
from proof.oracle.semantics import AS_BY_TOPICS, Semantics
from watersmeet.api.builder import StreamsBuilder

KINDS: dict[str, OperatorKind] = {
    **streams.KINDS,
    **tables.KINDS,
    **windows.KINDS,
    **lookups.KINDS,
    **aggregates.KINDS,
    **window_aggregates.KINDS,
    **suppressed.KINDS,
    **wtables.KINDS,
    **processors.KINDS,
}
VERSIONS = {"current": "4.3.0", "spurious": "0.10.2.2", "old": "0.10.1.1", "old-0.10.0": "0.10.0.1"}
SOURCES = tuple(name for name, kind in KINDS.items() if not kind.takes)
SINKS = tuple(name for name, kind in KINDS.items() if not kind.gives or kind.writes)


def build(
    blueprint: Blueprint,
    builder: StreamsBuilder,
    library: Lifts,
    named: Callable[[int], str] = name_of,
    kept: Callable[[int], str | None] = lambda _: None,
) -> None:
    """Add the blueprint to a builder, with the users' handles.

    Parameters
    ----------
    named : what an operator is called.
    kept : what its store is called, where that does not follow from its name.
    """
    made: list[list[Any]] = []
    for number, op in enumerate(blueprint.ops):
        site = BuildSite(builder, library, named(number), blueprint.keys, shape_of(blueprint), kept(number))
        made.append(KINDS[op.kind].handles(site, [made[r.op][r.port] for r in op.inputs], op.params))


def oracle_of(
    blueprint: Blueprint, semantics: Semantics | None = None, named: Callable[[int], str] = name_of
) -> tuple[Topology, list[Node]]:
    """The oracle's topology, every row of section A but 39 repaired unless told otherwise, and its nodes."""
    topology, made = oracle_by_op(blueprint, semantics, named)
    return topology, [node for nodes in made for node in nodes]


def oracle_by_op(
    blueprint: Blueprint, semantics: Semantics | None = None, named: Callable[[int], str] = name_of
) -> tuple[Topology, Iterator[list[Node]]]:
    """The same, the nodes of each operator as they are built."""
    version = VERSIONS[blueprint.generation]
    topology = Topology(semantics or Semantics(version, faithful=False, rows=AS_BY_TOPICS))
    topology.tolerates_errors = blueprint.on_error != "fail"
    return topology, _built(blueprint, topology, named)


def _built(blueprint: Blueprint, topology: Topology, named: Callable[[int], str]) -> Iterator[list[Node]]:
    made: list[list[Any]] = []
    for number, op in enumerate(blueprint.ops):
        site = OracleSite(topology, named(number), blueprint.keys, _relaxed(blueprint, number), shape_of(blueprint))
        made.append(KINDS[op.kind].nodes(site, [made[r.op][r.port] for r in op.inputs], op.params))
        yield made[-1]


def shape_of(blueprint: Blueprint) -> TypeShape:
    """The types of the blueprint's keys and values."""
    return TypeShape(blueprint.keys, blueprint.values)


def sources_of(blueprint: Blueprint) -> tuple[str, ...]:
    """Names of the blueprint's inputs."""
    return blueprint.sources(SOURCES)


def sinks_of(blueprint: Blueprint) -> tuple[str, ...]:
    """Names of the blueprint's outputs."""
    return blueprint.sources(SINKS)


def deferred(blueprint: Blueprint) -> bool:
    """Whether the oracle makes some results later than depth-first order would."""
    return any(KINDS[op.kind].deferred for op in blueprint.ops)


def holds_back(op: Op) -> bool:
    """Whether an operator holds results back until time lets them go."""
    return KINDS[op.kind].holds(op.params)


def timed(blueprint: Blueprint) -> bool:
    """Whether an operator keeps rows until time has passed."""
    return any(KINDS[op.kind].timed or "history" in op.params for op in blueprint.ops)


def goes_by_wall(blueprint: Blueprint) -> bool:
    """Whether an operator waits for the wall clock."""
    return any(op.params.get("wall") for op in blueprint.ops)


def is_limited(blueprint: Blueprint) -> bool:
    """Whether an operator has a buffer with limits, which are those of one shard."""
    return any({"records", "bytes"} & op.params.keys() for op in blueprint.ops)


def _relaxed(blueprint: Blueprint, number: int) -> bool:
    """Whether a join that takes null keys stands somewhere below: not of a stream with this table (model.md)."""
    below = {number}
    for place, op in enumerate(blueprint.ops):
        kind = KINDS[op.kind]
        fed = zip(op.inputs, kind.takes, strict=True)
        if below & {ref.op for ref, takes in fed if "stream" not in kind.gives or takes == "stream"}:
            below.add(place)
    ops = [blueprint.ops[place] for place in below - {number}]
    return any(KINDS[op.kind].relaxes(op.params, blueprint.generation) for op in ops)
