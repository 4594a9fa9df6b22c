"""Processors that share stores, as one node: what one of them puts, the others see at the next record of the key.

So what the records of all of them do is one sequence (law 1), and no stage lies between two that share a store. Which
do is known only when a topology is complete, so it is then that their nodes become one. Behind it each has a filter
and a projection to the records that are its own, under its name where others read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from watersmeet._plan.nodes.base import Node, Shape
from watersmeet._plan.nodes.processors import ProcessNode, SharedProcessNode, table_reads
from watersmeet._plan.nodes.steps import FilterNode, MapValuesNode
from watersmeet.errors import TopologyError
from watersmeet.functions import FunctionBackend


def with_shared_stores(nodes: Sequence[Node], functions: FunctionBackend) -> tuple[Node, ...]:
    """The nodes, those among them that share stores put together.

    Raises
    ------
    TopologyError : of two that share a store the keys are of different types, one stands behind the other, or one is
        called with many keys at once.
    """
    groups = _groups([node for node in nodes if isinstance(node, ProcessNode)])
    for group in groups:
        _check(nodes, group)
    if not groups:
        return tuple(nodes)
    return _in_order(nodes, [_together(group, functions) for group in groups])


def _groups(found: Sequence[ProcessNode]) -> list[tuple[ProcessNode, ...]]:
    """Those that have a store in common, or have one in common with another of them."""
    groups: list[list[ProcessNode]] = []
    for node in found:
        own = {store.name for store in node.stores}
        mine = [group for group in groups if any(own & {store.name for store in each.stores} for each in group)]
        groups = [group for group in groups if group not in mine]
        groups.append([*(each for group in mine for each in group), node])
    place = {node.name: number for number, node in enumerate(found)}
    return [tuple(sorted(group, key=lambda each: place[each.name])) for group in groups if len(group) > 1]


def _check(nodes: Sequence[Node], group: tuple[ProcessNode, ...]) -> None:
    first = group[0]
    for each in group:
        if each.shape.key != first.shape.key:
            raise TopologyError(
                f"The processors {first.name!r} and {each.name!r} share a store, and their keys have different types: "
                f"{first.shape.key} and {each.shape.key}.",
                hint="Cast the key before one of them: stream.select_key(lambda key, value: key.cast(...)).",
            )
        if each.in_bulk:
            raise TopologyError(
                f"The processor {each.name!r} shares a store, and is called with many records at once: process_batch.",
                hint="Write process(self, record, context): the records of all that share a store are one sequence.",
            )
        reached = {each.name}
        for node in nodes:
            if reached & set(node.inputs):
                reached.add(node.name)
        behind = [other.name for other in group if other is not each and other.name in reached]
        if behind:
            raise TopologyError(
                f"The processor {behind[0]!r} shares a store with {each.name!r}, and stands behind it.",
                hint="Do what both do in one processor; or let the first send what the second one needs to know.",
            )


@dataclass(frozen=True)
class _Joint:
    """Processors put together.

    Parameters
    ----------
    node : the node of all of them.
    behind : what makes the records of each, and the name under which these are read, by the processor's.
    """

    node: SharedProcessNode
    behind: dict[str, tuple[Node, ...]]


def _together(group: tuple[ProcessNode, ...], functions: FunctionBackend) -> _Joint:
    fields = []
    for number, part in enumerate(group):
        fields += [pa.field(f"is{number}", pa.bool_()), pa.field(f"v{number}", functions.as_arrow(part.shape.value))]
    first, kind = group[0], functions.of_arrow(pa.struct(fields))
    inputs = [part.inputs[0] for part in group]
    reads = table_reads(group)
    # the processors number what they read one by one
    own = [iter(sorted(part.tables, key=lambda read: read.everywhere)) for part in group]
    inputs += [group[read.member].inputs[next(own[read.member]).input] for read in reads]
    shape = Shape("stream", first.shape.key, kind)
    node = SharedProcessNode(first.name, tuple(inputs), shape, parts=group)
    return _Joint(node, {part.name: _own(node, part, number, functions) for number, part in enumerate(group)})


def _own(node: SharedProcessNode, part: ProcessNode, number: int, functions: FunctionBackend) -> tuple[Node, ...]:
    """Nodes that make the records of one processor of those of all."""

    def is_own(key: Any, value: Any) -> Any:
        return functions.field(value, f"is{number}")

    def of_own(key: Any, value: Any) -> Any:
        return functions.field(value, f"v{number}")

    # the node of all has the name of the first one, so that its stores are found under it in a checkpoint
    name = part.name if number else f"{part.name}-own"
    kept = FilterNode(f"{part.name}-all", (node.name,), node.shape, predicate=is_own, negate=False)
    return kept, MapValuesNode(name, (kept.name,), part.shape, mapper=of_own)


def _in_order(nodes: Sequence[Node], joints: Sequence[_Joint]) -> tuple[Node, ...]:
    """All nodes in the order of construction, those that are put together where the last of them stands."""
    joint_of = {name: joint for joint in joints for name in joint.behind}
    read_as = {name: behind[-1].name for joint in joints for name, behind in joint.behind.items()}
    last = {list(joint.behind)[-1] for joint in joints}
    waiting: list[Node] = []
    for node in nodes:
        if node.name in joint_of and node.name not in last:
            continue
        joint = joint_of.get(node.name)
        made = node if joint is None else joint.node
        waiting.append(replace(made, inputs=tuple(read_as.get(name, name) for name in made.inputs)))
    behind = {joint.node.name: [each for steps in joint.behind.values() for each in steps] for joint in joints}
    done: list[Node] = []
    known: set[str] = set()
    while waiting:
        ready = [each for each in waiting if known.issuperset(each.inputs)]
        if not ready:
            stuck = ", ".join(repr(each.name) for each in waiting if each.name in behind)
            raise TopologyError(
                f"Processors that share stores stand behind one another: {stuck}.",
                hint="Give them stores of their own, or do what they do in one processor.",
            )
        node = ready[0]
        waiting = [each for each in waiting if each is not node]
        for each in (node, *behind.get(node.name, ())):
            done.append(each)
            known.add(each.name)
    return tuple(done)
