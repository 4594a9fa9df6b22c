"""WTables: each join of section 20 step by step, what liveness lets through, and the laws that join them to
tables."""

from __future__ import annotations

import random

import pytest

from proof.oracle import Record, Result, Semantics, Topology, Windowed
from proof.oracle.functions import plus
from proof.oracle.graph import MapRecord, Node
from proof.oracle.records import Key, Value
from proof.oracle.tables.table import Table, TableSource
from proof.oracle.windows.aggregation import AGGREGATORS, Aggregator
from proof.oracle.windows.window_time import TimeWindowAggregate, TimeWindows
from proof.oracle.windows.windowed import Emission
from proof.oracle.windows.wtable import DAY_MS, Window, WindowedSide, previous
from proof.oracle.windows.wtable_joins import (
    StreamWTableJoin,
    TableWTableJoin,
    WTableTableJoin,
    WTableWTableJoin,
    to_stream_by_key,
)

SIZE = 10
LATEST = Aggregator(lambda: "", lambda _, value: value)


def stream(topology: Topology, topic: str) -> Node:
    node = Node()
    topology.source(topic, node)
    return node


def table(topology: Topology, topic: str) -> Table:
    node = TableSource(topology)
    topology.source(topic, node)
    return node


def wtable(topology: Topology, topic: str, keep_ms: int = DAY_MS, aggregator: Aggregator = LATEST) -> WindowedSide:
    """Tumbling windows of 10 over a topic, with a grace that lets nothing be late."""
    spec = TimeWindows(SIZE, SIZE, 1_000_000)
    aggregate = TimeWindowAggregate(topology, stream(topology, topic), aggregator, spec, Emission())
    return WindowedSide(aggregate, wait_ms=0, keep_ms=keep_ms)


def named(_: Key, value: Value) -> Window | None:
    """The window whose start the value names before its bar."""
    start, bar, _rest = value.partition("|")
    return Window(int(start), int(start) + SIZE) if bar else None


def at(start: int, value: str | None, ts: int, key: str = "k") -> Result:
    return Result(Windowed(key, start, start + SIZE), value, ts)


@pytest.mark.parametrize(("how", "unmatched"), [("inner", []), ("left", [Result("k", "50|a+null", 51)])])
def test_a_stream_record_meets_the_window_it_names_as_it_is_now(how: str, unmatched: list[Result]) -> None:
    topology = Topology(Semantics())
    left, right = stream(topology, "left"), wtable(topology, "right")
    topology.sink(StreamWTableJoin(topology, left, right, how, named, plus))
    assert topology.pipe("right", "k", "w", 25) == []
    assert topology.pipe("left", "k", "20|a", 3) == [Result("k", "20|a+w", 3)]
    assert topology.pipe("left", "k", "50|a", 51) == unmatched
    assert topology.pipe("left", "k", None, 52) == []
    named_none = [Result("k", "x+null", 53)] if how == "left" else []
    assert topology.pipe("left", "k", "x", 53) == named_none
    null_key = [Result(None, "20|a+null", 54)] if how == "left" else []
    assert topology.pipe("left", None, "20|a", 54) == null_key


def test_a_table_row_that_points_elsewhere_takes_the_other_windows_value() -> None:
    topology = Topology(Semantics())
    left, right = table(topology, "left"), wtable(topology, "right")
    topology.sink(TableWTableJoin(topology, left, right, "inner", named, plus))
    assert topology.pipe("right", "k", "w", 25) == []
    assert topology.pipe("left", "k", "20|a", 3) == [Result("k", "20|a+w", 25)]
    assert topology.pipe("right", "k", "v", 35) == []
    assert topology.pipe("right", "k", "x", 26) == [Result("k", "20|a+x", 26)]
    assert topology.pipe("left", "k", "30|b", 4) == [Result("k", "30|b+v", 35)]
    assert topology.pipe("left", "k", "40|c", 5) == [Result("k", None, 35)]
    assert topology.pipe("left", "k", None, 6) == []


def test_a_left_joined_table_row_stands_without_its_window() -> None:
    topology = Topology(Semantics())
    left, right = table(topology, "left"), wtable(topology, "right")
    topology.sink(TableWTableJoin(topology, left, right, "left", named, plus))
    assert topology.pipe("left", "k", "20|a", 3) == [Result("k", "20|a+null", 3)]
    assert topology.pipe("right", "k", "w", 25) == [Result("k", "20|a+w", 25)]
    assert topology.pipe("left", "k", None, 30) == [Result("k", None, 30)]
    assert topology.pipe("left", "k", None, 31) == []


