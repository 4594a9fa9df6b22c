"""Runs as stored bytes: chunks of bounded size, and every altered, missing or cut byte noticed."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from tests.engine.state.state_kit import (
    SCHEMA,
    T,
    check_stored,
    declared,
    scanned,
    write,
)
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state import manifest, runs
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.manifest import opened
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet.errors import CorruptData, StateError


def test_no_chunk_is_larger_than_allowed_however_uneven_the_rows() -> None:
    chance = random.Random(2)
    schema = pa.schema([("hash", pa.int64()), ("key", pa.int64()), ("value", pa.binary())])
    store = MemoryChunkStore()
    state = State(store, chunk_bytes=20_000)
    keys = pa.array(range(300))
    values = [chance.randbytes(chance.choice([1, 10, 15_000])) for _ in range(300)]
    table = state.table(declared("t", schema))
    table.put(pa.table({"hash": hash_keys(keys), "key": keys, "value": values}, schema=schema))
    state.commit()
    assert max(chunk_sizes(store)) <= 20_000
    reread = State(store).table(declared("t", schema)).point(hash_keys(keys), keys)
    assert reread.aligned("value").to_pylist() == values


def chunk_sizes(store: MemoryChunkStore) -> list[int]:
    """Bytes of each chunk, without the description before the first one."""
    firsts = {run: opened(run, chunk)[0].chunks for (run, number), chunk in store.chunks.items() if not number}
    return [chunk.bytes for chunks in firsts.values() for chunk in chunks]


def put_sizes(state: State, sizes: dict[str, int]) -> None:
    keys = pa.array(sizes)
    values = [{"n": 1, "tags": [random.Random(i).randbytes(size).hex()]} for i, size in enumerate(sizes.values())]
    rows = pa.table({"hash": hash_keys(keys), "key": keys, "value": values, "ts": [1] * len(sizes)})
    state.table(T).put(rows.cast(SCHEMA))


def test_a_row_larger_than_a_chunk_is_a_chunk_of_its_own() -> None:
    store = MemoryChunkStore()
    state = State(store, chunk_bytes=4000)
    put_sizes(state, {"small": 0, "large": 4000, "tiny": 1})
    state.commit()
    assert sorted(len(blob) > 4000 for blob in store.chunks.values())[-2:] == [False, True]
    found = pa.concat_tables(State(store).table(T).scan())
    assert set(found["key"].to_pylist()) == {"small", "large", "tiny"}


def test_a_row_larger_than_what_the_store_bears_is_stored_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LARGEST", 1_000)
    store = MemoryChunkStore()
    state = State(store, chunk_bytes=500)
    put_sizes(state, {"small": 0, "large": 4_000, "tiny": 1})
    state.commit()
    assert max(chunk_sizes(store)) == 1_000
    found = pa.concat_tables(State(store).table(T).scan())
    assert {row["key"]: row["value"] for row in found.to_pylist()} == {
        row["key"]: row["value"] for row in pa.concat_tables(state.table(T).scan()).to_pylist()
    }


def test_a_row_too_large_for_the_store_is_refused_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LARGEST_ROW", 10_000)
    state = State(MemoryChunkStore(), chunk_bytes=500)
    put_sizes(state, {"small": 0, "huge": 10_000})
    with pytest.raises(StateError, match=r"too large(.|\n)*'huge'"):
        state.commit()


def filled_store() -> MemoryChunkStore:
    store = MemoryChunkStore()
    state = State(store, chunk_bytes=2048)
    write(state.table(T), {f"k{i}": 1 for i in range(200)})
    state.commit()
    return store


def test_a_missing_chunk_is_named() -> None:
    store = filled_store()
    store.chunks.pop(next(iter(store.chunks)))
    with pytest.raises(StateError, match="missing from the state store"):
        scanned(State(store).table(T))


def test_every_altered_or_cut_chunk_is_noticed() -> None:
    store = filled_store()
    place, blob = next(iter(store.chunks.items()))
    for bad in (blob[:-1], blob + b"\0", b"", *(flipped(blob, at) for at in range(0, len(blob), 37))):
        store.chunks[place] = bad
        with pytest.raises(CorruptData, match=place[0]):
            scanned(State(store).table(T))


def test_chunks_that_changed_places_are_noticed() -> None:
    store = filled_store()
    (one, first), (two, second), *_ = store.chunks.items()
    store.chunks[one], store.chunks[two] = second, first
    with pytest.raises(CorruptData):
        scanned(State(store).table(T))


def test_every_altered_or_cut_manifest_is_noticed() -> None:
    store = filled_store()
    good = store.manifest or b""
    bad = [good[:end] for end in range(0, len(good), 17)]
    for altered in [*bad, good + b" ", *(flipped(good, at) for at in range(len(good)) if at not in (6, 7))]:
        store.manifest = altered
        with pytest.raises(CorruptData):
            State(store)


def test_an_unknown_manifest_format_is_named() -> None:
    store = filled_store()
    store.manifest = b"WMMF\x07\x00" + (store.manifest or b"")[6:]
    with pytest.raises(CorruptData, match="format 7"):
        State(store)


@pytest.mark.parametrize(
    "scalar",
    [2**63, -(2**63) - 1, 1.5, True, None, "1", {"a": 1}, {"0": "1"}, {"0": {"0": {"0": 1}}}, [[[1]]], {str(2**63): 1}],
)
def test_a_scalar_that_nothing_here_writes_is_noticed_whatever_its_checksum(scalar: object) -> None:
    store = MemoryChunkStore()
    store.manifest = manifest.write(manifest.Manifest(scalars={"time": scalar}))
    with pytest.raises(CorruptData, match="contradicts itself"):
        State(store)


def test_scalars_of_each_kind_that_is_written_are_read() -> None:
    scalars = {"arrivals": 3, "time": {"0": 2**62, "-1": -(2**62)}, "reach": [{"0": -1}, {}], "quiet": {"1": [-1, 5]}}
    assert manifest.read(manifest.write(manifest.Manifest(scalars=scalars))).scalars == scalars


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def test_the_manifest_does_not_grow_with_what_runs_hold() -> None:
    sizes = []
    for chunk_bytes in (1 << 20, 500):
        store = MemoryChunkStore()
        state = State(store, chunk_bytes=chunk_bytes)
        write(state.table(T), {f"k{i}": 1 for i in range(2_000)})
        state.commit()
        check_stored(state, store)
        sizes.append((len(store.chunks), len(store.manifest or b"")))
    (few, small), (many, large) = sizes
    assert many > 50 * few
    assert large - small <= len(str(many))


def test_what_a_commit_makes_is_stored_when_it_is_made_and_removed_if_its_own_merges_use_it_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Watched(MemoryChunkStore):
        def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
            held.append(sum(batch.nbytes for batch in state._reader._batches.values()))
            super().put_chunk(run, chunk, blob)

    monkeypatch.setattr(runs, "HELD", 10_000)
    held: list[int] = []
    store, cache = Watched(), RunCache(tmp_path)
    rows: dict[str, int] = {}
    for commit in range(6):
        state = State(store, cache, policy=Policy(segment=5_000, small=0), chunk_bytes=1_000)
        new = {f"k{i}": commit for i in range(commit * 300, commit * 300 + 600)}
        write(state.table(T), new)
        rows |= new
        state.commit(compact=True)
        check_stored(state, store)
    assert max(held) <= 3 * 10_000 < sum(run.size for run in state.manifest.tables["t"].runs())
    assert store.traffic.removes > 0
    live = {run.id for run in state.manifest.tables["t"].runs()}
    assert {path.stem for path in tmp_path.iterdir()} == live | {*state.manifest.retired}
    assert scanned(State(store).table(T)) == rows


def test_rows_that_two_commits_write_alike_are_two_runs() -> None:
    store, ids = MemoryChunkStore(), set()
    for _ in range(2):
        state = State(store)
        write(state.table(T), {"k": 1})
        state.commit()
        check_stored(state, store)
        ids |= {run.id for run in state.manifest.tables["t"].runs()}
    assert len(ids) == 2
