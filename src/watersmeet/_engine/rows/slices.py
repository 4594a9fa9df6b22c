"""A shard's batch in ranges of hashes: what an operator needs beside its input follows from a slice, not the batch.

Law 9. All records of a key are in one slice, so this is for operators with results that follow from their key's records
alone (`Spec.by_key`). Results come in order of position within a slice; their reader sorts them (law 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s

SLICE_BYTES = 8 << 20
"""Of a slice's rows, about: what an operator needs for them is some times as many."""


def slices(inputs: Mapping[int, pa.Table], limit: int | None = None) -> Iterator[Mapping[int, pa.Table]]:
    """The rows of each side, in slices of about `limit` bytes (else `SLICE_BYTES`), the hashes ascending."""
    limit = SLICE_BYTES if limit is None else limit
    count = -(-sum(table.nbytes for table in inputs.values()) // limit)
    if count <= 1:
        yield inputs
        return
    edges = _edges([_hashes(batch) for table in inputs.values() for batch in table.to_batches()], count)
    sides = {side: [_Cut(batch, edges) for batch in table.to_batches()] for side, table in inputs.items()}
    for number in range(len(edges) + 1):
        parts = {side: [cut.part(number) for cut in cuts] for side, cuts in sides.items()}
        filled = {side: [part for part in found if len(part)] for side, found in parts.items()}
        yield {side: pa.Table.from_batches(found) for side, found in filled.items() if found}


def slices_with_time(inputs: Mapping[int, pa.Table]) -> Iterator[Mapping[int, pa.Table]]:
    """The same for an operator that goes by time: the rows of time come with every slice."""
    told = {side: table for side, table in inputs.items() if side < 0}
    for part in slices({side: table for side, table in inputs.items() if side >= 0}):
        yield {**part, **told}


class _Cut:
    """A batch with rows taken slice by slice: so they lie twice in memory for one slice alone.

    Rows in order of their hashes, as large frames are packed, are not even copied for that: a slice is a view.
    """

    def __init__(self, batch: pa.RecordBatch, edges: Int64s) -> None:
        hashes = _hashes(batch)
        self._batch = batch
        self._order = None
        if (hashes[1:] >= hashes[:-1]).all():
            self._ends = np.append(hashes.searchsorted(edges, side="left"), len(hashes))
            return
        number = edges.searchsorted(hashes, side="right").astype(np.uint16)
        self._order = np.argsort(number, kind="stable").astype(np.int32)
        self._ends = np.cumsum(np.bincount(number, minlength=len(edges) + 1))

    def part(self, number: int) -> pa.RecordBatch:
        """Its rows of a slice."""
        begin, end = int(self._ends[number - 1]) if number else 0, int(self._ends[number])
        if self._order is None:
            return self._batch.slice(begin, end - begin)
        return self._batch.take(pa.array(self._order[begin:end]))


def _edges(hashes: list[Int64s], count: int) -> Int64s:
    """The first hash of each slice but the first one; fewer where many rows have one hash."""
    every = np.concatenate(hashes)
    places = np.arange(1, min(count, 2**16)) * len(every) // count
    return np.unique(np.partition(every, places)[places])


def _hashes(batch: pa.RecordBatch) -> Int64s:
    found: Int64s = batch.column("hash").to_numpy(zero_copy_only=False)
    return found
