"""State as runs: whatever the history and the collisions, it is what a dictionary would hold."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.state.state_kit import (
    EAGER,
    HASHERS,
    POLICIES,
    SCHEMA,
    Hasher,
    T,
    check_stored,
    declared,
    levels,
    looked_up,
    scanned,
    stored_rows,
    write,
)
from tests.lengths import examples
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet.errors import StateError


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("hasher", HASHERS.values(), ids=HASHERS.keys())
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_end_like_a_dictionary(seed: int, hasher: Hasher, policy: Policy) -> None:
    chance = random.Random(seed)
    keys = ["", "\0", "\0\0", *(f"key-{i}" for i in range(chance.choice([5, 60, 300])))]
    store, expected = MemoryChunkStore(), dict[str, int]()
    state = State(store, chunk_bytes=2048, policy=policy)
    for batch in range(1, 60):
        if chance.random() < 0.3:
            state = State(store, chunk_bytes=2048, policy=policy)
        table = state.table(T)
        picked = chance.sample(keys, chance.randrange(0, min(len(keys), 40)))
        changes = {key: None if chance.random() < 0.4 else batch for key in picked}
        assert looked_up(table, picked, hasher) == {k: expected[k] for k in picked if k in expected}
        write(table, changes, hasher)
        state.commit()
        expected.update({key: version for key, version in changes.items() if version is not None})
        for key in [key for key, version in changes.items() if version is None]:
            expected.pop(key, None)
        assert looked_up(table, keys, hasher) == expected
    assert scanned(table) == expected
    check_stored(state, store)
    state.commit(compact=True)
    assert scanned(table) == expected
    assert stored_rows(state) == len(expected)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.integers(1, 9)), max_size=8),
        max_size=25,
    ),
    st.sampled_from(list(HASHERS.values())),
)
def test_any_history_of_a_few_keys_ends_like_a_dictionary(history: list[dict[str, int | None]], hasher: Hasher) -> None:
    state, expected = State(MemoryChunkStore(), policy=EAGER), dict[str, int | None]()
    table = state.table(T)
    for changes in history:
        write(table, changes, hasher)
        state.commit()
        expected |= changes
    live = {key: version for key, version in expected.items() if version is not None}
    assert scanned(table) == looked_up(table, list("abcdefgh"), hasher) == live


def test_nothing_is_written_before_the_commit_and_lookups_see_the_last_one() -> None:
    store = MemoryChunkStore()
    state = State(store)
    table = state.table(T)
    write(table, {"a": 1})
    state.set_scalar("time", 5)
    assert (store.traffic.writes, store.manifest) == (0, None)
    assert looked_up(table, ["a"]) == {}
    state.commit()
    assert looked_up(table, ["a"]) == {"a": 1}


def test_a_commit_without_changes_writes_nothing() -> None:
    store = MemoryChunkStore()
    state = State(store)
    write(state.table(T), {"a": 1})
    state.commit()
    before = store.traffic
    state.commit()
    again = State(store)
    again.table(T)
    again.commit()
    assert (store.traffic.writes, store.traffic.removes) == (before.writes, before.removes)


def test_two_rows_of_one_key_in_one_commit_are_refused_by_name() -> None:
    state = State(MemoryChunkStore())
    table = state.table(T)
    write(table, {"a": 1, "b": 1})
    write(table, {"b": 2})
    with pytest.raises(StateError, match=r"two rows(.|\n)*'key': 'b'"):
        state.commit()


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_a_batch_replayed_after_a_crash_writes_the_same_bytes(policy: Policy) -> None:
    chance = random.Random(9)
    store = MemoryChunkStore()
    for batch in range(1, 40):
        changes = {f"k{i}": chance.choice([None, batch]) for i in chance.sample(range(100), 30)}
        before, results = store.snapshot(), []
        for _ in range(2):
            store.restore(before)
            state = State(store, chunk_bytes=2048, policy=policy)
            write(state.table(T), changes)
            state.set_scalar("time", batch)
            state.commit()
            results.append(store.snapshot())
        assert results[0] == results[1]


def test_going_back_to_an_older_batch_gives_the_older_rows(tmp_path: Path) -> None:
    store, cache, history = MemoryChunkStore(), RunCache(tmp_path), []
    for batch in range(1, 20):
        state = State(store, cache, policy=EAGER)
        table = state.table(T)
        write(table, {f"k{i}": batch for i in range(batch % 5, 100, 5)})
        state.commit()
        history.append((store.snapshot(), scanned(table)))
    for snapshot, expected in reversed(history):
        store.restore(snapshot)
        assert scanned(State(store, cache, policy=EAGER).table(T)) == expected


def test_a_lookup_reads_only_runs_that_may_hold_the_key() -> None:
    store = MemoryChunkStore()
    state = State(store, chunk_bytes=4096, policy=Policy(segment=4096))
    table = state.table(T)
    write(table, {f"k{i}": 1 for i in range(2000)})
    state.commit()
    assert len(list(levels(state)[0].pieces())) > 10
    fresh = State(store).table(T)
    before = store.traffic.reads
    assert looked_up(fresh, ["k77"]) == {"k77": 1}
    assert store.traffic.reads - before <= 2


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([float("nan"), 0.0, -0.0, 1.5, None]),
        pa.array([2**53, 2**53 + 1, 2**63 - 1, -(2**63), None]),
        pa.array(["", "\0", "\0\0", "a\0", None]),
        pa.array([{"a": {"b": None}}, {"a": None}, {"a": {"b": "x"}}, None]),
        pa.array([[1], [], [None], None], pa.list_(pa.int32())),
    ],
    ids=["float", "int64", "text", "struct", "list"],
)
def test_keys_of_every_kind_are_found_again(keys: pa.Array, tmp_path: Path) -> None:
    schema = pa.schema([("hash", pa.int64()), ("key", keys.type), ("value", pa.int64())])
    store = MemoryChunkStore()
    for cache in (None, RunCache(tmp_path)):
        for round_ in range(3):
            state = State(store, cache)
            table = state.table(declared("t", schema))
            values = pa.array(np.arange(len(keys)) + round_)
            table.put(pa.table({"hash": hash_keys(keys), "key": keys, "value": values}, schema=schema))
            state.commit()
            assert (
                State(store, cache).table(declared("t", schema)).point(hash_keys(keys), keys).aligned("value") == values
            )
            assert stored_rows(state) == len(keys)


def test_only_the_asked_columns_are_gathered() -> None:
    state = State(MemoryChunkStore())
    table = state.table(T)
    write(table, {"a": 1, "b": 2})
    state.commit()
    keys = pa.array(["a", "x"])
    lookup = table.point(hash_keys(keys), keys, columns=["ts"])
    assert lookup.rows.column_names == ["ts"]
    assert lookup.aligned("ts").to_pylist() == [1, None]


def test_a_table_asked_for_with_other_columns_is_refused() -> None:
    store = MemoryChunkStore()
    state = State(store)
    write(state.table(T), {"a": 1})
    state.commit()
    other = SCHEMA.set(3, pa.field("ts", pa.int32()))
    for again in (state, State(store)):
        with pytest.raises(StateError, match=r"stored with other columns(.|\n)*ts: int32(.|\n)*ts: int64"):
            again.table(declared("t", other))


def test_rows_that_do_not_fit_the_table_are_refused() -> None:
    table = State(MemoryChunkStore()).table(T)
    with pytest.raises(StateError, match="do not fit"):
        table.put(pa.table({"hash": [1], "key": ["a"]}))
    with pytest.raises(StateError, match="column key is int64"):
        table.put(pa.table({"hash": [1], "key": [1], "value": [None], "ts": [1]}))
    with pytest.raises(StateError, match="2 flags for 0 rows"):
        table.put(SCHEMA.empty_table(), [True, False])


def test_scalars_live_in_the_manifest_and_must_survive_json() -> None:
    store = MemoryChunkStore()
    state = State(store)
    state.set_scalar("time", {"0": 2**62, "1": -1})
    state.commit()
    value = State(store).get_scalar("time")
    assert value == {"0": 2**62, "1": -1}
    value["0"] = 0
    assert State(store).get_scalar("time")["0"] == 2**62
    assert State(store).get_scalar("absent", 7) == 7
    for bad in (float("nan"), {1: 2}, b"x", (1, 2)):
        with pytest.raises(StateError, match="does not survive JSON"):
            state.set_scalar("bad", bad)


def test_tables_of_one_state_do_not_mix() -> None:
    store = MemoryChunkStore()
    for batch in range(1, 10):
        state = State(store, policy=EAGER)
        write(state.table(declared("left", SCHEMA)), {f"k{i}": batch for i in range(50)})
        if batch % 2:
            write(state.table(declared("right", SCHEMA)), {f"k{i}": 100 + batch for i in range(25)})
        state.commit()
    state = State(store)
    assert scanned(state.table(declared("left", SCHEMA))) == {f"k{i}": 9 for i in range(50)}
    assert scanned(state.table(declared("right", SCHEMA))) == {f"k{i}": 109 for i in range(25)}
    check_stored(state, store)
