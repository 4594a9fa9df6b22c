"""A key whose records lie in several partitions, each of which has a time of its own (law 1; row 20 of section A).

What is kept belongs to the partition of its record, and is let go by that one's time, whoever looks it up. A window
belongs to the partition of the record that began it; what comes from others once it has closed begins it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.engine.stream_kit import METHOD, PLUS
from tests.engine.time.test_positions_of_held_results import CONCATENATED, Row, run
from watersmeet.windows import (
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    Windows,
)

WINDOWS = JoinWindows(10, 10, 0)
ROWS_AND_CUTS = [(), (1,), (2,), (3,), (4,), (1, 2, 3, 4)]


def join(how: str, rows: Sequence[Row], cuts: Sequence[int], shards: int) -> Any:
    builder = arrow_builder("several")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    getattr(s, METHOD[how])(r, PLUS, WINDOWS).to("out")
    (out,) = run(builder.build(), rows, [cut for cut in cuts if cut < len(rows)], shards, "out")
    return out


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", ROWS_AND_CUTS)
@pytest.mark.parametrize("how", ["left", "outer"])
def test_a_record_that_is_met_from_another_partition_before_its_own_lets_it_go_is_not_unmatched(
    how: str, cuts: tuple[int, ...], shards: int
) -> None:
    """Partition 1 is late when it meets the row of partition 0, whose own time has not passed the window yet."""
    rows = [
        ("s", "k", "l60", 60, 0),
        ("r", "k", "r75", 75, 1),
        ("r", "k", "r65", 65, 1),
        ("s", "y", "y90", 90, 0),
        ("s", "z", "z91", 91, 1),
    ]
    alone = [("null+r75", 75)] if how == "outer" else []
    assert join(how, rows, cuts, shards) == [("l60+r65", 65), *alone]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", ROWS_AND_CUTS)
def test_rows_of_one_key_and_time_wait_each_for_the_time_of_their_own_partition(
    cuts: tuple[int, ...], shards: int
) -> None:
    rows = [("s", "k", "a60", 60, 0), ("s", "k", "b60", 60, 1), ("s", "x", "x80", 80, 1), ("s", "y", "y81", 81, 0)]
    assert join("left", rows, cuts, shards) == [("b60+null", 60), ("a60+null", 60)]


def windows_on_close(cuts: Sequence[int]) -> Any:
    """Partition 1 begins the window and closes it; then comes what partition 0 has held back."""
    builder = arrow_builder("window")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    windowed = s.left_join(r, PLUS, WINDOWS).group_by_key().windowed_by(TimeWindows(20, 20, 0))
    on_close = windowed.emit_strategy(EmitStrategy.on_window_close()).reduce(CONCATENATED)
    on_close.to_stream(key="key").to("out")
    rows = [("s", "k", "one", 60, 1), ("s", "k", "two", 61, 0), ("s", "x", "x", 130, 1), ("s", "y", "y", 131, 0)]
    (out,) = run(builder.build(), rows, cuts, 1, "out")
    return out


def test_a_window_of_two_partitions_behind_a_join_does_not_depend_on_batches() -> None:
    assert windows_on_close(()) == windows_on_close((3,)) == windows_on_close((1, 2, 3))


WINDOWED: dict[str, Windows] = {
    "tumbling": TimeWindows(20, 20, 0),
    "hopping": TimeWindows(20, 10, 0),
    "sliding": SlidingWindows(20, 0),
    "session": SessionWindows(10, 0),
}
LAGS: list[Row] = [
    ("s", "k", "one", 60, 1),
    ("s", "x", "x", 130, 1),
    # partition 0 is behind: in time there, but partition 1 has closed the window
    ("s", "k", "two", 61, 0),
    ("s", "k", "three", 62, 0),
    # late in its own partition, too
    ("s", "y", "y", 131, 0),
    ("s", "k", "four", 63, 0),
]
BEGUN_ANEW = {
    # one result for each generation that has closed: [60, 80), then of hopping windows [50, 70) besides
    "tumbling": [("one", 60), ("two>three", 62)],
    "hopping": [("one", 60), ("one", 60), ("two>three", 62), ("two>three", 62)],
    "sliding": [("one", 60), ("two", 61), ("two>three", 62), ("three", 62)],
    "session": [("one", 60), ("two>three", 62)],
}


def lagging(windows: Windows, *, close: bool, cuts: Sequence[int], shards: int) -> tuple[Any, dict[str, int]]:
    """(results under keys alone, records that were late) of `LAGS`, which is cut where its sequence needs that."""
    builder = arrow_builder("lags")
    grouped = builder.stream("s", key="string", value="string").group_by_key()
    windowed = grouped.windowed_by(windows).emit_strategy(EmitStrategy(close))
    windowed.reduce(CONCATENATED).to_stream(key="key").to("out")
    driver = EngineDriver(builder.build(), shards=shards, partitioned=True)
    for number, (name, key, value, ts, partition) in enumerate(LAGS):
        if number in cuts:
            driver.run_batch()
        driver.pipe(name, key, value, ts=ts, partition=partition)
    driver.run_batch()
    late = {reason: count for (_, reason), count in driver.drops.items() if count}
    return [(each.value, each.ts) for each in driver.read("out")], late


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", [(2,), (1, 2), (2, 3), (2, 4, 5), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("kind", WINDOWED)
def test_a_record_whose_window_another_partition_has_closed_begins_it_anew_and_is_in_a_further_result(
    kind: str, cuts: tuple[int, ...], shards: int
) -> None:
    results, late = lagging(WINDOWED[kind], close=True, cuts=cuts, shards=shards)
    assert results == BEGUN_ANEW[kind]
    assert late == {"expired_window": 1}


@pytest.mark.parametrize("cuts", [(2,), (2, 3), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("kind", WINDOWED)
def test_with_updates_a_window_that_is_begun_anew_starts_without_what_it_had(kind: str, cuts: tuple[int, ...]) -> None:
    results, late = lagging(WINDOWED[kind], close=False, cuts=cuts, shards=3)
    assert not any("one" in (value or "") for value, _ in results[results.index(("two", 61)) :])
    assert late == {"expired_window": 1}


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("kind", WINDOWED)
def test_until_a_window_is_closed_it_takes_the_records_of_all_partitions(kind: str, *, close: bool) -> None:
    builder = arrow_builder("meet")
    grouped = builder.stream("s", key="string", value="string").group_by_key()
    windowed = grouped.windowed_by(WINDOWED[kind]).emit_strategy(EmitStrategy(close))
    windowed.reduce(CONCATENATED).to_stream(key="key").to("out")
    rows: list[Row] = [
        ("s", "k", "one", 60, 1),
        ("s", "k", "two", 61, 0),
        ("s", "x", "x", 130, 1),
        ("s", "y", "y", 131, 0),
    ]
    found = [run(builder.build(), rows, cuts, shards, "out") for cuts in ((), (1,), (1, 2, 3)) for shards in (1, 3)]
    assert all(each == found[0] for each in found)
    assert ("one>two", 61) in found[0][0]


def test_a_key_of_two_partitions_has_one_entry_of_suppress_with_its_latest_change() -> None:
    """It waits by the time of the partition that began it. Each task of Kafka Streams has an entry of its own."""
    builder = arrow_builder("suppress")
    stream = builder.stream("s", key="string", value="string")
    wait = Suppressed.until_time_limit("10 ms", BufferConfig.unbounded())
    stream.to_table(store="kept").suppress(wait).to_stream().to("out")
    rows: list[Row] = [
        ("s", "k", "first", 60, 1),
        ("s", "k", "second", 61, 0),
        ("s", "y", "y", 90, 0),
        ("s", "x", "x", 91, 1),
    ]
    for cuts in [(), (1,), (2,), (3,), (1, 2, 3)]:
        (out,) = run(builder.build(), rows, cuts, 3, "out")
        assert out == [("second", 61)]
