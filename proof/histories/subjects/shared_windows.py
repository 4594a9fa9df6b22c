"""Draws histories of windowed aggregates whose keys lie in several partitions.

Owns how likely they are: every topology has such an aggregate right behind a source, and every record stands in any
partition. Law: as in `draw`.
"""

from __future__ import annotations

from dataclasses import replace

from proof.histories.blueprint import Blueprint, Op, Ref
from proof.histories.case import Case, Input
from proof.histories.draw import MOST_OPERATORS, draw_blueprint, draw_case
from proof.histories.draw_order import may_share_keys
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.functions import VALUES
from proof.histories.kinds.registry import KINDS
from proof.histories.last_results import out_of_step

_BEHIND = ("windowed_suppress", "windowed_table_group", "windowed_group", "windowed_stream", "windowed_filter")


def shared_case_of(seed: int, number: int) -> Case:
    """The case of a seed and a number."""
    dice = Dice(f"{seed}/shared/{number}")
    while True:
        blueprint = _small(dice) if dice.chance(60) else draw_blueprint(dice, generation="current")
        windows = any(op.kind in ("window_aggregate", "window_cogroup") for op in blueprint.ops)
        if windows and may_share_keys(blueprint) and not out_of_step(blueprint):
            break
    case = draw_case(dice, blueprint)
    while not case.partitioned:
        case = draw_case(dice, blueprint)
    return replace(case, records=shared(dice, case, begin=60))


def shared(choices: Choices, case: Case, *, begin: int) -> tuple[Input, ...]:
    """Records of few keys in two or three partitions, of which some lag behind the others.

    Parameters
    ----------
    begin : the time at which they begin, in ms.
    """
    keys = sorted({record.key for record in case.records if record.key is not None})[: choices.number(1, 2)] or [None]
    count = choices.pick((2, 2, 3))
    lags = [choices.pick((0, 0, 10, 30, 60)) for _ in range(count)]
    records, time = list[Input](), begin
    for record in case.records:
        partition = choices.number(0, count - 1)
        time += choices.pick((0, 1, 3, 8, 20))
        ts = max(0, time - lags[partition] - choices.pick((0, 0, 0, 2, 12)))
        key, value = record.key and choices.pick(keys), record.value or choices.pick((None, *VALUES))
        records.append(record._replace(key=key, value=value, ts=ts, partition=partition))
    return tuple(records)


def _small(choices: Choices) -> Blueprint:
    """A windowed aggregate of a source, or of a windowed join, and perhaps something behind it."""
    ops: list[Op] = []

    def add(kind: str, *inputs: Ref) -> Ref:
        ops.append(Op(kind, inputs, KINDS[kind].draw(choices, "current")))
        return Ref(len(ops) - 1, 0)

    kind = choices.pick(("window_aggregate",) * 3 + ("window_cogroup",))
    inputs = [add("stream") for _ in KINDS[kind].takes]
    if choices.chance(25):
        inputs[0] = add("stream_stream", inputs[0], add("stream"))
    end, shape = add(kind, *inputs), "windowed"
    if choices.chance(60):
        behind = choices.pick([name for name in _BEHIND if name in KINDS])
        end, shape = add(behind, end), KINDS[behind].gives[0]
    add("to" if shape == "stream" else "table_to", end)
    assert len(ops) <= MOST_OPERATORS + 4
    return Blueprint(tuple(ops), choices.pick(("string", "long")), "current")
