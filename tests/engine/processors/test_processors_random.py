"""Random processors in random topologies: what the oracle does a record at a time, however records are cut (law 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from proof.histories import Case, check
from proof.histories.check import cuts_of
from proof.histories.draw import draw_blueprint, draw_case, with_shape
from proof.histories.kinds.choices import Dice
from proof.histories.report import page
from proof.histories.subjects.processors import NEW, with_processors
from tests.engine.random_kit import anywhere, cases, check_however_cut, having

COUNT = 160
NEW_COUNT = 240
PIECES = 8


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_processors_do_what_the_oracle_does_a_record_at_a_time(piece: int) -> None:
    check_however_cut(cases(f"processors/{piece}", COUNT // PIECES, having("process")))


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_what_a_processor_keeps_and_waits_for_goes_by_the_partition_whose_record_has_set_it(piece: int) -> None:
    dice = Dice(f"anywhere/{piece}")
    for case in cases(f"anywhere/{piece}", COUNT // PIECES, having("process")):
        found = check(anywhere(case, dice))
        assert found is None, page(found)


def reading(seed: str, count: int) -> Iterator[Case]:
    """Random histories of topologies with processors that read tables or share stores, and transformers of tables."""
    dice = Dice(seed)
    while count:
        blueprint = with_processors(dice, draw_blueprint(dice, generation="current"))
        if any(each.kind in NEW for each in blueprint.ops):
            yield draw_case(dice, with_shape(dice, blueprint))
            count -= 1


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_processors_that_read_tables_and_share_stores_do_what_the_oracle_does(piece: int) -> None:
    check_however_cut(reading(f"reading/{piece}", NEW_COUNT // PIECES))


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_the_same_with_keys_in_several_partitions(piece: int) -> None:
    dice = Dice(f"reading/anywhere/{piece}")
    for case in reading(f"reading/anywhere/{piece}", NEW_COUNT // PIECES):
        found = check(anywhere(case, dice))
        assert found is None, page(found)


def test_random_topologies_have_all_ways_to_read_and_to_share() -> None:
    kinds = Counter(op.kind for case in reading("kinds", 150) for op in case.blueprint.ops if op.kind in NEW)
    assert set(kinds) == set(NEW)
    assert min(kinds.values()) > 12, kinds


def test_random_processors_set_timers_that_fire_and_stand_in_partitions_that_share_keys() -> None:
    drawn = list(cases("processors/0", 60, having("process")))
    assert (
        sum(bool(each.params["timer"]) for case in drawn for each in case.blueprint.ops if "timer" in each.params) > 20
    )
    assert sum(bool(each.params.get("lasts")) for case in drawn for each in case.blueprint.ops) > 20
    several = [
        case for case in drawn if len({(r.key, r.partition) for r in case.records}) > len({r.key for r in case.records})
    ]
    assert several
    assert all(cuts_of(case) is not None for case in several)
