"""Inputs that give their records times of their own, and mappers that see them: the engine as the oracle has it."""

from __future__ import annotations

import pytest

from proof.histories.case import Case
from proof.histories.check import check
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.kinds.choices import Dice
from proof.histories.subjects.times import with_extracted_times, with_times

SEED = "times"
SOME, MANY = 40, 1_500


def cases(param: str, count: int) -> list[Case]:
    """The first cases whose blueprints have an operator with this parameter."""
    found: list[Case] = []
    number = 0
    while len(found) < count:
        number += 1
        dice = Dice(f"{SEED}/{number}")
        blueprint = with_times(dice, draw_blueprint(dice))
        if any(param in op.params for op in blueprint.ops):
            found.append(draw_case(dice, blueprint))
    return found


@pytest.mark.parametrize("param", ["time", "sees"])
def test_whatever_the_batches_shards_and_partitions_records_go_by_the_times_that_they_are_told(param: str) -> None:
    for case in cases(param, SOME):
        found = check(case)
        assert found is None, (found.message, case)


@pytest.mark.proof
@pytest.mark.parametrize("param", ["time", "sees"])
def test_many_histories_of_such_times(param: str) -> None:
    for case in cases(param, MANY):
        found = check(case)
        assert found is None, (found.message, case)


def test_what_is_drawn_has_times_of_records_values_and_records_without_one() -> None:
    drawn = cases("time", SOME)
    told = [with_extracted_times(case.blueprint, case.records) for case in drawn]
    pairs = [
        (own.ts, given.ts)
        for case, some in zip(drawn, told, strict=True)
        for own, given in zip(case.records, some, strict=True)
    ]
    assert {own < given for own, given in pairs} == {own > given for own, given in pairs} == {True, False}
    assert any(given < 0 <= own for own, given in pairs)
    policies = {op.params["time"] for case in drawn for op in case.blueprint.ops if "time" in op.params}
    assert policies == {"own", "skip"}
