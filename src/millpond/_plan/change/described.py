"""A plan as a checkpoint records it, so that another topology can be compared with it (law 10: by names).

What is recorded is plain JSON: the program that made it may be gone when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from millpond._plan.folds import Fold
from millpond._plan.operators.spec import FOLLOWS, Params, TableSchema
from millpond._plan.physical import Operator, Physical
from millpond.io.dataframes import Writer
from millpond.io.topics import Topic

Described = Mapping[str, Any]


def described(physical: Physical, origins: Mapping[str, str]) -> dict[str, Any]:
    """What a change is judged by.

    Parameters
    ----------
    origins : by the name of each input what it reads, as text.
    """
    plan = physical.plan
    return {
        "operators": [_operator(physical, operator) for operator in physical.operators],
        "steps": {node.name: node.stem for node in plan.nodes if not node.is_sink and node.inputs},
        "sources": {
            source.name: {
                "topic": source.origin.name if isinstance(source.origin, Topic) else None,
                "global": source.shape.kind == "global",
                "origin": origins.get(source.name, ""),
            }
            for source in plan.sources
        },
        "sinks": {sink.name: {"output": str(sink.output), **_files(plan.sinks, sink)} for sink in plan.sinks},
    }


def _operator(physical: Physical, operator: Operator) -> dict[str, Any]:
    time = operator.time
    return {
        "node": operator.node,
        "operator": operator.stem,
        "named": operator.node not in physical.plan.made_up,
        "params": _params(operator.params),
        "time": None if time is None else {"of each partition": time.domains, "held back above, ms": time.hold_back},
        "widens": operator.spec.widens,
        "tables": [_table(table) for table in operator.keeps],
    }


def _params(params: Params) -> dict[str, str]:
    said = (each.name for each in fields(params) if not FOLLOWS.items() <= each.metadata.items())
    return {name: _text(getattr(params, name)) for name in said}


def _text(value: Any) -> str:
    if isinstance(value, Fold):
        # functions have no text of their own: those that Spark sees are compared as functions
        return f"{type(value.how).__name__} {value.text}"
    return repr(value)


def _table(table: TableSchema) -> dict[str, Any]:
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


def _files(sinks: Any, sink: Any) -> dict[str, Any]:
    """Of an output of files where they lie, and whether Spark's own list of them lies there, too."""
    target = sink.place
    if not isinstance(target, Writer) or target.path is None:
        return {}
    return {"path": target.path, "listed": len(sinks) == 1}
