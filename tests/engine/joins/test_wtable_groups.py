"""Tables by key and window, grouped: what a window had before is taken out of its group (table_aggregate.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.engine.kit import LIBRARY, Said, Step, by_step, driver_of
from watersmeet.aggregates.user_defined import python
from watersmeet.windows import BufferConfig, EmitStrategy, SessionWindows, SlidingWindows, Suppressed, TimeWindows

TENS = TimeWindows(10, 10, 1_000)
UNCHANGED: Callable[[Any], Any] = lambda table: table  # noqa: E731
PLUS, MINUS = python(lambda value, total: f"{total}+{value}"), python(lambda value, total: f"{total}-{value}")


def counted(builder: Any, windows: Any, *, on_close: bool = False) -> Any:
    """How many records each key has in each window."""
    grouped = builder.stream("in", key="string", value="string").group_by_key().windowed_by(windows)
    return grouped.emit_strategy(EmitStrategy(on_close)).count()


def by_start(table: Any) -> Any:
    """The counts of each window's start, put in one text: `0+1-1+2` where a count of 1 became one of 2."""
    grouped = table.group_by(lambda key, count: (pc.cast(pc.struct_field(key, "start"), pa.string()), count))
    return grouped.aggregate(lambda: pa.scalar("0"), PLUS, MINUS)


def said(windows: Any, *steps: Step, between: Any = UNCHANGED, on_close: bool = False) -> list[Said]:
    """What each step gives; in one batch, in one for each, and on other shards alike."""

    def build(builder: Any) -> Any:
        return by_start(between(counted(builder, windows, on_close=on_close)))

    whole = by_step(driver_of(build), steps)
    assert by_step(driver_of(build, shards=1), steps) == whole
    assert by_step(driver_of(build, shards=5), steps, cuts=set(range(len(steps)))) == whole
    return whole


def test_a_window_that_changes_leaves_its_group_before_it_comes_into_one() -> None:
    steps = [("in", "a", "x", 1), ("in", "a", "x", 2), ("in", "b", "x", 12), ("in", "b", "x", 3)]
    assert said(TENS, *steps) == [
        [("0", "0+1", 1)],
        [("0", "0+1-1+2", 2)],
        [("10", "0+1", 12)],
        [("0", "0+1-1+2+1", 3)],
    ]


def test_a_session_that_becomes_part_of_a_longer_one_leaves_its_group() -> None:
    steps = [("in", "a", "x", 1), ("in", "a", "x", 9), ("in", "a", "x", 5)]
    assert said(SessionWindows(4, 1_000), *steps) == [
        [("1", "0+1", 1)],
        [("9", "0+1", 9)],
        [("1", "0+1-1", 1), ("9", "0+1-1", 9), ("1", "0+1-1+3", 9)],
    ]


def test_sliding_windows_that_overlap_each_count_in_their_own_group() -> None:
    steps = [("in", "a", "x", 10), ("in", "a", "x", 12)]
    assert said(SlidingWindows(5, 1_000), *steps) == [
        [("5", "0+1", 10)],
        [("11", "0+1", 12), ("7", "0+2", 12)],
    ]


def test_what_emits_on_close_comes_once_and_takes_nothing_back() -> None:
    steps = [("in", "a", "x", 1), ("in", "a", "x", 2), ("in", "b", "x", 3), ("in", "c", "x", 20)]
    expected = [[], [], [], [("0", "0+2", 2), ("0", "0+2+1", 3)]]
    assert said(TimeWindows(10, 10, 0), *steps, on_close=True) == expected

    def final(table: Any) -> Any:
        return table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))

    assert said(TimeWindows(10, 10, 0), *steps, between=final) == expected


def test_a_window_that_a_filter_no_longer_holds_for_leaves_its_group() -> None:
    odd = LIBRARY.lift(lambda count: count % 2 == 1, "boolean")
    steps = [("in", "a", "x", 1), ("in", "a", "x", 2), ("in", "a", "x", 3)]
    assert said(TENS, *steps, between=lambda table: table.filter(odd)) == [
        [("0", "0+1", 1)],
        [("0", "0+1-1", 2)],
        [("0", "0+1-1+3", 3)],
    ]
