"""Histories of inputs with partitions: cut wherever their sequence allows, they give what the oracle says.

The oracle is told the partition of each record, and has a time for each of them where an operator's records stand in
the partition of their source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from proof.histories import Case, check
from proof.histories.blueprint import Blueprint, Ref
from proof.histories.case import Input, of_json, to_json
from proof.histories.check import cuts_of
from proof.histories.draw import case_of, draw_blueprint, draw_case
from proof.histories.draw_order import with_partitions
from proof.histories.kinds.choices import Dice
from proof.histories.kinds.registry import holds_back, is_limited, sources_of
from proof.histories.last_results import all_above
from proof.histories.report import page
from proof.histories.sequence import BatchMerge, cuts_in_sequence
from tests.histories.ops import op

COUNT = 120
PIECES = 4
REKEYS = ("select_one", "select_key", "map", "flat_map", "windowed_stream")
STREAMS = Blueprint((op("stream"), op("stream"), op("merge", 0, 1), op("to", 2)))


def folds_what_was_held(blueprint: Blueprint) -> bool:
    """Whether records get another key behind an operator that holds results back."""
    rekeys = (place for place, each in enumerate(blueprint.ops) if each.kind in REKEYS)
    above = {place for last in rekeys for place in all_above(blueprint, Ref(last))}
    return any(holds_back(blueprint.ops[place]) for place in above)


def cases(seed: str, count: int) -> Iterator[Case]:
    dice = Dice(seed)
    while count:
        blueprint = draw_blueprint(dice, generation="current")
        case = draw_case(dice, blueprint) if folds_what_was_held(blueprint) else None
        if case is not None and case.partitioned:
            yield case
            count -= 1


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_what_partitions_hold_back_is_folded_alike_wherever_batches_end(piece: int) -> None:
    for case in cases(f"partitions/{piece}", COUNT // PIECES):
        every = tuple(range(1, len(case.records)))
        # the limits of a buffer are those of one shard
        shards = 1 if is_limited(case.blueprint) else 3
        for cut in (case, replace(case, cuts=(), shards=1), replace(case, cuts=every, shards=shards, replay=False)):
            found = check(cut)
            assert found is None, page(found)


def test_a_cut_history_is_merged_batch_by_batch_into_the_order_in_which_it_is_written() -> None:
    drawn = (case_of(11, number) for number in range(400))
    several = 0
    for case in (case for case in drawn if case.partitioned):
        sources, first = sources_of(case.blueprint), case.blueprint.sources(("global",))
        cuts = cuts_in_sequence(case, sources, first, [True] * len(case.records))
        assert set(case.cuts) <= set(cuts)
        for begin, end in pairwise([0, *cuts, len(case.records)]):
            merge = BatchMerge(sources, first)
            places = [merge.place(record) for record in case.records[begin:end]]
            assert places == sorted(places)
        several += any(end - begin > 1 for begin, end in pairwise([0, *cuts, len(case.records)]))
    assert several > 50


def test_a_batch_ends_before_a_record_that_it_would_merge_further_up_and_nowhere_else() -> None:
    def cuts(*rows: tuple[str, int, int]) -> tuple[int, ...]:
        records = tuple(Input(source, "k", "1", ts, partition) for source, ts, partition in rows)
        return cuts_of(Case(STREAMS, records, partitioned=True))

    assert cuts(("n0", 5, 0), ("n0", 7, 1), ("n1", 7, 0), ("n0", 9, 0)) == ()
    assert cuts(("n0", 5, 1), ("n0", 5, 0)) == (1,)
    assert cuts(("n1", 5, 0), ("n0", 5, 0)) == (1,)
    # late in its own partition: it stands behind what its partition has reached
    assert cuts(("n0", 9, 0), ("n0", 2, 0), ("n0", 9, 1)) == ()
    assert cuts(("n0", 9, 0), ("n0", 2, 1)) == (1,)


def test_partitions_and_clocks_are_among_what_is_drawn_and_written_down() -> None:
    drawn = [case_of(11, number) for number in range(600)]
    assert {len({record.partition for record in case.records}) for case in drawn if case.partitioned} >= {1, 2, 3}
    assert any(case.clock and case.partitioned for case in drawn)
    assert any(case.clock and not case.partitioned for case in drawn)
    assert sum(folds_what_was_held(case.blueprint) for case in drawn) > 100
    assert [of_json(to_json(case)) for case in drawn[:20]] == drawn[:20]


def test_a_key_has_one_partition_in_all_inputs_or_any_where_partitions_share_no_histories() -> None:
    dice, several = Dice("partition of a key"), 0
    for _ in range(300):
        blueprint = draw_blueprint(dice)
        case = with_partitions(dice, draw_case(dice, blueprint))
        where: dict[object, set[int]] = {}
        for record in case.records:
            where.setdefault(record.key, set()).add(record.partition)
        where.pop(None, None)
        if any(len(partitions) > 1 for partitions in where.values()):
            assert not {"history", "records"} & {name for each in blueprint.ops for name in each.params}
            several += 1
    assert several > 10


def shared_keys(seed: str, count: int) -> Iterator[Case]:
    """Cases without windows in which a join or suppress keeps records of one key from several partitions."""
    dice = Dice(seed)
    while count:
        blueprint = draw_blueprint(dice, generation="current")
        if not {"stream_stream", "suppress"} & {each.kind for each in blueprint.ops}:
            continue
        case = draw_case(dice, blueprint)
        where = {(record.key, record.partition) for record in case.records if record.key is not None}
        named = {name for each in blueprint.ops for name in each.params}
        if not {"windows", "history", "records"} & named and len(where) > len({key for key, _ in where}):
            yield case
            count -= 1


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_a_key_that_lies_in_several_partitions_gives_the_same_wherever_batches_end(piece: int) -> None:
    for case in shared_keys(f"shared keys/{piece}", COUNT // PIECES):
        every = tuple(range(1, len(case.records)))
        for cut in (case, replace(case, cuts=(), shards=1), replace(case, cuts=every, shards=3, replay=False)):
            found = check(cut)
            assert found is None, page(found)
