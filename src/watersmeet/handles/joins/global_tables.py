"""Joins with global tables: lookups of a stream or a table, and views of global tables (docs/semantics, section 9).

Handle layer.
"""

from __future__ import annotations

from typing import Any

from watersmeet._plan.nodes import GlobalLookupNode, GlobalTableLookupNode, GlobalViewNode, Node, Shape
from watersmeet.errors import TopologyError
from watersmeet.functions import (
    Function,
    FunctionBackend,
    adapt,
    asks_for_record,
    belonging,
    names_of,
    record_of,
    seeing_record,
    types_for,
    wants,
)
from watersmeet.handles.joins.join import Join, joiner_of, name_of, reference
from watersmeet.handles.side import Side


def attach_lookup(left: Side, right: Side, join: Join) -> Node:
    """The node of a join of a stream, or of a table, with a global table, attached.

    Raises
    ------
    TopologyError : the key to look up is of another type than the table's keys.
    """
    of_stream = left.kind == "stream"
    option, given = ("key", join.key) if of_stream else ("foreign_key", join.foreign_key)
    mapper = reference(left, right, given, option, "key mapper")
    joiner = _with_both_keys(join.joiner, left.functions, of_stream=of_stream)
    types = types_for(joiner, (left.key_type, right.key_type, left.value_type, right.value_type))
    value = left.functions.value_type(joiner, types, "joiner")
    make: type[GlobalLookupNode] = GlobalLookupNode if of_stream else GlobalTableLookupNode
    node = make(
        name_of(left, right, join, make.stem),
        (left.name, right.name),
        Shape(left.node.shape.kind, left.key_type, value),
        how=join.how,
        mapper=mapper,
        joiner=joiner,
        generation=left.construction.generation,
        store=join.store,
    )
    return left.construction.add(node)


def attach_view(left: Side, right: Side, join: Join) -> Node:
    """The node of a view of two global tables, attached.

    Raises
    ------
    TopologyError : the left side is a view itself, or the key is of another type than the right side's.
    """
    if left.node.is_view:
        raise TopologyError(
            f"A view cannot be the left side of a view, and {left.called} is one: its values are computed only at "
            "a lookup, so they cannot give the key of another one.",
            hint="Join from the inside out: a.join(b.join(c, ...), ...).",
        )
    mapper = reference(left, right, join.key, "key", "key mapper")
    joiner, value = joiner_of(left, right, join)
    node = GlobalViewNode(
        left.construction.name(join.name, GlobalViewNode.stem),
        (left.name, right.name),
        Shape("global", left.key_type, value),
        how=join.how,
        mapper=mapper,
        joiner=joiner,
    )
    return left.construction.add(node)


def _with_both_keys(joiner: Function, functions: FunctionBackend, *, of_stream: bool) -> Function:
    """The joiner as one of (key, mapped key, left, right), and of the record, where it sees that."""
    if asks_for_record(joiner, ("key", "mapped_key", "left", "right"), "joiner", allowed=of_stream) and wants(
        joiner, 5
    ):
        names = names_of(joiner, 5)
        return seeing_record(joiner, joiner, functions.record_type(), names)
    shorter = asks_for_record(joiner, ("key", "left", "right"), "joiner", allowed=of_stream)
    if wants(joiner, 4) and not shorter:
        return joiner
    adapted = adapt(joiner, ("key", "left", "right"), "joiner", functions, sees_record=of_stream)

    def joined(key: Any, mapped_key: Any, left: Any, right: Any, *record: Any) -> Any:
        return adapted(key, left, right, *record)

    key, *others = names_of(adapted, 4 if shorter else 3)
    made = belonging(joined, joiner, (key, "mapped_key", *others))
    return seeing_record(made, joiner, record_of(adapted), (key, "mapped_key", *others)) if shorter else made
