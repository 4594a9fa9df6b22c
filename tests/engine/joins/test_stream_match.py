"""Joins of two streams that take one match: which one, when, what is counted, what is kept, what is refused."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.recordings import RecordedStep
from tests.engine.stream_kit import METHOD, PLUS, run
from watersmeet._engine.state.runs import State
from watersmeet.errors import TopologyError
from watersmeet.windows import JoinWindows

WINDOWS = ((10, 5, 2), (20, 0, 5), (-2, 8, 3), (8, -2, 3))


def builder_of(how: str, windows: tuple[int, int, int], match: str) -> Any:
    builder = arrow_builder("match")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    getattr(left, METHOD[how])(right, PLUS, JoinWindows(*windows), match=match, name="match").to("out")
    return builder


def random_steps(dice: Random, count: int) -> list[RecordedStep]:
    steps, ts = [], 50
    for number in range(count):
        ts = max(0, ts + dice.choice((-12, -4, 0, 0, 1, 2, 3, 7, 15)))
        side = dice.choice(("left", "right"))
        steps.append(RecordedStep(side, dice.choice("abc"), f"{side[0]}{number}", ts, ()))
    return steps


def by_force(steps: list[RecordedStep], windows: tuple[int, int, int], match: str) -> dict[str, tuple[str | None, int]]:
    """Of each left record that is not late the best partner of the whole history, and the time of the result."""
    before, after, grace = windows
    wait, found, times = max(after, 0) + grace, {}, [-1]
    for step in steps:
        times.append(max(times[-1], step.ts))
    for at, left in enumerate(steps):
        if left.topic == "right" or left.ts + wait < times[at + 1] or left.ts + wait >= times[-1]:
            continue
        # the first record that moves time past the wait ends it
        there = [step for step, now in zip(steps, times[1:], strict=True) if now <= left.ts + wait]
        met = [r for r in there if r.topic == "right" and r.key == left.key]
        met = [r for r in met if left.ts - before <= r.ts <= left.ts + after]
        distances = [abs(r.ts - left.ts) if match == "nearest" else 0 for r in met]
        _, _, _, best = min(zip(distances, (r.ts for r in met), range(len(met)), met, strict=True), default=[None] * 4)
        found[str(left.value)] = (None, left.ts) if best is None else (best.value, max(left.ts, best.ts))
    return found


@pytest.mark.parametrize("match", ["first", "nearest"])
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_each_record_meets_the_best_one_of_the_whole_history_whatever_comes_when(
    windows: tuple[int, int, int], match: str
) -> None:
    dice = Random(f"{windows}{match}")
    for how in ("inner", "left"):
        steps = random_steps(dice, 120)
        expected = {
            left: (f"{left}+{'null' if right is None else right}", ts)
            for left, (right, ts) in by_force(steps, windows, match).items()
            if how == "left" or right is not None
        }
        assert len(expected) > 5
        for shards, size in ((3, 7), (2, 120), (1, 1)) if how == "left" else ((2, 31),):
            driver = EngineDriver(builder_of(how, windows, match).build(), shards=shards)
            said = run(driver, steps, size)
            assert {value.split("+")[0]: (value, ts) for _, value, ts in said} == expected
            assert len(said) == len(expected), "each record has one result"


def test_a_nearer_record_that_comes_later_is_taken_and_nothing_is_sent_before() -> None:
    driver = EngineDriver(builder_of("left", (10, 10, 5), "nearest").build())
    steps = [("left", "L", 100), ("right", "far", 95), ("right", "near", 101), ("right", "late but near", 100)]
    for topic, value, ts in steps:
        driver.pipe(topic, "k", value, ts=ts)
        driver.run_batch()
    assert driver.read("out") == []
    driver.pipe("right", "other", "moves time", ts=116)
    driver.run_batch()
    assert [(r.value, r.ts, r.step) for r in driver.read("out")] == [("L+late but near", 100, 4)]


def test_late_records_of_both_sides_are_counted_and_give_no_false_result() -> None:
    driver = EngineDriver(builder_of("left", (10, 5, 2), "nearest").build(), shards=1)
    driver.pipe("right", "k", "moves time", ts=100)
    driver.pipe("left", "k", "waits no more", ts=92)
    driver.pipe("left", "k", "waits", ts=93)
    driver.pipe("right", "k", "met by none", ts=82)
    driver.pipe("right", "k", "met by the one that waits", ts=83)
    driver.pipe("left", "other", "moves time", ts=101)
    driver.run_batch()
    assert [r.value for r in driver.read("out")] == ["waits+met by the one that waits"]
    assert +driver.drops == {("match", "expired_window_record"): 2}


def test_state_holds_what_may_still_be_met_however_long_the_join_runs() -> None:
    driver = EngineDriver(builder_of("inner", (10, 5, 2), "first").build(), shards=1)
    sizes = []
    for at in range(0, 6000, 10):
        for topic in ("left", "right"):
            driver.pipe(topic, "k", f"{topic}{at}", ts=at)
        if at % 1000 == 990:
            driver.run_batch()
            tables = State(driver.stores[(0, 0)]).manifest.tables
            sizes.append(sum(run.rows for entry in tables.values() for run in entry.runs()))
    assert len(driver.read("out")) == 599
    assert max(sizes) < 20, "of 1,200 records"
    assert all(abs(one - other) <= 5 for one, other in pairwise(sizes))


def test_a_match_that_the_join_has_not_is_refused_where_it_is_written() -> None:
    builder = arrow_builder("errors")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    table = builder.table("table", key="string", value="string")
    windows = JoinWindows(1, 1, 0)
    with pytest.raises(TopologyError, match=r"Unknown match='closest'\.[\s\S]*match='nearest'"):
        left.join(right, PLUS, windows, match="closest")
    with pytest.raises(TopologyError, match="takes no match: match='nearest'"):
        left.join(table, PLUS, match="nearest")
    with pytest.raises(TopologyError, match="match='first' has no generation 'old'"):
        left.left_join(right, PLUS, windows, match="first", generation="old")
    with pytest.raises(TopologyError, match="match='nearest' waits for the end of the window"):
        left.join(right, PLUS, JoinWindows.of("5 minutes"), match="nearest")
    node = left.join(right, PLUS, windows, match="nearest")._node
    assert node.details() == (("type", "inner"), ("match", "nearest"), ("window", "-1..+1 ms, grace 0 ms"))
