"""Rows of runs: read from the store or the cache, written at a commit in chunks that the store can bear.

Law 5 (state is plain Arrow bytes) and law 9 (no value above the limit). Chunks from the store are checked against the
manifest's checksums; the cache checks its own files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.rows.blob import decode, encode
from watersmeet._engine.rows.sizes import row_bytes
from watersmeet._engine.state import description as described
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.description import Chunk, Description, checksum
from watersmeet._engine.state.expiry import latest
from watersmeet._engine.state.layout import TOMBSTONE, TableLayout, contradiction, with_due
from watersmeet._engine.state.manifest import Layer, Piece, Run, RunLayer, whole
from watersmeet._engine.state.merge import hashes, joined
from watersmeet._engine.state.store import ChunkStore
from watersmeet.errors import CorruptData, StateError

LARGEST = 16 << 20
"""Largest value put into the store: the JVM dies of much larger ones. A larger row is stored in several."""
LARGEST_ROW = 256 << 20
"""Largest row, as it is stored: a few times what a source may bring (`sizes.LARGEST_RECORD`)."""
HELD = 16 << 20
"""Bytes of new runs that wait in memory for what their own commit makes of them; what is beyond is stored at once."""


class RunReader:
    """Gives the rows of runs, from where they are nearest: this commit, the cache, the store."""

    def __init__(self, store: ChunkStore, cache: RunCache | None) -> None:
        self._store = store
        self._cache = cache
        self._held: dict[str, pa.RecordBatch] = {}
        self._stored: dict[str, Run] = {}

    def load(self, layout: TableLayout, piece: Piece) -> pa.RecordBatch:
        """The visible rows of a piece of a table.

        Raises
        ------
        CorruptData : they are not what the manifest says: merges and lookups go by that.
        """
        batch = self.whole(layout, piece.run)
        if layout.due is not None:
            batch = batch.select(batch.schema.names[:-1])
        by_hash = hashes(batch)
        if by_hash[piece.start] < piece.low or by_hash[-1] > piece.run.high:
            raise _altered(piece.run, f"hashes {by_hash[piece.start]} to {by_hash[-1]}")
        return batch.slice(piece.start)

    def whole(self, layout: TableLayout, run: Run) -> pa.RecordBatch:
        """A run of a table as it is stored.

        Raises
        ------
        CorruptData : it has other columns, or another number of rows.
        """
        batch = self._whole(run, layout)
        if batch.num_rows != run.rows:
            raise _altered(run, f"{batch.num_rows} rows, {run.rows} expected")
        if not batch.schema.equals(layout.in_runs):
            raise _altered(run, f"columns {', '.join(batch.schema.names)}")
        return batch

    def _whole(self, run: Run, layout: TableLayout) -> pa.RecordBatch:
        run = self._stored.get(run.id, run)
        batch = self._held.get(run.id)
        if batch is None and self._cache is not None:
            batch = self._cache.open(run.id, lambda: self._fetch(run, layout))
        elif batch is None:
            batch = self._held[run.id] = self._fetch(run, layout)
        return batch

    def holding(self, runs: Iterable[Run]) -> RunReader:
        """One that has these runs in memory, whatever becomes of them here."""
        made = RunReader(self._store, None)
        made._held = {run.id: self._held[run.id] for run in runs if run.id in self._held}
        return made

    def hold(self, run_id: str, batch: pa.RecordBatch) -> None:
        """Keep rows at hand that are not stored yet."""
        self._held[run_id] = batch

    def held(self, run_id: str) -> pa.RecordBatch:
        """Rows that are not stored yet."""
        return self._held[run_id]

    def let_go(self, run_id: str, run: Run) -> None:
        """The held rows of `run_id` are stored now, as `run`: the cache has them, where there is one."""
        batch = self._held.pop(run_id)
        self._stored[run_id] = run
        if self._cache is None:
            self._held[run.id] = batch
        else:
            self._cache.publish(run.id, batch)

    def forget(self, run: Run) -> None:
        """A run that this commit has stored and used up."""
        self._held.pop(run.id, None)
        if self._cache is not None:
            self._cache.remove([run.id])

    def settle(self, keep: Iterable[str]) -> None:
        """After a commit: of the rows in memory those of live runs stay, where no cache has them."""
        self._held = {run_id: self._held[run_id] for run_id in keep if run_id in self._held}
        self._stored = {}

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
            description, content = described.opened(run.id, self._content(run, 0))
        except ValueError as error:
            raise _altered(run, str(error)) from error
        begun: list[bytes | memoryview] = []
        for number, chunk in enumerate(description.chunks):
            part = self._content(run, number) if number else content
            if len(part) != chunk.bytes or checksum(part) != chunk.checksum:
                raise _altered(run, f"chunk {number}: {len(part)} bytes, {chunk.bytes} expected")
            if chunk.rows and begun:
                yield begun[0] if len(begun) == 1 else b"".join(begun)
                begun = []
            begun.append(part)
        yield begun[0] if len(begun) == 1 else b"".join(begun)

    def _content(self, run: Run, number: int) -> bytes:
        try:
            return self._store.get_chunk(run.id, number)
        except KeyError as error:
            raise StateError(
                "a chunk of a shard's state is missing from the state store",
                given=f"run {run.id}, chunk {number} of {run.chunks}",
                hint="the checkpoint is incomplete; restart from a copy of it",
            ) from error


def _altered(run: Run, what: str) -> CorruptData:
    return CorruptData(
        "a chunk of a shard's state does not have its checksum",
        given=f"run {run.id}, {what}",
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
        self._made: dict[str, int] = {}
        self._stored: dict[str, Run] = {}
        self._held = 0

    def add(self, rows: pa.RecordBatch, layout: TableLayout, segment: int, *, lasting: bool = False) -> Layer:
        """Sorted rows as a layer of new runs, none much larger than `segment` bytes.

        Parameters
        ----------
        lasting : whether the commit's own merges will not use them up.
        """
        pieces = []
        for batch in cut_by_hash(rows, segment):
            number, by_hash = len(self._made), hashes(batch)
            dead = int(pc.sum(batch.column(TOMBSTONE)).as_py())
            run = Run(f"new-{number}", batch.num_rows, batch.nbytes, int(by_hash[0]), int(by_hash[-1]), dead)
            if layout.time is not None:
                edges = pc.min_max(batch.column(layout.time))
                run = replace(run, time=(edges["min"].as_py(), edges["max"].as_py()), latest=latest(batch, layout))
            self._made[run.id] = number
            self._reader.hold(run.id, with_due(batch, layout))
            if lasting or self._held + batch.nbytes > HELD:
                self._store_run(run)
            else:
                self._held += batch.nbytes
            pieces.append(whole(run))
        return tuple(pieces)

    def store_levels(self, levels: Iterable[RunLayer]) -> tuple[RunLayer, ...]:
        """Store the new runs that are left, and give them their names."""
        return tuple(
            replace(level, layers=tuple(map(self._finished, level.layers)), done=self._finished(level.done))
            for level in levels
        )

    def remove_unused(self, live: Iterable[Run]) -> None:
        """Remove from the store what this commit has stored and used up."""
        kept = {run.id for run in live}
        for run in self._stored.values():
            if run.id not in kept:
                remove(self._store, run)
                self._reader.forget(run)

    def _finished(self, layer: Layer) -> Layer:
        return tuple(
            replace(piece, run=self._stored.get(piece.run.id) or self._store_run(piece.run))
            if piece.run.id in self._made
            else piece
            for piece in layer
        )

    def _store_run(self, run: Run) -> Run:
        found = chunks(self._reader.held(run.id), self._chunk_bytes)
        blobs = [piece for rows, blob in found for piece in _pieces(rows, blob)]
        listed = tuple(Chunk(rows, len(blob), checksum(blob)) for rows, blob in blobs)
        description = Description(self._commit, self._made[run.id], listed)
        final = replace(run, id=described.run_id(description), chunks=len(blobs))
        for number, (_, blob) in enumerate(blobs):
            self._store.put_chunk(final.id, number, blob if number else described.before(description, blob))
        self._stored[run.id] = final
        self._reader.let_go(run.id, final)
        return final


def remove(store: ChunkStore, run: Run) -> None:
    """Remove a run from the store."""
    for number in range(run.chunks):
        store.remove_chunk(run.id, number)


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
