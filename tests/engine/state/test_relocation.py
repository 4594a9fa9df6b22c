"""Large rows are relocated, not merged: what stands in the oldest levels goes above, and nothing else changes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.state.state_kit import HASHERS, Hasher, check_stored
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.carry import CarriedTables, divide, overlapping, put_together
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State, Table
from watersmeet._plan.declaration import TableSchema

T = TableSchema("t", (("key", pa.string()), ("value", pa.string())))
SMALL = Policy(small=1 << 10, bulk=1 << 10)
MERGED = Policy(small=1 << 10, bulk=1 << 40)
STEPS = Policy(small=512, bulk=512, part=16, segment=6_000)
KEYS = [f"k{number}" for number in range(200)]
Rows = dict[str, str]


def value(commit: int, size: int) -> str:
    """Text that is hard to compress."""
    return random.Random(commit).randbytes(size // 2).hex()


def put(table: Table, changes: dict[str, str | None], hasher: Hasher = hash_keys) -> None:
    """Write a value of each key, None for a delete."""
    keys = pa.array(list(changes), pa.string())
    rows = {"hash": hasher(keys), "key": keys, "value": pa.array(list(changes.values()), pa.string())}
    table.put(pa.table(rows), [text is None for text in changes.values()])


def draw(chance: random.Random, commit: int, size: int) -> dict[str, str | None]:
    """Changes of one commit: some keys, of which some are deleted."""
    keys = chance.sample(KEYS, chance.randrange(1, 40))
    return {key: None if chance.random() < 0.1 else value(commit, size) + key for key in keys}


def scanned(table: Table) -> Rows:
    rows = [row for part in table.scan() for row in part.to_pylist()]
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: row["value"] for row in rows}


def looked_up(table: Table, hasher: Hasher) -> Rows:
    keys = pa.array(KEYS, pa.string())
    texts = table.point(hasher(keys), keys).aligned("value").to_pylist()
    return {key: text for key, text in zip(KEYS, texts, strict=True) if text is not None}


def with_changes(rows: Rows, changes: dict[str, str | None]) -> Rows:
    return {key: text for key, text in {**rows, **changes}.items() if text is not None}


@pytest.mark.parametrize("policy", [SMALL, STEPS], ids=["usual", "small steps"])
@pytest.mark.parametrize("hasher", HASHERS.values(), ids=HASHERS.keys())
def test_random_histories_with_commits_that_are_lost_are_those_of_a_dictionary(
    policy: Policy, hasher: Hasher, tmp_path: Path
) -> None:
    for seed in range(2):
        chance, store, rows = random.Random(seed), MemoryChunkStore(), dict[str, str]()
        cache = RunCache(tmp_path / str(seed)) if seed else None
        for commit in range(20):
            # rows of both sizes: what a commit does is chosen by the mean of the table
            changes = draw(chance, commit, chance.choice([20, 300, 2_000]))
            before = store.snapshot()
            for lost in (chance.random() < 0.3, False):
                state = State(store, cache, policy=policy)
                put(state.table(T), changes, hasher)
                state.commit(compact=chance.random() < 0.02)
                if lost:
                    store.restore(before)
                    assert looked_up(State(store, cache, policy=policy).table(T), hasher) == rows
                    continue
                break
            rows = with_changes(rows, changes)
            opened = State(store, cache, policy=policy)
            check_stored(opened, store)
            assert scanned(opened.table(T)) == looked_up(opened.table(T), hasher) == rows


def history(policy: Policy, size: int, commits: int) -> tuple[MemoryChunkStore, list[int], int]:
    """Some keys, a tenth of which each commit updates; the bytes stored after each, and those of all changes."""
    chance, store, stored, changed = np.random.default_rng(1), MemoryChunkStore(), [], 0
    for commit in range(commits):
        state = State(store, policy=policy)
        keys = chance.choice(300, 300 if commit == 0 else 30, replace=False).tolist()
        put(state.table(T), {f"k{key}": value(300 * commit + key, size) for key in keys})
        state.commit()
        changed += size * len(keys)
        stored.append(sum(map(len, store.chunks.values())))
    return store, stored, changed


def test_over_hundreds_of_commits_the_store_has_about_twice_what_lives() -> None:
    _, stored, _ = history(SMALL, 600, 300)
    # hex compresses to half: what lives is what the first commit stored
    live = stored[0]
    assert max(stored[100:]) < 2.5 * live
    assert max(stored[200:]) < 1.05 * max(stored[100:200])


def test_large_rows_are_moved_a_quarter_as_often_as_they_are_changed_and_else_once() -> None:
    written = {}
    for name, policy in {"relocated": SMALL, "merged": MERGED}.items():
        store, stored, changed = history(policy, 600, 100)
        written[name] = store.traffic.bytes_written / (stored[0] * changed / 180_000)
    assert written["relocated"] < 1.5
    assert written["merged"] > 1.8


def test_small_rows_are_merged_as_ever() -> None:
    stores = [history(policy, 100, 60)[0] for policy in (SMALL, MERGED)]
    assert (stores[0].manifest, stores[0].chunks) == (stores[1].manifest, stores[1].chunks)


def test_small_batches_of_large_rows_are_merged_as_ever() -> None:
    stores = [history(policy, 600, 60)[0] for policy in (Policy(small=1 << 10, bulk=1 << 20), MERGED)]
    assert (stores[0].manifest, stores[0].chunks) == (stores[1].manifest, stores[1].chunks)


def test_rows_that_are_relocated_are_no_changes_for_who_watches() -> None:
    store, chance = MemoryChunkStore(), random.Random(3)
    for commit in range(60):
        state, watched = State(store, policy=SMALL), list[str]()
        state.watch = lambda _, rows, watched=watched: watched.extend(rows.column("key").to_pylist())
        changes = {key: value(commit, 600) for key in chance.sample(KEYS, 20)}
        put(state.table(T), changes)
        state.commit()
        assert sorted(watched) == sorted(changes)
    assert len(state.manifest.tables["t"].levels) > 1


def test_a_batch_in_parts_relocates_too() -> None:
    store, rows = MemoryChunkStore(), dict[str, str]()
    policy = Policy(small=1 << 10, bulk=1 << 10, segment=4_000)
    for commit in range(40):
        state = State(store, policy=policy)
        table = state.table(T)
        texts = {key: value(commit, 600) + key for key in random.Random(commit).sample(KEYS, 40)}
        changes = sorted(texts.items(), key=lambda item: int(hash_keys(pa.array([item[0]]))[0]))
        for start in range(0, 40, 10):
            put(table, dict(changes[start : start + 10]))
            state.finish_part()
        state.commit()
        rows |= texts
        assert scanned(State(store).table(T)) == rows
        check_stored(State(store), store)
    assert sum(map(len, store.chunks.values())) < 3 * 600 * len(KEYS)


def test_a_deleted_key_does_not_come_back_and_its_tombstone_goes() -> None:
    store = MemoryChunkStore()
    for commit in range(80):
        state = State(store, policy=SMALL)
        table = state.table(T)
        keys = random.Random(commit).sample(KEYS[10:], 30)
        changes: dict[str, str | None] = {key: value(commit, 600) for key in (KEYS if commit == 0 else keys)}
        put(table, changes | (dict.fromkeys(KEYS[:10]) if commit == 3 else {}))
        state.commit()
        assert scanned(table).keys() == set(KEYS if commit < 3 else KEYS[10:])
    assert sum(level.tombstones for level in state.manifest.tables["t"].levels) == 0


def test_other_numbers_of_shards_have_the_rows_that_were_relocated() -> None:
    store, _, _ = history(SMALL, 600, 60)
    parts = {shard: MemoryChunkStore() for shard in overlapping(0, 1, 3)}
    divide(store, CarriedTables((("t", T),), scalars=True), 0, (1, 3), parts.__getitem__)
    merged = MemoryChunkStore(put_together([part.manifest or b"" for part in parts.values()]))
    for part in parts.values():
        merged.chunks |= part.chunks
    assert scanned(State(merged).table(T)) == scanned(State(store).table(T))
