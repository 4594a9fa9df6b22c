"""Draws histories of topologies in which several joins of streams read one table, as a rule in one level.

Owns how likely they are: every topology has at least two such joins. Law: as in `draw`.
"""

from __future__ import annotations

from dataclasses import replace

from proof.histories.blueprint import Blueprint, Op, Ref
from proof.histories.case import Case
from proof.histories.draw import draw_blueprint, draw_case, with_rescaling, with_shape
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.registry import KINDS

_JOIN = "stream_table"


def shared_case_of(seed: int, number: int) -> Case:
    """The case of a seed and a number; a few cases in succession share a topology."""
    dice = Dice(f"{seed}/lent/{number // 4}")
    blueprint = draw_blueprint(dice)
    while not any(op.kind == _JOIN for op in blueprint.ops):
        blueprint = draw_blueprint(dice)
    blueprint = with_shape(dice, with_more_joins(dice, blueprint))
    return with_rescaling(Dice(f"{seed}/rescaled/{number}"), draw_case(Dice(f"{seed}/case/{number}"), blueprint))


def with_more_joins(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """With one or two more joins of a table that a stream is joined with; as it is where there is none."""
    joins = [op for op in blueprint.ops if op.kind == _JOIN]
    if not joins:
        return blueprint
    (stream, table), ops = choices.pick(joins).inputs, list(blueprint.ops)
    streams = [
        Ref(number, port)
        for number, op in enumerate(blueprint.ops)
        for port, shape in enumerate(KINDS[op.kind].gives)
        if shape == "stream"
    ]
    for _ in range(choices.pick((1, 1, 2))):
        read = stream if choices.chance(60) else choices.pick(streams)
        ops.append(Op(_JOIN, (read, table), KINDS[_JOIN].draw(choices, blueprint.generation)))
        ops.append(Op("to", (Ref(len(ops) - 1, 0),), {}))
    return replace(blueprint, ops=tuple(ops))
