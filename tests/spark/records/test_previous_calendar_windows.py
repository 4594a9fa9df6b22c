"""`wm.previous` of windows by the calendar: so many periods earlier, over hours that clocks skip or repeat."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet._engine.windowing import Calendar
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
BERLIN = ZoneInfo("Europe/Berlin")


def at(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(datetime(year, month, day, hour, tzinfo=BERLIN).timestamp() * 1000)


def compared(period: Any, count: int) -> wm.Topology:
    builder = wm.StreamsBuilder("calendar")
    windows = wm.CalendarWindows(period, zone="Europe/Berlin", grace="40 days")
    sums = (
        builder.stream("in", key="string", value="long").group_by_key().windowed_by(windows).reduce(lambda a, b: a + b)
    )
    change = lambda now, before: now - before  # noqa: E731
    sums.left_join(sums, change, shift=wm.previous(count), keep="100 days").to_stream().to("out")
    return builder.build()


def fed(driver: TopologyTestDriver, *records: tuple[int, int]) -> list[tuple[int, int | None]]:
    for ts, value in records:
        driver.pipe("in", "k", value, ts=ts)
    return [(r.key["start"], r.value) for r in driver.read("out")]


def test_a_day_of_23_hours_has_the_day_before_and_the_day_after_it_has_that_one() -> None:
    days = [at(2024, 3, day) for day in (30, 31)] + [at(2024, 4, 1)]
    found = fed(TopologyTestDriver(compared("1 day", 1)), (days[0], 1), (days[1] + 5, 10), (days[2] + 5, 100))
    assert found == [(days[0], None), (days[1], 9), (days[2], 90)]
    assert days[2] - days[1] == 23 * 3_600_000


def test_a_late_change_of_a_window_is_seen_by_the_one_that_looks_back_to_it(spark: SparkSession) -> None:
    months = [at(2024, month, 1) for month in (1, 2, 3)]
    records = ((months[0], 1), (months[2] + 7, 100), (months[1] + 3, 10), (months[0] + 3, 5))
    expected = [
        (months[0], None),
        (months[2], None),
        (months[1], 9),
        (months[2], 90),
        (months[0], None),
        (months[1], 4),
    ]
    driver = TopologyTestDriver(compared("1 month", 1))
    assert fed(driver, *records) == expected
    assert driver.runs_in == "process", driver.why_spark
    with TopologyTestDriver(compared("1 month", 1), spark) as on_spark:
        assert fed(on_spark, *records) == expected


def test_nothing_lies_before_the_window_that_1970_begins_in() -> None:
    assert fed(TopologyTestDriver(compared("1 week", 2)), (5, 1), (8 * 86_400_000, 2)) == [
        (0, None),
        (345_600_000 - 3_600_000, None),
    ]


@pytest.mark.parametrize("period", ["1 day", "1 week", "1 month"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Apia", "America/Sao_Paulo", "UTC"])
def test_so_many_windows_earlier_is_so_many_steps_back_in_the_row_of_windows(period: str, zone: str) -> None:
    dice = random.Random(f"{period}/{zone}")
    calendar = Calendar(wm.CalendarWindows(period, zone=zone, offset=f"{dice.randrange(20)} hours"))
    for _ in range(20):
        ts, row = dice.randrange(2**41), list[tuple[int, int]]()
        start, end = (int(each[0]) for each in calendar.around(np.array([ts])))
        for _ in range(6):
            row.append((start, end))
            start, end = (int(each[0]) for each in calendar.around(np.array([end])))
        for count in range(1, 6):
            assert calendar.earlier(row[count][0], count) == row[0]
