"""Mappers that ask elsewhere, in random topologies: the engine gives what the oracle does, in the records' order."""

from __future__ import annotations

import pytest

from proof.histories.case import Case
from proof.histories.check import check
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.kinds import shapes
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.registry import shape_of
from proof.histories.report import page
from proof.histories.subjects.asked import with_asked

SOME, MANY = 40, 1_500


def cases(count: int, seed: str = "asked") -> list[Case]:
    """The first cases with a mapper that asks; its coroutine takes texts."""
    found: list[Case] = []
    number = 0
    while len(found) < count:
        number += 1
        dice = Dice(f"{seed}/{number}")
        blueprint = with_asked(dice, draw_blueprint(dice))
        if shape_of(blueprint) == shapes.PLAIN and any("asks" in op.params for op in blueprint.ops):
            found.append(draw_case(dice, blueprint))
    return found


def test_whichever_answer_comes_first_results_stand_where_their_records_do() -> None:
    for case in cases(SOME):
        found = check(case)
        assert found is None, page(found)


@pytest.mark.proof
def test_many_histories_of_mappers_that_ask() -> None:
    for case in cases(MANY, "many"):
        found = check(case)
        assert found is None, page(found)
