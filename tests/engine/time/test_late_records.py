"""Late records of windowed joins leave a trace (law 6): each is counted once, whatever the batches and shards."""

from __future__ import annotations

import random
from typing import Any

import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.recordings import RecordedStep
from tests.engine.stream_kit import PLUS, joined, run, steps_of
from watersmeet.windows import JoinWindows

BEFORE, AFTER, GRACE = 6, 10, 3
WINDOWS = JoinWindows.of_time_difference_and_grace(f"{AFTER} ms", f"{GRACE} ms").before(f"{BEFORE} ms")
REASON = ("stream_stream-left-right", "expired_window_record")


def disorderly(seed: int, count: int = 160) -> list[RecordedStep]:
    """Records of two streams, some of which come long after their time."""
    rng = random.Random(seed)
    steps = [2, 3, 4, 5, 6, 9, 2, 3, 4, 5, -1, -2, -8, -15, -30]
    topics = ["left", "right"]
    return steps_of(
        [(rng.choice(topics), rng.choice("abc"), rng.random() < 0.9, rng.choice(steps)) for _ in range(count)]
    )


def drops_of(steps: list[RecordedStep], *, how: str = "inner", size: int = 160, shards: int = 2) -> dict[Any, int]:
    driver = EngineDriver(joined(how, WINDOWS).build(), shards=shards)
    run(driver, steps, size)
    return {what: count for what, count in driver.drops.items() if count and what[1] != "null_value"}


def late(steps: list[RecordedStep]) -> list[int]:
    """Numbers of the records that come when part of their window is no longer kept, by semantics.md, section 6."""
    found, time, reach = [], -1, {"left": -1, "right": -1}
    back, other = {"left": BEFORE, "right": AFTER}, {"left": "right", "right": "left"}
    for number, step in enumerate(steps):
        topic = str(step.topic)
        time = max(time, step.ts)
        if step.value is None:
            continue
        kept_from = min(time - GRACE - back[topic], reach[other[topic]] - (BEFORE + AFTER + GRACE) + 1)
        if step.ts < time - GRACE and max(0, step.ts - back[topic]) < kept_from:
            found.append(number)
        reach[topic] = max(reach[topic], step.ts)
    return found


def missing_pairs(steps: list[RecordedStep]) -> set[int]:
    """Numbers of the later records of pairs that are within the window and were not joined."""
    driver = EngineDriver(joined("inner", WINDOWS).build())
    made = {value for _, value, _ in run(driver, steps, 400)}
    present = [(number, step) for number, step in enumerate(steps) if step.value is not None]
    return {
        max(n, m)
        for n, left in present
        for m, right in present
        if (left.topic, right.topic, left.key) == ("left", "right", right.key)
        and left.ts - BEFORE <= right.ts <= left.ts + AFTER
        and f"{left.value}+{right.value}" not in made
    }


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_each_late_record_is_counted_once_whatever_the_batches_and_shards(how: str) -> None:
    steps = disorderly(1)
    expected = {REASON: len(late(steps))}
    assert expected[REASON] > 10
    for size, shards in ((160, 1), (3, 2), (20, 5)):
        assert drops_of(steps, how=how, size=size, shards=shards) == expected


def test_of_each_pair_that_is_missing_for_lateness_the_later_record_is_counted() -> None:
    for seed in range(5):
        steps = disorderly(seed)
        missing = missing_pairs(steps)
        assert missing
        assert missing <= set(late(steps))


def test_nothing_is_counted_where_all_records_come_within_the_grace() -> None:
    steps = steps_of([("left", "a", True, 5), ("right", "a", True, -3), ("left", "b", True, 10)] * 50)
    assert drops_of(steps) == {}


def test_a_late_record_of_a_self_join_is_counted_once() -> None:
    builder = arrow_builder("self")
    stream = builder.stream("left", key="string", value="string")
    stream.join(stream, PLUS, WINDOWS).to("out")
    driver = EngineDriver(builder.build())
    run(driver, steps_of([("left", "a", True, 0), ("left", "a", True, 500), ("left", "a", True, -300)]), 2)
    assert +driver.drops == {("stream_stream-left", REASON[1]): 1}
