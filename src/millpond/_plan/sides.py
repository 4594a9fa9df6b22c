"""What comes in on the sides of an operator: types of key and values, and what an edge carries beside them.

Types are the function backend's; the runners turn them into Arrow's. Called by the runners and the outlets.
"""

from __future__ import annotations

from typing import Any

from millpond._plan.nodes import FAN_OUT, Function, GlobalLookup, Reference
from millpond._plan.physical import Edge, Operator, Physical
from millpond._plan.views import tables_of, views_of


def key_of(physical: Physical, operator: Operator) -> Any:
    """Type of the key that an operator's rows are grouped by."""
    node = physical.plan.by_name[operator.node]
    if isinstance(node, Reference) and operator.stem != "table":
        by = node.referred if operator.stem in FAN_OUT else node.referring
        return physical.plan.by_name[by].shape.key
    if isinstance(node, GlobalLookup) and operator.stem != "table":
        return physical.plan.by_name[node.inputs[1]].shape.key
    return node.shape.key


def values_of(physical: Physical, operator: Operator) -> tuple[Any, ...]:
    """Types of the values of each side."""
    node = physical.plan.by_name[operator.node]
    if operator.stem == "table":
        return (node.shape.value,)
    names = node.inputs
    if isinstance(node, GlobalLookup):
        tables = tables_of(physical.plan, node.inputs[1])
        names = (node.inputs[0], *(table.name for table in tables))
    if isinstance(node, Reference):
        names = (node.referring, node.referred) if operator.stem in FAN_OUT else (node.referring,)
    return tuple(physical.plan.by_name[name].shape.value for name in names)


def extras_of(physical: Physical, operator: Operator) -> tuple[tuple[str, Any], ...]:
    """(name, type) of the columns that sides carry beside key and value: side n the n-th, or side 0 its own."""
    node = physical.plan.by_name[operator.node]
    if isinstance(node, GlobalLookup) and operator.stem != "table":
        _, *others = tables_of(physical.plan, node.inputs[1])
        following = ((f"next_key{n}", table.shape.key) for n, table in enumerate(others, start=1))
        return (("left_key", physical.plan.by_name[node.inputs[0]].shape.key), *following)
    if not isinstance(node, Reference) or operator.stem == "table":
        return ()
    if operator.stem in FAN_OUT:
        return (("left_key", physical.plan.by_name[node.referring].shape.key),)
    return (("foreign_key", physical.plan.by_name[node.referred].shape.key),)


def extra_function(physical: Physical, edge: Edge) -> Function | None:
    """The function of (key, value) whose result an edge carries beside them, None where it carries nothing."""
    operator = physical.operators[edge.target]
    node = physical.plan.by_name[operator.node]
    if isinstance(node, GlobalLookup) and operator.stem == node.stem:
        mappers = [node.mapper, *(view.mapper for view in views_of(physical.plan, node.inputs[1]))]
        return mappers[edge.side] if edge.side < len(mappers) else None
    return node.extractor if isinstance(node, Reference) and operator.stem == "foreign_key_send" else None


def extra_reason(physical: Physical, edge: Edge) -> str | None:
    """Why a row ends without result when what the edge carries is null; None where it may be null."""
    operator = physical.operators[edge.target]
    return "null_foreign_key" if operator.stem == "foreign_key_send" and operator.how == "inner" else None
