"""Joins of several tables by their common key, in one operator. Handle layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from watersmeet._plan.nodes import How, MultiJoinNode, Shape
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt
from watersmeet.handles.handle import side_of
from watersmeet.handles.joins.kinds import ALL_FORMS
from watersmeet.handles.side import Side, require_same_key
from watersmeet.io.origins import described

_EXAMPLE = "For example one.multi_join([other, another], lambda one, other, another: ...)."


def attach_multi_join(
    first: Side, others: Any, joiner: Function, how: Any, name: str | None, store: str | None
) -> Side:
    """The side of a join with several tables, attached; `others` and `how` as the user gave them.

    Raises
    ------
    TopologyError : they are no tables, or their keys differ; unknown join type.
    FunctionError : the joiner is no function, or does not fit.
    """
    sides = (first, *_tables(others))
    for side in sides[1:]:
        require_same_key(first, side, "join")
    parameters = ("key", *(f"value{number}" for number in range(1, len(sides) + 1)))
    joiner = adapt(joiner, parameters, "joiner", first.functions)
    value = first.functions.value_type(joiner, (first.key_type, *(side.value_type for side in sides)), "joiner")
    inputs = tuple(side.name for side in sides)
    node = MultiJoinNode(
        first.construction.name(name, MultiJoinNode.stem, *inputs),
        inputs,
        Shape("table", first.key_type, value),
        hows=_hows(how, len(inputs) - 1),
        joiner=joiner,
        generation=first.construction.generation,
        store=store,
    )
    return replace(first, node=first.construction.add(node))


def _tables(others: Any) -> list[Side]:
    given = list(others) if isinstance(others, (list, tuple)) else [others]
    if not given:
        raise TopologyError("A join of several tables needs another one: others=[].", hint=_EXAMPLE)
    found = []
    for each in given:
        side = side_of(each)
        if side is None or side.kind != "table":
            shown = described(each) if side is None else side.called
            raise TopologyError(
                f"A join of several tables takes tables: others has {shown}.",
                hint="Make a table of a stream first: stream.to_table().",
            )
        found.append(side)
    return found


def _hows(how: Any, count: int) -> tuple[How, ...]:
    hows = tuple(how) if isinstance(how, Sequence) and not isinstance(how, str) else (how,) * count
    if len(hows) != count:
        raise TopologyError(
            f"A join of several tables has a type for each of the others: how={how!r} has {len(hows)} for {count}.",
            hint='For example how=["inner", "left"], or how="left" for all of them.',
        )
    for each in hows:
        if each not in ALL_FORMS:
            raise TopologyError(f"Unknown type of join: how={how!r:.80}.", hint='Use "inner", "left" or "outer".')
    return hows
