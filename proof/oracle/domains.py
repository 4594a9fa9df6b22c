"""Which operators have a time of their own in each partition of their sources (law 3, row 20 of section A).

Owns the rule. Law: an operator has one where all that it reads stands in the partition of its source, under the key
that it has there, and where each of its inputs comes from one place alone, if it goes by time.
"""

from __future__ import annotations

from collections.abc import Iterator

from proof.oracle.graph import Node, Topology


def in_place(node: Node) -> bool:
    """Whether partitions have times of their own at this operator, if inputs have partitions at all."""
    if not node.keeps_partition:
        return False
    sides: dict[int, set[Node]] = {}
    for above, port in _read(node):
        roots = set(_roots(above))
        if None in roots:
            return False
        sides.setdefault(port, set()).update(root for root in roots if root is not None)
    alone = not node.goes_by_time or all(len(roots) == 1 for roots in sides.values())
    return alone and all(in_place(root) for roots in sides.values() for root in roots if _read(root))


def has_domains(topology: Topology, node: Node) -> bool:
    """Whether partitions have times of their own at this operator, in this run."""
    return topology.partitioned and in_place(node)


def domain_of(topology: Topology, node: Node) -> int:
    """The time domain of what the operator is processing."""
    return topology.partition if has_domains(topology, node) else 0


def is_operator(node: Node) -> bool:
    """Whether the node keeps state: a merge, a plain function and a source without a store do not."""
    several = len({parent for parent, _ in node._parents}) > 1 and type(node) is not Node
    return node.stateful or several or getattr(node, "_store", None) is not None


def _read(node: Node) -> list[tuple[Node, int]]:
    """What a node reads, and on which side; a table that is looked up is the right one."""
    return [*node._parents, *((table, 1) for table in node._looked_up)]


def _roots(node: Node) -> Iterator[Node | None]:
    """The operators and sources that a node's records come from; None where they have moved on the way."""
    if is_operator(node):
        yield node
    elif not node.keeps_partition:
        yield None
    elif not _read(node):
        yield node
    for above, _ in [] if is_operator(node) or not node.keeps_partition else _read(node):
        yield from _roots(above)
