"""Windows by the calendar and keys as text, in the test driver's own process and on Spark: the same."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

BERLIN = ZoneInfo("Europe/Berlin")


def ms(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=BERLIN).timestamp() * 1_000)


START, END = ms(2026, 3, 28, 18), ms(2026, 3, 29, 18)


def topology() -> wm.Topology:
    builder = wm.StreamsBuilder("evenings")
    evenings = wm.CalendarWindows("1 day", zone="Europe/Berlin", offset="18 hours")
    clicks = builder.stream("clicks", key="string", value="string").group_by_key().windowed_by(evenings)
    counts = clicks.emit_strategy(wm.EmitStrategy.on_window_close()).count(store="counts")
    counts.to_stream(key=wm.window_text).to("texts")
    counts.to_stream().map(lambda key, n: (wm.window_text(key), n)).to("again")
    table = builder.table("table", key="string", value="string")
    table.to_stream(key=lambda key, value: F.concat(key, F.coalesce(value, F.lit("none")))).to("keyed")
    return builder.build()


def check(driver: TopologyTestDriver) -> None:
    for ts in (START, ms(2026, 3, 29, 3), END - 1, END):
        driver.pipe("clicks", "ann", "page", ts=ts)
    for value in ("x", None):
        driver.pipe("table", "k", value, ts=END)
    expected = [(f"[ann@{START}/{END}]", 3, END - 1)]
    for output in ("texts", "again"):
        assert [(record.key, record.value, record.ts) for record in driver.read(output)] == expected
    assert [(record.key, record.value) for record in driver.read("keyed")] == [("kx", "x"), ("knone", None)]


@pytest.mark.usefixtures("spark")
def test_the_driver_runs_calendar_windows_in_its_own_process() -> None:
    with TopologyTestDriver(topology()) as driver:
        assert driver.runs_in == "process"
        check(driver)
        store = driver.get_store("counts")
        assert [value for _, value in store.all()] == [3, 1]
        assert [value for _, value in store.fetch("ann", START, START)] == [3]


def test_spark_gives_the_same(spark: SparkSession) -> None:
    with TopologyTestDriver(topology(), spark) as driver:
        check(driver)


def test_the_text_of_no_column_is_refused() -> None:
    with pytest.raises(wm.FunctionError, match="window_text takes a Column, and not 'ann'"):
        wm.window_text("ann")
