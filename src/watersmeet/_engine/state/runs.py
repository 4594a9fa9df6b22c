"""State of one (operator, shard): named tables of rows, kept as runs under a manifest in a chunk store.

Law 5 (bulk verbs, plain bytes) and law 9 (a batch costs O(batch x log state)). Lookups see the state as it
was at the last commit; changes are buffered, and nothing is written before `commit`, which makes one level of
each table's changes, does the merging that is due, and writes the manifest last. A commit is a function of the state
and the changes, so a batch replayed after a crash writes the same. Operators call this.

>>> from watersmeet._engine.keys import hash_keys
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.keys import group_keys, hash_keys
from watersmeet._engine.row_sizes import decode, encode, row_bytes
from watersmeet._engine.rows import Bools, Int64s
from watersmeet._engine.state import manifest
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.lookups import (
    FoundRows,
    Hits,
    Lookup,
    Queries,
    find_all,
    find_last,
    find_newest,
    find_range,
    first_of_each,
    gathered,
    latest_of_each,
    where_equal,
)
from watersmeet._engine.state.manifest import (
    PLACES,
    TOMBSTONE,
    Chunk,
    Description,
    Layer,
    Manifest,
    Piece,
    Run,
    RunLayer,
    TableEntry,
    TableLayout,
    checksum,
    contradiction,
    due_between,
    layers_of,
    piece_of,
    with_due,
)
from watersmeet._engine.state.merge import (
    Floors,
    Policy,
    PutColumn,
    PutRows,
    check,
    distinct,
    has_large_rows,
    hashes,
    is_wasteful,
    joined,
    latest,
    length,
    newest,
    order,
    part_of,
    plan,
    select_rows,
    share,
    sorted_rows,
    take_front,
    tombstones,
    without_values,
    work_to_relocate,
)
from watersmeet._plan.declaration import TableSchema
from watersmeet.errors import CorruptData, StateError

__all__ = ["CHUNK_BYTES", "Policy", "State"]


# Where the bytes of one shard's state lie: the contract of a chunk store, one in memory, one of files.
#
# A store belongs to one (operator, shard). It holds one manifest and chunks under (run, chunk), and knows
# nothing of what they mean (law 5: bulk verbs, plain bytes). It need not write through: what is put must be
# there when the surrounding transaction commits and gone when it does not, as Spark's state store has it.
#
# >>> store = MemoryChunkStore()
# >>> store.put_chunk("run", 0, b"rows")
# >>> before = store.snapshot()
# >>> store.remove_chunk("run", 0)
# >>> store.restore(before)
# >>> store.get_chunk("run", 0)
# b'rows'


class ChunkStore(Protocol):
    """The interface of state to its store."""

    def get_manifest(self) -> bytes | None:
        """The manifest, or None where nothing was ever stored."""
        ...

    def put_manifest(self, manifest: bytes) -> None: ...

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """One chunk of a run; KeyError if it is not there."""
        ...

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None: ...

    def remove_chunk(self, run: str, chunk: int) -> None:
        """Remove one chunk of a run; no error if it is not there."""
        ...


@dataclass(frozen=True)
class Traffic:
    """The traffic of a store so far: calls and bytes, which is the cost of state on Spark."""

    reads: int = 0
    writes: int = 0
    removes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True)
class StoreSnapshot:
    """The content of a store at one time; restoring it is what a crash before the commit looks like."""

    manifest: bytes | None
    chunks: Mapping[tuple[str, int], bytes]


@dataclass
class MemoryChunkStore:
    """A store in a dictionary, for the test driver and for tests.

    Attributes
    ----------
    chunks : what is stored, by (run, chunk).
    traffic : calls and bytes so far.
    """

    manifest: bytes | None = None
    chunks: dict[tuple[str, int], bytes] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    def get_manifest(self) -> bytes | None:
        """The manifest, or None where nothing was ever stored."""
        self._read(self.manifest or b"")
        return self.manifest

    def put_manifest(self, manifest: bytes) -> None:
        self._wrote(manifest)
        self.manifest = manifest

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """One chunk of a run; KeyError if it is not there."""
        blob = self.chunks[run, chunk]
        self._read(blob)
        return blob

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        self._wrote(blob)
        self.chunks[run, chunk] = blob

    def remove_chunk(self, run: str, chunk: int) -> None:
        """Remove one chunk of a run; no error if it is not there."""
        self.traffic = replace(self.traffic, removes=self.traffic.removes + 1)
        self.chunks.pop((run, chunk), None)

    def snapshot(self) -> StoreSnapshot:
        return StoreSnapshot(self.manifest, MappingProxyType(dict(self.chunks)))

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Go back to a remembered content; the traffic goes on counting."""
        self.manifest, self.chunks = snapshot.manifest, dict(snapshot.chunks)

    def _read(self, blob: bytes) -> None:
        traffic = self.traffic
        self.traffic = replace(traffic, reads=traffic.reads + 1, bytes_read=traffic.bytes_read + len(blob))

    def _wrote(self, blob: bytes) -> None:
        traffic = self.traffic
        self.traffic = replace(traffic, writes=traffic.writes + 1, bytes_written=traffic.bytes_written + len(blob))


