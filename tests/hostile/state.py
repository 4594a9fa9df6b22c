"""The state of a shard, and files of the cache, that were altered."""

from __future__ import annotations

import json
import random
import shutil
import struct
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.engine.state.state_kit import EAGER
from tests.hostile.mutations import OTHER, RIGHT, WRONG, headed, mutated, other_json
from watersmeet._engine import row_sizes
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state import manifest as described
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.manifest import Chunk, checksum
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._plan.declaration import Retention, TableSchema

ROWS = 300
KIND = pa.struct([("n", pa.int64()), ("tags", pa.list_(pa.string()))])
PLAIN = TableSchema("plain", (("key", pa.string()), ("value", KIND), ("at", pa.int64())))
TIMED = TableSchema(
    "timed",
    (("key", pa.string()), ("ts", pa.int64()), ("partition", pa.int64()), ("value", pa.binary())),
    identity=(),
    order=("ts",),
    retention=Retention("ts", "partition"),
    due=(),
)


def history(store: MemoryChunkStore, cache: RunCache | None = None) -> dict[str, Any]:
    """Some commits of two tables, and what they leave; the rows of both in plain Python."""
    chance = random.Random(11)
    truth: dict[str, int] = {}
    timed: list[tuple[str, int]] = []
    for commit in range(6):
        state = State(store, cache, chunk_bytes=4_000, policy=EAGER if commit < 4 else None)
        keys = sorted(chance.sample(range(ROWS), 200 if commit == 0 else 20))
        names = pa.array([f"k{key}" for key in keys])
        values = [{"n": commit, "tags": [str(key)] * (key % 3)} for key in keys]
        rows = {"hash": hash_keys(names), "key": names, "value": pa.array(values, KIND), "at": pa.array(keys)}
        state.table(PLAIN).put(pa.table(rows), [key % 7 == commit for key in keys])
        truth |= {f"k{key}": -1 if key % 7 == commit else commit for key in keys}
        times = [commit * 100 + n for n in range(15)]
        names = pa.array([f"k{n % 4}" for n in times])
        rows = {"hash": hash_keys(names), "key": names, "ts": pa.array(times), "partition": pa.array([0] * 15)}
        state.table(TIMED).put(pa.table({**rows, "value": pa.array([b"v"] * 15, pa.binary())}))
        timed += list(zip(names.to_pylist(), times, strict=True))
        state.set_scalar("time", {"0": commit})
        state.commit()
    return {"plain": {k: v for k, v in truth.items() if v >= 0}, "timed": sorted(timed), "scalar": {"0": 5}}


def read_all(state: State) -> dict[str, Any]:
    """The same, read by every way there is, and once more behind a commit that merges."""
    plain, timed = state.table(PLAIN), state.table(TIMED)
    found: dict[str, Any] = {"scalar": state.get_scalar("time")}
    asked = pa.array([f"k{n}" for n in range(ROWS)])
    values = plain.point(hash_keys(asked), asked).aligned("value").to_pylist()
    found["plain"] = {key: value["n"] for key, value in zip(asked.to_pylist(), values, strict=True) if value}
    scanned = {row["key"]: (row["value"] or {}).get("n") for part in plain.scan() for row in part.to_pylist()}
    few = pa.array([f"k{n}" for n in range(4)])
    rows = timed.rows(hash_keys(few), few).rows
    found["timed"] = sorted(zip(rows["key"].to_pylist(), rows["ts"].to_pylist(), strict=True))
    low, high = np.zeros(4, dtype=np.int64), np.full(4, 10_000)
    ranged = timed.range(hash_keys(few), few, low, high).rows
    due = sum(len(hit.rows) for hit in timed.due(0, 10_000))
    others: list[Any] = [scanned, sorted(zip(ranged["key"].to_pylist(), ranged["ts"].to_pylist(), strict=True))]
    if [*others, due] != [found["plain"], found["timed"], len(found["timed"])]:
        found["others"] = [*others, due]
    timed.expire({0: 50})
    state.commit(compact=True)
    scanned = {row["key"]: (row["value"] or {}).get("n") for part in plain.scan() for row in part.to_pylist()}
    if scanned != found["plain"]:
        found["behind a commit"] = scanned
    return found


@cache
def written() -> tuple[MemoryChunkStore, dict[str, Any]]:
    """The state whose bytes are altered."""
    store = MemoryChunkStore()
    return store, history(store)


def copied() -> tuple[MemoryChunkStore, dict[str, Any]]:
    store, truth = written()
    return MemoryChunkStore(store.manifest, dict(store.chunks)), truth


def state(chance: random.Random, number: int) -> str:
    """A chunk or a manifest that was altered."""
    store, truth = copied()
    places = sorted(store.chunks)
    at = chance.choice(places)
    if chance.random() < 0.3:
        assert store.manifest is not None
        store.manifest = mutated(chance, store.manifest, store.chunks[at])
    elif chance.random() < 0.1:
        store.remove_chunk(*at)
    else:
        store.chunks[at] = mutated(chance, store.chunks[at], store.chunks[chance.choice(places)])
    return RIGHT if read_all(State(store)) == truth else WRONG


