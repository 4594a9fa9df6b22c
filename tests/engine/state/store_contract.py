"""What every chunk store must do: checks that take an empty store, so that any adapter can be tried.

`CONTRACT` runs here over the store in memory, and wherever Spark's adapter is tried, over that one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.state.state_kit import declared
from tests.engine.state.table_contract import TABLE_CONTRACT
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import ChunkStore, State

SCHEMA = pa.schema([("hash", pa.int64()), ("key", pa.int64()), ("value", pa.string())])


def an_empty_store_has_no_manifest(store: ChunkStore) -> None:
    assert store.get_manifest() is None


def the_manifest_is_the_last_one_put(store: ChunkStore) -> None:
    store.put_manifest(b"first")
    store.put_manifest(b"second\0\xff")
    assert store.get_manifest() == b"second\0\xff"


def chunks_are_told_apart_by_run_and_number(store: ChunkStore) -> None:
    for run in ("a", "b"):
        for chunk in (0, 1, 11):
            store.put_chunk(run, chunk, f"{run}{chunk}".encode())
    assert store.get_chunk("a", 1) == b"a1"
    assert store.get_chunk("a", 11) == b"a11"
    assert store.get_chunk("b", 0) == b"b0"


def a_missing_chunk_is_a_key_error(store: ChunkStore) -> None:
    store.put_chunk("a", 0, b"x")
    for run, chunk in (("a", 1), ("b", 0)):
        with pytest.raises(KeyError):
            store.get_chunk(run, chunk)


def a_removed_chunk_is_gone_and_removing_it_again_is_no_error(store: ChunkStore) -> None:
    store.put_chunk("a", 0, b"x")
    store.put_chunk("a", 1, b"y")
    store.remove_chunk("a", 0)
    store.remove_chunk("a", 0)
    with pytest.raises(KeyError):
        store.get_chunk("a", 0)
    assert store.get_chunk("a", 1) == b"y"


def empty_and_large_chunks_come_back_whole(store: ChunkStore) -> None:
    large = np.random.default_rng(1).bytes(16 << 20)
    store.put_chunk("a", 0, b"")
    store.put_chunk("a", 1, large)
    assert store.get_chunk("a", 0) == b""
    assert store.get_chunk("a", 1) == large


def a_state_finds_again_what_another_wrote(store: ChunkStore) -> None:
    expected: dict[int, str] = {}
    for batch in range(12):
        state = State(store, policy=Policy(small=1 << 10))
        assert state.get_scalar("batch", -1) == batch - 1
        state.set_scalar("batch", batch)
        table = state.table(declared("latest", SCHEMA))
        assert {row["key"]: row["value"] for part in table.scan() for row in part.to_pylist()} == expected
        keys = pa.array(np.random.default_rng(batch).permutation(200)[:80])
        deleted = np.arange(80) < 30
        values = pa.array([f"{batch}-{key}" for key in keys.to_pylist()])
        table.put(pa.table({"hash": hash_keys(keys), "key": keys, "value": values}), deleted)
        for key, value, gone in zip(keys.to_pylist(), values.to_pylist(), deleted, strict=True):
            expected.pop(key, None) if gone else expected.update({key: value})
        state.commit()


CONTRACT: list[Callable[[ChunkStore], None]] = [
    an_empty_store_has_no_manifest,
    the_manifest_is_the_last_one_put,
    chunks_are_told_apart_by_run_and_number,
    a_missing_chunk_is_a_key_error,
    a_removed_chunk_is_gone_and_removing_it_again_is_no_error,
    empty_and_large_chunks_come_back_whole,
    a_state_finds_again_what_another_wrote,
    *TABLE_CONTRACT,
]
