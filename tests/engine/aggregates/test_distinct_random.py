"""Random topologies with distinct streams: what the oracle does a record at a time, however records are cut (law 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from proof.histories import Case, check
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.draw_order import may_share_keys
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.registry import is_limited, sources_of
from proof.histories.report import page
from proof.histories.sequence import merged
from proof.histories.settled import out_of_step

COUNT = 320
PIECES = 8


def cases(seed: str, count: int) -> Iterator[Case]:
    """Random histories of topologies with a distinct stream."""
    dice = Dice(seed)
    while count:
        blueprint = draw_blueprint(dice, generation="current")
        if any(each.kind == "distinct" for each in blueprint.ops):
            yield draw_case(dice, blueprint)
            count -= 1


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_distinct_streams_do_what_the_oracle_does_a_record_at_a_time(piece: int) -> None:
    for case in cases(f"distinct/{piece}", COUNT // PIECES):
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
def test_for_how_long_a_key_is_known_goes_by_the_partition_of_the_record_that_passed(piece: int) -> None:
    dice, several = Dice(f"anywhere/{piece}"), 0
    for case in cases(f"distinct/anywhere/{piece}", COUNT // PIECES):
        spread = anywhere(case, dice)
        several += spread.partitioned and any(each.params.get("within") for each in spread.blueprint.ops)
        found = check(spread)
        assert found is None, page(found)
    assert several > 5
