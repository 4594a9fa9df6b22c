"""What time lets go stands directly before the record that moves time, whatever batch this one comes in (law 1).

Inputs have partitions with times of their own, and what is let go is folded under another key: so its order shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.engine.stream_kit import PLUS
from watersmeet.aggregates.user_defined import python
from watersmeet.windows import BufferConfig, EmitStrategy, JoinWindows, SlidingWindows, Suppressed, TimeWindows

Row = tuple[str, str, str, int, int]
"""Input, key, value, timestamp, partition."""
WINDOWS = TimeWindows(20, 20, 0)
UNBOUNDED = BufferConfig.unbounded()
LAST = python(lambda _, value: value)
CONCATENATED = python(lambda done, value: f"{done}>{value}")
ROWS: tuple[Row, ...] = (
    ("s", "b", "b62", 62, 0),
    ("s", "a", "a62", 62, 1),
    ("s", "b", "b83", 83, 0),
    ("s", "a", "a84", 84, 1),
    ("s", "b", "b130", 130, 0),
    ("s", "a", "a131", 131, 1),
)
CUTS = {"one batch": (), "two batches": (3,), "a batch for each record": (1, 2, 3, 4, 5)}


def to_one(key: pa.Array, value: pa.Array) -> pa.Array:
    return pa.array(["all"] * len(key), pa.string())


HOLDING: dict[str, Callable[[Any, Any], Any]] = {
    "windows that emit on close": lambda s, r: (
        s.group_by_key().windowed_by(WINDOWS).emit_strategy(EmitStrategy.on_window_close()).reduce(LAST)
    ).to_stream(key="key"),
    "sliding windows that emit on close": lambda s, r: (
        s.group_by_key().windowed_by(SlidingWindows(1, 10)).emit_strategy(EmitStrategy.on_window_close()).reduce(LAST)
    ).to_stream(key="key"),
    "suppress until windows close": lambda s, r: (
        s.group_by_key().windowed_by(WINDOWS).reduce(LAST).suppress(Suppressed.until_window_closes(UNBOUNDED))
    ).to_stream(key="key"),
    "suppress until a time limit": lambda s, r: (
        s.to_table(store="kept").suppress(Suppressed.until_time_limit("10 ms", UNBOUNDED)).to_stream()
    ),
    "left join": lambda s, r: s.left_join(r, PLUS, JoinWindows(10, 10, 0)),
    "outer join": lambda s, r: s.outer_join(r, PLUS, JoinWindows(5, 10, 0)),
    "a join that waits for late changes of a table": lambda s, r: s.left_join(
        r.to_table(history="1 minute"), PLUS, grace="10 ms"
    ),
}


def topology(hold: Callable[[Any, Any], Any]) -> Any:
    builder = arrow_builder("places")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    under_one = hold(s, r).select_key(to_one)
    under_one.group_by_key().reduce(CONCATENATED, name="folded").to_stream().to("folded")
    under_one.to_table(name="last").to_stream().to("last")
    return builder.build()


def run(
    made: Any, rows: Sequence[Row], cuts: Sequence[int], shards: int, *outputs: str, **options: Any
) -> list[list[tuple[Any, int]]]:
    driver = EngineDriver(made, shards=shards, partitioned=True, **options)
    edges = [0, *cuts, len(rows)]
    for begin, end in pairwise(edges):
        for name, key, value, ts, partition in rows[begin:end]:
            driver.pipe(name, key, value, ts=ts, partition=partition)
        driver.run_batch()
    return [[(r.value, r.ts) for r in driver.read(output)] for output in outputs]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("hold", HOLDING.values(), ids=HOLDING)
def test_what_partitions_let_go_is_folded_in_the_order_of_the_records_that_moved_their_times(
    hold: Callable[[Any, Any], Any], cuts: tuple[int, ...], shards: int
) -> None:
    folded, last = run(topology(hold), ROWS, cuts, shards, "folded", "last")
    values = [value.removesuffix("+null") for value, _ in last]
    assert values == ["b62", "a62", "b83", "a84"]
    assert folded[-1][0].replace("+null", "") == "b62>a62>b83>a84"


def beside(*, partition: int) -> list[Row]:
    """A record that a join holds back, one of an input that only its output shares, and the one that lets go."""
    return [("s", "k", "held", 60, 0), ("beside", "k", "beside", 75, partition), ("s", "k", "moves", 80, 0)]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)])
def test_a_record_that_only_an_output_has_in_common_stands_before_what_a_later_one_lets_go(
    cuts: tuple[int, ...], shards: int
) -> None:
    builder = arrow_builder("beside")
    s, r, other = (builder.stream(name, key="string", value="string") for name in ("s", "r", "beside"))
    s.left_join(r, PLUS, JoinWindows(10, 10, 0)).merge(other).to("out")
    (out,) = run(builder.build(), beside(partition=0), cuts, shards, "out")
    assert out == [("beside", 75), ("held+null", 60)]


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,), (1, 2, 3)])
def test_records_of_one_time_stand_before_and_behind_what_one_of_them_lets_go(cuts: tuple[int, ...]) -> None:
    """At 80 partition 1 lets go; partition 0 has a record of that time before it, partition 2 one behind it."""
    builder = arrow_builder("ties")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    s.left_join(r, PLUS, JoinWindows(10, 10, 0)).merge(s).select_key(to_one).to_table().to_stream().to("out")
    rows = [("s", "b", "held", 60, 1), ("s", "a", "a", 80, 0), ("s", "b", "b", 80, 1), ("s", "c", "c", 80, 2)]
    (out,) = run(builder.build(), rows, cuts, 2, "out")
    assert [value for value, _ in out] == ["held", "a", "held+null", "b", "c"]


@pytest.mark.parametrize("shards", [1, 3, 7])
@pytest.mark.parametrize("cuts", [(), (2,), (3,), (1, 2, 3)])
def test_what_a_lagging_partition_lets_go_does_not_take_the_time_of_all_back(
    cuts: tuple[int, ...], shards: int
) -> None:
    """Behind the new key partition 0 has moved time to 1000: the window of the lagging result has closed."""
    builder = arrow_builder("lags")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    joined = s.left_join(r, PLUS, JoinWindows(10, 10, 0)).select_key(to_one).group_by_key()
    joined.windowed_by(WINDOWS).reduce(CONCATENATED).to_stream(key="key").to("out")
    rows = [
        ("s", "b", "b60", 60, 1),
        ("s", "a", "a900", 900, 0),
        ("s", "a", "a1000", 1_000, 0),
        ("s", "b", "b1001", 1_001, 1),
        ("s", "a", "a1100", 1_100, 0),
    ]
    (out,) = run(builder.build(), rows, cuts, shards, "out")
    assert out == [("a900+null", 900), ("a1000+null", 1_000)]


def resting(shards: int, *, together: bool) -> list[Any]:
    """Partition 1 rests while partition 0 goes on; a clock shows after that."""
    builder = arrow_builder("rests")
    s, r = (builder.stream(name, key="string", value="string") for name in "sr")
    joined = s.left_join(r, PLUS, JoinWindows(10, 10, 0)).merge(s).select_key(lambda key, value: value)
    on_close = joined.group_by_key().windowed_by(TimeWindows(20, 20, 0)).emit_strategy(EmitStrategy.on_window_close())
    joined.to("all")
    on_close.reduce(LAST).to_stream(key="key").to("closed")
    driver = EngineDriver(builder.build(), shards=shards, partitioned=True, idle_after_ms=100)
    driver.pipe("s", "b", "b60", ts=60, partition=1)
    driver.pipe("s", "a", "a61", ts=61, partition=0)
    driver.show_wall_clock(0)
    driver.run_batch()
    driver.pipe("s", "a", "a62", ts=62, partition=0)
    if not together:
        driver.run_batch()
    driver.show_wall_clock(1_000)
    driver.run_batch()
    return [[r.value for r in driver.read(name)] for name in ("all", "closed")]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("shards", [1, 3, 7])
def test_what_the_wall_clock_lets_go_stands_behind_all_records_and_moves_no_time_but_its_partition_s(
    shards: int, together: bool
) -> None:
    assert resting(shards, together=together) == [["b60", "a61", "a62", "b60+null"], []]
