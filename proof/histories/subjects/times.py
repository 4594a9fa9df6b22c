"""Times of their own that inputs give their records: by a function of the value, under a policy.

Owns the function, and what it means. Law: the oracle gets records with the times that they are told; the engine gets
them as they came, with the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proof.histories.blueprint import Blueprint, Op, name_of
from proof.histories.case import Case, Input
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.functions import time_of

OF_INPUTS = ("stream", "table", "global")
"""Kinds of operators that read inputs."""


def with_times(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """Perhaps with inputs whose records have their times by `time_of`, and mappers that see their records' times."""
    ops = list(blueprint.ops)
    if choices.chance(25):
        ops = [_timed(choices, op) if op.kind in OF_INPUTS and choices.chance(60) else op for op in ops]
    sees = [op.kind == "map_values" and choices.chance(40) for op in ops]
    ops = [replace(op, params={**op.params, "sees": True}) if saw else op for op, saw in zip(ops, sees, strict=True)]
    return replace(blueprint, ops=tuple(ops))


def _timed(choices: Choices, op: Op) -> Op:
    return replace(op, params={**op.params, "time": choices.pick(("own", "skip"))})


def with_extracted_times(blueprint: Blueprint, records: Sequence[Input]) -> tuple[Input, ...]:
    """The records with the times that they have by their inputs; below 0, where they are left out."""
    policies = {name_of(number): op.params["time"] for number, op in enumerate(blueprint.ops) if "time" in op.params}
    return tuple(_with_time(record, policies.get(record.source)) for record in records)


def timed_case(case: Case) -> Case:
    """The case with these records."""
    return replace(case, records=with_extracted_times(case.blueprint, case.records))


def _with_time(record: Input, policy: str | None) -> Input:
    if policy is None:
        return record
    time = time_of(record.value)
    if time is None or time < 0:
        time = record.ts if policy == "own" else -1
    return record._replace(ts=time)
