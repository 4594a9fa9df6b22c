"""Windowed joins of streams in the engine: time, order, the plan, memory and state."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.layout import setting_of
from proof.recordings import History, RecordedStep
from proof.runners.engine import EngineRunner
from tests.engine.stream_kit import PLUS, joined, repaired, run
from watersmeet._engine import waiting_rows
from watersmeet._engine.exchange import Outlet, Route, ShardCounts, route_rows, watermark_batches, watermark_of
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.operators import run_operator, stream_join
from watersmeet._engine.rows import ints
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet.errors import TopologyError
from watersmeet.windows import JoinWindows

# -- time --------------------------------------------------------------------------------------------------


HOUR = 3_600_000
RECENT = [("left", "x", 0), ("right", "x", 4), ("left", "x", 30), ("right", "x", 60), ("left", "x", 90)]
LAGGING = [("left", "y", 0), ("left", "y", 3), ("right", "y", 6), ("left", "y", 30), ("right", "y", 35)]


def partitioned(records: dict[int, list[tuple[str, str, int]]], *, rekeyed: bool, size: int) -> dict[str, list[Any]]:
    """Results by key of records given by partition; the partitions take turns in each batch."""
    windows = JoinWindows.of_time_difference_and_grace("10 ms", "2 ms")
    driver = EngineDriver(joined("left", windows, rekeyed=rekeyed).build(), shards=3, partitioned=True)
    results = defaultdict(list)
    for start in range(0, max(map(len, records.values())), size):
        for partition, rows in records.items():
            for number, (topic, key, ts) in enumerate(rows[start : start + size], start):
                driver.pipe(topic, key, f"{topic[0]}{number}", ts=ts, partition=partition)
        driver.run_batch()
        for result in driver.read("out"):
            results[result.key].append((result.value, result.ts))
    return dict(results)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_nothing_is_late_in_a_partition_that_lags_an_hour(size: int) -> None:
    ahead = [(topic, key, ts + HOUR) for topic, key, ts in RECENT]
    both = partitioned({0: ahead, 1: LAGGING}, rekeyed=False, size=size)
    alone = partitioned({0: ahead}, rekeyed=False, size=size) | partitioned({0: LAGGING}, rekeyed=False, size=size)
    assert both == alone
    assert both["y"] == [("l0+r2", 6), ("l1+r2", 6), ("l3+r4", 35)]
    assert both["x"][1] == ("l2+null", HOUR + 30)


def test_behind_a_new_key_all_partitions_have_one_time() -> None:
    ahead = [(topic, key, ts + HOUR) for topic, key, ts in RECENT]
    both = partitioned({0: ahead, 1: LAGGING}, rekeyed=True, size=1)
    # The hour that the other partition is ahead has closed every window of this one.
    assert both["y"][0] == ("l0+null", 0)
    plan = joined("left", JoinWindows(1, 1, 0), rekeyed=True).build().physical
    assert [operator.time.domains for operator in plan.operators] == [False]


def test_partition_counts_that_do_not_match_leave_one_time() -> None:
    plan = joined("left", JoinWindows(1, 1, 0)).build().physical
    assert [operator.time.domains for operator in plan.operators] == [True]
    assert [operator.time.domains for operator in plan.with_one_domain("stream_stream-left-right").operators] == [False]


def test_time_moves_on_in_a_shard_that_gets_no_records() -> None:
    driver = EngineDriver(joined("left", JoinWindows(10, 10, 0)).build(), shards=9)
    driver.pipe("left", "alone", "a", ts=0)
    driver.run_batch()
    driver.pipe("right", None, None, ts=11)
    driver.run_batch()
    assert [(r.key, r.value, r.ts, r.step) for r in driver.read("out")] == [("alone", "a+null", 0, 1)]


def test_a_negative_timestamp_moves_no_time_and_is_counted() -> None:
    driver = EngineDriver(joined("outer", JoinWindows(10, 10, 0)).build())
    driver.pipe("left", "k", "a", ts=-1)
    driver.pipe("right", "k", "b", ts=5)
    driver.run_batch()
    assert driver.read("out") == []
    assert driver.drops[("left", "negative_timestamp")] == 1


# -- order, plan -------------------------------------------------------------------------------------------


def test_each_result_goes_all_its_ways_before_the_next() -> None:
    builder = arrow_builder("order")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    both = left.join(right, PLUS, JoinWindows(10, 10, 0))
    one, two = (both.map_values(lambda v, n=n: pc.binary_join_element_wise(v, n, "")) for n in ("/1", "/2"))
    one.merge(two).to("out")
    driver = EngineDriver(builder.build(), shards=4)
    for ts, value in enumerate(("a", "b")):
        driver.pipe("left", "k", value, ts=ts)
    driver.pipe("right", "k", "r", ts=2)
    driver.run_batch()
    assert [r.value for r in driver.read("out")] == ["a+r/1", "a+r/2", "b+r/1", "b+r/2"]


@pytest.mark.parametrize("shards", [1, 3, 8])
@pytest.mark.parametrize("how", ["left", "outer"])
def test_keys_that_close_together_come_in_the_order_of_their_bytes_however_long_they_are(how: str, shards: int) -> None:
    keys = [f"customer-{number:03}" for number in range(40)] + ["a", "customer", "customer\0", "z", "é"]
    steps = [RecordedStep("left" if at % 3 else "right", key, f"v{at}", at // 20, ()) for at, key in enumerate(keys)]
    # Two values of one key, and the record that moves time.
    steps += [RecordedStep("left", "customer-007", "again", 2, ()), RecordedStep("left", "last", "v", 1000, ())]
    params = {"type": how, "before_ms": 5, "after_ms": 9, "grace_ms": 0, "eager": False}
    history = History("long keys", "stream_stream", params, "current", "4.3.0", tuple(steps))
    expected = repaired(history)
    assert len(expected[-1]) >= 30
    assert EngineRunner(shards=shards, cuts=7).run(history) == expected
    driver = EngineDriver(joined(how, JoinWindows(5, 9, 0)).build(), shards=shards)
    assert run(driver, steps, 7) == [(r.key, r.value, r.ts) for results in expected for r in results]


def test_a_self_join_keeps_its_records_once() -> None:
    builder = arrow_builder("self")
    source = builder.stream("input", key="string", value="string")
    source.outer_join(source, PLUS, JoinWindows(-1, 5, 0)).to("out")
    driver = EngineDriver(builder.build(), shards=1)
    for ts in range(4):
        driver.pipe("input", "k", f"v{ts}", ts=ts)
    driver.run_batch()
    tables = State(driver.stores[(0, 0)]).manifest.tables
    rows = {name: sum(run.rows for run in entry.runs()) for name, entry in tables.items()}
    assert rows == {"stream_stream-input.both": 4}


def streams() -> tuple[Any, Any, Any]:
    builder = arrow_builder("errors")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    return left, right, builder.table("table", key="string", value="string")


def test_the_join_of_two_streams_needs_windows_and_a_known_generation() -> None:
    left, right, table = streams()
    with pytest.raises(TopologyError, match="needs windows"):
        left.join(right, PLUS)
    with pytest.raises(TopologyError, match="Unknown generation"):
        left.join(right, PLUS, JoinWindows(1, 1, 0), generation="newest")
    with pytest.raises(TopologyError, match="takes no windows: windows=JoinWindows"):
        left.join(table, PLUS, JoinWindows(1, 1, 0))


def test_the_deprecated_windows_mean_spurious_unless_a_generation_is_given() -> None:
    left, right, _ = streams()
    windows = JoinWindows.of("5 minutes")
    nodes = [
        left.left_join(right, PLUS, windows)._node,
        left.left_join(right, PLUS, windows, generation="current")._node,
        left.left_join(right, PLUS, JoinWindows(1, 1, 0), generation="old")._node,
    ]
    assert [dict(node.details())["generation"] for node in nodes] == ["spurious", "current", "old"]
    assert dict(nodes[0].details())["window"] == "-300000..+300000 ms, grace 85800000 ms"


# -- memory and state --------------------------------------------------------------------------------------


def routed_batches(plan: Any, rows: dict[int, pa.Table]) -> dict[int, pa.Table]:
    """The inputs of the only operator's only shard: rows of each side, and what it is told of time."""
    inputs: dict[int, list[pa.Table]] = defaultdict(list)
    for edge in plan.edges:
        outlet = Outlet("", edge.id, 0, "key", "value", route=Route(bounds_port=plan.bounds_port(edge)))
        for routed_batch in route_rows(rows[edge.side], [outlet], ShardCounts(1), plan.slots, defaultdict(int)):  # type: ignore[arg-type]
            inputs[plan.ports[routed_batch.port][1]].append(routed_batch.rows)
        # Of a side without rows there is no source frame, so nothing is told.
        for routed_batch in watermark_batches(
            rows[edge.side], (watermark_of(plan, plan.operators[0]),), ShardCounts(1)
        ):
            inputs[plan.ports[routed_batch.port][1]].append(routed_batch.rows)
    return {side: pa.concat_tables(tables) for side, tables in inputs.items()}


