"""A null foreign key in either generation: today it ends the result, up to 3.0 the update was ignored (KIP-213)."""

from __future__ import annotations

import pytest

from proof.histories import Blueprint, Case, Input, check
from proof.histories.blueprint import Op
from proof.histories.check import run_oracle
from proof.histories.draw import draw_case
from proof.histories.kinds.choices import Dice
from proof.histories.report import page
from tests.histories.ops import op

RECORDS = (
    Input("n1", "a", "1", 0),
    Input("n0", "k", "a|1", 1),
    Input("n0", "k", "x", 2),  # refers to nothing
    Input("n0", "k", "a|2", 3),
    Input("n1", "a", "2", 4),
    Input("n0", "k", "a|3", 5),
    Input("n0", "k", "x", 6),
    Input("n0", "k", None, 7),
)


def joined(how: str) -> tuple[Op, ...]:
    """Two tables, joined by the text before the bar."""
    return op("table"), op("table"), op("foreign_key", 0, 1, how=how), op("table_to", 2)


@pytest.mark.parametrize(
    ("how", "generation", "values"),
    [
        ("inner", "current", [[], ["a|1+1"], [None], ["a|2+1"], ["a|2+2"], ["a|3+2"], [None], []]),
        ("left", "current", [[], ["a|1+1"], ["x+null"], ["a|2+1"], ["a|2+2"], ["a|3+2"], ["x+null"], [None]]),
        # what comes from null or goes to null is ignored: the row stays as it was, and is not told of the right one
        ("inner", "spurious", [[], ["a|1+1"], [], [], [], ["a|3+2"], [], []]),
        ("left", "spurious", [[], ["a|1+1"], [], [], [], ["a|3+2"], [], []]),
    ],
)
def test_what_a_null_foreign_key_does(how: str, generation: str, values: list[list[str | None]]) -> None:
    case = Case(Blueprint(joined(how), "string", generation), RECORDS)
    steps, _ = run_oracle(case)
    assert [[result.value for result in results] for results in steps] == values
    for cuts in ((), tuple(range(1, len(RECORDS)))):
        found = check(Case(case.blueprint, RECORDS, cuts))
        assert found is None, page(found)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_random_histories_of_the_old_rule_are_what_the_oracle_says(how: str) -> None:
    for number in range(25):
        found = check(draw_case(Dice(f"null/{how}/{number}"), Blueprint(joined(how), "string", "spurious")))
        assert found is None, page(found)
