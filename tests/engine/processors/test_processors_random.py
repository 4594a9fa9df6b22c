"""Random processors in random topologies: what the oracle does a record at a time, however records are cut (law 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from proof.histories import Case, check
from proof.histories.check import cuts_of
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.draw_order import may_share_keys
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.registry import is_limited, sources_of
from proof.histories.report import page
from proof.histories.sequence import merged
from proof.histories.settled import out_of_step

COUNT = 160
PIECES = 8


def cases(seed: str, count: int) -> Iterator[Case]:
    """Random histories of topologies with processors."""
    dice = Dice(seed)
    while count:
        blueprint = draw_blueprint(dice, generation="current")
        if any(each.kind == "process" for each in blueprint.ops):
            yield draw_case(dice, blueprint)
            count -= 1


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_processors_do_what_the_oracle_does_a_record_at_a_time(piece: int) -> None:
    for case in cases(f"processors/{piece}", COUNT // PIECES):
        # the limits of a buffer are those of one shard
        shards = 1 if is_limited(case.blueprint) else 3
        for cut in (case, replace(case, cuts=tuple(range(1, len(case.records))), shards=shards)):
            found = check(cut)
            assert found is None, page(found)


def anywhere(case: Case, dice: Dice) -> Case:
    """The same, where its operators have a rule for that, with records of a key in any of three partitions."""
    if not may_share_keys(case.blueprint) or out_of_step(case.blueprint):
        return case
    records = tuple(record._replace(partition=dice.number(0, 2)) for record in case.records)
    sources, first = sources_of(case.blueprint), case.blueprint.sources(("global",))
    return replace(case, records=merged(records, sources, first), partitioned=True, cuts=case.cuts[:2])


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_what_a_processor_keeps_and_waits_for_goes_by_the_partition_whose_record_has_set_it(piece: int) -> None:
    dice = Dice(f"anywhere/{piece}")
    for case in cases(f"anywhere/{piece}", COUNT // PIECES):
        found = check(anywhere(case, dice))
        assert found is None, page(found)


def test_random_processors_set_timers_that_fire_and_stand_in_partitions_that_share_keys() -> None:
    drawn = list(cases("processors/0", 60))
    assert (
        sum(bool(each.params["timer"]) for case in drawn for each in case.blueprint.ops if "timer" in each.params) > 20
    )
    assert sum(bool(each.params.get("lasts")) for case in drawn for each in case.blueprint.ops) > 20
    several = [
        case for case in drawn if len({(r.key, r.partition) for r in case.records}) > len({r.key for r in case.records})
    ]
    assert several
    assert all(cuts_of(case) is not None for case in several)