@dataclass
class FolderChunkStore:
    """A store of files in a folder of its own: for state on its way into or out of a checkpoint.

    Attributes
    ----------
    folder : where chunks lie; it exists.
    manifest : what lists them, held in memory.
    """

    folder: Path
    manifest: bytes | None = None

    def get_manifest(self) -> bytes | None:
        return self.manifest

    def put_manifest(self, manifest: bytes) -> None:
        self.manifest = manifest

    def get_chunk(self, run: str, chunk: int) -> bytes:
        """See `ChunkStore`."""
        try:
            return self._file(run, chunk).read_bytes()
        except FileNotFoundError:
            raise KeyError((run, chunk)) from None

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        self._file(run, chunk).write_bytes(blob)

    def remove_chunk(self, run: str, chunk: int) -> None:
        self._file(run, chunk).unlink(missing_ok=True)

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        """All chunks, one at a time: (run, chunk, content)."""
        for file in sorted(self.folder.glob("*-*")):
            run, _, chunk = file.name.rpartition("-")
            yield run, int(chunk), file.read_bytes()

    def _file(self, run: str, chunk: int) -> Path:
        return self.folder / f"{run}-{chunk}"


# Rows of runs: read from the store or the cache, written at a commit in chunks that the store can bear.
#
# Law 5 (state is plain Arrow bytes) and law 9 (no value above the limit). Chunks from the store are checked against the
# manifest's checksums; the cache checks its own files.

LARGEST = 16 << 20
"""Largest value put into the store: the JVM dies of much larger ones. A larger row is stored in several."""
LARGEST_ROW = 256 << 20
"""Largest row, as it is stored: a few times what a source may bring (`row_sizes.LARGEST_RECORD`)."""
HELD = 16 << 20
"""Bytes of new runs that wait in memory for what their own commit makes of them; what is beyond is stored at once."""


class RunReader:
    """Gives the rows of runs, from where they are nearest: this commit, the cache, the store."""

    def __init__(self, store: ChunkStore, cache: RunCache | None) -> None:
        self._store = store
        self._cache = cache
        self._batches: dict[str, pa.RecordBatch] = {}
        self._final_runs: dict[str, Run] = {}

    def load(self, layout: TableLayout, piece: Piece) -> pa.RecordBatch:
        """The visible rows of a piece of a table."""
        batch = self.whole(layout, piece.run)
        if layout.due is not None:
            batch = batch.select(batch.schema.names[:-1])
        by_hash = hashes(batch)
        if by_hash[piece.start] < piece.low or by_hash[-1] > piece.run.high:
            raise _altered(piece.run, f"hashes {by_hash[piece.start]} to {by_hash[-1]}")
        return batch.slice(piece.start)

    def whole(self, layout: TableLayout, run: Run) -> pa.RecordBatch:
        """A run of a table as it is stored."""
        batch = self._read_batch(run, layout)
        if batch.num_rows != run.rows:
            raise _altered(run, f"{batch.num_rows} rows, {run.rows} expected")
        if not batch.schema.equals(layout.in_runs):
            raise _altered(run, f"columns {', '.join(batch.schema.names)}")
        return batch

    def _read_batch(self, run: Run, layout: TableLayout) -> pa.RecordBatch:
        run = self._final_runs.get(run.id, run)
        batch = self._batches.get(run.id)
        if batch is None and self._cache is not None:
            batch = self._cache.open(run.id, lambda: self._fetch(run, layout))
        elif batch is None:
            batch = self._batches[run.id] = self._fetch(run, layout)
        return batch

    def holding(self, runs: Iterable[Run]) -> RunReader:
        """One that has these runs in memory, whatever becomes of them here."""
        reader = RunReader(self._store, None)
        reader._batches = {run.id: self._batches[run.id] for run in runs if run.id in self._batches}
        return reader

    def hold(self, run_id: str, batch: pa.RecordBatch) -> None:
        self._batches[run_id] = batch

    def held(self, run_id: str) -> pa.RecordBatch:
        return self._batches[run_id]

    def let_go(self, run_id: str, run: Run) -> None:
        """The held rows of `run_id` are stored now, as `run`: the cache has them, where there is one."""
        batch = self._batches.pop(run_id)
        self._final_runs[run_id] = run
        if self._cache is None:
            self._batches[run.id] = batch
        else:
            self._cache.publish(run.id, batch)

    def forget(self, run: Run) -> None:
        """A run that this commit has stored and used up."""
        self._batches.pop(run.id, None)
        if self._cache is not None:
            self._cache.remove([run.id])

    def settle(self, keep: Iterable[str]) -> None:
        """After a commit: of the rows in memory those of live runs stay, where no cache has them."""
        self._batches = {run_id: self._batches[run_id] for run_id in keep if run_id in self._batches}
        self._final_runs = {}

    def _fetch(self, run: Run, layout: TableLayout) -> pa.RecordBatch:
        tables = [decode(blob) for blob in self._blobs(run)]
        for table in tables:
            if not table.schema.equals(layout.in_runs):
                raise _altered(run, f"columns {', '.join(table.column_names)}")
        rows = joined([batch for table in tables for batch in table.to_batches()], layout.in_runs)
        wrong = contradiction(rows, layout)
        if wrong is not None:
            raise _altered(run, wrong)
        return rows

    def _blobs(self, run: Run) -> Iterator[bytes | memoryview]:
        """The blobs of a run, each of one chunk or of several."""
        try:
            description, content = manifest.opened(run.id, self._content(run, 0))
        except ValueError as error:
            raise _altered(run, str(error)) from error
        parts: list[bytes | memoryview] = []
        for number, chunk in enumerate(description.chunks):
            part = self._content(run, number) if number else content
            if len(part) != chunk.bytes or checksum(part) != chunk.checksum:
                raise _altered(run, f"chunk {number}: {len(part)} bytes, {chunk.bytes} expected")
            if chunk.rows and parts:
                yield parts[0] if len(parts) == 1 else b"".join(parts)
                parts = []
            parts.append(part)
        yield parts[0] if len(parts) == 1 else b"".join(parts)

    def _content(self, run: Run, number: int) -> bytes:
        try:
            return self._store.get_chunk(run.id, number)
        except KeyError as error:
            raise StateError(
                "a chunk of a shard's state is missing from the state store",
                given=f"run {run.id}, chunk {number} of {run.chunks}",
                hint="the checkpoint is incomplete; restart from a copy of it",
            ) from error


