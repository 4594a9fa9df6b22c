"""State of one (operator, shard): named tables of rows, kept as runs under a manifest in a chunk store.

Law 5 (bulk verbs, plain bytes) and law 9 (a batch costs O(batch x log state)). Lookups see the state as it
was at the last commit; changes are buffered, and nothing is written before `commit`, which makes one level of
each table's changes, does the merging that is due, and writes the manifest last. A commit is a function of the state
and the changes, so a batch replayed after a crash writes the same. Operators call this.

>>> from watersmeet._engine.keys.keys import hash_keys
>>> from watersmeet._engine.state.store import MemoryChunkStore
>>> state = State(MemoryChunkStore())
>>> table = state.table(TableSchema("totals", (("key", pa.string()), ("value", pa.int64()))))
>>> keys = pa.array(["a", "b"])
>>> table.put(pa.table({"hash": hash_keys(keys), "key": keys, "value": [1, 2]}))
>>> state.commit()
>>> table.point(hash_keys(keys), keys).aligned("value").to_pylist()
[1, 2]
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.layout import PLACES, TableLayout
from watersmeet._engine.state.manifest import Manifest, Run, RunLayer, TableEntry
from watersmeet._engine.state.merge import Policy, is_wasteful, plan, share, take_front
from watersmeet._engine.state.rundata import RunReader, RunWriter, remove
from watersmeet._engine.state.store import ChunkStore
from watersmeet._engine.state.table import Table
from watersmeet._plan.operators.spec import TableSchema
from watersmeet.errors import StateError

__all__ = ["CHUNK_BYTES", "Policy", "State"]

CHUNK_BYTES = 1 << 20
"""Size of the values put into the store: the JVM copies larger ones into memory of their own each time."""


class State:
    """The tables and scalars of one (operator, shard).

    Parameters
    ----------
    store : where the bytes lie.
    cache : the machine's cache of runs; without it rows are held in memory.
    chunk_bytes : size of the values put into the store; only a row of its own may be larger.
    policy : when to merge runs, and how much at a time.

    Attributes
    ----------
    watch : is given each table's changes, sorted as runs are, when a commit writes them; None: nobody is.
    """

    def __init__(
        self,
        store: ChunkStore,
        cache: RunCache | None = None,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        policy: Policy | None = None,
    ) -> None:
        self._store = store
        self._cache = cache
        self._chunk_bytes = chunk_bytes
        self._policy = policy or Policy()
        content = store.get_manifest()
        self._manifest = Manifest() if content is None else mf.read(content)
        self._scalars: dict[str, Any] = copy.deepcopy(dict(self._manifest.scalars))
        self._tables: dict[str, Table] = {}
        self._reader = RunReader(store, cache)
        self._writer: RunWriter | None = None
        self._made: dict[str, mf.Layer] = {}
        self.watch: Callable[[Table, pa.RecordBatch], None] | None = None

    @property
    def manifest(self) -> Manifest:
        """The writes of the last commit."""
        return self._manifest

    def table(self, declared: TableSchema) -> Table:
        """The table of this name, made at the first commit."""
        name, layout = declared.name, TableLayout.of(declared)
        entry = self._manifest.tables.get(name)
        if entry is not None and not entry.schema.equals(layout.stored, check_metadata=True):
            raise _changed(name, entry.schema, layout.stored)
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(declared, partial(self._layers, name), self._reader)
        elif table.layout != layout:
            raise _changed(name, table.layout.stored, layout.stored)
        return table

    def opened(self, name: str) -> Table | None:
        """The table of this name, if somebody has opened it since this state was."""
        return self._tables.get(name)

    def as_committed(self, declared: TableSchema) -> Table:
        """The table as the last commit has left it, for readers beside the writer; of a state without a cache."""
        entry = self._manifest.tables.get(declared.name)
        layers = [] if entry is None else entry.layers()
        found = Table(declared, lambda: layers, self._reader.holding(() if entry is None else entry.runs()))
        kept = self._tables.get(declared.name)
        if kept is not None:
            found.expire(kept.floors)
        return found

    def get_scalar(self, name: str, default: Any = None) -> Any:
        """A small value kept in the manifest, this batch's change included."""
        return copy.deepcopy(self._scalars[name]) if name in self._scalars else default

    def set_scalar(self, name: str, value: Any) -> None:
        """Change a small value, of what JSON knows; kept from the next commit on."""
        try:
            kept = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            kept = None
        if kept != value:
            raise StateError(
                f"the scalar {name!r} does not survive JSON",
                given=repr(value)[:200],
                hint="use integers, text, lists, and dictionaries with text as keys",
            )
        self._scalars[name] = kept

    def finish_part(self) -> None:
        """All rows with hashes up to here have been put: where they are many, runs are made of them already (law 9)."""
        for name, table in self._tables.items():
            if table.changed and table.bytes_changed > self._policy.segment:
                levels, _ = table.drop_expired(self._entry(table).levels)
                self._made[name] = self._added(table, self._begun(), drop_tombstones=not levels)
                table.forget_changes()

    def clear(self) -> None:
        """Remove all rows of all tables, before anything is put; scalars stay."""
        gone = {run.id: run for entry in self._manifest.tables.values() for run in entry.runs()}
        for run in gone.values():
            remove(self._store, run)
        manifest = Manifest(self._manifest.commit + 1, {}, self._manifest.scalars, tuple(gone))
        self._store.put_manifest(mf.write(manifest))
        self._settle(manifest)

    def commit(self, *, compact: bool = False) -> None:
        """Write the batch's changes, merge what is due (with `compact` everything), then the manifest."""
        if self._cache is not None:
            # That we stand on this manifest proves that the commit which retired these runs succeeded.
            self._cache.remove(self._manifest.retired)
        before = self._manifest.tables
        expired = {n for n, t in self._tables.items() if n in before and t.has_expired(before[n].levels)}
        touched = [t for n, t in self._tables.items() if t.changed or compact or n in expired or n in self._made]
        if not touched and self._scalars == self._manifest.scalars:
            return
        writer = self._begun()
        tables = dict(self._manifest.tables)
        retired: list[Run] = []
        for table in touched:
            entry = self._entry(table)
            levels, gone = self._absorb(table, entry, writer, compact=compact)
            runs = {run.id: run for run in entry.runs()}
            retired += [runs[run_id] for run_id in gone if run_id in runs]
            tables[table.name] = replace(entry, levels=writer.store_levels(levels))
        live = {run.id: run for entry in tables.values() for run in entry.runs()}
        # tables with the same rows, that were filled from one, may have runs in common
        retired = [run for run in retired if run.id not in live]
        for run in retired:
            remove(self._store, run)
        writer.remove_unused(live.values())
        scalars = copy.deepcopy(self._scalars)
        manifest = Manifest(self._manifest.commit + 1, tables, scalars, tuple(run.id for run in retired))
        self._store.put_manifest(mf.write(manifest))
        self._settle(manifest)

    def _settle(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._writer, self._made = None, {}
        self._reader.settle(run.id for entry in manifest.tables.values() for run in entry.runs())
        for table in self._tables.values():
            table.forget_changes()

    def _begun(self) -> RunWriter:
        """The writer of the next commit's runs."""
        if self._writer is None:
            self._writer = RunWriter(self._store, self._reader, self._manifest.commit + 1, self._chunk_bytes)
        return self._writer

    def _entry(self, table: Table) -> TableEntry:
        return self._manifest.tables.get(table.name, TableEntry(table.layout.stored))

    def _added(self, table: Table, writer: RunWriter, *, drop_tombstones: bool) -> mf.Layer:
        """A layer of the table's changes, behind what has been made of them already."""
        changes = table.changes(self._policy.segment, drop_tombstones=drop_tombstones)
        watched, segment = self._watched(table, changes), self._policy.segment
        added = (piece for rows in watched for piece in writer.add(rows, table.layout, segment))
        return (*self._made.get(table.name, ()), *added)

    def _watched(self, table: Table, changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in changes:
            if self.watch is not None:
                self.watch(table, rows)
            yield rows

    def _absorb(
        self, table: Table, entry: TableEntry, writer: RunWriter, *, compact: bool
    ) -> tuple[list[RunLayer], list[str]]:
        """A table's levels with its changes on top and the due merges advanced; ids of runs used up."""

        levels, gone = table.drop_expired(entry.levels)
        added = self._added(table, writer, drop_tombstones=not levels)
        count, size = sum(piece.rows for piece in added), sum(piece.size for piece in added)

        def wasteful(layers: Sequence[mf.Layer]) -> bool:
            return is_wasteful(layers, self._manifest.commit, table.load, table.count_left, count)

        if added:
            levels = (RunLayer((added,)), *levels)
        levels = (RunLayer(tuple(_all_layers(levels))),) if compact else plan(levels, self._policy, wasteful)
        kept: list[RunLayer] = []
        # From the oldest on: whether anything older is left decides what becomes of tombstones.
        for level in reversed(levels):
            if level.merging or compact:
                work, level = share(level, size, self._policy)
                level, used_up = self._advance(
                    level, level.remaining if compact else work, table, writer, is_oldest=not kept
                )
                gone += used_up
            if level.rows:
                kept.insert(0, level)
        return kept, gone

    def _advance(
        self, level: RunLayer, work: int, table: Table, writer: RunWriter, *, is_oldest: bool
    ) -> tuple[RunLayer, list[str]]:
        """Merge about `work` bytes of a level, in steps of a bounded size."""
        gone: list[str] = []
        everything = work >= level.remaining
        while (everything or work > 0) and any(level.layers):
            taken = take_front(level.layers, min(max(work, 1), self._policy.segment), table.load)
            merged = table.merge(taken.slices, self._policy.segment, drop_tombstones=is_oldest)
            added = (p for rows in merged for p in writer.add(rows, table.layout, self._policy.segment, lasting=True))
            done = (*level.done, *added)
            before = level.remaining
            level = replace(level, layers=tuple(filter(None, taken.layers)), done=done)
            gone += taken.used_up
            work -= max(1, before - level.remaining)
        return level if level.layers else RunLayer((level.done,)), gone

    def _layers(self, name: str) -> list[mf.Layer]:
        entry = self._manifest.tables.get(name)
        return [] if entry is None else entry.layers()


def _all_layers(levels: Iterable[RunLayer]) -> list[mf.Layer]:
    return [layer for level in levels for layer in (*level.layers, level.done) if layer]


def _changed(name: str, stored: pa.Schema, asked: pa.Schema) -> StateError:
    return StateError(
        f"the table {name!r} is stored with other columns than the operator reads",
        given=f"asked {_columns(asked)}; stored {_columns(stored)}",
        hint="a checkpoint keeps the columns it was started with: start a new one, or undo the change",
    )


def _columns(schema: pa.Schema) -> str:
    fields = ", ".join(f"{field.name}: {field.type}" for field in schema)
    return f"{fields}; {(schema.metadata or {}).get(PLACES, b'').decode('utf-8', 'replace')}"
