"""A batch in slices of its hashes: the same results and the same state as in one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from proof.engine import EngineDriver
from tests.engine.rows.test_bytes import KINDS, shared
from tests.engine.state.state_kit import T, check_stored, levels, scanned, write
from watersmeet._engine import operators, row_sizes
from watersmeet._engine.exchange import in_shards, shard_of
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state import runs
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State


def blob_of(keys: list[str]) -> pa.RecordBatch:
    kept = pa.array(keys, pa.string())
    return pa.RecordBatch.from_pydict({"hash": hash_keys(kept), "key": kept, "value": kept})


@pytest.mark.parametrize("ordered", [False, True])
def test_each_row_is_in_one_slice_and_a_keys_rows_are_in_the_same_one(*, ordered: bool) -> None:
    chance = random.Random(1)
    keys = [f"k{chance.randrange(300)}" for _ in range(2_000)] + ["hot"] * 1_000
    chance.shuffle(keys)
    if ordered:
        keys = [keys[at] for at in np.argsort(hash_keys(pa.array(keys)), kind="stable")]
    blobs = [blob_of(keys[begin : begin + 100]) for begin in range(0, 3_000, 100)]
    inputs = {0: pa.Table.from_batches(blobs[:20]), 2: pa.Table.from_batches(blobs[20:])}
    found = list(row_sizes.slices(inputs, 5_000))
    assert len(found) > 8
    seen: set[str] = set()
    highest = -(2**63)
    for part in found:
        named = {key for rows in part.values() for key in rows.column("key").to_pylist()}
        hashes = np.concatenate([rows.column("hash").to_numpy() for rows in part.values()])
        assert not named & seen
        assert hashes.min() > highest
        assert sum(rows.nbytes for rows in part.values()) < 20_000 or "hot" in named
        seen, highest = seen | named, int(hashes.max())
    for side, rows in inputs.items():
        given = [key for part in found if side in part for key in part[side].column("key").to_pylist()]
        assert sorted(given) == sorted(rows.column("key").to_pylist())


def test_slices_of_rows_in_order_of_their_hashes_are_views() -> None:
    keys = [f"k{number}" for number in range(1_000)]
    rows = blob_of([keys[at] for at in np.argsort(hash_keys(pa.array(keys)))])
    before = pa.total_allocated_bytes()
    found = list(row_sizes.slices({0: pa.Table.from_batches([rows])}, 5_000))
    values = [part[0].column("value").chunk(0).buffers()[2].address for part in found]
    assert len(found) > 4
    assert set(values) == {rows.column("value").buffers()[2].address}
    assert pa.total_allocated_bytes() - before < rows.nbytes / 2


def test_large_frames_are_packed_in_order_of_their_hashes_and_small_ones_by_shard() -> None:
    hashes = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 1_000)
    for given in (None, hashes):
        order = in_shards(shard_of(hashes, 7), given)
        assert (np.diff(shard_of(hashes, 7)[order]) >= 0).all()
        assert (np.diff(hashes[order].astype(object)) >= 0).all() == (given is not None)


def test_a_small_batch_is_not_cut() -> None:
    inputs = {0: pa.Table.from_batches([blob_of(["a", "b"])])}
    assert list(row_sizes.slices(inputs)) == [inputs]
    assert list(row_sizes.slices({})) == [{}]


def test_what_a_slice_puts_is_stored_before_the_next_one_where_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "HELD", 0)
    keys = [f"k{n}" for n in range(900)]
    ordered = [keys[at] for at in np.argsort(hash_keys(pa.array(keys)))]
    found = []
    for parts in (1, 9):
        store, policy = MemoryChunkStore(), Policy(segment=2_000, small=0)
        for commit in range(3):
            state = State(store, policy=policy)
            table, before = state.table(T), {run for run, _ in store.chunks}
            for begin in range(0, 900, 900 // parts):
                change = {key: None if commit and len(key) == 3 else commit for key in ordered[begin:][: 900 // parts]}
                write(table, change)
                state.finish_part()
                assert not table.changed
            assert len({run for run, _ in store.chunks} - before) >= parts
            state.commit()
            check_stored(state, store)
        found.append((scanned(State(store).table(T)), levels(state)[0].rows))
    assert found[0] == found[1]


def played(kind: str, *, cached: bool) -> tuple[list[Any], int]:
    """Results of random changes in three batches, by key in their order, and the rows that state then has."""
    chance = random.Random(3)
    driver = EngineDriver(shared(kind).build(), shards=2, record_cache=cached)
    ones = ["one", "two", "three"]
    for ts in range(3 * 80):
        if chance.random() < 0.2:
            driver.pipe("one", chance.choice(ones), chance.choice([None, f"o{ts}"]), ts=ts)
        else:
            key = chance.choice([*ones, *(f"k{n}" for n in range(30))])
            driver.pipe("many", key, chance.choice([None, f"m{ts}", f"n{ts}"]), ts=ts)
        if ts % 80 == 79:
            driver.run_batch()
    results = [(str(r.key), r.value, r.ts) for r in driver.read("out")]
    return sorted(results, key=lambda result: result[0]), driver.rows_in_stores()


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_in_slices_gives_what_it_gives_in_one(kind: str, cached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = played(kind, cached=cached)
    counted: list[int] = []

    def counting(inputs: Any) -> Any:
        parts = list(row_sizes.slices(inputs, 400))
        counted.append(len(parts))
        return parts

    monkeypatch.setattr(operators, "slices", counting)
    assert played(kind, cached=cached) == expected
    assert len(expected[0]) > 3
    assert (max(counted, default=0) > 3) == (kind not in ("stream_stream", "global_lookup"))
