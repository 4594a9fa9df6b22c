"""The users' functions of a node, each with the types of what it is given.

Nodes keep functions as they came, in fields of their own; who asks about all of them (what they come to, whether they
changed) finds them here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millpond._plan.logical import Plan
from millpond._plan.nodes import (
    Branch,
    Filter,
    FlatMap,
    Function,
    GlobalLookup,
    Map,
    MapValues,
    Node,
    Reference,
    SelectKey,
    StreamStream,
    StreamTable,
    TableTable,
)
from millpond._plan.views import GlobalView


@dataclass(frozen=True)
class UserFunction:
    """A function of a node.

    Parameters
    ----------
    role : the node's field that holds it.
    function : what the user gave, as a function of all operands.
    operands : (name, type) of what it gets.
    """

    role: str
    function: Function
    operands: tuple[tuple[str, Any], ...]


def functions_of(plan: Plan, node: Node) -> tuple[UserFunction, ...]:
    """The functions of a node that give Columns; of one branch of a split, its own predicate."""
    above = plan.parents(node)
    if isinstance(node, Reference):
        referring, (one, other) = plan.by_name[node.referring].shape, (parent.shape for parent in above)
        return (
            UserFunction("extractor", node.extractor, (("key", referring.key), ("value", referring.value))),
            UserFunction("joiner", node.joiner, _named(node, node.shape.key, one.value, other.value)),
        )
    if isinstance(node, GlobalLookup | GlobalView):
        left, right = (parent.shape for parent in above)
        keys = (left.key, right.key) if isinstance(node, GlobalLookup) else (left.key,)
        return (
            UserFunction("mapper", node.mapper, (("key", left.key), ("value", left.value))),
            UserFunction("joiner", node.joiner, _named(node, *keys, left.value, right.value)),
        )
    if isinstance(node, TableTable | StreamTable | StreamStream):
        left, right = (parent.shape for parent in above)
        return (UserFunction("joiner", node.joiner, _named(node, left.key, left.value, right.value)),)
    given = tuple((name, getattr(parent.shape, name)) for parent in above[:1] for name in ("key", "value"))
    return tuple(UserFunction(role, function, given) for role, function in _of_one_input(node))


def _of_one_input(node: Node) -> tuple[tuple[str, Function], ...]:
    if isinstance(node, Filter):
        return (("predicate", node.predicate),)
    if isinstance(node, Branch):
        return () if node.predicate is None else (("predicate", node.predicate),)
    if isinstance(node, Map | MapValues | FlatMap):
        return (("mapper", node.mapper),)
    return (("selector", node.selector),) if isinstance(node, SelectKey) else ()


def _named(node: Node, *kinds: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(zip(node.operands, kinds, strict=True))