def _altered(run: Run, detail: str) -> CorruptData:
    return CorruptData(
        "a chunk of a shard's state does not have its checksum",
        given=f"run {run.id}, {detail}",
        hint="the state was altered or cut off; restart from a copy of the checkpoint",
    )


class RunWriter:
    """The runs of one commit.

    Most of what a commit brings is small and used up by its own merges, so it waits in memory until that is clear.
    Results of merges, and chunks beyond `HELD`, are stored when they are made (law 9).
    """

    def __init__(self, store: ChunkStore, reader: RunReader, commit: int, chunk_bytes: int) -> None:
        self._store = store
        self._reader = reader
        self._commit = commit
        self._chunk_bytes = chunk_bytes
        self._numbers: dict[str, int] = {}
        self._final_runs: dict[str, Run] = {}
        self._buffered_bytes = 0

    def add(self, rows: pa.RecordBatch, layout: TableLayout, segment: int, *, lasting: bool = False) -> Layer:
        """Sorted rows as a layer of new runs, none much larger than `segment` bytes.

        Parameters
        ----------
        lasting : whether the commit's own merges will not use them up.
        """
        pieces = []
        for batch in cut_by_hash(rows, segment):
            number, by_hash = len(self._numbers), hashes(batch)
            dead = int(pc.sum(batch.column(TOMBSTONE)).as_py())
            run = Run(f"new-{number}", batch.num_rows, batch.nbytes, int(by_hash[0]), int(by_hash[-1]), dead)
            if layout.time is not None:
                edges = pc.min_max(batch.column(layout.time))
                run = replace(run, time=(edges["min"].as_py(), edges["max"].as_py()), latest=latest(batch, layout))
            self._numbers[run.id] = number
            self._reader.hold(run.id, with_due(batch, layout))
            if lasting or self._buffered_bytes + batch.nbytes > HELD:
                self._store_run(run)
            else:
                self._buffered_bytes += batch.nbytes
            pieces.append(piece_of(run))
        return tuple(pieces)

    def store_levels(self, levels: Iterable[RunLayer]) -> tuple[RunLayer, ...]:
        """Store the new runs that are left, and give them their names."""
        return tuple(
            replace(level, layers=tuple(map(self._finished, level.layers)), done=self._finished(level.done))
            for level in levels
        )

    def remove_unused(self, live: Iterable[Run]) -> None:
        """Remove from the store what this commit has stored and used up."""
        live_ids = {run.id for run in live}
        for run in self._final_runs.values():
            if run.id not in live_ids:
                remove(self._store, run)
                self._reader.forget(run)

    def _finished(self, layer: Layer) -> Layer:
        return tuple(
            replace(piece, run=self._final_runs.get(piece.run.id) or self._store_run(piece.run))
            if piece.run.id in self._numbers
            else piece
            for piece in layer
        )

    def _store_run(self, run: Run) -> Run:
        encoded = chunks(self._reader.held(run.id), self._chunk_bytes)
        blobs = [piece for rows, blob in encoded for piece in _pieces(rows, blob)]
        listed = tuple(Chunk(rows, len(blob), checksum(blob)) for rows, blob in blobs)
        description = Description(self._commit, self._numbers[run.id], listed)
        final = replace(run, id=manifest.run_id(description), chunks=len(blobs))
        for number, (_, blob) in enumerate(blobs):
            self._store.put_chunk(final.id, number, blob if number else manifest.with_description(description, blob))
        self._final_runs[run.id] = final
        self._reader.let_go(run.id, final)
        return final


