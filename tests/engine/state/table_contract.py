"""What the one table must do, whatever it is declared as and wherever its bytes lie: a dictionary is the judge.

Each check takes an empty store and goes through a random history: puts, deletes, expiries, merges, reopenings, every
commit done twice (the second time must write the same bytes) and every kind of lookup after each. `TABLE_CONTRACT`
stands in the contract of the chunk stores, and so is tried over the one in memory and over Spark's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.keys import hash_keys
from watersmeet._engine.row_sizes import Picked
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import ChunkStore, State, Table
from watersmeet._plan.declaration import FLAG, NUMBER, Retention, TableSchema

KEY, VALUE = ("key", pa.string()), ("value", pa.string())
TIMED = (("ts", NUMBER), ("domain", NUMBER), ("waits", FLAG))
TABLES = {
    "latest": TableSchema("t", (KEY, VALUE)),
    "subscriptions": TableSchema("t", (KEY, ("left", pa.string()), VALUE), identity=("key", "left")),
    "versions": TableSchema("t", (KEY, ("ts", NUMBER), VALUE), identity=("key", "ts"), order=("ts",)),
    "windows": TableSchema(
        "t",
        (KEY, *TIMED, VALUE),
        identity=("key", "ts"),
        order=("ts",),
        retention=Retention("ts", "domain"),
        due=("waits",),
    ),
    "sessions": TableSchema(
        "t",
        (KEY, ("start", NUMBER), *TIMED, VALUE),
        identity=("key", "start", "ts"),
        order=("start", "ts"),
        retention=Retention("ts", "domain"),
        due=(),
    ),
    "events": TableSchema(
        "t",
        (KEY, *TIMED, ("arrival", NUMBER), VALUE),
        identity=(),
        order=("ts", "arrival"),
        retention=Retention("ts", "domain"),
        due=("waits",),
    ),
}
POLICIES = (
    Policy(small=1, large_row=1, bulk=1, part=1000, segment=700),
    Policy(small=64, work=2, steps=1000, segment=1024),
    Policy(fanout=3, small=1, work=1, segment=700),
    Policy(fanout=100, small=1),
    Policy(),
)
KEYS = ["", "hot", *(f"k{number}" for number in range(6))]
TIMES = 40
Row = dict[str, Any]


@dataclass
class Overlay:
    """A store over another one, which it does not touch before `apply`."""

    below: ChunkStore
    manifest: bytes | None = None
    chunks: dict[tuple[str, int], bytes | None] = field(default_factory=dict)

    def get_manifest(self) -> bytes | None:
        """The manifest."""
        return self.below.get_manifest() if self.manifest is None else self.manifest

    def put_manifest(self, manifest: bytes) -> None:
        """Replace the manifest."""
        self.manifest = manifest

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """One chunk."""
        blob = self.chunks[run, chunk] if (run, chunk) in self.chunks else self.below.get_chunk(run, chunk)
        if blob is None:
            raise KeyError((run, chunk))
        return blob

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        """Store one chunk."""
        self.chunks[run, chunk] = blob

    def remove_chunk(self, run: str, chunk: int) -> None:
        """Remove one chunk."""
        self.chunks[run, chunk] = None

    def apply(self) -> None:
        """Write to the store below what was written here."""
        for (run, chunk), blob in self.chunks.items():
            if blob is None:
                self.below.remove_chunk(run, chunk)
            else:
                self.below.put_chunk(run, chunk, blob)
        if self.manifest is not None:
            self.below.put_manifest(self.manifest)


class History:
    """A table over a store, and a dictionary with what it should hold."""

    def __init__(self, declared: TableSchema, store: ChunkStore, seed: int) -> None:
        self.declared, self.store = declared, store
        self.chance = random.Random(seed)
        self.hasher: Callable[[pa.Array], np.ndarray] = hash_keys if seed % 2 else lambda k: hash_keys(k) >> 62
        self.policy = POLICIES[seed % len(POLICIES)]
        self.rows: dict[tuple[Any, ...], Row] = {}
        self.floors: dict[int, int] = {0: -1, 1: -1}
        self.number = 0
        self.names = [name for name, _ in declared.columns]

    def identity(self, row: Row) -> tuple[Any, ...]:
        """What tells a row from others."""
        return tuple(row[name] for name in self.declared.identity or self.names)

    def wanted(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that time has not passed."""
        if self.declared.retention is None:
            return list(rows)
        return [row for row in rows if row["ts"] >= self.floors[row["domain"]]]

    def draw(self) -> Row:
        """A random row."""
        self.number += 1
        start = self.chance.randrange(TIMES)
        drawn = {
            "key": self.chance.choice([*KEYS, "hot", "hot"]),
            "left": f"l{self.chance.randrange(20)}",
            "start": start,
            "ts": start + self.chance.randrange(3) if "start" in self.names else start,
            "domain": self.chance.randrange(2),
            "waits": self.chance.random() < 0.5,
            "arrival": self.number,
            "value": f"{self.number}" + "x" * self.chance.choice([0, 0, 30]),
        }
        return {name: drawn[name] for name in self.names}

    def turn(self) -> None:
        """One commit, done twice, and then every kind of lookup in a state that is opened anew."""
        drawn = [self.draw() for _ in range(self.chance.randrange(12))]
        changes = {self.identity(row): row for row in drawn}
        deleted = {place for place in changes if self.declared.identity and self.chance.random() < 0.3}
        if self.chance.random() < 0.5:
            floor = self.number // 3 - 5
            self.floors = {0: max(floor, self.floors[0]), 1: max(floor // 2, self.floors[1])}
        compact = self.chance.random() < 0.1
        written = [self.commit(changes, deleted, compact=compact) for _ in range(2)]
        assert (written[0].manifest, written[0].chunks) == (written[1].manifest, written[1].chunks)
        written[1].apply()
        self.rows |= changes
        self.rows = {place: row for place, row in self.rows.items() if place not in deleted}
        state = self.opened(self.store)
        if compact:
            stored = sum(run.rows for entry in state.manifest.tables.values() for run in entry.runs())
            assert stored == len(self.wanted(self.rows.values()))
        self.look(state.table(self.declared))

    def opened(self, store: ChunkStore) -> State:
        """The state as it is in the store."""
        return State(store, chunk_bytes=600, policy=self.policy)

    def commit(self, changes: dict[tuple[Any, ...], Row], deleted: set[tuple[Any, ...]], *, compact: bool) -> Overlay:
        """A commit of these changes, in one put or two, values as they are or as pointers."""
        overlay = Overlay(self.store)
        state = self.opened(overlay)
        table = state.table(self.declared)
        rows = list(changes.values())
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            given: dict[str, Any] = {}
            for field_ in table.schema:
                values = [row[field_.name] for row in part] if field_.name != "hash" else None
                keys = pa.array([row["key"] for row in part], pa.string())
                given[field_.name] = pa.array(self.hasher(keys) if values is None else values, field_.type)
            if self.number % 2:
                backwards = np.arange(len(part))[::-1]
                given = {name: Picked(column.take(pa.array(backwards)), backwards) for name, column in given.items()}
            gone = [self.identity(row) in deleted for row in part]
            table.put(given, gone if any(gone) else None)
        if self.declared.retention is not None:
            table.expire(self.floors)
        state.commit(compact=compact)
        return overlay

    # -- what is found -------------------------------------------------------------------------------------

    def look(self, table: Table) -> None:
        """Every kind of lookup that the table knows."""
        self.same(row for part in table.scan() for row in part.to_pylist())
        keys = self.chance.sample([*KEYS, "nowhere"], 5)
        asked = pa.array(keys, pa.string())
        found = table.rows(self.hasher(asked), asked)
        self.same(found.rows.to_pylist(), lambda row: row["key"] in keys)
        assert [keys[query] for query in found.query] == found.rows.column("key").to_pylist()
        if self.declared.identity:
            self.look_at_points(table)
        if self.declared.order:
            self.look_at_ranges(table, keys, asked)
        if self.declared.due is not None:
            low, high = sorted(self.chance.sample(range(-2, TIMES + 5), 2))
            due = table.gather(list(table.due(low, high, "waits"))).to_pylist()
            self.same(due, lambda row: low <= row["ts"] < high and row["waits"])

    def look_at_points(self, table: Table) -> None:
        """Rows by their whole identity."""
        drawn = [self.chance.choice([*self.rows.values(), self.draw()]) for _ in range(8)]
        places = list({self.identity(row): None for row in drawn})
        names = self.declared.identity
        columns = [pa.array([p[at] for p in places], table.schema.field(n).type) for at, n in enumerate(names)]
        lookup = table.point(self.hasher(columns[0]), *columns)
        values = dict(zip(places, lookup.aligned("value").to_pylist(), strict=True))
        expected = {place: self.rows[place]["value"] if place in self.rows else None for place in places}
        live = {self.identity(row) for row in self.wanted(self.rows.values())}
        assert {p: v for p, v in values.items() if p in live} == {p: v for p, v in expected.items() if p in live}
        assert all(lookup.found[at] == (values[place] is not None) for at, place in enumerate(places))
        assert all(values[place] is None for place in places if place not in self.rows and not self.expired(place))

    def expired(self, place: tuple[Any, ...]) -> bool:
        """Whether the time of a place is passed by some floor, so that anything older may show."""
        row = dict(zip(self.declared.identity, place, strict=True))
        return self.declared.retention is not None and row["ts"] < max(self.floors.values())

    def look_at_ranges(self, table: Table, keys: list[str], asked: pa.Array) -> None:
        """Rows of keys between two numbers, and the last one up to a number."""
        first = self.declared.order[0]
        edges = [sorted(self.chance.choices(range(-2, TIMES + 5), k=2)) for _ in keys]
        low, high = (np.array([edge[side] for edge in edges], dtype=np.int64) for side in (0, 1))
        found = table.range(self.hasher(asked), asked, low, high)
        between = dict(zip(keys, edges, strict=True))
        rows = found.rows.to_pylist()
        assert [keys[query] for query in found.query] == [row["key"] for row in rows]
        nowhere = (0, -1)
        self.same(rows, lambda row: (edge := between.get(row["key"], nowhere))[0] <= row[first] <= edge[1])
        if self.declared.identity:
            order = [(row[name] for name in self.declared.order) for row in rows]
            places = [(query, *numbers) for query, numbers in zip(found.query, order, strict=True)]
            assert places == sorted(places)
        if self.declared.identity == ("key", first) and self.declared.retention is None:
            at = table.as_of(self.hasher(asked), asked, high).aligned("value").to_pylist()
            for key, value, edge in zip(keys, at, high, strict=True):
                older = [row for row in self.rows.values() if row["key"] == key and row[first] <= edge]
                assert value == (max(older, key=lambda row: row[first])["value"] if older else None)

    def same(self, found: Iterable[Row], chosen: Callable[[Row], bool] = lambda row: True) -> None:
        """What was found is what the dictionary has, but for what time has passed."""
        keys = pa.array(KEYS, pa.string())
        hashes = dict(zip(KEYS, self.hasher(keys).tolist(), strict=True))
        got = [dict(row) for row in found]
        assert all(row.pop("hash") == hashes[row["key"]] for row in got)
        expected = [row for row in self.wanted(self.rows.values()) if chosen(row)]
        assert sorted(map(repr, self.wanted(got))) == sorted(map(repr, expected))


def a_table_is_what_a_dictionary_would_be(name: str, seed: int, store: ChunkStore, turns: int = 20) -> None:
    """A random history of a table."""
    history = History(TABLES[name], store, seed)
    for _ in range(turns):
        history.turn()


def _check(name: str, seed: int) -> Callable[[ChunkStore], None]:
    check = partial(a_table_is_what_a_dictionary_would_be, name, seed)
    check.__name__ = f"a_table_of_{name}_is_what_a_dictionary_would_be_{seed}"  # type: ignore[attr-defined]
    return check


TABLE_CONTRACT = [_check(name, number + seed) for number, name in enumerate(TABLES) for seed in range(2)]
