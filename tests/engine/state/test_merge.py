"""Merging runs: nothing deleted stays, nothing live goes, and a commit's work is bounded."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.state.state_kit import (
    POLICIES,
    T,
    check_stored,
    levels,
    looked_up,
    scanned,
    stored_rows,
    write,
)
from watersmeet._engine.state.manifest import Run, RunLayer, piece_of
from watersmeet._engine.state.merge import Policy, is_wasteful, plan
from watersmeet._engine.state.runs import MemoryChunkStore, State


def test_puts_of_different_keys_become_one_run() -> None:
    state = State(MemoryChunkStore())
    table = state.table(T)
    write(table, {"a": 1})
    write(table, {"b": 1})
    state.commit()
    assert [len(list(level.pieces())) for level in levels(state)] == [1]
    assert scanned(table) == {"a": 1, "b": 1}


def test_a_deleted_key_leaves_nothing_behind_after_a_merge() -> None:
    store = MemoryChunkStore()
    state = State(store)
    table = state.table(T)
    write(table, {"secret-key": 1, "b": 1})
    state.commit()
    write(table, {"secret-key": None})
    state.commit(compact=True)
    assert scanned(table) == {"b": 1}
    assert stored_rows(state) == 1


def test_a_tombstone_stays_while_an_older_run_has_the_key() -> None:
    state = State(MemoryChunkStore(), policy=Policy(small=1, work=1, fanout=4))
    table = state.table(T)
    write(table, {f"k{i}": 1 for i in range(1000)})
    state.commit()
    write(table, {"k7": None})
    # Four newer levels are merged with each other, not with the oldest: the tombstone must survive that.
    for batch in range(2, 12):
        state.commit()
        assert looked_up(table, ["k7"]) == {}
        write(table, {"k8": batch})
    assert len(levels(state)) > 1
    assert scanned(table).keys() == {f"k{i}" for i in range(1000)} - {"k7"}


def test_a_tombstone_holds_no_value() -> None:
    state = State(MemoryChunkStore(), policy=Policy(small=1))
    table = state.table(T)
    write(table, {f"k{i}": 1 for i in range(50)})
    state.commit()
    write(table, {"k1": None})
    (batch,) = table.changes(1 << 20, drop_tombstones=False)
    assert batch.column("key").to_pylist() == ["k1"]
    assert batch.column("value").null_count == batch.column("ts").null_count == 1


def test_deletes_of_absent_keys_into_an_empty_table_leave_no_run() -> None:
    state = State(MemoryChunkStore())
    table = state.table(T)
    write(table, {"a": None, "b": None})
    state.commit()
    assert levels(state) == ()


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_insert_then_delete_everything_leaves_no_run(policy: Policy) -> None:
    store = MemoryChunkStore()
    state = State(store, policy=policy)
    table = state.table(T)
    keys = [f"k{i}" for i in range(500)]
    for begin in range(0, 500, 50):
        write(table, dict.fromkeys(keys[begin : begin + 50], 1))
        state.commit()
    for begin in range(0, 500, 50):
        write(table, dict.fromkeys(keys[begin : begin + 50]))
        state.commit()
    assert scanned(table) == {}
    # The last tombstones go with later commits, as far as a commit's share of work allows.
    for batch in range(60):
        write(table, dict.fromkeys(keys[:50], None if batch % 2 else batch))
        state.commit()
    assert stored_rows(state) <= 500
    state.commit(compact=True)
    assert levels(state) == ()
    assert store.chunks == {}


def test_deleting_a_large_table_at_once_frees_it_without_being_asked() -> None:
    state = State(MemoryChunkStore())
    table = state.table(T)
    keys = [f"k{i}" for i in range(5000)]
    write(table, dict.fromkeys(keys, 1))
    state.commit()
    write(table, dict.fromkeys(keys))
    state.commit()
    assert levels(state) == ()


def test_merging_under_way_goes_on_in_another_process_and_ends() -> None:
    policy = Policy(small=1, work=1, steps=1000, segment=2048)
    store, expected, seen_merging = MemoryChunkStore(), dict[str, int](), False
    for batch in range(1, 120):
        state = State(store, policy=policy)
        table = state.table(T)
        changes = {f"k{i}": batch for i in random.Random(batch).sample(range(400), 20)}
        write(table, dict(changes))
        expected |= changes
        state.commit()
        seen_merging |= any(level.merging and level.done for level in levels(state))
        assert looked_up(table, list(expected)) == expected
        assert len(levels(state)) < 20
    assert seen_merging
    # Without a bound on old versions all 2400 rows would still lie there.
    assert stored_rows(State(store, policy=policy)) < 1600


def test_the_work_of_a_commit_follows_the_batch_not_the_state() -> None:
    store = MemoryChunkStore()
    state = State(store, policy=Policy(small=1 << 12))
    table = state.table(T)
    write(table, {f"k{i}": 1 for i in range(20_000)})
    state.commit()
    whole = sum(map(len, store.chunks.values()))
    written = []
    for batch in range(2, 260):
        write(table, {f"k{i}": batch for i in random.Random(batch).sample(range(20_000), 200)})
        before = set(store.chunks)
        state.commit()
        written.append(sum(len(blob) for place, blob in store.chunks.items() if place not in before))
    assert max(written) < whole / 4
    # Each batch is a hundredth of the state: one that rewrote all of it would come to 258.
    assert sum(written) < 12 * whole


def test_levels_grow_with_the_logarithm_of_the_number_of_batches() -> None:
    state = State(MemoryChunkStore(), policy=Policy(small=1 << 8, fanout=4))
    table = state.table(T)
    most = 0
    for batch in range(1, 300):
        write(table, {f"k{batch}-{i}": batch for i in range(20)})
        state.commit()
        most = max(most, len(levels(state)))
    assert most <= 20


def test_equal_commits_of_one_store_make_runs_of_their_own() -> None:
    store = MemoryChunkStore()
    state = State(store, policy=Policy(small=1))
    table = state.table(T)
    write(table, {f"k{i}": 1 for i in range(100)})
    state.commit()
    for _ in range(3):
        write(table, {"k1": 1})
        state.commit()
    check_stored(state, store)
    assert len({run.id for run in state.manifest.tables["t"].runs()}) == 4


def level(rows: int, tombstones: int = 0) -> RunLayer:
    return RunLayer(((piece_of(Run("id", rows, rows * 100, 0, 1, tombstones)),),))


def planned(*levels: RunLayer, wasteful: bool = True) -> list[int]:
    """How many layers each level has after planning; nothing here is small enough to be merged at once."""
    return [len(each.layers) for each in plan(levels, Policy(small=1, fanout=4), lambda layers: wasteful)]


def test_four_levels_of_one_size_are_merged_and_three_are_not() -> None:
    assert planned(*[level(100)] * 3, level(100_000)) == [1, 1, 1, 1]
    assert planned(*[level(100)] * 4, level(100_000)) == [4, 1]
    assert planned(level(1), *[level(100)] * 4, level(100_000)) == [5, 1]


def test_levels_that_are_being_merged_are_left_alone() -> None:
    busy = RunLayer(level(100).layers * 2)
    assert planned(level(100), level(100), busy, level(100), level(100), level(100_000)) == [1, 1, 2, 1, 1, 1]


def test_the_oldest_level_is_merged_when_the_newer_ones_have_as_many_rows_and_half_are_there_for_nothing() -> None:
    assert planned(level(499), level(500), level(1000)) == [1, 1, 1]
    assert planned(level(500), level(500), level(1000), wasteful=True) == [3]
    assert planned(level(100_000), level(10), wasteful=True) == [2]


def test_the_oldest_level_is_left_alone_while_the_newer_ones_replace_little() -> None:
    assert planned(level(500), level(500), level(1000), wasteful=False) == [1, 1, 1]
    assert planned(*[level(100)] * 4, wasteful=False) == [4]


def rows_per_key(state: State, batches: int, keys: int) -> list[float]:
    """Rows kept for each key that lives, after each batch of a hundred keys; the keys come round and round."""
    table, kept = state.table(T), []
    for batch in range(batches):
        write(table, {f"k{(100 * batch + i) % keys}": batch for i in range(100)})
        state.commit()
        kept.append(sum(each.rows for each in levels(state)) / min(keys, 100 * batch + 100))
    return kept


def test_keys_that_are_all_new_are_not_rewritten_before_a_dozen_batches_are_together() -> None:
    store = MemoryChunkStore()
    state = State(store, policy=Policy(small=1 << 10))
    assert rows_per_key(state, 11, 5_000) == [1.0] * 11
    assert len(levels(state)) == 11
    check_stored(state, store)
    write(state.table(T), {f"new{i}": 1 for i in range(100)})
    state.commit()
    assert len(levels(state)) == 1
    assert stored_rows(state) == 1_200


def test_a_table_that_is_updated_keeps_about_two_rows_per_key_at_most() -> None:
    kept = rows_per_key(State(MemoryChunkStore(), policy=Policy(small=1 << 10)), 200, 1_000)
    assert 1.5 < max(kept) < 2.2


def test_whether_rows_are_there_for_nothing_is_seen_from_a_sample_of_them() -> None:
    store = MemoryChunkStore()
    state = State(store, policy=Policy(small=1 << 10))
    table = state.table(T)
    for batch in range(3):
        write(table, {f"k{i % 50_000}": batch for i in range(40_000 * batch, 40_000 * batch + 40_000)})
        state.commit()
        # three of eight rows are there for nothing after the second batch, seven of twelve after the third
        assert [each.merging for each in levels(state)] == [[False], [False, False], [True]][batch]


@pytest.mark.parametrize("spread", [1, 2**40])
@pytest.mark.parametrize("first", [0, 30_000, 100_000])
def test_samples_are_small_and_come_everywhere_however_close_hashes_lie(spread: int, first: int) -> None:
    found = {name: np.arange(begin, begin + 100_000) * spread for name, begin in {"old": 0, "new": first}.items()}
    batches = {name: pa.record_batch({"hash": pa.array(each)}) for name, each in found.items()}
    layers = [
        (piece_of(Run(name, 100_000, 1, int(found[name][0]), int(found[name][-1]), 0)),) for name in ("new", "old")
    ]
    sampled = []

    def left(slices: Sequence[pa.RecordBatch]) -> int:
        sampled.append(sum(len(each) for each in slices))
        return len(np.unique(np.concatenate([each.column("hash").to_numpy() for each in slices])))

    said = [is_wasteful(layers, commit, lambda piece: batches[piece.run.id], left, 600) for commit in range(200)]
    # where both have a row a merge leaves half of them, and below the first of the new ones all
    assert abs(sum(said) / 200 - (1 - first / 100_000)) < 0.02
    assert 500 <= min(sampled) <= max(sampled) <= 1_300


def test_a_tombstone_counts_twice_since_it_removes_two_rows() -> None:
    assert planned(level(500, tombstones=499), level(1000)) == [1, 1]
    assert planned(level(500, tombstones=500), level(1000)) == [2]


def test_an_oldest_level_that_is_half_tombstones_is_cleaned_by_itself() -> None:
    assert planned(level(100_000), level(1000, tombstones=499))[-1:] == [2]
    assert planned(level(1000, tombstones=499)) == [1]
    assert planned(level(1000, tombstones=500)) == [2]
