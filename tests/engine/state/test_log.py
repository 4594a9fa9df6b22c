"""Rows that are only appended: found by key and time, dropped by the time of their domain."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.state.state_kit import declared
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State, Table
from watersmeet._plan.declaration import Retention

SCHEMA = pa.schema([("hash", pa.int64()), ("key", pa.string()), ("ts", pa.int64()), ("part", pa.int64())])
SCHEMA = SCHEMA.append(pa.field("odd", pa.bool_()))
LOG = declared(
    "log",
    SCHEMA,
    identity=(),
    order=("ts",),
    retention=Retention("ts", "part"),
    due=("odd",),
)
NEVER = Policy(fanout=100, small=1)


def log_of(state: State) -> Table:
    return state.table(LOG)


def write(store: MemoryChunkStore, times: list[int], part: int = 0, policy: Policy | None = None) -> None:
    """One commit: a row of keys a and b at each time."""
    state = State(store, policy=policy)
    keys = pa.array(["a", "b"] * len(times))
    ts = np.repeat(times, 2)
    columns = {"hash": hash_keys(keys), "key": keys, "ts": ts, "part": np.full(len(ts), part)}
    log_of(state).put(pa.table(columns | {"odd": ts % 2 == 1}))
    state.commit()


def found(store: MemoryChunkStore, keys: list[str], low: list[int], high: list[int]) -> list[tuple[str, int]]:
    hits = log_of(State(store)).range(
        hash_keys(pa.array(keys)), pa.array(keys), np.array(low, np.int64), np.array(high, np.int64)
    )
    rows = hits.rows.to_pylist()
    assert [keys[query] for query in hits.query] == [row["key"] for row in rows]
    return sorted((row["key"], row["ts"]) for row in rows)


def test_each_key_finds_its_rows_between_its_own_times_both_included() -> None:
    store = MemoryChunkStore()
    write(store, [1, 5, 9])
    write(store, [3, 5])
    assert found(store, ["b", "c", "a"], [3, 0, 6], [5, 99, 8]) == [("b", 3), ("b", 5), ("b", 5)]
    assert found(store, [], [], []) == []


def touched(rows: int) -> int:
    """Bytes that numpy asks for while ten rows of a key with so many are looked up."""
    store = MemoryChunkStore()
    write(store, list(range(rows)))
    state = State(store)
    log, key = log_of(state), pa.array(["a"])
    hashed, low, high = hash_keys(key), np.array([rows // 2]), np.array([rows // 2 + 9])
    assert len(log.range(hashed, key, low, high).rows) == 10
    tracemalloc.start()
    log.range(hashed, key, low, high)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_a_lookup_in_a_hot_key_touches_what_it_finds_and_not_the_keys_history() -> None:
    assert touched(200_000) < touched(2_000) + 2_000


def test_rows_that_are_due_between_two_times_are_found_whatever_their_key() -> None:
    store = MemoryChunkStore()
    write(store, [1, 5, 9, 6])
    write(store, [3, 2])
    log = log_of(State(store))
    assert sorted(log.gather(list(log.due(0, 6, "odd"))).column("ts").to_pylist()) == [1, 1, 3, 3, 5, 5]
    assert sorted(log.gather(list(log.due(1, 9)), ["ts"]).column("ts").to_pylist()) == [1, 1, 3, 3, 5, 5]
    assert len(log.gather(list(log.due(5, 5)))) == 0


def test_what_is_found_by_time_is_all_that_is_read_of_a_run() -> None:
    store = MemoryChunkStore()
    write(store, list(range(100_000)))
    state = State(store)
    log = log_of(state)
    assert len(log.gather(list(log.due(500, 510)))) == 10
    tracemalloc.start()
    hits = list(log.due(500, 510, "odd"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(len(hit.rows) for hit in hits) == 10
    assert peak < 50_000


def test_a_run_that_time_has_passed_is_dropped_without_being_read() -> None:
    store = MemoryChunkStore()
    write(store, [1, 1, 2, 2], policy=NEVER)
    write(store, [7, 8], policy=NEVER)
    state = State(store, policy=NEVER)
    reads = store.traffic.reads
    log_of(state).expire({0: 3})
    state.commit()
    assert store.traffic.reads == reads
    assert [run.time for run in state.manifest.tables["log"].runs()] == [(7, 8)]


def test_a_run_is_dropped_when_the_domains_of_its_own_rows_have_passed_it_however_far_others_are() -> None:
    store = MemoryChunkStore()
    write(store, [1, 4], part=0, policy=NEVER)
    write(store, [1, 4], part=1, policy=NEVER)
    state = State(store, policy=NEVER)
    log_of(state).expire({0: 5, 1: 2})
    state.commit()
    assert [run.latest for run in state.manifest.tables["log"].runs()] == [((1, 4),)]


def test_a_merge_leaves_out_what_is_below_its_own_parts_floor() -> None:
    store = MemoryChunkStore()
    write(store, [1, 4, 9], part=0, policy=NEVER)
    write(store, [1, 4, 9], part=1, policy=NEVER)
    state = State(store)
    log_of(state).expire({0: 5, 1: 2})
    state.commit(compact=True)
    (run,) = state.manifest.tables["log"].runs()
    assert run.rows == 2 * (1 + 2)
    assert found(store, ["a"], [0], [99]) == [("a", 4), ("a", 9), ("a", 9)]


@pytest.mark.parametrize("small", [1, 1 << 20])
def test_rows_stay_sorted_and_none_is_lost_over_many_commits(small: int) -> None:
    store = MemoryChunkStore()
    for commit in range(12):
        write(store, [commit * 10 % 7, commit], policy=Policy(small=small, segment=64))
    expected = sorted(t for c in range(12) for t in (c * 10 % 7, c))
    assert [ts for _, ts in found(store, ["a"], [0], [99])] == expected
