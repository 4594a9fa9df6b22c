"""The processors of docs/your_processor_here.md, by the driver in its own process; the page shows them as they are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import watersmeet as wm
from examples import processors_with_tables as programs
from watersmeet.testing.driver import TopologyTestDriver

PAGE = Path(__file__).parents[2] / "docs" / "your_processor_here.md"


def driver_of(builder: wm.StreamsBuilder) -> TopologyTestDriver:
    driver = TopologyTestDriver(builder.build())
    assert driver.runs_in == "process"
    return driver


def read(driver: TopologyTestDriver, out: str) -> list[tuple[Any, Any, int]]:
    return [(record.key, record.value, record.ts) for record in driver.read(out)]


def test_two_streams_take_from_one_stock_and_put_into_it(spark: Any) -> None:
    builder = wm.StreamsBuilder("warehouse")
    orders, deliveries = (builder.stream(name, key="string", value="long") for name in ("orders", "deliveries"))
    answers, levels = programs.warehouse(orders, deliveries)
    answers.to("answers")
    levels.to("levels")
    driver = driver_of(builder)
    for name, key, value in (
        ("orders", "tea", 1),
        ("deliveries", "tea", 3),
        ("orders", "tea", 2),
        ("orders", "cup", 1),
        ("orders", "tea", 2),
        ("deliveries", "tea", 4),
    ):
        driver.pipe(name, key, value, ts=0)
    assert [value for _, value, _ in read(driver, "answers")] == ["sold out", "reserved", "sold out", "sold out"]
    assert [value for _, value, _ in read(driver, "levels")] == [3, 5]
    assert driver.get_store("stock").get("tea") == 5


def test_a_reminder_has_the_city_and_the_offer_of_when_it_is_sent(spark: Any) -> None:
    builder = wm.StreamsBuilder("reminders")
    carts = builder.stream("carts", key="string", value="string")
    customers = builder.table("customers", key="string", value="string", store="cities")
    offers = builder.global_table("offers", key="string", value="string", store="offers")
    programs.reminders(carts, customers, offers).to("reminders")
    driver = driver_of(builder)
    hour = programs.Remind.WAIT
    for name, key, value, ts in (
        ("offers", "rome", "tea at half price", 0),
        ("customers", "ann", "oslo", 0),
        ("carts", "ann", "tea", 1),
        ("carts", "bob", "tea", 2),
        ("customers", "ann", "rome", 3),
        ("customers", "cyd", "oslo", 3),
        ("carts", "cyd", "cup", 4),
        ("carts", "zed", "", 2 * hour),
    ):
        driver.pipe(name, key, value, ts=ts)
    assert read(driver, "reminders") == [
        ("ann", "ann in rome: tea at half price", 1 + hour),
        ("cyd", "cyd in oslo: come back", 4 + hour),
    ]
    assert driver.get_store("cities").get("ann") == "rome"
    assert driver.get_store("offers").get("rome") == "tea at half price"


def test_a_report_comes_ten_seconds_behind_the_first_click(spark: Any) -> None:
    builder = wm.StreamsBuilder("report")
    programs.report(builder.stream("clicks", key="string", value="string")).to("counts")
    driver = driver_of(builder)
    for key in ("a", "a", "b"):
        driver.pipe("clicks", key, "", ts=0)
    driver.advance_wall_clock_time("9 seconds")
    assert read(driver, "counts") == []
    driver.advance_wall_clock_time("1 second")
    assert [(key, value) for key, value, _ in read(driver, "counts")] == [("a", 2), ("b", 1)]


def test_running_totals_go_on_from_batch_to_batch(spark: Any) -> None:
    found = []
    for one_by_one in (False, True):
        builder = wm.StreamsBuilder("totals")
        programs.running_totals(builder.stream("payments", key="string", value="long")).to("totals")
        driver, seen = driver_of(builder), []
        for key, amount in (("a", 5), ("b", 1), ("a", -2), ("b", 7), ("a", 4)):
            driver.pipe("payments", key, amount, ts=0)
            seen += read(driver, "totals") if one_by_one else []
        found.append([(key, value) for key, value, _ in seen + read(driver, "totals")])
    assert found[0] == found[1] == [("a", 5), ("b", 1), ("a", 3), ("b", 8), ("a", 7)]


def test_the_page_shows_the_programs_as_they_are() -> None:
    shown = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    for made in (programs.Reserve, programs.Supply, programs.warehouse):
        assert inspect.getsource(made).strip() in shown, made.__name__
    named = set(re.findall(r"`(\w+)` of", PAGE.read_text(encoding="utf-8")))
    assert {each.__name__ for each in (programs.Remind, programs.Report, programs.RunningTotals)} <= named
