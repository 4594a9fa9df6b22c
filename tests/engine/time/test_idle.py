"""Time that goes on while the input rests: when it does, how far, for whom, and what comes late for it."""

from __future__ import annotations

from typing import Any

import pytest

from proof.engine import EngineDriver
from tests.engine.joins.lagging import chain
from tests.engine.stream_kit import joined
from watersmeet.windows import JoinWindows

WINDOWS = JoinWindows.of_time_difference_and_grace("10 ms", "5 ms")
NOON = 1_700_000_000_000
IDLE = 60_000


def driver_of(how: str = "left", *, partitioned: bool = False, windows: JoinWindows = WINDOWS) -> EngineDriver:
    builder = joined(how, windows)
    return EngineDriver(builder.build(), shards=3, partitioned=partitioned, idle_after_ms=IDLE)


def batch(driver: EngineDriver, wall: int | None, *records: tuple[str, str, str, int], partition: int = 0) -> Any:
    """Values of a batch's results; `wall` in ms after noon."""
    for topic, key, value, ts in records:
        driver.pipe(topic, key, value, ts=ts, partition=partition)
    if wall is not None:
        driver.show_wall_clock(NOON + wall)
    driver.run_batch()
    return [(r.value, r.ts) for r in driver.read("out")]


def test_what_waits_is_let_go_when_the_input_has_rested_long_enough() -> None:
    driver = driver_of()
    assert batch(driver, 0, ("left", "k", "a", 100)) == []
    assert batch(driver, IDLE - 1) == []
    assert batch(driver, IDLE) == [("a+null", 100)]
    assert batch(driver, 2 * IDLE) == []


def test_time_goes_on_as_the_clock_does_and_not_further() -> None:
    driver = driver_of("left", windows=JoinWindows(10, 3 * IDLE, 0))
    assert batch(driver, 0, ("left", "k", "a", 100), ("left", "k", "b", 101)) == []
    assert batch(driver, 3 * IDLE - 1) == []
    # The last record told 101: "a" closes behind 100 + 3 minutes, "b" a millisecond later.
    assert batch(driver, 3 * IDLE) == [("a+null", 100)]
    assert batch(driver, 3 * IDLE + 1) == [("b+null", 101)]


def test_a_record_of_any_key_ends_the_rest() -> None:
    driver = driver_of()
    batch(driver, 0, ("left", "k", "a", 100))
    assert batch(driver, IDLE, ("right", "other", "x", 100)) == []
    assert batch(driver, 2 * IDLE - 1) == []
    assert batch(driver, 2 * IDLE) == [("a+null", 100)]


def test_a_batch_that_the_clock_does_not_show_in_counts_from_the_next_that_it_does() -> None:
    driver = driver_of()
    assert batch(driver, None, ("left", "k", "a", 100)) == []
    assert batch(driver, 7) == []
    assert batch(driver, IDLE + 6) == []
    assert batch(driver, IDLE + 7) == [("a+null", 100)]


def test_a_record_that_comes_after_the_rest_is_late() -> None:
    driver = driver_of()
    batch(driver, 0, ("left", "k", "a", 100))
    batch(driver, IDLE)
    # Without the rest it would wait for a partner until 120.
    assert batch(driver, None, ("left", "k", "late", 105)) == [("late+null", 105)]
    assert batch(driver, None, ("left", "k", "fine", 101 + IDLE)) == []


def test_without_the_option_time_waits_for_records() -> None:
    driver = EngineDriver(joined("left", WINDOWS).build())
    batch(driver, 0, ("left", "k", "a", 100))
    assert batch(driver, 10 * IDLE) == []


def test_a_partition_rests_by_itself() -> None:
    driver = driver_of(partitioned=True)
    batch(driver, 0, ("left", "k", "a", 100))
    batch(driver, 0, ("left", "q", "b", 100), partition=1)
    assert batch(driver, IDLE, ("right", "z", "x", 100), partition=1) == [("a+null", 100)]
    assert batch(driver, 2 * IDLE) == [("b+null", 100)]


@pytest.mark.parametrize("how", [("left", "left"), ("outer", "outer"), ("outer", "left")])
def test_down_a_chain_nothing_is_late_for_the_rest(how: tuple[str, str]) -> None:
    def said(*, rests: bool) -> list[tuple[Any, int]]:
        driver = EngineDriver(chain(how).build(), shards=3, idle_after_ms=IDLE)
        found = batch(driver, 0, ("left", "k", "a", 100), ("third", "k", "c", 97), ("left", "q", "b", 104))
        return found + (batch(driver, IDLE) if rests else batch(driver, None, ("third", "z", "far", 10 * IDLE)))

    assert len(said(rests=True)) >= 2
    assert said(rests=True) == said(rests=False)
