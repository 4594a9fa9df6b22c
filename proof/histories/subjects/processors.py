"""Processors that read tables or share stores, and transformers of tables, in the place of plainer operators.

Owns where they are put. Law: the topologies stay as they were drawn but for these operators, each of which reads what
stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from proof.histories.blueprint import Blueprint, Op, Ref
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.processors import draw_program, known_keys
from proof.histories.kinds.registry import KINDS, holds_back
from proof.histories.last_results import all_above

NEW = ("process_table", "process_global", "process_shared", "transform_values")
"""The kinds that are put in."""


def with_processors(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """Perhaps with such processors in the place of processors without tables, and of functions of tables."""
    if blueprint.generation != "current":
        return blueprint
    if choices.chance(50):
        blueprint = _behind_what_waits(choices, blueprint)
    if choices.chance(25) and any(op.kind == "process" for op in blueprint.ops):
        blueprint = _behind_global(blueprint)
    ops = list(blueprint.ops)
    for number, op in enumerate(blueprint.ops):
        if op.kind == "process" and choices.chance(60):
            ops[number] = _changed(choices, blueprint, ops, number)
        elif op.kind == "table_map_values" and choices.chance(50):
            ops[number] = _transforming(choices, op)
    for number, op in enumerate(ops[:]):
        if op.kind == "process_shared":
            ops.append(Op("to", (Ref(number, 1),)))
    return replace(blueprint, ops=tuple(ops))


def _behind_what_waits(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """The same with a processor on a stream of results that have waited, in the way to one that reads them.

    Such results come when time is ahead of them: timers that a processor sets by their times are for moments that have
    passed, or lie between them and the time that operators see.
    """
    ways = [
        (number, port)
        for number, op in enumerate(blueprint.ops)
        for port, ref in enumerate(op.inputs)
        if KINDS[blueprint.ops[ref.op].kind].gives[ref.port] == "stream"
        and any(holds_back(blueprint.ops[above]) for above in all_above(blueprint, ref))
    ]
    if not ways:
        return blueprint
    number, port = choices.pick(ways)
    reader = blueprint.ops[number]
    made = Op("process", (reader.inputs[port],), draw_program(choices))
    moved = [
        replace(op, inputs=tuple(ref._replace(op=ref.op + (ref.op >= number)) for ref in op.inputs))
        for op in blueprint.ops[number:]
    ]
    inputs = (*moved[0].inputs[:port], Ref(number, 0), *moved[0].inputs[port + 1 :])
    return replace(blueprint, ops=(*blueprint.ops[:number], made, replace(moved[0], inputs=inputs), *moved[1:]))


def _behind_global(blueprint: Blueprint) -> Blueprint:
    """The same behind a global table, which nothing reads yet."""
    ops = (replace(op, inputs=tuple(ref._replace(op=ref.op + 1) for ref in op.inputs)) for op in blueprint.ops)
    return replace(blueprint, ops=(Op("global"), *ops))


def _changed(choices: Choices, blueprint: Blueprint, ops: Sequence[Op], number: int) -> Op:
    op = ops[number]
    there = {shape: list(_outputs(ops[:number], shape)) for shape in ("stream", "table", "global")}
    ways = [way for way, shape in (("process_table", "table"), ("process_global", "global")) if there[shape]]
    way = choices.pick((*ways, *ways[-1:], "process_shared"))
    if way == "process_shared":
        params, more = {**op.params, "other": _other(choices, op)}, choices.pick(there["stream"])
    else:
        params = _reading(choices, op, way, blueprint)
        more = choices.pick(there[{"process_table": "table", "process_global": "global"}[way]])
    return replace(op, kind=way, inputs=(*op.inputs, more), params=params)


def _other(choices: Choices, op: Op) -> dict[str, Any]:
    """The instructions of the one that shares its stores: it goes by the wall clock only where the first one does."""
    other: dict[str, Any] = {**draw_program(choices), "lasts": {}}
    if not op.params.get("wall"):
        other.pop("wall", None)
        for part in ("record", "timer"):
            other[part] = [each for each in other[part] if "wall" not in each[0]]
    return other


def _reading(choices: Choices, op: Op, way: str, blueprint: Blueprint) -> dict[str, Any]:
    """Its instructions with some that read."""
    params: dict[str, Any] = dict(op.params)
    for part in ("record", "timer", "wall"):
        given = list(params.get(part, ()))
        if not given and part != "record":
            continue
        for _ in range(choices.number(1, 2)):
            given.insert(choices.number(0, len(given)), _read(choices, way, blueprint))
        params[part] = given
    return params


def _read(choices: Choices, way: str, blueprint: Blueprint) -> list[Any]:
    if way == "process_global":
        return ["anywhere", choices.number(0, len(known_keys(blueprint.keys)) - 1)]
    word = choices.pick(("row", "row", "past", "row_once"))
    return [word, choices.pick((0, -1, -5, -20, 3))] if word == "past" else [word]


def _transforming(choices: Choices, op: Op) -> Op:
    params = {name: value for name, value in draw_program(choices).items() if name != "rekeys"}
    kept = {"stored": True} if op.params.get("stored") else {}
    return Op("transform_values", op.inputs, {**params, **kept})


def _outputs(ops: Sequence[Op], shape: str) -> Iterator[Ref]:
    for number, op in enumerate(ops):
        for port, kind in enumerate(KINDS[op.kind].gives):
            if kind == shape:
                yield Ref(number, port)
