"""A plan as text, stable over runs and versions of Spark: for people, snapshots and checkpoints.

Functions cannot be printed, so two topologies that differ in a function alone have one text; names, types,
inputs, kinds of joins, stores and levels are all there.
"""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet._plan.nodes import Node
from watersmeet._plan.physical import Operator, Physical


def explain(physical: Physical) -> str:
    """The topology, a node a line in order of construction, then its levels."""
    return "\n".join(_lines(physical)) + "\n"


def _lines(physical: Physical) -> Iterator[str]:
    plan = physical.plan
    yield f"Topology {plan.application} ({plan.generation.value} semantics)"
    for node in plan.nodes:
        yield f"  {_node_line(node)}"
    yield f"Levels: {physical.levels}"
    for operator in sorted(physical.operators, key=lambda o: (o.level, o.id)):
        yield f"  {_operator_line(operator)}"


def _node_line(node: Node) -> str:
    shape = node.shape
    text = f"{node.stem} {node.name}"
    if node.inputs:
        text += f" <- {', '.join(node.inputs)}"
    details = "".join(f", {name} {value}" for name, value in node.details())
    store = f", store {node.store}" if node.store else ""
    store += "" if node.history_ms is None else f", versioned with a history of {node.history_ms} ms"
    return f"{text}: {shape.kind} of {_type(shape.key)} -> {_type(shape.value)}{details}{store}"


def _operator_line(operator: Operator) -> str:
    stores = ", ".join(operator.stores)
    return f"level {operator.level}: {operator.stem} {operator.node} (keeps {stores})"


def _type(kind: object) -> str:
    simple = getattr(kind, "simpleString", None)
    return str(simple()) if callable(simple) else str(kind)