def rows_of(plan: Any, side: int, ts: list[int], key: list[str]) -> pa.Table:
    count = len(ts)
    zeros = pa.array([0] * count, pa.int64())
    keys = pa.array(key)
    columns = {
        "order_ts": pa.array(ts),
        "srcpart": pa.array([side << 32] * count),
        "offset": pa.array(range(count)),
    }
    columns |= {f"p{slot}": zeros for slot in range(plan.slots)} | {"ts": pa.array(ts)}
    values = pa.array([f"{side}-{number}" for number in range(count)])
    return pa.table(columns | {"hash": hash_keys(keys), "key": keys, "value": values})


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_a_hot_key_with_a_hundred_thousand_rows_a_side_needs_little_memory(how: str) -> None:
    plan = joined(how, JoinWindows(20, 20, 0)).build().physical
    count = 100_000
    batch = routed_batches(plan, {side: rows_of(plan, side, list(range(count)), ["hot"] * count) for side in (0, 1)})
    state = State(MemoryChunkStore())
    before = pa.total_allocated_bytes()
    largest, pairs, arrow = 0, 0, 0
    tracemalloc.start()
    for table in run_operator(setting_of(plan, plan.operators[0]), batch, state):
        largest, pairs = max(largest, len(table)), pairs + len(table)
        arrow = max(arrow, pa.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pairs == 41 * count - 2 * sum(range(21))
    assert largest <= stream_join.PAIRS + count
    assert peak + arrow < 400 << 20


def test_state_stays_as_large_as_the_window_while_time_goes_on_for_a_day() -> None:
    plan = joined("outer", JoinWindows(10_000, 10_000, 0)).build().physical
    state_rows = []
    store = MemoryChunkStore()
    for batch in range(48):
        # Half an hour in a batch, a record a second and side, every fifth with a partner.
        times = list(range(batch * 1_800_000, (batch + 1) * 1_800_000, 1_000))
        sides = {s: rows_of(plan, s, times, [f"k{t if t % 5_000 == 0 else -t - s}" for t in times]) for s in (0, 1)}
        state = State(store)
        for _ in run_operator(setting_of(plan, plan.operators[0]), routed_batches(plan, sides), state):
            pass
        state_rows.append(sum(run.rows for entry in state.manifest.tables.values() for run in entry.runs()))
    assert max(state_rows) < 100


@pytest.mark.parametrize("how", ["left", "outer"])
def test_a_jump_of_time_lets_a_large_state_go_in_pieces_and_in_order(how: str, tmp_path: Path) -> None:
    plan = joined(how, JoinWindows(10**9, 5 * 10**8, 0)).build().physical
    store, cache = MemoryChunkStore(), RunCache(tmp_path)
    context, count = setting_of(plan, plan.operators[0]), 4 * waiting_rows.ROWS
    for start in range(0, count, waiting_rows.ROWS):
        times = list(range(start, start + waiting_rows.ROWS))
        sides = {0: rows_of(plan, 0, times, [f"key-{t}".ljust(200) for t in times]), 1: rows_of(plan, 1, [], [])}
        assert [len(table) for table in run_operator(context, routed_batches(plan, sides), State(store, cache))] == []
    jump = {side: rows_of(plan, side, [10**10] * (1 - side), ["last"] * (1 - side)) for side in (0, 1)}
    batch, before, most, told = routed_batches(plan, jump), pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    for table in run_operator(context, batch, State(store, cache)):
        most = max(most, pa.total_allocated_bytes() - before + tracemalloc.get_traced_memory()[1])
        assert len(table) <= waiting_rows.ROWS
        assert (ints(table, "ts") == np.arange(told, told + len(table))).all()
        told += len(table)
    tracemalloc.stop()
    assert told == count
    # A row is 300 bytes; all of them at once would be as much again for every copy on their way.
    assert most < 1.5 * 300 * count
