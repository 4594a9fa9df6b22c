"""Timers by the wall clock in random topologies: for one sequence of readings all batches and shards give the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from proof.histories import Case, check
from proof.histories.check import run_oracle
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.registry import goes_by_wall, is_limited
from proof.histories.report import page

COUNT = 160
PIECES = 10


def cases(seed: str, count: int) -> Iterator[Case]:
    """Random histories of topologies with timers of the wall clock."""
    dice = Dice(seed)
    while count:
        blueprint = draw_blueprint(dice, generation="current")
        if goes_by_wall(blueprint):
            yield draw_case(dice, blueprint)
            count -= 1


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_what_the_wall_clock_lets_go_stands_where_the_oracle_has_it_however_records_are_cut(piece: int) -> None:
    for case in cases(f"wall/{piece}", COUNT // PIECES):
        # the limits of a buffer are those of one shard
        shards = 1 if is_limited(case.blueprint) else 3
        for cut in (case, replace(case, cuts=tuple(range(1, len(case.records))), shards=shards)):
            found = check(cut)
            assert found is None, page(found)


def test_random_histories_have_results_that_the_wall_clock_has_let_go_in_partitions_and_behind_rests() -> None:
    drawn = list(cases("wall/0", 24))
    values = [str(result.value) for case in drawn for step in run_oracle(case)[0] for result in step]
    assert sum(value.startswith("w") for value in values) > 20
    assert any(case.partitioned for case in drawn)
    assert any(case.idle_after for case in drawn)