def sealed_chunk(chance: random.Random, number: int) -> str:
    """A run that was altered by somebody who makes the sums and the manifest anew."""
    store, truth = copied()
    assert store.manifest is not None
    manifest = mf.read(store.manifest)
    runs = {run.id: run for entry in manifest.tables.values() for run in entry.runs()}
    run = runs[chance.choice(sorted(runs))]
    description, first = described.opened(run.id, store.chunks[run.id, 0])
    parts = [bytes(first), *(store.chunks[run.id, n] for n in range(1, run.chunks))]
    at = chance.randrange(len(parts))
    parts[at] = _altered_blob(chance, parts[at])
    told = tuple(Chunk(c.rows, len(p), checksum(p)) for c, p in zip(description.chunks, parts, strict=True))
    if chance.random() < 0.2:
        told = tuple(replace(c, rows=chance.choice([c.rows, 0, 2**40])) for c in told)
    description = replace(description, chunks=told)
    now = replace(run, id=described.run_id(description))
    for n, part in enumerate(parts):
        store.put_chunk(now.id, n, part if n else described.with_description(description, part))
    store.manifest = mf.write(_with_run(manifest, run, now))
    return RIGHT if read_all(State(store)) == truth else OTHER


def _altered_blob(chance: random.Random, content: bytes) -> bytes:
    if chance.random() < 0.5:
        return headed(mutated(chance, content[16:]))
    table = row_sizes.decode(content)
    name = chance.choice(table.column_names)
    at = table.column_names.index(name)
    rows = len(table)
    shuffled = table.column(name).take(pa.array(chance.choices(range(rows), k=rows)))
    lies = [0, -1, 2**31 - 1, 2**62, -(2**63)]
    others: list[Callable[[], pa.Table]] = [
        lambda: table.remove_column(at),
        lambda: table.set_column(at, name, shuffled),
        lambda: table.set_column(at, name, pa.array([chance.choice(lies) for _ in range(rows)], pa.int64())),
        lambda: table.set_column(at, name, pa.nulls(rows, table.schema.field(name).type)),
        lambda: table.slice(0, chance.randrange(rows + 1)),
        lambda: pa.concat_tables([table, table]),
        lambda: table.rename_columns([chance.choice(["hash", "key", n]) for n in table.column_names]),
        lambda: table.take(pa.array(chance.sample(range(rows), rows))),
    ]
    if name == "__due":
        wild = pa.array([chance.choice([0, -1, rows, 2**31 - 1, -5]) for _ in range(rows)], pa.int32())
        others += [lambda: table.set_column(at, name, wild)] * 4
    return row_sizes.encode(chance.choice(others)())


def _with_run(manifest: mf.Manifest, run: mf.Run, now: mf.Run) -> mf.Manifest:
    def layer(pieces: mf.Layer) -> mf.Layer:
        return tuple(replace(piece, run=now) if piece.run.id == run.id else piece for piece in pieces)

    def level(given: mf.RunLayer) -> mf.RunLayer:
        return replace(given, layers=tuple(map(layer, given.layers)), done=layer(given.done))

    tables = {name: replace(t, levels=tuple(map(level, t.levels))) for name, t in manifest.tables.items()}
    return replace(manifest, tables=tables)


def sealed_manifest(chance: random.Random, number: int) -> str:
    """A manifest that says something else, with its sum made anew."""
    store, truth = copied()
    assert store.manifest is not None
    body = json.loads(store.manifest[24:])
    if chance.random() < 0.1:
        text = mutated(chance, json.dumps(body).encode())
    elif chance.random() < 0.05:
        text = b"[" * 200_000
    else:
        for _ in range(chance.choice([1, 1, 3])):
            body = other_json(chance, body)
        text = json.dumps(body).encode()
    store.manifest = struct.pack("<4sHH16s", mf.MAGIC, mf.VERSION, 0, bytes.fromhex(checksum(text))) + text
    return RIGHT if read_all(State(store)) == truth else OTHER


def cache_files(chance: random.Random, number: int) -> str:
    """A file of the cache that was altered, cut off, exchanged or put aside, in this process or before it began."""
    store, truth = copied()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "cache"
        before = RunCache(root, say=lambda text: None)
        assert read_all(State(copied()[0], before)) == truth
        files = sorted(root.glob("*.run"))
        for _ in range(chance.choice([1, 3])):
            _alter_file(chance, chance.choice(files), files)
        used = before if chance.random() < 0.5 else RunCache(root, say=lambda text: None)
        return RIGHT if read_all(State(store, used)) == truth else WRONG


def _alter_file(chance: random.Random, file: Path, files: list[Path]) -> None:
    content = file.read_bytes() if file.is_file() else b"x"
    match chance.choice(["alter", "alter", "alter", "swap", "delete", "folder", "link"]):
        case "alter":
            # by a new file: one that is mapped and cut off would be the end of the process, as the page says
            _put_anew(file, mutated(chance, content))
        case "swap":
            other = chance.choice(files)
            _put_anew(file, other.read_bytes() if other.is_file() else b"")
        case "delete":
            _gone(file)
        case "folder":
            _gone(file)
            file.mkdir()
        case "link":
            _gone(file)
            file.symlink_to("/etc/hostname")


def _put_anew(file: Path, content: bytes) -> None:
    _gone(file)
    file.write_bytes(content)


def _gone(file: Path) -> None:
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)
