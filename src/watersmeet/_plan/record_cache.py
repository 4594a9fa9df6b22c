"""The record cache: of all that a table's key goes through in a batch, one change is sent (docs/semantics, section 4).

Section A, row 12. In Kafka Streams a cached store forwards when it is flushed, at a commit or when it is full; here a
batch is what a commit is there, so results depend on how records fall into batches, but on nothing else. Readers that
depend on each change get every one: nothing above a table that a stream looks up is cached.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from watersmeet._plan.logical import Plan
from watersmeet._plan.physical import Edge, Operator, Physical


def with_record_cache(physical: Physical) -> Physical:
    """The same plan with the record cache on, wherever nobody goes by the moment of each change."""
    # Where one record moves both sides of a join, what is sent is not what was before and is then (KAFKA-6443).
    entangled = {op.node for op in physical.operators if op.shared_root or _hears_inexact(physical, op)}
    exact = entangled | _above(physical.plan, entangled)

    def is_cached(operator: Operator) -> bool:
        return operator.spec.cacheable and operator.node not in exact

    return replace(physical, operators=tuple(replace(op, cached=is_cached(op)) for op in physical.operators))


def _hears_inexact(physical: Physical, operator: Operator) -> bool:
    loose = physical.rules.loose
    return any(edge.silent or (edge.old and _node(physical, edge) in loose) for edge in physical.inputs_of(operator))


def _node(physical: Physical, edge: Edge) -> str:
    return physical.flows[edge.flow].node


def _above(plan: Plan, entangled: Collection[str]) -> frozenset[str]:
    """Names of all that tables that streams look up are made of, and of all that the entangled nodes are made of."""
    found: set[str] = set()
    for node in reversed(plan.nodes):
        found.update(node.inputs[side] for side in node.goes_by_moment)
        if node.name in found or node.name in entangled:
            found.update(node.inputs)
    return frozenset(found)
