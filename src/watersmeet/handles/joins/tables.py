"""Joins of two tables: by their keys, by a foreign key, and of one with many. Handle layer."""

from __future__ import annotations

from typing import Any

from watersmeet._plan.nodes import ForeignKeyNode, Node, OneToManyNode, SelectKeyNode, Shape, TableTableNode
from watersmeet.functions import Function, adapt
from watersmeet.handles.joins.join import Join, joiner_of, name_of, reference
from watersmeet.handles.side import Side, require_same_key


def attach(left: Side, right: Side, join: Join) -> Node:
    """The node of a join by the tables' keys, or by a foreign key, attached.

    Raises
    ------
    TopologyError : the keys have different types.
    """
    if join.foreign_key is not None:
        return _by_foreign_key(left, right, join, join.foreign_key)
    require_same_key(left, right, "join")
    joiner, value = joiner_of(left, right, join)
    node = TableTableNode(
        name_of(left, right, join, TableTableNode.stem),
        (left.name, right.name),
        Shape("table", left.key_type, value),
        how=join.how,
        joiner=joiner,
        generation=left.construction.generation,
        store=join.store,
    )
    return left.construction.add(node)


def _by_foreign_key(left: Side, right: Side, join: Join, foreign_key: Function) -> Node:
    extractor = reference(left, right, foreign_key, "foreign_key", "foreign key extractor")
    joiner, value = joiner_of(left, right, join)
    node = ForeignKeyNode(
        name_of(left, right, join, ForeignKeyNode.stem),
        (left.name, right.name),
        Shape("table", left.key_type, value),
        how=join.how,
        extractor=extractor,
        joiner=joiner,
        generation=left.construction.generation,
        store=join.store,
    )
    return left.construction.add(node)


def attach_one_to_many(one: Side, many: Side, join: Join) -> Node:
    """The node of a join of one with many, attached; with `result_key`, and one behind it that makes the key.

    Raises
    ------
    TopologyError : the key is of another type than those of `one`.
    """
    functions = one.functions
    combined = functions.combined_type(one.key_type, many.key_type)
    joiner = adapt(join.joiner, ("key", "one", "many"), "joiner", functions)
    value = functions.value_type(joiner, (combined, one.value_type, many.value_type), "joiner")
    node = OneToManyNode(
        name_of(one, many, join, OneToManyNode.stem),
        (one.name, many.name),
        Shape("table", combined, value),
        extractor=reference(many, one, join.key, "key", "key extractor"),
        joiner=joiner,
        generation=one.construction.generation,
        store=None if join.result_key is not None else join.store,
    )
    one.construction.add(node)
    return node if join.result_key is None else _under(one, node, join.result_key, join.store)


def _under(one: Side, joined: Node, result_key: Function, store: str | None) -> Node:
    """A join of one with many under a key made of its combined key."""
    functions = one.functions

    def selector(key: Any, value: Any) -> Any:
        return result_key(*functions.combined_parts(key))

    kind = functions.value_type(selector, (joined.shape.key, joined.shape.value), "result key")
    shape = Shape("table", kind, joined.shape.value)
    named = f"{joined.name}-result_key"
    return one.construction.add(SelectKeyNode(named, (joined.name,), shape, selector=selector, store=store))
