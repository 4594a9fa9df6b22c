"""Tables by key and window: how they are converted, what is refused, and each of their joins step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.engine.kit import LIBRARY, PLUS, Said, Step, by_step, driver_of, run
from watersmeet.aggregates.user_defined import python
from watersmeet.errors import FunctionError, TopologyError, WatersmeetError
from watersmeet.windows import BufferConfig, JoinWindows, SessionWindows, Suppressed, TimeWindows, previous

DAY = 86_400_000
TENS = TimeWindows(10, 10, 1_000_000)
HELD = BufferConfig.unbounded()
WINDOW = pa.struct([("start", pa.int64()), ("end", pa.int64())])
LAST = python(lambda _, value: value)


def wtable(builder: Any, name: str, windows: Any = TENS) -> Any:
    """The last value of each key and window of a stream."""
    return builder.stream(name, key="string", value="string").group_by_key().windowed_by(windows).reduce(LAST)


def table(builder: Any, name: str) -> Any:
    """A table by key."""
    return builder.table(name, key="string", value="string")


def named(values: pa.Array) -> pa.Array:
    """The window of ten whose start a value names before its bar; none where it names none."""
    starts = [text.partition("|")[0] for text in values.to_pylist()]
    found = [{"start": int(s), "end": int(s) + 10} if s.isdigit() else None for s in starts]
    return pa.array(found, WINDOW)


def at(start: int, value: str | None, ts: int, end: int | None = None) -> tuple[Any, Any, int]:
    """A result of the key k."""
    return {"key": "k", "start": start, "end": start + 10 if end is None else end}, value, ts


def said(build: Callable[[Any], Any], *steps: Step) -> list[Said]:
    """What each step gives; in one batch, in one for each, and on other shards alike."""
    whole = by_step(driver_of(build), steps)
    assert by_step(driver_of(build, shards=1), steps) == whole
    assert by_step(driver_of(build, shards=5), steps, cuts=set(range(len(steps)))) == whole
    return whole


# -- the table itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, {"key": "k", "start": 20, "end": 30}),
        ("start", {"key": "k", "start": 20}),
        ("key", "k"),
        (lambda key, window: pc.struct_field(window, "end"), 30),
    ],
    ids=["as it is", "key and start", "key", "function"],
)
def test_a_table_by_window_is_converted_before_it_is_written(key: Any, expected: Any) -> None:
    driver = driver_of(lambda b: wtable(b, "in").map_values(LIBRARY.lift(str.upper, "string")).to_stream(key=key))
    assert run(driver, ("in", "k", "a", 25)) == [(expected, "A", 25)]


def test_a_table_by_window_is_not_written_as_it_is() -> None:
    windows = wtable(arrow_builder("test"), "in")
    with pytest.raises(TopologyError, match="cannot be written directly") as error:
        windows.to("out")
    assert "to_stream(" in str(error.value.hint)
    windows.to_stream().to("out")
    with pytest.raises(TopologyError, match="Unknown key=") as error:
        windows.to_stream(key="window")
    assert '"start"' in str(error.value.hint)


def test_a_table_by_window_stays_one_behind_its_operators() -> None:
    builder = arrow_builder("test")
    windows, rows = wtable(builder, "in"), table(builder, "t")
    after_b = LIBRARY.lift(lambda value: value > "b", "boolean")
    final = windows.suppress(Suppressed.until_window_closes(HELD))
    for each in (windows.filter(after_b), windows.filter_not(after_b), final):
        assert type(each).__name__ == "WTable"
    for each in (windows.join(rows, PLUS), windows.outer_join(windows, PLUS)):
        assert type(each).__name__ == "WTable"
    assert type(rows.join(windows, PLUS, window_of=named, keep="1 day")).__name__ == "KTable"


# -- joins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["join", "left_join"])
def test_a_stream_record_meets_the_window_it_names_as_it_is_now(how: str) -> None:
    def build(b: Any) -> Any:
        stream = b.stream("left", key="string", value="string")
        return getattr(stream, how)(wtable(b, "right"), PLUS, window_of=named, keep="1 day")

    steps = [
        ("right", "k", "w", 25),
        ("left", "k", "20|a", 3),
        ("left", "k", "50|a", 51),
        ("left", "k", None, 52),
        ("left", "k", "x", 53),
        ("left", None, "20|a", 54),
    ]
    outer = how == "left_join"
    assert said(build, *steps) == [
        [],
        [("k", "20|a+w", 3)],
        [("k", "50|a+null", 51)] if outer else [],
        [],
        [("k", "x+null", 53)] if outer else [],
        [(None, "20|a+null", 54)] if outer else [],
    ]


def test_a_table_row_meets_the_window_it_points_at() -> None:
    def build(b: Any) -> Any:
        return table(b, "left").join(wtable(b, "right"), PLUS, window_of=named, keep="1 day", store="joined")

    steps = [
        ("right", "k", "w", 25),
        ("left", "k", "20|a", 3),
        ("right", "k", "v", 35),
        ("right", "k", "x", 26),
        ("left", "k", "30|b", 4),
        ("left", "k", "40|c", 5),
        ("left", "k", None, 6),
    ]
    expected = [[], [("k", "20|a+w", 25)], [], [("k", "20|a+x", 26)], [("k", "30|b+v", 35)], [("k", None, 35)], []]
    assert said(build, *steps) == expected


def test_a_row_change_meets_every_live_window_of_its_key_in_order() -> None:
    steps = [
        *(("left", "k", f"w{ts}", ts) for ts in (35, 5, 25)),
        ("left", "other", "o", 5),
        ("right", "k", "r", 30),
        ("left", "k", "x", 26),
        ("right", "k", None, 40),
    ]
    assert said(lambda b: wtable(b, "left").join(table(b, "right"), PLUS), *steps)[4:] == [
        [at(0, "w5+r", 30), at(20, "w25+r", 30), at(30, "w35+r", 35)],
        [at(20, "x+r", 30)],
        [at(0, None, 40), at(20, None, 40), at(30, None, 40)],
    ]


def test_equal_windows_meet() -> None:
    steps = [("left", "k", "a", 5), ("right", "k", "b", 15), ("right", "k", "c", 7)]
    found = said(lambda b: wtable(b, "left").outer_join(wtable(b, "right"), PLUS), *steps)
    assert found == [[at(0, "a+null", 5)], [at(10, "null+b", 15)], [at(0, "a+c", 7)]]


def test_a_table_meets_its_own_windows_of_before() -> None:
    def build(b: Any) -> Any:
        windows = wtable(b, "in")
        return windows.left_join(windows, PLUS, shift=previous(2))

    steps = [("in", "k", "a", 5), ("in", "k", "b", 25), ("in", "k", "c", 45), ("in", "k", "d", 26)]
    assert said(build, *steps) == [
        [at(0, "a+null", 5)],
        [at(20, "b+a", 25)],
        [at(40, "c+b", 45)],
        [at(20, "d+a", 26), at(40, "c+d", 45)],
    ]


def test_a_function_as_shift_may_send_many_windows_to_one() -> None:
    def first(window: pa.Array) -> pa.Array:
        return pa.array([{"start": 0, "end": 10}] * len(window), WINDOW)

    def build(b: Any) -> Any:
        return wtable(b, "left").join(wtable(b, "right"), PLUS, shift=first, keep="1 day")

    steps = [("left", "k", "a", 5), ("left", "k", "b", 35), ("left", "k", "c", 15), ("right", "k", "r", 3)]
    assert said(build, *steps)[3] == [at(0, "a+r", 5), at(10, "c+r", 15), at(30, "b+r", 35)]


def test_a_merged_session_takes_its_results_with_it() -> None:
    def build(b: Any) -> Any:
        return wtable(b, "left", SessionWindows(10, 100)).join(table(b, "right"), PLUS)

    steps = [("right", "k", "r", 0), ("left", "k", "a", 10), ("left", "k", "b", 30), ("left", "k", "c", 20)]
    assert said(build, *steps) == [
        [],
        [at(10, "a+r", 10, end=10)],
        [at(30, "b+r", 30, end=30)],
        [at(10, None, 10, end=10), at(30, None, 30, end=30), at(10, "c+r", 30, end=30)],
    ]


def test_a_window_that_is_no_longer_kept_joins_no_more_and_sends_nothing() -> None:
    def build(b: Any) -> Any:
        return wtable(b, "left", TimeWindows(10, 10, 0)).left_join(table(b, "right"), PLUS, keep="20 ms")

    steps = [("left", "k", "a", 5), ("right", "k", "r", 30), ("right", "k", "s", 31), ("right", "k", None, 32)]
    assert said(build, *steps) == [[at(0, "a+null", 5)], [at(0, "a+r", 30)], [], []]


def test_behind_suppress_a_window_is_kept_from_its_emission_on() -> None:
    def build(b: Any) -> Any:
        left = wtable(b, "left", TimeWindows(10, 10, 5)).suppress(Suppressed.until_window_closes(HELD))
        return left.left_join(table(b, "right"), PLUS, keep="20 ms")

    steps = [("left", "k", "a", 5), ("left", "x", None, 15), ("right", "k", "r", 35), ("right", "k", "s", 36)]
    assert said(build, *steps) == [[], [], [at(0, "a+null", 5), at(0, "a+r", 35)], []]


def test_a_filter_behind_a_join_of_windows_knows_what_stood() -> None:
    def build(b: Any) -> Any:
        joined = wtable(b, "left").left_join(table(b, "right"), PLUS)
        return joined.filter(LIBRARY.lift(lambda value: value.endswith("1"), "boolean"))

    steps = [("left", "k", "a", 5), ("right", "k", "1", 6), ("right", "k", "2", 7), ("right", "k", "3", 8)]
    assert said(build, *steps) == [[], [at(0, "a+1", 6)], [at(0, None, 7)], []]


# -- errors --------------------------------------------------------------------------------------------------------

Act = Callable[[Any, Any, Any, Any], Any]


def sides() -> tuple[Any, Any, Any, Any]:
    """A builder, tables of two kinds of windows, and one by key."""
    builder = arrow_builder("test")
    return builder, wtable(builder, "left"), wtable(builder, "right", SessionWindows(5, 0)), table(builder, "table")


def nothing(window: pa.Array) -> pa.Array:
    """A shift that must return a window."""
    return pa.nulls(len(window), WINDOW)


MISTAKES: list[tuple[Act, str, str, Act]] = [
    (
        lambda b, one, other, t: one.join(one, PLUS, shift=nothing),
        "A function as shift needs keep=",
        "keep=",
        lambda b, one, other, t: one.join(one, PLUS, shift=nothing, keep="14 days"),
    ),
    (
        lambda b, one, other, t: t.join(one, PLUS, window_of=named),
        "needs the time for which windows are wanted: keep=None",
        "keep=",
        lambda b, one, other, t: t.join(one, PLUS, window_of=named, keep="14 days"),
    ),
    (
        lambda b, one, other, t: t.to_stream().left_join(one, PLUS),
        "needs a function that names the window: window_of=None",
        "window_of=",
        lambda b, one, other, t: t.to_stream().left_join(one, PLUS, window_of=named, keep="2 days"),
    ),
    (
        lambda b, one, other, t: one.join(other, PLUS),
        "different windows join only with shift=",
        "shift=",
        lambda b, one, other, t: one.join(other, PLUS, shift=nothing, keep="1 day"),
    ),
    (
        lambda b, one, other, t: other.join(other, PLUS, shift=previous(1)),
        "Only tumbling, hopping and calendar windows have previous ones",
        "Give a function",
        lambda b, one, other, t: other.join(other, PLUS, shift=nothing, keep="1 day"),
    ),
    (
        lambda b, one, other, t: one.outer_join(t, PLUS),
        "the table 'table' has no outer form",
        "left_join(table, joiner)",
        lambda b, one, other, t: one.left_join(t, PLUS),
    ),
    (
        lambda b, one, other, t: one.join(t.to_stream(), PLUS),
        "joins with a table",
        "stream.to_table()",
        lambda b, one, other, t: one.join(t.to_stream().to_table(), PLUS),
    ),
    (
        lambda b, one, other, t: t.join(t, PLUS, window_of=named),
        "takes no window_of: window_of=",
        "Leave window_of= out: it belongs to a join with a table by key and window",
        lambda b, one, other, t: t.join(t, PLUS),
    ),
    (
        lambda b, one, other, t: one.join(b.table("n", key="long", value="string"), PLUS),
        "different key types",
        "stream.select_key",
        lambda b, one, other, t: one.join(t, PLUS),
    ),
]


@pytest.mark.parametrize(("mistake", "what", "hint", "followed"), MISTAKES, ids=[each[1] for each in MISTAKES])
def test_what_cannot_be_joined_is_refused_when_it_is_written_down(
    mistake: Act, what: str, hint: str, followed: Act
) -> None:
    with pytest.raises(WatersmeetError, match=what) as error:
        mistake(*sides())
    assert hint in str(error.value.hint)
    followed(*sides())


def test_a_function_that_gives_no_window_is_refused() -> None:
    _, one, _, rows = sides()
    with pytest.raises(TopologyError, match="must return a window"):
        rows.join(one, PLUS, window_of=lambda value: value, keep="1 day")
    with pytest.raises(FunctionError, match="takes 0 arguments"):
        rows.join(one, PLUS, window_of=lambda: named, keep="1 day")
    with pytest.raises(TopologyError, match="count must be at least 1"):
        previous(0)


def test_what_belongs_to_a_join_with_another_right_side_is_refused() -> None:
    builder, one, _, rows = sides()
    stream, windows = rows.to_stream(), JoinWindows.of_time_difference_with_no_grace("5 ms")
    whole = builder.global_table("global", key="string", value="string")
    joins: dict[str, Callable[[], object]] = {
        "windows=": lambda: stream.join(one, PLUS, windows, window_of=named, keep="1 day"),
        "key=": lambda: stream.left_join(one, PLUS, key=lambda value: value, window_of=named, keep="1 day"),
        "generation='old'": lambda: stream.join(rows, PLUS, generation="old"),
        "windows=Join": lambda: stream.join(whole, PLUS, windows, key=lambda value: value),
    }
    for said, join in joins.items():
        with pytest.raises(TopologyError, match=r"takes no (windows|key|generation): ") as error:
            join()
        assert said in str(error.value)


def test_an_outer_join_takes_no_shift() -> None:
    _, one, _, _ = sides()
    with pytest.raises(TopologyError, match="An outer join takes no shift") as error:
        one.outer_join(one, PLUS, shift=previous(1))
    assert "left_join" in str(error.value.hint)


# -- state ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filtered", [False, True])
def test_the_state_of_a_year_of_daily_windows_stays_that_of_the_weeks_that_are_kept(filtered: bool) -> None:
    builder = arrow_builder("year")
    daily = wtable(builder, "views", TimeWindows(DAY, DAY, 0))
    joined = daily.left_join(daily, PLUS, shift=previous(7), keep="14 days")
    if filtered:
        joined = joined.filter(LIBRARY.lift(lambda value: value != "none", "boolean"))
    joined.to_stream().to("out")
    driver = EngineDriver(builder.build(), shards=1)
    sizes = []
    for day in range(365):
        for page in range(3):
            driver.pipe("views", f"page {page}", f"{day:03}", ts=day * DAY + page)
        driver.run_batch()
        assert len(driver.read("out")) == 3
        sizes.append(sum(len(blob) for store in driver.stores.values() for blob in store.chunks.values()))
    assert max(sizes[60:]) <= 1.2 * max(sizes[30:60])
