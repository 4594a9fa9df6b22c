"""A plan as a checkpoint records it, so that another topology can be compared with it (law 10: by names).

The record is plain JSON: the program that made it may be gone when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from watersmeet._plan.folds import Fold
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.spec import FOLLOWS, Params, TableSchema
from watersmeet._plan.physical import Operator, Physical

Described = Mapping[str, Any]


Texts = Mapping[str, Mapping[str, str]]
"""Of functions, by node and role."""


def described(physical: Physical, origins: Mapping[str, str], functions: Texts | None = None) -> dict[str, Any]:
    """The facts by which a change is judged.

    Parameters
    ----------
    origins : by the name of each input what it reads, as text.
    functions : what functions come to, where that is known.
    """
    plan = physical.plan
    return {
        "operators": [_operator(physical, operator) for operator in physical.operators],
        "steps": {node.name: node.stem for node in plan.nodes if not node.is_sink and node.inputs},
        "reads": _reads(physical, functions or {}),
        "sources": {
            source.name: {
                "topic": source.origin.topic,
                "global": source.shape.kind == "global",
                "origin": origins.get(source.name, ""),
            }
            for source in plan.sources
        },
        "sinks": {
            sink.name: {"output": str(sink.output), **sink.place.recorded(alone=plan.one_writer)} for sink in plan.sinks
        },
    }


def _reads(physical: Physical, functions: Texts) -> dict[str, Any]:
    """Of each node that reads others which these are, what it is known by, and what its user calls it."""
    plan, keepers = physical.plan, {operator.node: operator for operator in reversed(physical.operators)}
    found = {}
    for node in plan.nodes:
        if node.inputs and not node.is_sink:
            keeper = keepers.get(node.name)
            sides = node.inputs if keeper is None else keeper.spec.inputs_of(physical.site(keeper))
            known = _step(plan, node, functions) if keeper is None else f"node {node.name}"
            found[node.name] = {"inputs": list(sides), "is": known, "called": _called(plan, node)}
    return found


def _called(plan: Plan, node: Node) -> str | None:
    """A node's name, or that of the one beside it of which it is a part; None where the user knows of none."""
    base = plan.by_name.get(node.name.rpartition("-")[0])
    if base is not None and (base.inputs == node.inputs or base.name in node.inputs or node.name in base.inputs):
        return _called(plan, base) if base.inputs == node.inputs else None
    return None if _is_made_up(plan, node) else node.name


def _step(plan: Plan, node: Node, functions: Texts) -> str | None:
    """The identity of a step: its name if it is the user's, else its action; None if it only passes on."""
    if not _is_made_up(plan, node):
        return f"node {node.name}"
    if not plan.functions_of(node) and not node.details():
        return None
    if node.name not in functions:
        return f"node {node.name}"
    does = json.dumps([node.details(), functions[node.name]], sort_keys=True)
    return f"{node.stem} {hashlib.sha256(does.encode()).hexdigest()[:16]}"


def _is_made_up(plan: Plan, node: Node) -> bool:
    """Whether its name is the library's, or begins with one that is."""
    parts = node.name.split("-")
    return any("-".join(parts[:count]) in plan.made_up for count in range(1, len(parts) + 1))


def _operator(physical: Physical, operator: Operator) -> dict[str, Any]:
    time = operator.time
    return {
        "node": operator.node,
        "operator": operator.stem,
        "named": operator.node not in physical.plan.made_up,
        "params": _params(operator.params),
        "time": None if time is None else {"of each partition": time.domains, "held back above, ms": time.hold_back},
        "widens": operator.spec.widens,
        **({"grows": True} if operator.spec.grows else {}),
        "tables": [described_table(table) for table in operator.keeps],
    }


def _params(params: Params) -> dict[str, str]:
    said = (each.name for each in fields(params) if not FOLLOWS.items() <= each.metadata.items())
    return {name: _text(getattr(params, name)) for name in said}


def _text(value: Any) -> str:
    if isinstance(value, Fold):
        # functions have no text of their own: those that Spark sees are compared as functions
        return f"{type(value.how).__name__} {value.text}"
    return repr(value)


def described_table(table: TableSchema) -> dict[str, Any]:
    """A table as JSON has it."""
    retention = table.retention
    return {
        "name": table.name,
        "columns": [[name, _type(kind)] for name, kind in table.columns],
        "identity": list(table.identity),
        "lies": {
            "order": list(table.order),
            "retention": None if retention is None else [retention.time, retention.domain, retention.ends],
            "appended": table.appended,
            "due": None if table.due is None else list(table.due),
        },
        "shown": table.shown,
        "copies": table.copies,
    }


def _type(kind: Any) -> Any:
    """A type as JSON: Spark's own way of writing it, else its text."""
    value = getattr(kind, "jsonValue", None)
    return value() if callable(value) else str(kind)
