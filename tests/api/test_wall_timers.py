"""Timers of processors by the wall clock, as the test driver moves it."""

from __future__ import annotations

from typing import Any

import pytest

import watersmeet as wm
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver


class Tick:
    """Adds up, and sends the total each ten seconds of the wall clock while there is something to add."""

    def init(self, context: Any) -> None:
        self.total, self.due = context.get_store("total"), context.get_store("due")

    def process(self, record: Any, context: Any) -> None:
        self.total.put((self.total.get() or 0) + record.value)
        if self.due.get() is None:
            self.due.put(context.wall_clock + 10_000)
            context.set_timer(context.wall_clock + 10_000, clock="wall")

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self.due.delete()
        context.forward(value=f"{self.total.get()} at {timestamp}, {context.wall_clock}")


pytestmark = pytest.mark.usefixtures("spark")
STORES = [wm.ValueStore("total", "long"), wm.ValueStore("due", "long")]


def driver_of(processor: Any, *, wall: int = 0, stores: Any = STORES) -> TopologyTestDriver:
    builder = wm.StreamsBuilder("wall")
    builder.stream("in", key="string", value="long").process_values(processor, value="string", stores=stores).to("out")
    return TopologyTestDriver(builder.build(), initial_wall_clock_ms=wall)


def read(driver: TopologyTestDriver, case: str = "") -> list[tuple[Any, Any, int]]:
    return [(each.key, each.value, each.ts) for each in driver.read("out", case=case)]


def test_a_timer_of_the_wall_clock_fires_when_the_clock_is_moved_there_and_no_record_fires_it() -> None:
    driver = driver_of(Tick, wall=500)
    driver.pipe("in", "a", 3, ts=7)
    driver.pipe("in", "a", 4, ts=70_000)
    assert read(driver) == []
    driver.advance_wall_clock_time("9 seconds")
    assert read(driver) == []
    driver.advance_wall_clock_time("1 second")
    assert read(driver) == [("a", "7 at 10500, 10500", 10_500)]
    driver.advance_wall_clock_time("1 hour")
    assert read(driver) == []


def test_timers_that_one_reading_lets_go_fire_in_the_order_of_their_moments_then_of_their_keys() -> None:
    driver = driver_of(Tick)
    for key in ("b", "a"):
        driver.pipe("in", key, 1, ts=0)
    driver.read("out")
    driver.advance_wall_clock_time("3 seconds")
    driver.pipe("in", "0", 1, ts=0)
    driver.read("out")
    driver.advance_wall_clock_time("1 minute")
    assert read(driver) == [
        ("a", "1 at 10000, 63000", 10_000),
        ("b", "1 at 10000, 63000", 10_000),
        ("0", "1 at 13000, 63000", 13_000),
    ]


def test_each_case_of_a_driver_has_timers_of_its_own_and_one_that_comes_later_knows_the_time() -> None:
    driver = driver_of(Tick)
    driver.pipe("in", "a", 1, ts=0, case="one")
    driver.advance_wall_clock_time("6 seconds")
    driver.pipe("in", "a", 2, ts=0, case="other")
    driver.advance_wall_clock_time("6 seconds")
    assert read(driver, "one") == [("a", "1 at 10000, 12000", 10_000)]
    assert read(driver, "other") == []
    driver.advance_wall_clock_time("4 seconds")
    assert read(driver, "other") == [("a", "2 at 16000, 16000", 16_000)]


class Chain:
    """Sets the next timer in each, and one that has passed."""

    def process(self, record: Any, context: Any) -> None:
        context.set_timer(context.wall_clock + record.value, clock="wall")

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=str(timestamp))
        if timestamp < 40:
            context.set_timer(timestamp + 10, clock="wall")


def test_a_timer_that_a_timer_sets_fires_at_its_own_moment_and_one_that_has_passed_fires_at_once() -> None:
    driver = driver_of(Chain, stores=())
    driver.pipe("in", "a", 10, ts=0)
    driver.pipe("in", "b", 0, ts=0)
    assert read(driver) == [("b", "0", 0)]
    driver.advance_wall_clock_time("25 ms")
    assert [(key, value) for key, value, _ in read(driver)] == [("a", "10"), ("b", "10"), ("a", "20"), ("b", "20")]
    driver.advance_wall_clock_time("1 second")
    assert [(key, value) for key, value, _ in read(driver)] == [("a", "30"), ("b", "30"), ("a", "40"), ("b", "40")]


class Raises(Chain):
    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        raise ValueError("no")


def test_a_timer_of_the_wall_clock_that_raises_leaves_clock_and_timer_as_they_were() -> None:
    driver = driver_of(Raises, stores=())
    driver.pipe("in", "a", 10, ts=0)
    for _ in range(2):
        with pytest.raises(
            FunctionError,
            match=r"(?s)raises in on_wall_timer: ValueError: no.*; key '.*'.*Hint: Catch the exception in on_wall",
        ):
            driver.advance_wall_clock_time("10 ms")


class Asks:
    def process(self, record: Any, context: Any) -> None:
        context.forward(value=str(context.wall_clock))


class Sets(Asks):
    def process(self, record: Any, context: Any) -> None:
        context.set_timer(1, clock="wall")


class Odd(Chain):
    def process(self, record: Any, context: Any) -> None:
        context.set_timer(1, clock="moon")


@pytest.mark.parametrize(
    ("processor", "said"),
    [
        (Asks, "Asks asks for the wall clock, but has no method on_wall_timer"),
        (Sets, "Sets sets a timer for a time, but has no method on_wall_timer"),
        (Odd, "sets a timer for an unknown clock: clock='moon'"),
    ],
)
def test_who_goes_by_the_wall_clock_without_the_method_for_it_is_told_which_to_write(processor: Any, said: str) -> None:
    driver = driver_of(processor, stores=())
    driver.pipe("in", "a", 1, ts=0)
    with pytest.raises(FunctionError, match=said):
        driver.read("out")


def test_a_driver_that_would_run_on_spark_says_that_it_has_no_place_for_the_wall_clock(spark: Any) -> None:
    builder = wm.StreamsBuilder("wall")
    builder.stream("in", key="string", value="long").process_values(Chain, value="string").to("out")
    with pytest.raises(TopologyError, match="in this process"):
        TopologyTestDriver(builder.build(), spark)
