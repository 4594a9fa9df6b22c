"""Random topologies with joins of one match: the oracle's results a record at a time, however records are cut."""

from __future__ import annotations

import pytest

from proof.histories import check
from proof.histories.kinds.choices import Dice
from proof.histories.report import page
from tests.engine.random_kit import anywhere, cases, check_however_cut, having

COUNT = 160
PIECES = 8


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_joins_of_one_match_do_what_the_oracle_does_a_record_at_a_time(piece: int) -> None:
    check_however_cut(cases(f"stream_match/{piece}", COUNT // PIECES, having("stream_match")))


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_each_record_waits_and_is_met_by_the_time_of_its_own_partition(piece: int) -> None:
    dice, several = Dice(f"anywhere/{piece}"), 0
    for case in cases(f"stream_match/anywhere/{piece}", COUNT // PIECES, having("stream_match")):
        spread = anywhere(case, dice)
        several += spread.partitioned
        found = check(spread)
        assert found is None, page(found)
    assert several > 2
