"""The seven processors of docs/processors.md, by the driver in its own process; the page shows them as they are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import watersmeet as wm
from examples import seven_processors as seven
from watersmeet.testing.driver import TopologyTestDriver

PAGE = Path(__file__).parents[2] / "docs" / "processors.md"
Row = tuple[str, Any, int]


def results(made: Callable[..., Any], rows: Sequence[Row], value: Any = "string", out: Any = None) -> list[Row]:
    """What comes of the records, read at once and one by one."""
    found = []
    for one_by_one in (False, True):
        builder = wm.StreamsBuilder("seven")
        stream = made(builder.stream("in", key="string", value=value))
        (stream.to_stream() if isinstance(stream, wm.KTable) else stream).to("out", **({} if out is None else out))
        driver = TopologyTestDriver(builder.build())
        assert driver.runs_in == "process"
        read: list[Any] = []
        for key, given, ts in rows:
            driver.pipe("in", key, given, ts=ts)
            read += driver.read("out") if one_by_one else []
        read += driver.read("out")
        found.append([(record.key, record.value, record.ts) for record in read])
    assert found[0] == found[1]
    return found[0]


def test_dedup_sends_an_order_again_when_ten_minutes_have_passed(spark: Any) -> None:
    minute = 60_000
    rows = [("ann", "o1", 0), ("ann", "o1", minute), ("bob", "o1", minute), ("ann", "o1", 10 * minute)]
    assert results(seven.dedup, rows) == [("ann", "o1", 0), ("bob", "o1", minute), ("ann", "o1", 10 * minute)]


def test_reorder_sends_readings_by_their_time_ten_seconds_later(spark: Any) -> None:
    rows = [
        ("s", "at 5", 5_000),
        ("s", "at 2", 2_000),
        ("s", "at 5 too", 5_000),
        ("s", "at 9", 9_000),
        ("t", "", 15_000),
    ]
    assert results(seven.reorder, rows) == [("s", "at 2", 2_000), ("s", "at 5", 5_000), ("s", "at 5 too", 5_000)]


def test_expire_deletes_a_row_an_hour_after_its_last_change(spark: Any) -> None:
    hour = 3_600_000
    rows = [("ann", "a", 0), ("bob", "b", 10), ("ann", "c", hour - 1), ("bob", "d", hour + 10), ("z", "z", 2 * hour)]
    assert results(seven.expire, rows) == [
        ("ann", "a", 0),
        ("bob", "b", 10),
        ("ann", "c", hour - 1),
        ("bob", None, hour + 10),
        ("bob", "d", hour + 10),
        ("ann", None, 2 * hour - 1),
        ("z", "z", 2 * hour),
    ]


def test_totals_come_every_ten_seconds_in_which_there_was_something_to_add(spark: Any) -> None:
    rows = [("a", 1, 0), ("a", 2, 9_999), ("b", 5, 9_999), ("a", 3, 10_000), ("b", 7, 45_000), ("c", 0, 60_000)]
    assert results(seven.totals, rows, "long") == [
        ("a", 3, 10_000),
        ("b", 5, 10_000),
        ("a", 6, 20_000),
        ("b", 12, 50_000),
    ]


def test_quiet_tells_who_says_nothing_for_a_minute_and_who_is_back(spark: Any) -> None:
    rows = [("m", "", 0), ("n", "", 30_000), ("m", "", 59_999), ("m", "", 119_998), ("n", "", 200_000)]
    assert results(seven.quiet, rows) == [("n", "quiet", 90_000), ("m", "quiet", 179_998), ("n", "back", 200_000)]


def test_limit_lets_three_requests_pass_in_a_second(spark: Any) -> None:
    rows = [("u", f"r{number}", ts) for number, ts in enumerate([0, 100, 200, 900, 1_000, 1_050, 1_100])]
    values = [value for _, value, _ in results(seven.limit, rows)]
    assert values == ["r0", "r1", "r2", "refused r3", "r4", "refused r5", "r6"]


def test_settle_joins_an_order_with_its_payments_in_whatever_order(spark: Any) -> None:
    def both(stream: wm.KStream) -> wm.KStream:
        orders = stream.filter(lambda value: value["kind"] == "order")
        return seven.settle(orders, stream.filter(lambda value: value["kind"] != "order"))

    given = [("1", "payment", 30), ("2", "order", 10), ("1", "order", 50), ("1", "payment", 25), ("2", "payment", 10)]
    rows = [(key, {"kind": kind, "amount": amount}, ts) for ts, (key, kind, amount) in enumerate(given)]
    found = results(both, rows, wm.json("kind string, amount long"))
    assert found == [("settled 1", 5, 3), ("settled 2", 0, 4)]


def test_the_page_shows_the_first_program_as_it_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert any(inspect.getsource(seven.Dedup).strip() in block for block in blocks)
