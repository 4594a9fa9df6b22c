"""Rows of runs: read from the store or the cache, written at a commit in chunks that the store can bear.

Law 5 (state is plain Arrow bytes) and law 9 (no value above the limit). What is read from the store is
checked against the manifest's checksums; the cache checks its own files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.rows.blob import decode, encode
from millpond._engine.rows.sizes import row_bytes
from millpond._engine.state.cache import RunCache
from millpond._engine.state.manifest import Chunk, Layer, Level, Piece, Run, checksum, whole
from millpond._engine.state.merge import TOMBSTONE, Layout, hashes, joined
from millpond._engine.state.store import ChunkStore
from millpond.errors import CorruptData, StateError

LARGEST = 16 << 20
"""Largest value put into the store: the JVM dies of much larger ones. A larger row is stored in several."""
LARGEST_ROW = 256 << 20
"""Largest row, as it is stored: a few times what a source may bring (`sizes.LARGEST_RECORD`)."""


class RunReader:
    """Gives the rows of runs, from where they are nearest: this commit, the cache, the store."""

    def __init__(self, store: ChunkStore, cache: RunCache | None) -> None:
        self._store = store
        self._cache = cache
        self._held: dict[str, pa.RecordBatch] = {}

    def load(self, piece: Piece) -> pa.RecordBatch:
        """The visible rows of a piece."""
        run = piece.run
        batch = self._held.get(run.id)
        if batch is None and self._cache is not None:
            batch = self._cache.open(run.id, lambda: self._fetch(run))
        elif batch is None:
            batch = self._held[run.id] = self._fetch(run)
        if batch.num_rows != run.rows:
            raise _altered(run, f"{batch.num_rows} rows, {run.rows} expected")
        return batch.slice(piece.start)

    def hold(self, run_id: str, batch: pa.RecordBatch) -> None:
        """Keep rows at hand that are not stored yet."""
        self._held[run_id] = batch

    def settle(self, renamed: dict[str, str], keep: Iterable[str]) -> None:
        """After a commit: what was held gets its name and goes to the cache, retired runs are let go."""
        held = {renamed.get(run_id, run_id): batch for run_id, batch in self._held.items()}
        self._held = {run_id: held[run_id] for run_id in keep if run_id in held}
        if self._cache is None:
            return
        for run_id, batch in self._held.items():
            self._cache.publish(run_id, batch)
        self._held = {}

    def _fetch(self, run: Run) -> pa.RecordBatch:
        blobs: list[bytes] = []
        for number, chunk in enumerate(run.chunks):
            content = self._chunk(run, number, chunk)
            if chunk.rows:
                blobs.append(content)
            else:
                blobs[-1] += content
        tables = [decode(content) for content in blobs]
        return joined([batch for table in tables for batch in table.to_batches()], tables[0].schema)

    def _chunk(self, run: Run, number: int, chunk: Chunk) -> bytes:
        try:
            blob = self._store.get_chunk(run.id, number)
        except KeyError as error:
            raise StateError(
                "a chunk of a shard's state is missing from the state store",
                given=f"run {run.id}, chunk {number} of {len(run.chunks)}",
                hint="the checkpoint is incomplete; restart from a copy of it",
            ) from error
        if len(blob) != chunk.bytes or checksum(blob) != chunk.checksum:
            raise _altered(run, f"chunk {number}: {len(blob)} bytes, {chunk.bytes} expected")
        return blob


def _altered(run: Run, what: str) -> CorruptData:
    return CorruptData(
        "a chunk of a shard's state does not have its checksum",
        given=f"run {run.id}, {what}",
        hint="the state was altered or cut off; restart from a copy of the checkpoint",
    )


class RunWriter:
    """The runs of one commit: held back until it is clear which of them outlive the commit's own merges."""

    def __init__(self, store: ChunkStore, reader: RunReader, commit: int, chunk_bytes: int) -> None:
        self._store = store
        self._reader = reader
        self._commit = commit
        self._chunk_bytes = chunk_bytes
        self._made: dict[str, Run] = {}
        self.renamed: dict[str, str] = {}

    def add(self, rows: pa.RecordBatch, layout: Layout, segment: int) -> Layer:
        """Sorted rows as a layer of new runs, none much larger than `segment` bytes."""
        pieces = []
        for batch in cut_by_hash(rows, segment):
            number, by_hash = len(self._made), hashes(batch)
            dead = int(pc.sum(batch.column(TOMBSTONE)).as_py())
            run = Run(f"new-{number}", batch.num_rows, batch.nbytes, int(by_hash[0]), int(by_hash[-1]), dead)
            if layout.time is not None:
                edges = pc.min_max(batch.column(layout.time))
                run = replace(run, time=(edges["min"].as_py(), edges["max"].as_py()))
            self._made[run.id] = run
            self._reader.hold(run.id, batch)
            pieces.append(whole(run))
        return tuple(pieces)

    def is_new(self, run_id: str) -> bool:
        """Whether a run belongs to this commit and so never was in the store."""
        return run_id in self._made

    def store_levels(self, table: str, levels: Iterable[Level]) -> tuple[Level, ...]:
        """Store the new runs that are left, and give them their names."""
        return tuple(
            replace(
                level,
                layers=tuple(self._store_layer(table, layer) for layer in level.layers),
                done=self._store_layer(table, level.done),
            )
            for level in levels
        )

    def _store_layer(self, table: str, layer: Layer) -> Layer:
        return tuple(
            replace(piece, run=self._store_run(table, piece.run)) if self.is_new(piece.run.id) else piece
            for piece in layer
        )

    def _store_run(self, table: str, run: Run) -> Run:
        found = chunks(self._reader.load(whole(run)), self._chunk_bytes)
        blobs = [piece for rows, blob in found for piece in _pieces(rows, blob)]
        described = tuple(Chunk(rows, len(blob), checksum(blob)) for rows, blob in blobs)
        # Content alone would not do: two commits of one store may write the same rows.
        name = f"{table}\0{self._commit}\0{run.id}\0" + "".join(chunk.checksum for chunk in described)
        final = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        for number, (_, blob) in enumerate(blobs):
            self._store.put_chunk(final, number, blob)
        self.renamed[run.id] = final
        return replace(run, id=final, chunks=described)


def cut_by_hash(rows: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Cut sorted rows into batches of about `size` bytes, between rows of one hash only where it has more of them."""
    if rows.num_rows and rows.nbytes <= size:
        yield rows
        return
    by_hash, ends = hashes(rows), np.cumsum(row_bytes(rows))
    begin = done = 0
    while begin < rows.num_rows:
        end = max(begin + 1, int(ends.searchsorted(done + size, side="right")))
        whole = int(by_hash.searchsorted(by_hash[end - 1], side="right"))
        end = whole if ends[whole - 1] - done <= 2 * size else end
        yield rows.slice(begin, end - begin)
        begin, done = end, int(ends[end - 1])


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
