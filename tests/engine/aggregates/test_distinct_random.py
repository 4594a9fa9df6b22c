"""Random topologies with distinct streams: what the oracle does a record at a time, however records are cut (law 1)."""

from __future__ import annotations

import pytest

from proof.histories import check
from proof.histories.kinds.choices import Dice
from proof.histories.report import page
from tests.engine.random_kit import anywhere, cases, check_however_cut, having

COUNT = 320
PIECES = 8


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_distinct_streams_do_what_the_oracle_does_a_record_at_a_time(piece: int) -> None:
    check_however_cut(cases(f"distinct/{piece}", COUNT // PIECES, having("distinct")))


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_for_how_long_a_key_is_known_goes_by_the_partition_of_the_record_that_passed(piece: int) -> None:
    dice, several = Dice(f"anywhere/{piece}"), 0
    for case in cases(f"distinct/anywhere/{piece}", COUNT // PIECES, having("distinct")):
        spread = anywhere(case, dice)
        several += spread.partitioned and any(each.params.get("within") for each in spread.blueprint.ops)
        found = check(spread)
        assert found is None, page(found)
    assert several > 5