def remove(store: ChunkStore, run: Run) -> None:
    for number in range(run.chunks):
        store.remove_chunk(run.id, number)


def cut_by_hash(rows: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Cut sorted rows into batches of about `size` bytes, between rows of one hash only where it has more of them."""
    if rows.num_rows and rows.nbytes <= size:
        yield rows
        return
    by_hash, ends = hashes(rows), np.cumsum(row_bytes(rows))
    start = done = 0
    while start < rows.num_rows:
        end = max(start + 1, int(ends.searchsorted(done + size, side="right")))
        group_end = int(by_hash.searchsorted(by_hash[end - 1], side="right"))
        end = group_end if ends[group_end - 1] - done <= 2 * size else end
        yield rows.slice(start, end - start)
        start, done = end, int(ends[end - 1])


def chunks(rows: pa.RecordBatch, limit: int) -> Iterator[tuple[int, bytes]]:
    """Rows as blobs of at most `limit` bytes, or of one row, each with its number of rows."""
    if rows.nbytes <= limit or rows.num_rows == 1:
        blob = encode(rows)
        if len(blob) <= limit or rows.num_rows == 1:
            _check_size(rows, blob)
            yield rows.num_rows, blob
            return
    half = rows.num_rows // 2
    yield from chunks(rows.slice(0, half), limit)
    yield from chunks(rows.slice(half), limit)


def _pieces(rows: int, blob: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(0, len(blob), LARGEST):  # one turn, but for very large rows
        yield (0 if at else rows), (blob[at : at + LARGEST] if len(blob) > LARGEST else blob)


def _check_size(rows: pa.RecordBatch, blob: bytes) -> None:
    if len(blob) > LARGEST_ROW:
        raise StateError(
            "a row is too large for the state store",
            given=f"key {rows.column('key')[0].as_py()!r:.80}: {len(blob)} bytes, {LARGEST_ROW} allowed",
            hint="keep large values elsewhere and let the row refer to them",
        )


# Table: rows of one (operator, shard), declared by a `TableSchema`, kept as runs under the manifest.
#
# Rows are routed by the hash of their key, told apart by their identity, sorted within a hash by the order columns, and
# let go by their domain's time. A lookup asks for many keys at once and sees the last commit: `point` one row of an
# identity, `rows` all of a key, `range` those with the first order column in an interval, `as_of` the last one up to a
# value; `due` finds rows of all keys by time. `put` and `expire` take effect at the next commit. A tombstone keeps
# what names and sorts its row, and no value.

# A scan reads state this many bytes at a time, so that it needs no more memory than a batch does.
_SCAN_BYTES = 16 << 20
_LEAST = -(2**63)
_NOWHERE = np.zeros(0, dtype=np.int64)
Keys: TypeAlias = pa.Array | pa.ChunkedArray


class Table:
    """A table of a shard's state.

    Attributes
    ----------
    declared : what it was declared as.
    schema : its columns: `hash`, then the declared ones.
    load : gives the visible rows of a piece of it.
    """

    def __init__(self, declared: TableSchema, layers: Callable[[], list[Layer]], reader: RunReader) -> None:
        self.declared = declared
        self.name = declared.name
        self.layout = TableLayout.of(declared)
        self.schema = self.layout.schema.remove(len(self.layout.schema) - 1)
        self._layers = layers
        self.load = partial(reader.load, self.layout)
        self._reader = reader
        self._changes: list[PutRows] = []
        self._floors = Floors({})

    # -- lookups -------------------------------------------------------------------------------------------

    def point(
        self, hashes: npt.ArrayLike, keys: Keys, *identity_columns: Keys, columns: Sequence[str] | None = None
    ) -> Lookup:
        """The row of each identity, which are distinct; `identity_columns` are its columns behind `key`.

        Fastest when the hashes ascend, as those of `group_keys(...).first` do.
        """
        names = self.layout.identity[1:]
        assert not self.layout.appended, f"{self.name}: no row is told from others"
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        if not identity_columns:
            return self._lookup(queries, find_newest(queries, self._layers(), self.load), columns)
        conditions = {name: _flat(column) for name, column in zip(names, identity_columns, strict=True)}
        first = next((name for name in self.layout.order[:1] if name in conditions), None)
        if first is None:
            hits = find_all(queries, self._layers(), self.load)
        else:
            at = _in_order(queries, conditions[first].to_numpy(zero_copy_only=False))
            hits = find_range(queries, self._layers(), self.load, first, at, at)
        return self._lookup(
            queries, first_of_each(where_equal(hits, queries, conditions), len(queries.hashes)), columns
        )

    def rows(self, hashes: npt.ArrayLike, keys: Keys) -> FoundRows:
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        return self._collect(queries, find_all(queries, self._layers(), self.load))

    def range(self, hashes: npt.ArrayLike, keys: Keys, low: Int64s, high: Int64s) -> FoundRows:
        """The rows of distinct keys with the first order column between the query's `low` and `high`, both included.

        In a hot key this costs what is found.
        """
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        if not len(low):
            return self._collect(queries, iter(()))
        low, high = _in_order(queries, low), _in_order(queries, high)
        first, layers = self.layout.order[0], self._layers()
        if first == self.layout.time:
            layers = self._reaching(int(low.min()), int(high.max()))
        return self._collect(queries, find_range(queries, layers, self.load, first, low, high))

    def as_of(self, hashes: npt.ArrayLike, keys: Keys, at: Int64s, columns: Sequence[str] | None = None) -> Lookup:
        """For each of some keys the row with the largest value of the order column that is at most `at`.

        A key may be asked for several times; a row that answers several questions is read once.
        """
        first = self.layout.order[0]
        assert self.layout.identity in ((), ("key", first)), f"{self.name}: two rows of a key may have one {first}"
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        at = np.array(_in_order(queries, at))
        asking, hits = np.arange(len(at), dtype=np.int64), []
        # one turn, and one more for each deleted row that stands last
        while len(asking):
            latest = latest_of_each(find_last(queries, self._layers(), self.load, first, at, asking), first, len(at))
            again = []
            for hit in latest:
                dead = tombstones(hit.batch, hit.rows)
                number = hit.batch.column(first).to_numpy(zero_copy_only=True)[hit.rows[dead]]
                deleted = hit.queries[dead]
                at[deleted] = number - 1
                again.append(deleted[number > _LEAST])
                hits.append(Hits(hit.batch, hit.rows[~dead], hit.queries[~dead]))
            asking = np.sort(np.concatenate([_NOWHERE, *again]))
        return self._lookup(queries, iter(hits), columns, shared=True)

    def due(self, low: int, high: int, flag: str | None = None) -> Iterator[Hits]:
        """Places of the rows of all keys with low <= time < high, where the column `flag` holds.

        Each run says where its rows of a time lie: what is not due is not read.
        """
        hits = self._due(low, high)
        if not self.layout.appended:
            hits = self._newest_of(list(hits))
        for hit in hits:
            if flag is not None:
                flags = hit.batch.column(flag).take(pa.array(hit.rows)).fill_null(False)
                rows = hit.rows[flags.to_numpy(zero_copy_only=False)]
                hit = Hits(hit.batch, rows, rows)
            yield hit

    def gather(self, hits: Sequence[Hits], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at these places, one hit after the other."""
        return gathered(hits, self.schema, self.schema.names if columns is None else columns)

    def scan(self) -> Iterator[pa.Table]:
        """All live rows of the last commit, in order of hash, some at a time."""
        layers: Sequence[Layer] = self._layers()
        while any(layers):
            front = take_front(layers, _SCAN_BYTES, self.load)
            layers = front.layers
            for rows in self.merge(front.slices, _SCAN_BYTES, drop_tombstones=True):  # one turn, but for hot keys
                if rows.num_rows:
                    yield pa.Table.from_batches([rows.select(self.schema.names)])

    # -- changes -------------------------------------------------------------------------------------------

    def put(
        self, rows: pa.Table | pa.RecordBatch | Mapping[str, PutColumn], delete: npt.ArrayLike | pa.Array | None = None
    ) -> None:
        """Write rows at the next commit, at most one per identity; where `delete` is true, remove the row.

        Columns that are `Picked` are gathered at the commit: until then only pointers are kept.
        """
        columns = {name: rows.column(name) for name in rows.schema.names} if not isinstance(rows, Mapping) else rows
        count = max(map(length, columns.values()), default=0)
        deleted = np.zeros(count, dtype=np.bool_) if delete is None else np.asarray(delete, dtype=np.bool_)
        check(self.layout, self.name, columns, len(deleted))
        if len(deleted):
            assert not self.layout.appended or not deleted.any(), f"{self.name}: rows are only appended"
            self._changes.append(PutRows.of(self.layout, columns, deleted))

    def expire(self, floors: Mapping[int, int]) -> None:
        """Rows below the floor of their domain are not wanted any more."""
        self._floors = Floors(dict(floors))

    @property
    def floors(self) -> Mapping[int, int]:
        """The floor of each time domain, as it was last said."""
        return self._floors.floors

    def wanted(self, rows: pa.RecordBatch) -> Bools:
        """Which rows time has not passed; of versions, all: those in the past are asked for."""
        if not self.layout.retained or self.layout.ends is not None:
            return np.ones(len(rows), dtype=np.bool_)
        return self._floors.wanted(rows, self.layout)

    @property
    def changed(self) -> bool:
        return bool(self._changes)

    @property
    def bytes_changed(self) -> int:
        """About how many bytes the buffered changes have."""
        return sum(change.bytes for change in self._changes)

    def forget_changes(self) -> None:
        """Empty the buffer, after a commit or to give a batch up."""
        self._changes = []

    # -- what a commit asks --------------------------------------------------------------------------------

    def changes(self, segment: int, *, drop_tombstones: bool) -> Iterator[pa.RecordBatch]:
        """The buffered changes, sorted as runs are; the buffer is left as it is."""
        return sorted_rows(
            self._changes, self.layout, partial(self._to_write, drop_tombstones=drop_tombstones), segment
        )

    def merge(
        self, slices: Sequence[pa.RecordBatch], segment: int, *, drop_tombstones: bool
    ) -> Iterator[pa.RecordBatch]:
        """Rows of several layers, newest first, as those of one; in batches of `segment` bytes if they are many."""
        return select_rows(slices, self.layout, partial(self._left, drop_tombstones=drop_tombstones), segment)

    def count_left(self, slices: Sequence[pa.RecordBatch]) -> int:
        """How many rows a merge would leave of these, with nothing below them."""
        return len(self._left(without_values(slices, self.layout), drop_tombstones=True))

    def survivors(self, rows: pa.RecordBatch, newer_layers: Sequence[Layer]) -> pa.RecordBatch:
        """The rows of a run, of a table with one row for each key, that no newer layer replaces or deletes."""
        alive = ~tombstones(rows, np.arange(len(rows)))
        for hit in find_newest(Queries(hashes(rows), rows.column("key"), None), newer_layers, self.load):
            alive[hit.queries] = False
        return rows.take(pa.array(np.flatnonzero(alive)))

    def has_expired(self, levels: Sequence[RunLayer]) -> bool:
        """Whether whole runs can be dropped without being read."""
        return any(not self._floors.alive(piece, self.layout) for level in levels for piece in level.pieces())

    def drop_expired(self, levels: Sequence[RunLayer]) -> tuple[tuple[RunLayer, ...], list[str]]:
        return self._floors.dropped(levels, self.layout)

    def _to_write(self, rows: pa.RecordBatch, *, drop_tombstones: bool) -> Int64s:
        if self.layout.appended:
            return order(rows, np.arange(len(rows)), self.layout)
        groups = distinct(rows, self.layout)
        if groups.count != rows.num_rows:
            row = rows.slice(int(groups.first[groups.sizes > 1][0]), 1).select(list(self.layout.identity))
            raise StateError(
                f"the table {self.name!r} was given two rows of one identity for one commit",
                given=str(row.to_pylist()[0])[:200],
                hint="put the last row of each key only",
            )
        keep = groups.first
        if drop_tombstones:
            keep = keep[~tombstones(rows, keep)]
        return keep[order(rows, keep, self.layout)]

    def _left(self, rows: pa.RecordBatch, *, drop_tombstones: bool) -> Int64s:
        """Which rows a merge leaves, in the order of runs; what time has passed hides older versions below."""
        if self.layout.appended:
            keep = np.flatnonzero(self._floors.wanted(rows, self.layout))
            return keep[order(rows, keep, self.layout)]
        keep = newest(rows, self.layout, drop_tombstones=drop_tombstones)
        if drop_tombstones and self.layout.ends is not None:
            return keep[~self._floors.expired_versions(rows, keep, self.layout)] if self._floors.floors else keep
        if drop_tombstones and self.layout.retained:
            keep = keep[self._floors.wanted(rows, self.layout)[keep]]
        return keep

    # -- finding -------------------------------------------------------------------------------------------

    def _lookup(
        self, queries: Queries, hits: Iterator[Hits], columns: Sequence[str] | None, *, shared: bool = False
    ) -> Lookup:
        index = np.full(len(queries.hashes), -1, dtype=np.int64)
        live: list[Hits] = []
        count = 0
        for hit in hits:
            if not self.layout.appended:
                alive = ~tombstones(hit.batch, hit.rows)
                hit = Hits(hit.batch, hit.rows[alive], hit.queries[alive])
            positions, places = queries.asked(hit.queries), np.arange(len(hit.rows))
            if shared:
                rows, places = np.unique(hit.rows, return_inverse=True)
                hit = Hits(hit.batch, rows, rows)
            index[positions] = count + places
            count += len(hit.rows)
            live.append(hit)
        return Lookup(index, self.gather(live, columns))

    def _collect(self, queries: Queries, all_hits: Iterator[Hits]) -> FoundRows:
        hits = [hit for hit in all_hits if len(hit.rows)]
        query = queries.asked(np.concatenate([_NOWHERE, *(hit.queries for hit in hits)]))
        if self.layout.appended or not hits:
            return FoundRows(query, None, hits, self.schema)
        places = self._newest(hits, query)
        return FoundRows(query[places], places, hits, self.schema)

    def _newest(self, hits: Sequence[Hits], query: Int64s) -> Int64s:
        """Places, in all hits, of the newest row of each query and identity that is no tombstone, in order."""
        identity_names, sort = self.layout.identity[1:], self.layout.order
        names = [*identity_names, *sort, TOMBSTONE]
        schema = pa.schema([self.layout.schema.field(name) for name in dict.fromkeys(names)])
        candidates = joined([hit.batch.select(schema.names).take(pa.array(hit.rows)) for hit in hits], schema)
        identity = pa.StructArray.from_arrays(
            [pa.array(query), *(candidates.column(name) for name in identity_names)], ["query", *identity_names]
        )
        keep = group_keys(hash_keys(identity), identity).first
        keep = keep[~tombstones(candidates, keep)]
        by = [hash_keys(candidates.column(name)) for name in identity_names if name not in sort]
        by = [*(candidates.column(name).to_numpy(zero_copy_only=False) for name in sort), *by]
        return keep[np.lexsort((*(column[keep] for column in reversed(by)), query[keep]))]

    def _due(self, low: int, high: int) -> Iterator[Hits]:
        assert self.layout.due is not None, f"{self.name}: rows are not found by time"
        for layer in self._reaching(low, high - 1):
            for piece in layer:
                batch = self._reader.whole(self.layout, piece.run)
                rows = due_between(batch, self.layout, low, high)
                rows = rows[rows >= piece.start]
                yield Hits(batch, rows, rows)

    def _newest_of(self, hits: Sequence[Hits]) -> Iterator[Hits]:
        """The hits without rows that newer ones replace or delete: all versions of a row have the same time."""
        names = ["hash", *self.layout.identity, TOMBSTONE]
        schema = pa.schema([self.layout.schema.field(name) for name in names])
        candidates = joined([hit.batch.select(names).take(pa.array(hit.rows)) for hit in hits], schema)
        keep = np.zeros(len(candidates), dtype=np.bool_)
        if len(candidates):
            first = distinct(candidates, self.layout).first
            keep[first[~tombstones(candidates, first)]] = True
        edges = np.cumsum([0, *(len(hit.rows) for hit in hits)])
        for hit, start, end in zip(hits, edges[:-1], edges[1:], strict=True):
            rows = hit.rows[keep[start:end]]
            yield Hits(hit.batch, rows, rows)

    def _reaching(self, low: int, high: int) -> list[Layer]:
        """The layers, without the runs that lie outside of these times."""
        layers = []
        for layer in self._layers():
            near = (p for p in layer if p.run.time is None or (p.run.time[0] <= high and p.run.time[1] >= low))
            layers.append(tuple(near))
        return [layer for layer in layers if layer]


def _flat(column: Keys) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _in_order(queries: Queries, values: Int64s) -> Int64s:
    return values if queries.order is None else values[queries.order]


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
        self._part_layers: dict[str, mf.Layer] = {}
        self.watch: Callable[[Table, pa.RecordBatch], None] | None = None

    @property
    def manifest(self) -> Manifest:
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
        return self._tables.get(name)

    def as_committed(self, declared: TableSchema) -> Table:
        """The table as the last commit has left it, for readers beside the writer; of a state without a cache."""
        entry = self._manifest.tables.get(declared.name)
        layers = [] if entry is None else entry.layers()
        table = Table(declared, lambda: layers, self._reader.holding(() if entry is None else entry.runs()))
        current = self._tables.get(declared.name)
        if current is not None:
            table.expire(current.floors)
        return table

    def get_scalar(self, name: str, default: Any = None) -> Any:
        """A small value kept in the manifest, this batch's change included."""
        return copy.deepcopy(self._scalars[name]) if name in self._scalars else default

    def set_scalar(self, name: str, value: Any) -> None:
        """Change a small value, of what JSON knows; kept from the next commit on."""
        try:
            decoded = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            decoded = None
        if decoded != value:
            raise StateError(
                f"the scalar {name!r} does not survive JSON",
                given=repr(value)[:200],
                hint="use integers, text, lists, and dictionaries with text as keys",
            )
        self._scalars[name] = decoded

    def finish_part(self) -> None:
        """All rows with hashes up to here have been put: where they are many, runs are made of them already (law 9)."""
        for name, table in self._tables.items():
            if table.changed and table.bytes_changed > self._policy.segment:
                levels, _ = table.drop_expired(self._entry(table).levels)
                self._part_layers[name] = self._added(table, self._open_writer(), drop_tombstones=not levels)
                table.forget_changes()

    def clear(self) -> None:
        """Remove all rows of all tables, before anything is put; scalars stay."""
        runs = {run.id: run for entry in self._manifest.tables.values() for run in entry.runs()}
        for run in runs.values():
            remove(self._store, run)
        manifest = Manifest(self._manifest.commit + 1, {}, self._manifest.scalars, tuple(runs))
        self._store.put_manifest(mf.write(manifest))
        self._settle(manifest)

    def commit(self, *, compact: bool = False) -> None:
        """Write the batch's changes, merge what is due (with `compact` everything), then the manifest."""
        if self._cache is not None:
            # That we stand on this manifest proves that the commit which retired these runs succeeded.
            self._cache.remove(self._manifest.retired)
        old_tables = self._manifest.tables
        expired = {n for n, t in self._tables.items() if n in old_tables and t.has_expired(old_tables[n].levels)}
        touched = [t for n, t in self._tables.items() if t.changed or compact or n in expired or n in self._part_layers]
        if not touched and self._scalars == self._manifest.scalars:
            return
        writer = self._open_writer()
        tables = dict(self._manifest.tables)
        retired: list[Run] = []
        for table in touched:
            entry = self._entry(table)
            levels, used_up = self._absorb(table, entry, writer, compact=compact)
            runs = {run.id: run for run in entry.runs()}
            retired += [runs[run_id] for run_id in used_up if run_id in runs]
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
        self._writer, self._part_layers = None, {}
        self._reader.settle(run.id for entry in manifest.tables.values() for run in entry.runs())
        for table in self._tables.values():
            table.forget_changes()

    def _open_writer(self) -> RunWriter:
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
        return (*self._part_layers.get(table.name, ()), *added)

    def _watched(self, table: Table, changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in changes:
            if self.watch is not None:
                self.watch(table, rows)
            yield rows

    def _absorb(
        self, table: Table, entry: TableEntry, writer: RunWriter, *, compact: bool
    ) -> tuple[list[RunLayer], list[str]]:
        """A table's levels with its changes on top and the due merges advanced; ids of runs used up."""

        levels, retired = table.drop_expired(entry.levels)
        added = self._added(table, writer, drop_tombstones=not levels)
        count, size = sum(piece.rows for piece in added), sum(piece.size for piece in added)

        def wasteful(layers: Sequence[mf.Layer]) -> bool:
            return is_wasteful(layers, self._manifest.commit, table.load, table.count_left, count)

        if added:
            levels = (RunLayer((added,)), *levels)
        if compact:
            levels = (RunLayer(tuple(layers_of(levels))),)
        elif table.layout.has_one_row_a_key and has_large_rows(levels, size, self._policy):
            work, levels = work_to_relocate(levels, size, self._policy, wasteful)
            levels, used_up = self._relocate(table, levels, work, writer)
            retired += used_up
            levels = plan(levels, self._policy, lambda _: False, part_of(levels, self._policy))
        else:
            levels = plan(levels, self._policy, wasteful)
        new_levels: list[RunLayer] = []
        # From the oldest on: whether anything older is left decides what becomes of tombstones.
        for level in reversed(levels):
            if level.merging or compact:
                work, level = share(level, size, self._policy)
                level, used_up = self._advance(
                    level, level.remaining if compact else work, table, writer, is_oldest=not new_levels
                )
                retired += used_up
            if level.rows:
                new_levels.insert(0, level)
        return new_levels, retired

    def _relocate(
        self, table: Table, levels: Sequence[RunLayer], size: int, writer: RunWriter
    ) -> tuple[tuple[RunLayer, ...], list[str]]:
        """Empty the oldest levels of about `size` bytes: rows that stand go above all but this commit's changes.

        In steps of a bounded size, each of which leaves one level (law 9).
        """
        changes, *old_levels = levels
        results: list[RunLayer] = []
        used_up: list[str] = []
        while size > 0 and old_levels and not old_levels[-1].merging:
            step = min(size, self._policy.segment)
            size -= step
            survivors: list[pa.RecordBatch] = []
            while step > 0 and old_levels and not old_levels[-1].merging:
                oldest = old_levels.pop()
                front = take_front(oldest.layers, step, table.load)
                newer_layers = layers_of((changes, *old_levels))
                survivors += [table.survivors(batch, newer_layers) for batch in front.slices]
                used_up += front.used_up
                step -= max(1, oldest.size - RunLayer(front.layers).size)
                old_levels += [RunLayer(front.layers)] if any(front.layers) else []
            rows = joined(survivors, table.layout.schema)
            if rows.num_rows:
                rows = rows.take(pa.array(order(rows, np.arange(len(rows)), table.layout)))
                results.append(RunLayer((writer.add(rows, table.layout, self._policy.segment),)))
        return (changes, *reversed(results), *old_levels), used_up

    def _advance(
        self, level: RunLayer, work: int, table: Table, writer: RunWriter, *, is_oldest: bool
    ) -> tuple[RunLayer, list[str]]:
        """Merge about `work` bytes of a level, in steps of a bounded size."""
        used_up: list[str] = []
        everything = work >= level.remaining
        while (everything or work > 0) and any(level.layers):
            front = take_front(level.layers, min(max(work, 1), self._policy.segment), table.load)
            merged = table.merge(front.slices, self._policy.segment, drop_tombstones=is_oldest)
            added = (p for rows in merged for p in writer.add(rows, table.layout, self._policy.segment, lasting=True))
            done = (*level.done, *added)
            remaining = level.remaining
            level = replace(level, layers=tuple(filter(None, front.layers)), done=done)
            used_up += front.used_up
            work -= max(1, remaining - level.remaining)
        return level if level.layers else RunLayer((level.done,)), used_up

    def _layers(self, name: str) -> list[mf.Layer]:
        entry = self._manifest.tables.get(name)
        return [] if entry is None else entry.layers()


def _changed(name: str, existing: pa.Schema, requested: pa.Schema) -> StateError:
    return StateError(
        f"the table {name!r} is stored with other columns than the operator reads",
        given=f"asked {_columns(requested)}; stored {_columns(existing)}",
        hint="a checkpoint keeps the columns it was started with: start a new one, or undo the change",
    )


def _columns(schema: pa.Schema) -> str:
    fields = ", ".join(f"{field.name}: {field.type}" for field in schema)
    return f"{fields}; {(schema.metadata or {}).get(PLACES, b'').decode('utf-8', 'replace')}"
