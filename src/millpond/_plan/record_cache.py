"""The record cache: of all that a table's key goes through in a batch, one change is sent (semantics.md, section 4).

Section A, row 12. In Kafka Streams a cached store forwards when it is flushed, at a commit or when it is full; here a
batch is what a commit is there, so results depend on how records fall into batches, but on nothing else. Lookups of
streams see every change at its place all the same: what they look up is not cached.
"""

from __future__ import annotations

from dataclasses import replace

from millpond._plan.logical import Plan
from millpond._plan.nodes import StreamTable
from millpond._plan.physical import Operator, Physical

_STEMS = ("table", "table_table", "foreign_key_send", "foreign_key_receive", "one_to_many", "global_table_lookup")


def with_record_cache(physical: Physical) -> Physical:
    """The same plan with the record cache on, wherever no stream looks a result up."""
    looked_up = _looked_up(physical.plan)
    # Where one record moves both sides of a join, what is sent is not what was before and is then (KAFKA-6443).
    entangled = {op.node for op in physical.operators if op.shared_root or _hears_inexact(physical, op)}

    def is_cached(operator: Operator) -> bool:
        return operator.stem in _STEMS and operator.node not in looked_up | entangled

    return replace(physical, operators=tuple(replace(op, cached=is_cached(op)) for op in physical.operators))


def _hears_inexact(physical: Physical, operator: Operator) -> bool:
    return any(edge.silent or edge.old for edge in physical.inputs_of(operator))


def _looked_up(plan: Plan) -> frozenset[str]:
    """Names of the tables that streams look up, and of those that these are made of."""
    found: set[str] = set()
    for node in reversed(plan.nodes):
        if isinstance(node, StreamTable):
            found.add(node.inputs[1])
        elif node.name in found:
            found.update(above.name for above in plan.parents(node) if above.shape.kind == "table")
    return frozenset(found)
