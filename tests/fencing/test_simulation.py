"""Drivers on one checkpoint, as seeds have them race, stand still and die: nothing is lost without a word."""

from __future__ import annotations

import pytest

from simulation.driver import Defect
from simulation.runs import Run

ALWAYS = 400
LONG = 100_000
PART = 10_000
LOOKED_AT = 6_000
"""Seeds among which a defect has to be found."""


def wrong(first: int, count: int) -> list[tuple[int, str]]:
    verdicts = (Run(seed).judged() for seed in range(first, first + count))
    return [(verdict.seed, verdict.outcome) for verdict in verdicts if not verdict.is_right]


def test_nothing_is_lost_or_doubled_without_a_word_whoever_stands_still_or_dies() -> None:
    assert wrong(0, ALWAYS) == []


@pytest.mark.proof
@pytest.mark.parametrize("first", range(0, LONG, PART))
def test_nor_in_a_hundred_thousand_runs(first: int) -> None:
    assert wrong(first, PART) == []


ALONE = [defect for defect in Defect if defect is not Defect.NUMBER_ALONE]


@pytest.mark.parametrize("defect", ALONE, ids=lambda defect: defect.name.lower())
def test_a_mistake_that_is_put_back_is_found(defect: Defect) -> None:
    found = (Run(seed, [defect]).judged() for seed in range(LOOKED_AT))
    torn = next((verdict for verdict in found if not verdict.is_right), None)
    assert torn is not None
    assert torn.trace


def test_a_driver_that_does_not_check_loses_results_if_marks_have_no_plans_and_none_if_they_have() -> None:
    plans, numbers = [Defect.NO_CHECK], [Defect.NO_CHECK, Defect.NUMBER_ALONE]
    lost = next(seed for seed in range(LOOKED_AT) if Run(seed, numbers).judged().outcome.startswith("lost"))
    assert not Run(lost, plans).judged().outcome.startswith("lost")


def test_a_seed_says_all_that_happens() -> None:
    for seed in range(40):
        traces = []
        for _ in range(2):
            run = Run(seed)
            run.judged()
            traces.append(run.schedule.trace)
        assert traces[0] == traces[1]
