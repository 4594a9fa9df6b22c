"""suppress with limits of keys that lie in several partitions: an entry in each, the same wherever batches end.

The engine is compared with itself: such entries tell old values that were never sent (row 20), which the oracle's folds
and the engine's need not take back alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from proof.histories import Case
from proof.histories.blueprint import Blueprint
from proof.histories.check import Steps, cuts_of, driver_of, run_engine, topology_of
from proof.histories.draw import draw_case
from proof.histories.kinds.choices import Dice
from proof.histories.subjects.shared_windows import shared
from tests.histories.ops import op

COUNT = 6


def cases(seed: str) -> Iterator[Case]:
    dice = Dice(seed)
    for _ in range(COUNT):
        held = op("suppress", 0, ms=dice.pick((1, 10, 40)), records=dice.pick((0, 1, 2, 3)))
        folded = op("table_aggregate", 1, fold="wm.sum", stored=True)
        blueprint = Blueprint((op("table"), held, folded, op("table_to", 2)))
        case = draw_case(dice, blueprint)
        while not case.partitioned:
            case = draw_case(dice, blueprint)
        yield replace(case, records=shared(dice, case, begin=30), replay=False)


def results(case: Case) -> Steps:
    return run_engine(case, driver_of(case, topology_of(case.blueprint)), cuts_of(case))


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, 6))])
def test_a_limited_buffer_of_keys_in_several_partitions_gives_the_same_wherever_batches_end(piece: int) -> None:
    for case in cases(f"limits/{piece}"):
        every = tuple(range(1, len(case.records)))
        whole = results(replace(case, cuts=()))
        assert results(case) == whole
        assert results(replace(case, cuts=every)) == whole
