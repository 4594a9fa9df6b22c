"""What time lets go has headers: a window those of the record that changed it last, an unmatched row its own.

Each record has another value, which its header says, too: so a result itself says which headers it must have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from tests.engine.headers_kit import Told, one_header
from watersmeet.aggregates.user_defined import python
from watersmeet.windows import (
    CalendarWindows,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
)

WINDOWS: dict[str, Windows] = {
    "tumbling": TimeWindows(10, 10, 5),
    "hopping": TimeWindows(12, 4, 0),
    "sliding": SlidingWindows(8, 5),
    "session": SessionWindows(6, 3),
    "calendar": CalendarWindows("1 day", zone="Europe/Rome"),
}
DAY = 86_400_000
JOINS = {"unequal": JoinWindows(5, 9, 4), "narrow": JoinWindows(0, 3, 0)}
LAST = python(lambda before, value: value)


def told(value: str) -> list[dict[str, Any]]:
    return one_header("of", value)


def windowed(windows: Windows, *, on_close: bool = True) -> Callable[[Any], Any]:
    def made(stream: Any) -> Any:
        grouped = stream.group_by_key().windowed_by(windows)
        return (grouped.emit_strategy(EmitStrategy.on_window_close()) if on_close else grouped).reduce(LAST)

    return made


def topology(made: Callable[..., Any], *names: str, headers: bool = True) -> Any:
    builder = arrow_builder("held")
    streams = [builder.stream(name, key="string", value="string", headers=headers) for name in names]
    made(*streams).to_stream().to("out", name="out") if len(names) == 1 else made(*streams).to("out", name="out")
    return builder.build()


STEPS = st.lists(
    st.tuples(st.sampled_from("lr"), st.sampled_from("ab"), st.integers(0, 40), st.integers(0, 1)), max_size=40
)
CUTS = st.frozensets(st.integers(0, 40), max_size=6)


def results(made: Any, steps: Any, cuts: Any, *, scale: int = 1, **options: Any) -> list[Any]:
    """What is emitted, in the end all that waits."""
    driver = Told(made, **options)
    driver.told = lambda piped: told(piped.value)
    names = [source.input for source in made.plan.sources]
    partitions = range(2) if options.get("partitioned") else (0,)
    for number, (side, key, ts, partition) in enumerate(steps):
        if number in cuts:
            driver.run_batch()
        name = names["lr".index(side) % len(names)]
        driver.pipe(name, key, f"{number}", ts=ts * scale, partition=partition if len(partitions) > 1 else 0)
    for partition in partitions:
        for name in names:
            driver.pipe(name, "end", f"end-{name}", ts=1000 * scale, partition=partition)
    driver.run_batch()
    return [(r.key, r.value["value"], r.value["headers"], r.ts) for r in driver.read("out")]


@pytest.mark.parametrize("windows", WINDOWS)
@settings(max_examples=15, deadline=None)
@given(steps=STEPS, cuts=CUTS, shards=st.sampled_from([1, 3]), partitioned=st.booleans())
def test_a_window_that_closes_has_the_headers_of_the_record_that_changed_it_last(
    windows: str, steps: Any, cuts: Any, shards: int, partitioned: bool
) -> None:
    made = topology(windowed(WINDOWS[windows]), "s")
    scale = DAY // 8 if windows == "calendar" else 1
    found = results(made, steps, cuts, shards=shards, partitioned=partitioned, scale=scale)
    assert bool(found) == bool(steps)
    if windows != "sliding":
        assert [headers for _, _, headers, _ in found] == [told(value) for _, value, headers, _ in found]
    if partitioned:
        return
    # a sliding window that begins behind a late record is changed by it, and does not hold it
    changes = results(topology(windowed(WINDOWS[windows], on_close=False), "s"), steps, (), scale=scale)
    lasts = {str(key): (key, *rest) for key, *rest in changes if key["key"] != "end"}
    merged = {each for each, (_, value, *_) in lasts.items() if value is None}
    assert {str(key): (key, *rest) for key, *rest in found} == {e: last for e, last in lasts.items() if e not in merged}


@pytest.mark.parametrize("how", ["left_join", "outer_join"])
@pytest.mark.parametrize("windows", JOINS)
@settings(max_examples=15, deadline=None)
@given(steps=STEPS, cuts=CUTS, shards=st.sampled_from([1, 3]), partitioned=st.booleans())
def test_an_unmatched_row_has_its_own_headers_and_a_pair_those_of_its_later_record(
    how: str, windows: str, steps: Any, cuts: Any, shards: int, partitioned: bool
) -> None:
    made = topology(lambda left, right: getattr(left, how)(right, pair, JOINS[windows]), "l", "r")
    found = results(made, steps, cuts, shards=shards, partitioned=partitioned)
    for _, value, headers, _ in found:
        numbers = value.split("+")
        alone = [number for number in numbers if number != "none"]
        assert headers in ([told(alone[0])] if len(alone) == 1 else [told(each) for each in alone]), value
        if len(alone) == 2 and not partitioned and "end" not in value:
            assert headers == told(max(alone, key=int)), value


@pytest.mark.parametrize("how", ["left_join", "outer_join"])
def test_an_unmatched_row_of_a_join_of_a_stream_with_itself_has_its_own_headers(how: str) -> None:
    made = topology(lambda stream: getattr(stream, how)(stream, pair, JoinWindows(-5, 9, 0)).to_table(), "s")
    found = results(made, [("l", "a", 0, 0), ("l", "a", 7, 0), ("l", "b", 8, 0)], {2})
    alone = [(value, headers) for _, value, headers, _ in found if "none" in value and "end" not in value]
    assert alone == [(value, told(value.replace("+none", "").replace("none+", ""))) for value, _ in alone]
    assert len(alone) == (2 if how == "left_join" else 3), found


def pair(left: Any, right: Any) -> Any:
    return pc.binary_join_element_wise(pc.fill_null(left, "none"), pc.fill_null(right, "none"), "+")


def columns_of(made: Any) -> list[list[str]]:
    return [[name for name, _ in table.columns] for table in made.physical.operators[0].tables]


@pytest.mark.parametrize(
    "made",
    [windowed(WINDOWS["tumbling"]), windowed(WINDOWS["session"]), windowed(WINDOWS["calendar"])],
)
def test_windows_keep_headers_only_where_a_topic_does(made: Any) -> None:
    (kept,), (bare,) = (columns_of(topology(made, "s", headers=headers)) for headers in (True, False))
    assert kept == [*bare, "headers"]


def test_windows_that_send_each_change_keep_no_headers() -> None:
    made = topology(lambda s: s.group_by_key().windowed_by(WINDOWS["tumbling"]).reduce(LAST), "s")
    assert not any("headers" in columns for columns in columns_of(made))


def test_only_the_side_that_may_be_unmatched_keeps_headers() -> None:
    window = JOINS["narrow"]
    left = topology(lambda one, other: one.left_join(other, pair, window), "l", "r")
    inner = topology(lambda one, other: one.join(other, pair, window), "l", "r")
    assert ["headers" in columns for columns in columns_of(left)] == [True, False, False]
    assert not any("headers" in columns for columns in columns_of(inner))
