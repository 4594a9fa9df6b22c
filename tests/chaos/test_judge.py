"""The judge of the fault bench: a lost, a doubled, a changed and a moved record are each found, in every join."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from zlib import crc32

import pytest

from chaos.feed import BAD, BASE, records
from chaos.joins import JOINS, SIDES
from chaos.judge import (
    Ends,
    Expected,
    both,
    ends_of,
    expected,
    expected_dead_letters,
    judge,
    judge_dead_letters,
    unplanned,
)
from chaos.report import by_moment, tables
from chaos.round import Outcome, Round
from chaos.strikes import MOMENTS, STRIKES, Strike, strikes_for
from dev.reader import Record

PARTITIONS = 4
EVERY_JOIN = pytest.mark.parametrize("name", [*JOINS])


def written(topic: str, rows: Sequence[tuple[str | None, str | bytes | None, int]]) -> list[Record]:
    """Records as a topic has them: each key in a partition of its own choice."""
    ends = [0] * PARTITIONS
    found = []
    for key, value, ts in rows:
        partition = crc32((key or "").encode()) % PARTITIONS
        coded = [part.encode() if isinstance(part, str) else part for part in (key, value)]
        found.append(Record(topic, partition, ends[partition], coded[0], coded[1], ts, ()))
        ends[partition] += 1
    return found


def inputs_of(name: str, count: int = 800) -> dict[str, list[Record]]:
    drawn = list(islice(records(JOINS[name], "a test"), count))
    return {side: written(side, [(r.key, r.value, r.ts) for r in drawn if r.side == side]) for side in SIDES}


def cut(inputs: dict[str, list[Record]], batches: int) -> list[Ends]:
    """Batches that take the same share of every partition."""
    counts = {(side, p): sum(r.partition == p for r in inputs[side]) for side in SIDES for p in range(PARTITIONS)}
    return [{place: count * (n + 1) // batches for place, count in counts.items()} for n in range(batches)]


def results(name: str, batches: int = 8) -> list[Expected]:
    inputs = inputs_of(name)
    return expected(JOINS[name], inputs, cut(inputs, batches))


def output_of(wanted: Sequence[Expected]) -> list[Record]:
    return written("out", [(each.key, each.said.value, each.said.ts) for each in wanted])


def middle(wanted: Sequence[Expected]) -> int:
    """A result in the midst whose key has another one, with something else in it, right behind."""
    for place in range(len(wanted) // 2, len(wanted)):
        later = [each for each in wanted[place + 1 :] if each.key == wanted[place].key]
        if later and later[0].said != wanted[place].said:
            return place
    raise AssertionError("no key has two results")


@EVERY_JOIN
def test_an_output_that_is_the_oracles_is_right(name: str) -> None:
    wanted = results(name)
    verdict = judge(wanted, output_of(wanted))
    assert verdict.sound
    assert verdict.results == len(wanted) > 200


@EVERY_JOIN
def test_a_lost_record_is_found_with_its_batch(name: str) -> None:
    wanted = results(name)
    at = middle(wanted)
    verdict = judge(wanted, output_of([*wanted[:at], *wanted[at + 1 :]]))
    assert (verdict.lost, verdict.doubled, verdict.wrong) == (1, 0, 0)
    assert verdict.batches == (wanted[at].batch,)
    assert not verdict.sound


@EVERY_JOIN
def test_a_doubled_record_is_found(name: str) -> None:
    wanted = results(name)
    at = middle(wanted)
    verdict = judge(wanted, output_of([*wanted[: at + 1], wanted[at], *wanted[at + 1 :]]))
    assert (verdict.lost, verdict.doubled, verdict.wrong, verdict.sound) == (0, 1, 0, False)


@EVERY_JOIN
def test_a_changed_value_and_a_changed_time_are_found(name: str) -> None:
    wanted = results(name)
    output = output_of(wanted)
    at = middle(wanted)
    for changed in (replace(output[at], value=b"other"), replace(output[at], time=BASE - 1)):
        verdict = judge(wanted, [*output[:at], changed, *output[at + 1 :]])
        assert (verdict.lost, verdict.wrong, verdict.sound) == (1, 1, False)


@EVERY_JOIN
def test_two_records_of_a_key_in_the_wrong_order_are_found(name: str) -> None:
    wanted = results(name)
    at = middle(wanted)
    other = next(n for n in range(at + 1, len(wanted)) if wanted[n].key == wanted[at].key)
    swapped = list(wanted)
    swapped[at], swapped[other] = wanted[other], wanted[at]
    verdict = judge(wanted, output_of(swapped))
    assert (verdict.lost, verdict.doubled, verdict.out_of_order, verdict.sound) == (0, 0, 2, False)


def test_a_key_in_two_partitions_is_found() -> None:
    wanted = results("table_table")
    output = output_of(wanted)
    moved = replace(output[-1], partition=(output[-1].partition + 1) % PARTITIONS)
    assert judge(wanted, [*output[:-1], moved]).out_of_order == 1


def test_a_whole_batch_that_is_written_twice_is_found() -> None:
    wanted = results("foreign_key")
    batch = [each for each in wanted if each.batch == 3]
    verdict = judge(wanted, output_of([*wanted, *batch]))
    assert verdict.doubled == len(batch) > 20
    assert verdict.batches == (3,)


def test_an_empty_output_is_not_right() -> None:
    wanted = results("stream_stream")
    assert judge(wanted, []).lost == len(wanted)


@EVERY_JOIN
def test_the_batches_decide_what_is_expected(name: str) -> None:
    # records are late by up to three seconds: cut otherwise, they meet others
    assert [each[:2] for each in results(name, 8)] != [each[:2] for each in results(name, 3)]


def test_input_that_no_batch_has_read_is_found() -> None:
    inputs = inputs_of("table_table")
    plan = cut(inputs, 4)
    assert unplanned(inputs, plan) == []
    assert len(unplanned(inputs, plan[:-1])) == 2 * PARTITIONS


def test_holes_in_the_inputs_are_refused() -> None:
    inputs = inputs_of("table_table")
    plan = cut(inputs, 1)
    del inputs["left"][10]
    with pytest.raises(ValueError, match="holes"):
        expected(JOINS["table_table"], inputs, plan)


def test_the_ends_of_a_batch_are_read_from_sparks_log() -> None:
    lines = ["v1", "{}", json.dumps({"left": {"0": 5, "1": 7}}), json.dumps({"right": {"0": 2}})]
    assert ends_of("\n".join(lines)) == {("left", 0): 5, ("left", 1): 7, ("right", 0): 2}


def test_every_moment_is_struck_and_a_join_of_one_level_has_nothing_between_two() -> None:
    from random import Random

    assert {strike.moment for strike in STRIKES} == {*MOMENTS}
    two, one = (strikes_for(levels, Random(1)) for levels in (2, 1))
    assert sorted(map(repr, two)) == sorted(map(repr, STRIKES))
    assert {repr(s) for s in two} - {repr(s) for s in one} == {repr(s) for s in STRIKES if s.moment == "between_levels"}


def test_a_difference_is_put_down_to_the_last_kill_before_it_and_shown_with_its_seed() -> None:
    wanted = results("table_table")
    lost = judge(wanted, output_of([each for each in wanted if each.batch != 5]))
    strikes = (Strike("worker", "pack"), Strike("driver", "merge"), Strike("broker", "random"))
    outcome = Outcome(Round(7, 3, "table_table", strikes), list(zip(strikes, (1, 4, 6), strict=True)), verdict=lost)
    assert "| driver | merge | 1 | 1 | 1 |" in by_moment([outcome])
    assert "seed 7, round 3, table_table" in tables([outcome])


def test_dead_letters_are_judged_like_results_and_move_no_others_time() -> None:
    inputs = inputs_of("dead_letters")
    wanted = expected_dead_letters(JOINS["dead_letters"], inputs, cut(inputs, 8))
    bad = [record for records in inputs.values() for record in records if (record.value or b"").startswith(BAD)]
    assert 100 < len(wanted) == len(bad) < 300
    came = sorted(bad, key=lambda record: [each.said.value for each in wanted].index(repr(record.value)))
    assert judge_dead_letters(wanted, came).sound
    assert judge_dead_letters(wanted, came[1:]).lost == 1
    assert judge_dead_letters(wanted, [*came, came[0]]).doubled == 1
    one = judge_dead_letters(wanted, [*came[1:], came[0]])
    assert both(one, judge_dead_letters(wanted, came[1:])).lost == 1