def test_a_row_change_meets_every_live_window_of_its_key_in_order() -> None:
    topology = Topology(Semantics())
    left, right = wtable(topology, "left"), table(topology, "right")
    topology.sink(WTableTableJoin(topology, left, right, "inner", plus))
    for ts in (35, 5, 25):
        assert topology.pipe("left", "k", f"w{ts}", ts) == []
    assert topology.pipe("left", "other", "o", 5) == []
    assert topology.pipe("right", "k", "r", 30) == [
        at(0, "w5+r", 30),
        at(20, "w25+r", 30),
        at(30, "w35+r", 35),
    ]
    assert topology.pipe("left", "k", "x", 26) == [at(20, "x+r", 30)]
    assert topology.pipe("right", "k", None, 40) == [at(0, None, 40), at(20, None, 40), at(30, None, 40)]


def test_equal_windows_meet() -> None:
    topology = Topology(Semantics())
    left, right = wtable(topology, "left"), wtable(topology, "right")
    topology.sink(WTableWTableJoin(topology, left, right, "outer", plus))
    assert topology.pipe("left", "k", "a", 5) == [at(0, "a+null", 5)]
    assert topology.pipe("right", "k", "b", 15) == [at(10, "null+b", 15)]
    assert topology.pipe("right", "k", "c", 7) == [at(0, "a+c", 7)]


def test_todays_window_meets_last_weeks() -> None:
    topology = Topology(Semantics())
    left, right = wtable(topology, "left"), wtable(topology, "right")
    join = WTableWTableJoin(topology, left, right, "left", plus, shift=previous(2, SIZE))
    topology.sink(join)
    assert topology.pipe("left", "k", "a", 5) == [at(0, "a+null", 5)]
    assert topology.pipe("right", "k", "b", 15) == []
    assert topology.pipe("left", "k", "c", 35) == [at(30, "c+b", 35)]
    assert topology.pipe("right", "k", "d", 16) == [at(30, "c+d", 35)]


def test_an_outer_join_with_a_shift_is_refused() -> None:
    topology = Topology(Semantics())
    sides = wtable(topology, "left"), wtable(topology, "right")
    with pytest.raises(ValueError, match="takes no shift"):
        WTableWTableJoin(topology, *sides, "outer", plus, shift=previous(1, SIZE))


def test_a_window_that_is_no_longer_kept_joins_no_more_and_sends_nothing() -> None:
    topology = Topology(Semantics())
    left, right = wtable(topology, "left", keep_ms=20), table(topology, "right")
    topology.sink(WTableTableJoin(topology, left, right, "left", plus))
    assert topology.pipe("left", "k", "a", 5) == [at(0, "a+null", 5)]
    assert topology.pipe("right", "k", "r", 30) == [at(0, "a+r", 30)]
    assert topology.pipe("right", "k", "s", 31) == []
    assert topology.pipe("left", "k", "b", 6) == []


def changes(topology: Topology, *seeds: int) -> list[tuple[str, str, str, int]]:
    draw = random.Random(*seeds)
    return [
        (draw.choice(["left", "right"]), draw.choice("kl"), f"v{number}", draw.randrange(60)) for number in range(80)
    ]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_joining_wtables_and_materialising_commute(how: str, seed: int) -> None:
    topology = Topology(Semantics())
    left, right = wtable(topology, "left"), wtable(topology, "right")
    topology.sink(WTableWTableJoin(topology, left, right, how, plus), "join")
    topology.sink(left.table, "left")
    topology.sink(right.table, "right")
    seen: dict[str | None, dict[Key, Value]] = {"join": {}, "left": {}, "right": {}}
    for step in changes(topology, seed):
        for result in topology.pipe(*step):
            seen[result.sink][result.key] = result.value
        keys = {
            "inner": seen["left"].keys() & seen["right"].keys(),
            "left": seen["left"].keys(),
            "outer": seen["left"].keys() | seen["right"].keys(),
        }[how]
        assert seen["join"] == {key: plus(seen["left"].get(key), seen["right"].get(key)) for key in keys}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_shift_that_stays_is_no_shift(how: str, seed: int) -> None:
    plain, shifted = Topology(Semantics()), Topology(Semantics())
    for topology, shift in ((plain, None), (shifted, lambda window: window)):
        left, right = wtable(topology, "left"), wtable(topology, "right")
        topology.sink(WTableWTableJoin(topology, left, right, how, plus, shift=shift))
    for step in changes(plain, seed):
        assert plain.pipe(*step) == shifted.pipe(*step)


def test_a_wtable_becomes_a_stream_by_key() -> None:
    topology = Topology(Semantics())
    counts = wtable(topology, "left", aggregator=AGGREGATORS["count"])
    topology.sink(MapRecord(counts.table, to_stream_by_key))
    assert topology.pipe("left", "k", "a", 5) == [Result("k", 1, 5)]
    assert to_stream_by_key(Record(Windowed("k", 0, 10), None, 5, "old")) == Record("k", None, 5)
