"""A picture of a topology: boxes of inputs, steps, operators and outputs, levels, and the arrows between."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet._plan.nodes import Node
from watersmeet._plan.physical import Operator, Physical

Kind = Literal["input", "step", "operator", "output"]


@dataclass(frozen=True)
class Box:
    """A node of a topology.

    Parameters
    ----------
    name : its name, or that of the input or output that it is.
    kind : what it is drawn as.
    about : what it does, in a few words.
    types : what flows out of it.
    stores : names of the stores that it keeps.
    node : name of the node; `part`: stem of the operator, where the node is several.
    """

    name: str
    kind: Kind
    about: str
    types: str
    stores: tuple[str, ...] = ()
    node: str = ""
    part: str = ""


@dataclass(frozen=True)
class Arrow:
    """From one box to another, by their numbers; `text` says which side of a join it is."""

    tail: int
    head: int
    text: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture.

    Parameters
    ----------
    title : what it is of.
    boxes : those that are read stand before those that read them.
    arrows : between them.
    levels : the level of each box; of one that stands between two levels None.
    stages : of each box how many levels are above it; empty where levels are not known.
    """

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    levels: tuple[int | None, ...]
    stages: tuple[int, ...] = ()


def picture_of(physical: Physical) -> Picture:
    """The picture of a topology, with its levels; a node that is several operators has a box for each."""
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    levels: list[int | None] = []
    stages: list[int] = []
    last: dict[str, int] = {}
    kept = {store for operator in physical.operators for store in operator.stores}
    for node in physical.plan.nodes:
        operators = sorted((each for each in physical.operators if each.node == node.name), key=lambda each: each.level)
        first = len(boxes)
        to_come = set(range(len(node.inputs)))
        for operator in operators or (None,):
            heads = sorted(side for side in to_come if _reads(operator, node, side))
            to_come.difference_update(heads)
            if len(boxes) > first:
                arrows.append(Arrow(len(boxes) - 1, len(boxes)))
            arrows += [Arrow(last[node.inputs[side]], len(boxes), _side(node, side)) for side in heads]
            above = [stages[arrow.tail] for arrow in arrows if arrow.head == len(boxes)]
            levels.append(None if operator is None else operator.level)
            stages.append(max(above, default=0) if operator is None else operator.level)
            boxes.append(_box(node, operator, kept, alone=len(operators) < 2))
        last[node.name] = len(boxes) - 1
    title = f"Topology {physical.plan.application}"
    return Picture(title, tuple(boxes), tuple(arrows), tuple(levels), tuple(stages))


def picture_above(nodes: Sequence[Node], node: Node) -> Picture:
    """The picture of what leads to a node of a topology that is being built: it has no levels yet."""
    wanted = {node.name}
    for each in reversed(nodes):
        if each.name in wanted:
            wanted.update(each.inputs)
    kept = [each for each in nodes if each.name in wanted]
    number = {each.name: place for place, each in enumerate(kept)}
    arrows = tuple(
        Arrow(number[name], number[each.name], _side(each, side))
        for each in kept
        for side, name in enumerate(each.inputs)
    )
    return Picture(node.name, tuple(_box(each) for each in kept), arrows, (None,) * len(kept))


def _reads(operator: Operator | None, node: Node, side: int) -> bool:
    return operator is None or operator.spec.side_of(node, side) is not None


def _side(node: Node, side: int) -> str:
    return ("left", "right")[side] if len(node.inputs) == 2 else ""


def _box(
    node: Node, operator: Operator | None = None, kept_elsewhere: Collection[str] = (), *, alone: bool = True
) -> Box:
    shape = node.shape
    types = f"{_type(shape.key)} -> {_type(shape.value)}"
    own = () if node.store is None or node.store in kept_elsewhere else (node.store,)
    stores = own if operator is None else operator.stores
    if not node.inputs:
        about = f"{shape.kind}, {_place(node.place)}"
        return Box(getattr(node, "input", node.name), "input", about, types, stores, node.name)
    if node.is_sink:
        return Box(getattr(node, "output", node.name), "output", _place(node.place), types, (), node.name)
    about = _about(node, node.stem if operator is None else operator.stem, alone)
    kept = operator is not None or len(node.inputs) == 2
    part = "" if operator is None or alone else operator.stem
    return Box(node.name, "operator" if kept else "step", about, types, stores, node.name, part)


def _about(node: Node, stem: str, alone: bool) -> str:
    """The action of a node, or of one of its operators, by their stems: of a join also how it joins."""
    how = dict(node.details()).get("type", "")
    part = f"{stem}_".removeprefix(f"{node.stem}_")
    if how not in ("inner", "left", "outer") or not (alone or len(part) <= len(stem)):
        return stem.replace("_", " ")
    join = "join" if how == "inner" else f"{how} join"
    if alone:
        return f"{stem.replace('_', '-')} {join}"
    return f"{node.stem.replace('_', '-')} {join}" + (f": {part.strip('_').replace('_', ' ')}" if part else "")


def _place(place: Any) -> str:
    return "" if place is None else str(place.shown)


def _type(kind: object) -> str:
    simple = getattr(kind, "simpleString", None)
    return str(simple()) if callable(simple) else str(kind)
