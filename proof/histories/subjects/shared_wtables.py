"""Draws histories of joins of WTables whose keys lie in several partitions.

Owns how likely they are: every topology has such a join right behind windowed aggregates of sources, and every record
stands in any partition. Law: as in `draw`.
"""

from __future__ import annotations

from dataclasses import replace

from proof.histories.blueprint import Blueprint, Op, Ref
from proof.histories.case import Case
from proof.histories.draw import draw_case
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.registry import KINDS, is_limited
from proof.histories.last_results import out_of_step
from proof.histories.subjects.shared_windows import shared

_JOINS = ("stream_wtable", "table_wtable", "wtable_table", "wtable_wtable", "wtable_wtable")
_BEHIND = {
    "windowed": ("windowed_suppress", "windowed_table_group", "windowed_group", "windowed_filter", "wtable_table"),
    "table": ("table_filter", "table_aggregate", "suppress", "table_wtable"),
    "stream": ("stream_aggregate", "distinct", "stream_wtable"),
}
_BEGINNINGS = (10, 30, 60)
"""When histories begin, in ms: values name windows of the first moments (`kinds.wtables`)."""


def shared_wtables_case_of(seed: int, number: int) -> Case:
    """The case of a seed and a number."""
    dice = Dice(f"{seed}/wtables/{number}")
    blueprint = _blueprint(dice)
    while out_of_step(blueprint) or is_limited(blueprint):
        blueprint = _blueprint(dice)
    case = draw_case(dice, blueprint)
    while not case.partitioned:
        case = draw_case(dice, blueprint)
    return replace(case, records=shared(dice, case, begin=dice.pick(_BEGINNINGS)))


def _blueprint(choices: Choices) -> Blueprint:
    """A join of WTables, and perhaps something behind it that reads its changes and their old values."""
    ops: list[Op] = []

    def add(kind: str, *inputs: Ref) -> Ref:
        shapes = tuple(KINDS[ops[each.op].kind].gives[each.port] for each in inputs)
        assert shapes == KINDS[kind].takes or kind == "table_to", kind
        ops.append(Op(kind, inputs, KINDS[kind].draw(choices, "current")))
        return Ref(len(ops) - 1, 0)

    def made(shape: str) -> Ref:
        if shape != "windowed":
            return add(shape)
        there = [Ref(number, 0) for number, op in enumerate(ops) if op.kind == "window_aggregate"]
        if there and choices.chance(30):
            return choices.pick(there)
        table = add("window_aggregate", add("stream"))
        return add("windowed_suppress", table) if choices.chance(15) else table

    kind = choices.pick(_JOINS)
    end, shape = add(kind, *[made(each) for each in KINDS[kind].takes]), KINDS[kind].gives[0]
    if choices.chance(60):
        behind = choices.pick(_BEHIND[shape])
        others = [made(each) for each in KINDS[behind].takes[1:]]
        end, shape = add(behind, end, *others), KINDS[behind].gives[0]
    add("to" if shape == "stream" else "table_to", end)
    return Blueprint(tuple(ops), choices.pick(("string", "long")), "current")
