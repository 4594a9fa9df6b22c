"""The store in memory: keeps the contract of all stores, can go back in time, and counts what crosses it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.state.store_contract import CONTRACT
from watersmeet._engine.state.runs import ChunkStore, MemoryChunkStore


@pytest.mark.parametrize("keeps", CONTRACT, ids=lambda check: check.__name__)
def test_the_store_in_memory_keeps_the_contract(keeps: Callable[[ChunkStore], None]) -> None:
    keeps(MemoryChunkStore())


def test_restoring_brings_back_removed_replaced_and_takes_away_added_things() -> None:
    store = MemoryChunkStore()
    store.put_manifest(b"old")
    store.put_chunk("kept", 0, b"old")
    store.put_chunk("gone", 0, b"old")
    before = store.snapshot()
    store.put_manifest(b"new")
    store.put_chunk("kept", 0, b"new")
    store.put_chunk("more", 0, b"new")
    store.remove_chunk("gone", 0)
    store.restore(before)
    assert store.manifest == b"old"
    assert store.chunks == {("kept", 0): b"old", ("gone", 0): b"old"}
    store.remove_chunk("kept", 0)
    store.restore(before)
    assert store.get_chunk("kept", 0) == b"old"


def test_calls_and_bytes_are_counted() -> None:
    store = MemoryChunkStore()
    store.put_chunk("a", 0, b"four")
    store.put_manifest(b"12345")
    store.get_chunk("a", 0)
    store.remove_chunk("a", 0)
    was = store.traffic
    assert (was.writes, was.bytes_written, was.reads, was.bytes_read, was.removes) == (2, 9, 1, 4, 1)
