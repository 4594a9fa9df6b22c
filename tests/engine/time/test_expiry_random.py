"""Random topologies of tables whose rows expire: what the oracle does, however records are cut (law 1)."""

from __future__ import annotations

import pytest

from proof.histories import check
from proof.histories.kinds.choices import Dice
from proof.histories.report import page
from tests.engine.random_kit import anywhere, cases, check_however_cut, having

COUNT = 240
PIECES = 8


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_tables_whose_rows_expire_do_what_the_oracle_does_a_record_at_a_time(piece: int) -> None:
    check_however_cut(cases(f"expiring/{piece}", COUNT // PIECES, having("expiring")))


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_a_row_expires_by_the_time_of_the_partition_of_its_last_update(piece: int) -> None:
    dice, several = Dice(f"anywhere/{piece}"), 0
    for case in cases(f"expiring/anywhere/{piece}", COUNT // PIECES, having("expiring")):
        spread = anywhere(case, dice)
        several += spread.partitioned and any(each.kind == "expiring" for each in spread.blueprint.ops)
        found = check(spread)
        assert found is None, page(found)
    assert several > 5
