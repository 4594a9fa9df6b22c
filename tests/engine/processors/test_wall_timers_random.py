"""Timers by the wall clock in random topologies: for one sequence of readings all batches and shards give the same."""

from __future__ import annotations

import pytest

from proof.histories.check import run_oracle
from proof.histories.kinds.registry import goes_by_wall
from tests.engine.random_kit import cases, check_however_cut

COUNT = 160
PIECES = 10


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_what_the_wall_clock_lets_go_stands_where_the_oracle_has_it_however_records_are_cut(piece: int) -> None:
    check_however_cut(cases(f"wall/{piece}", COUNT // PIECES, goes_by_wall))


def test_random_histories_have_results_that_the_wall_clock_has_let_go_in_partitions_and_behind_rests() -> None:
    drawn = list(cases("wall/0", 48, goes_by_wall))
    values = [str(result.value) for case in drawn for step in run_oracle(case)[0] for result in step]
    assert sum(value.startswith("w") for value in values) > 20
    assert any(case.partitioned for case in drawn)
    assert any(case.idle_after for case in drawn)
