"""Changes of tables that are held back, beside the oracle, whatever the batches and shards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import Semantics, Topology
from proof.oracle.graph import Node
from proof.oracle.parts import operations, suppressed, window_aggregate
from proof.oracle.records import Windowed
from proof.oracle.tables.table import TableSource
from proof.oracle.windows.aggregation import AGGREGATORS
from proof.oracle.windows.suppress import Room, Suppress
from tests.engine.kit import LIBRARY, PLUS, by_step, driver_of, oracle_says, run, tables
from tests.lengths import examples
from watersmeet.aggregates.user_defined import python
from watersmeet.errors import TopologyError, WatersmeetError
from watersmeet.windows import BufferConfig, SessionWindows, SlidingWindows, Suppressed, TimeWindows, UnlimitedWindows

KEYS = st.sampled_from(["a", "b", "ab", "é"])
VALUES = st.sampled_from(["1", "2", "3", None])
STEPS = st.lists(st.tuples(st.just("in"), KEYS, VALUES, st.integers(0, 60)), max_size=30)
CUTS = st.frozensets(st.integers(0, 30))
EVEN = LIBRARY.lift(lambda value: value in ("2", "4"), "boolean")
WINDOWS = {
    "tumbling": (TimeWindows(10, 10, 5), {"window": "tumbling", "size_ms": 10, "grace_ms": 5}),
    "hopping": (TimeWindows(10, 3, 0), {"window": "hopping", "size_ms": 10, "advance_ms": 3}),
    "sliding": (SlidingWindows(7, 3), {"window": "sliding", "difference_ms": 7, "grace_ms": 3}),
    "session": (SessionWindows(4, 6), {"window": "session", "gap_ms": 4, "grace_ms": 6}),
}


def limit(ms: int) -> Suppressed:
    return Suppressed(ms, BufferConfig.unbounded())


CLOSE = Suppressed.until_window_closes(BufferConfig.unbounded())


def unwindowed(said: Any) -> Any:
    """Keys as the oracle has them."""
    return [
        [(Windowed(**key) if isinstance(key, dict) else key, value, ts) for key, value, ts in step] for step in said
    ]


@settings(max_examples=examples(200), deadline=None)
@given(steps=STEPS, cuts=CUTS, shards=st.sampled_from([1, 3]), wait=st.sampled_from([0, 1, 7, 20]), last=st.booleans())
def test_a_table_is_held_back_as_one_record_at_a_time_says(
    steps: Any, cuts: Any, shards: int, wait: int, last: bool
) -> None:
    topology = Topology(Semantics(faithful=False))
    source = TableSource(topology)
    topology.source("in", source)
    ops = [{"op": "suppress", "ms": wait}, *([{"op": "filter"}, {"op": "suppress", "ms": 3}] if last else [])]
    topology.sink(operations(topology, source, ops))

    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value="string").suppress(limit(wait))
        return table.filter(EVEN).suppress(limit(3)) if last else table

    driver = driver_of(build)
    driver.shards = shards
    assert by_step(driver, steps, cuts) == oracle_says(topology, steps)


@settings(max_examples=examples(200), deadline=None)
@given(
    steps=STEPS,
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    windows=st.sampled_from(sorted(WINDOWS)),
    until=st.sampled_from([None, 0, 4, 15]),
)
def test_windows_are_held_back_as_one_record_at_a_time_says(
    steps: Any, cuts: Any, shards: int, windows: str, until: int | None
) -> None:
    ours, told = WINDOWS[windows]
    topology = Topology(Semantics(faithful=False))
    source = Node()
    topology.source("in", source)
    spec = {"until": "window_closes"} if until is None else {"until": "time_limit", "ms": until}
    params = told | {"suppress": spec}
    aggregate = window_aggregate(topology, source, params, AGGREGATORS["log"])
    topology.sink(suppressed(topology, aggregate, params))
    fold = AGGREGATORS["log"]

    def build(builder: Any) -> Any:
        grouped = builder.stream("in", key="string", value="string").group_by_key().windowed_by(ours)
        steps = [python(lambda value, aggregate: fold.add(aggregate, value))]
        steps += [python(fold.merge)] if windows == "session" else []
        return grouped.aggregate(fold.initial, *steps).suppress(CLOSE if until is None else limit(until))

    driver = driver_of(build)
    driver.shards = shards
    assert unwindowed(by_step(driver, steps, cuts)) == oracle_says(topology, steps)


def test_a_join_of_tables_sees_what_was_sent_with_its_timestamp_while_a_change_is_held_back() -> None:
    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        return left.suppress(limit(10)).join(right, PLUS)

    steps = [("left", "k", "a", 9), ("left", "x", "b", 30), ("left", "k", "c", 31), ("right", "k", "r", 5)]
    assert run(driver_of(build), *steps) == [("k", "a+r", 9)]


def windowed_table(windows: Any) -> Any:
    builder = arrow_builder("test")
    return builder.stream("in", key="string", value="string").group_by_key().windowed_by(windows).count(name="n")


def test_until_a_window_closes_needs_windows_that_close() -> None:
    table = arrow_builder("test").table("in", key="string", value="string")
    for each in (table, windowed_table(UnlimitedWindows.of())):
        with pytest.raises(TopologyError, match="needs a table of windows that close") as error:
            each.suppress(CLOSE)
        assert error.value.hint is not None
        assert "until_time_limit" in error.value.hint
        each.suppress(limit(5))


def test_windows_are_known_behind_steps_that_leave_keys_as_they_are() -> None:
    table = windowed_table(TimeWindows(10, 10, 0)).filter(LIBRARY.lift(lambda value: value > 1, "boolean"))
    table.suppress(CLOSE).to_stream().to("out")
    with pytest.raises(TopologyError, match="needs a table of windows that close"):
        table.to_stream().to_table().suppress(CLOSE)


def room_of(buffer: BufferConfig) -> Room:
    """The same for the oracle; what lies in state has four bytes more for each text."""

    def size(key: bytes, value: Any) -> int:
        return 8 + len(key) + len((value or "").encode())

    records, most = (float("inf") if each is None else each for each in (buffer.most_records, buffer.most_bytes))
    return Room(records, most, buffer.is_strict, size)


BUFFERS = [
    BufferConfig.max_records(0),
    BufferConfig.max_records(1),
    BufferConfig.max_records(2),
    BufferConfig.max_bytes(21),
    BufferConfig.max_records(3).with_max_bytes(30),
]


@settings(max_examples=examples(300), deadline=None)
@given(
    steps=STEPS,
    cuts=CUTS,
    wait=st.sampled_from([1, 7, 20, 1_000]),
    buffer=st.sampled_from(BUFFERS),
    windows=st.booleans(),
)
def test_a_full_buffer_sends_the_oldest_early_as_one_record_at_a_time_says(
    steps: Any, cuts: Any, wait: int, buffer: BufferConfig, windows: bool
) -> None:
    topology = Topology(Semantics(faithful=False))
    source = Node() if windows else TableSource(topology)
    topology.source("in", source)
    table: Any = source
    if windows:
        table = window_aggregate(topology, source, WINDOWS["hopping"][1], AGGREGATORS["log"])
    held = Suppress(topology, table, wait, room=room_of(buffer))
    topology.sink(operations(topology, held, [{"op": "filter"}]) if not windows else held)

    def build(builder: Any) -> Any:
        if not windows:
            table = builder.table("in", key="string", value="string").suppress(Suppressed(wait, buffer))
            return table.filter(EVEN)
        grouped = builder.stream("in", key="string", value="string").group_by_key().windowed_by(WINDOWS["hopping"][0])
        fold = AGGREGATORS["log"]
        table = grouped.aggregate(fold.initial, python(lambda value, aggregate: fold.add(aggregate, value)))
        return table.suppress(Suppressed(wait, buffer))

    driver = driver_of(build)
    driver.shards = 1
    assert unwindowed(by_step(driver, steps, cuts)) == oracle_says(topology, steps)


@settings(max_examples=examples(100), deadline=None)
@given(steps=STEPS, cuts=CUTS, buffer=st.sampled_from(BUFFERS))
def test_what_a_full_buffer_sends_does_not_depend_on_batches(steps: Any, cuts: Any, buffer: BufferConfig) -> None:
    def driver() -> EngineDriver:
        made = driver_of(lambda b: b.table("in", key="string", value="string").suppress(Suppressed(20, buffer)))
        made.shards = 3
        return made

    assert by_step(driver(), steps, cuts) == by_step(driver(), steps, frozenset())


def test_a_full_buffer_that_shuts_down_stops_the_batch() -> None:
    buffer = BufferConfig.max_records(2).shut_down_when_full()
    driver = driver_of(lambda b: b.table("in", key="string", value="string").suppress(Suppressed(5, buffer)))
    driver.shards = 1
    assert run(driver, ("in", "a", "1", 0), ("in", "b", "2", 1), ("in", "c", "3", 5)) == [("a", "1", 0)]
    with pytest.raises(WatersmeetError, match=r"The buffer of .* is full") as error:
        run(driver, ("in", "d", "4", 5))
    assert "3 changes held back" in str(error.value)
    assert error.value.hint is not None
    assert "emit_early_when_full()" in error.value.hint


def test_final_results_may_have_a_limit_that_shuts_down() -> None:
    builder = arrow_builder("test")
    stream = builder.stream("in", key="string", value="string").group_by_key()
    table = stream.windowed_by(TimeWindows(10, 10, 0)).count(name="n")
    buffer = BufferConfig.max_records(1).shut_down_when_full()
    table.suppress(Suppressed.until_window_closes(buffer)).to_stream().to("out")
    driver = EngineDriver(builder.build(), shards=1)
    for key, ts in (("a", 0), ("a", 11), ("a", 12), ("a", 30)):
        driver.pipe("in", key, "1", ts=ts)
    driver.run_batch()
    assert [record.value for record in driver.read("out")] == [1, 2]
    driver.pipe("in", "b", "1", ts=30)
    with pytest.raises(WatersmeetError, match="is full") as error:
        driver.run_batch()
    assert "emit_early" not in str(error.value.hint)


def test_what_is_given_must_say_until_when() -> None:
    with pytest.raises(TopologyError, match="suppress takes a Suppressed, and not '5 minutes'"):
        windowed_table(TimeWindows(10, 10, 0)).suppress("5 minutes")


@pytest.mark.parametrize("record_cache", [False, True])
def test_with_the_record_cache_above_it_the_last_change_is_sent_all_the_same(record_cache: bool) -> None:
    builder = arrow_builder("test")
    counts = builder.stream("in", key="string", value="string").group_by_key().windowed_by(TimeWindows(10, 10, 0))
    counts.count().suppress(CLOSE).to_stream().to("out")
    driver = EngineDriver(builder.build(), record_cache=record_cache)
    said = run(driver, ("in", "a", "x", 0), ("in", "b", "y", 3), ("in", "a", "z", 4), ("in", "b", "w", 10))
    assert said == [({"key": "a", "start": 0, "end": 10}, 2, 4), ({"key": "b", "start": 0, "end": 10}, 1, 3)]


def test_a_join_sees_of_a_suppressed_table_what_it_has_sent() -> None:
    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value="string").suppress(limit(10))
        stream = builder.stream("asks", key="string", value="string")
        return stream.left_join(table, LIBRARY.lift(lambda left, right: f"{left}+{right}", "string"))

    steps = [
        ("in", "k", "1", 0),
        ("asks", "k", "a", 5),
        ("in", "k", "2", 8),
        ("in", "x", "3", 11),
        ("asks", "k", "b", 12),
    ]
    assert run(driver_of(build), *steps) == [("k", "a+None", 5), ("k", "b+2", 12)]


def test_what_has_gone_leaves_nothing_in_the_state() -> None:
    driver = driver_of(lambda b: b.table("in", key="string", value="string").suppress(limit(5)), shards=1)
    most = 0
    for hour in range(60):
        run(driver, *(("in", f"k{n % 7}", "x", hour * 50 + n) for n in range(50)))
        most = max(most, sum(len(blob) for store in driver.stores.values() for blob in store.chunks.values()))
    assert most < 40_000


HOUR = 3_600_000
RECORDS = [
    (0, "a"),
    (3, "b"),
    (5, "a"),
    (12, "b"),
    (11, "a"),
    (12, "a"),
    (30, "b"),
    (30, "b"),
    (30, "a"),
    (41, "b"),
    (90, "z"),
]


@pytest.mark.parametrize("size", [1, 4, 11])
@pytest.mark.parametrize("until", [0, 7, None])
@pytest.mark.parametrize("one_key", [False, True])
def test_each_partition_holds_back_by_its_own_time(size: int, until: int | None, one_key: bool) -> None:
    """As a partition alone, however far another one is behind, also where both have the same keys."""

    def said(leads: dict[int, int], size: int, shards: int) -> dict[int, list[Any]]:
        builder = arrow_builder("test")
        grouped = builder.stream("in", key="string", value="string").group_by_key().windowed_by(TimeWindows(10, 10, 3))
        grouped.aggregate(lambda: "", python(lambda value, aggregate: value)).suppress(
            CLOSE if until is None else limit(until)
        ).to_stream().to("out")
        driver = EngineDriver(builder.build(), shards=shards, partitioned=True)
        results: dict[int, list[Any]] = {partition: [] for partition in leads}
        for start in range(0, len(RECORDS), size):
            for partition, lead in leads.items():
                for number, (ts, key) in enumerate(RECORDS[start : start + size], start):
                    key = key if one_key else f"{key}{partition}"
                    driver.pipe("in", key, f"{partition}:{number}", ts=ts + lead, partition=partition)
            driver.run_batch()
            for result in driver.read("out"):
                partition, number = map(int, result.value.split(":"))
                results[partition].append((result.key["key"][0], result.key["start"] - leads[partition], number))
        return results

    both = said({0: HOUR, 1: 0}, size, 3)
    alone = said({1: 0}, 11, 1)[1]
    assert len(alone) > 4
    assert [sorted(rows) for rows in both.values()] == [sorted(alone)] * 2
    by_key = [[row for row in rows if row[0] == "a"] for rows in (*both.values(), alone)]
    assert by_key[0] == by_key[1] == by_key[2]


@pytest.mark.parametrize("size", [1, 2, 20])
def test_an_entry_takes_changes_of_all_partitions_and_ends_by_the_time_of_the_one_that_began_it(size: int) -> None:
    builder = arrow_builder("test")
    builder.table("in", key="string", value="string").suppress(limit(10)).to("out")
    driver = EngineDriver(builder.build(), partitioned=True)
    said = []
    records = [("a", 0, 0), ("b", 0, 1), ("c", 4, 0), ("d", 9, 1), ("e", 11, 0), ("f", 30, 1), ("g", 50, 0)]
    for start in range(0, len(records), size):
        for value, ts, partition in records[start : start + size]:
            driver.pipe("in", "k", value, ts=ts, partition=partition)
        driver.run_batch()
        said += [(r.value, r.ts) for r in driver.read("out")]
    assert said == [("d", 9), ("f", 30)]
