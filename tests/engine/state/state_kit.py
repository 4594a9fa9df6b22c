"""What the tests of state share: a table with nested values, its histories, and ways to read it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.manifest import opened
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State, Table
from watersmeet._plan.declaration import TableSchema

SCHEMA = pa.schema(
    [
        ("hash", pa.int64()),
        ("key", pa.string()),
        ("value", pa.struct([("n", pa.int64()), ("tags", pa.list_(pa.string()))])),
        ("ts", pa.int64()),
    ]
)
# Every merge in many small steps; one row of this schema has some 50 bytes.
EAGER = Policy(small=64, work=2, steps=1000, segment=1024)
# Every commit relocates what stands in the oldest levels: all rows count as large, all batches as many.
RELOCATING = Policy(small=1, large_row=1, bulk=1, part=1000, segment=700)
POLICIES = {
    "eager": EAGER,
    "default": Policy(),
    "lazy": Policy(fanout=4, small=1, work=1, segment=256),
    "relocating": RELOCATING,
}
Hasher = Callable[[pa.Array], np.ndarray]
HASHERS: dict[str, Hasher] = {
    "hash": hash_keys,
    "constant": lambda keys: np.full(len(keys), 42, dtype=np.int64),
    "few": lambda keys: hash_keys(keys) >> 61,
}


def declared(name: str, columns: pa.Schema, **more: Any) -> TableSchema:
    """A table with these columns, the hash apart."""
    return TableSchema(name, tuple((field.name, field.type) for field in columns if field.name != "hash"), **more)


T = declared("t", SCHEMA)


def value_of(key: str, version: int) -> dict[str, Any]:
    return {"n": version, "tags": [key, None] * (version % 3)}


def write(table: Table, changes: dict[str, int | None], hasher: Hasher = hash_keys) -> None:
    """Put a version of each key, None for a delete."""
    keys = pa.array(list(changes), pa.string())
    versions = list(changes.values())
    values = [value_of(key, version or 0) for key, version in changes.items()]
    columns = {"hash": hasher(keys), "key": keys, "value": pa.array(values, SCHEMA.field("value").type)}
    rows = pa.table({**columns, "ts": pa.array([version or 0 for version in versions])})
    table.put(rows.cast(SCHEMA), [version is None for version in versions])


def scanned(table: Table) -> dict[str, int]:
    rows = [row for part in table.scan() for row in part.to_pylist()]
    assert len({row["key"] for row in rows}) == len(rows)
    assert all(row["value"] == value_of(row["key"], row["ts"]) for row in rows)
    return {row["key"]: row["ts"] for row in rows}


def looked_up(table: Table, keys: list[str], hasher: Hasher = hash_keys) -> dict[str, int]:
    asked = pa.array(keys, pa.string())
    lookup = table.point(hasher(asked), asked)
    assert (lookup.found == (lookup.index >= 0)).all()
    assert lookup.rows.num_rows == lookup.found.sum()
    found = asked.filter(pa.array(lookup.found))
    assert lookup.rows.column("key").take(pa.array(lookup.index[lookup.found])).combine_chunks().equals(found)
    times = lookup.aligned("ts").to_pylist()
    values = dict(zip(keys, lookup.aligned("value").to_pylist(), strict=True))
    # By `found`, not by what the values say: a tombstone that is handed out has none.
    result = {key: ts for key, ts, found in zip(keys, times, lookup.found, strict=True) if found}
    assert all(value == (value_of(key, result[key]) if key in result else None) for key, value in values.items())
    return result


def levels(state: State, name: str = "t") -> tuple[mf.RunLayer, ...]:
    return state.manifest.tables[name].levels


def stored_rows(state: State, name: str = "t") -> int:
    return sum(level.rows for level in levels(state, name))


def check_stored(state: State, store: MemoryChunkStore) -> None:
    """The store holds the chunks of the manifest and nothing else, each within its limit."""
    listed = {}
    for entry in state.manifest.tables.values():
        for run in entry.runs():
            description, first = opened(run.id, store.chunks[run.id, 0])
            assert (run.id, 0) not in listed
            assert len(description.chunks) == run.chunks
            listed |= {(run.id, number): chunk.bytes for number, chunk in enumerate(description.chunks)}
            listed[run.id, 0] += len(store.chunks[run.id, 0]) - len(first)
    assert {place: len(blob) for place, blob in store.chunks.items()} == listed
    assert mf.read(store.manifest or b"") == state.manifest
