"""Finding keys in layers of runs: binary search of the batch's hashes, then comparison of the keys.

A hash may belong to several keys, so a row found by its hash is only a candidate. Layers come newest first,
and the first row of a key decides, tombstones included. Only runs whose range of hashes is asked for are
loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millpond._engine.arrays import Bools, Int64s
from millpond._engine.keys.keyform import flat
from millpond._engine.keys.keys import equal_keys
from millpond._engine.state.manifest import Layer
from millpond._engine.state.merge import Load, hashes


@dataclass(frozen=True)
class Hits:
    """Rows of one run that answer queries: `rows[i]` of `batch` has the key of query `queries[i]`."""

    batch: pa.RecordBatch
    rows: Int64s
    queries: Int64s


@dataclass(frozen=True)
class Queries:
    """Keys to look for, in ascending order of hash; `order` gives each its place in the question."""

    hashes: Int64s
    keys: pa.Array
    order: Int64s | None

    @staticmethod
    def of(hashed: Int64s, keys: pa.Array | pa.ChunkedArray) -> Queries:
        """Sort the queries, unless they are."""
        hashed, keys = np.asarray(hashed, dtype=np.int64), flat(keys)
        if not np.any(hashed[1:] < hashed[:-1]):
            return Queries(hashed, keys, None)
        order = np.argsort(hashed, kind="stable")
        return Queries(hashed[order], keys.take(pa.array(order)), order)

    def asked(self, places: Int64s) -> Int64s:
        """Places among the sorted queries as places in the question."""
        return places if self.order is None else self.order[places]


def find_newest(queries: Queries, layers: Sequence[Layer], load: Load) -> Iterator[Hits]:
    """The newest row of every query that has one, tombstones included."""
    open_queries = np.arange(len(queries.hashes), dtype=np.int64)
    for layer in layers:
        if not len(open_queries):
            return
        found = np.zeros(len(open_queries), dtype=np.bool_)
        for batch, begin, end in _overlaps(queries.hashes[open_queries], layer, load):
            rows = _match(queries, open_queries[begin:end], batch)
            hit = rows >= 0
            # a hot hash may go on in the next piece
            found[begin:end] |= hit
            yield Hits(batch, rows[hit], open_queries[begin:end][hit])
        open_queries = open_queries[~found]


def find_all(queries: Queries, layers: Sequence[Layer], load: Load) -> Iterator[Hits]:
    """Every row that has the key of a query, newest layers first, old versions and tombstones included."""
    for layer in layers:
        for batch, begin, end in _overlaps(queries.hashes, layer, load):
            by_hash, wanted = hashes(batch), queries.hashes[begin:end]
            left, right = by_hash.searchsorted(wanted), by_hash.searchsorted(wanted, side="right")
            counts = right - left
            places = np.repeat(np.arange(begin, end, dtype=np.int64), counts)
            rows = np.arange(len(places), dtype=np.int64) + np.repeat(left - np.cumsum(counts) + counts, counts)
            equal = _same_key(queries, places, batch, rows)
            yield Hits(batch, rows[equal], places[equal])


def find_within(
    queries: Queries, layers: Sequence[Layer], load: Load, time: str, low: Int64s, high: Int64s
) -> Iterator[Hits]:
    """Every row that has the key of a query and a time from the query's `low` to its `high`.

    Rows of one hash are in order of time, so that a hot key costs what it has in that time, and not its history.
    """
    for layer in layers:
        for batch, begin, end in _overlaps(queries.hashes, layer, load):
            by_hash, wanted = hashes(batch), queries.hashes[begin:end]
            left, right = by_hash.searchsorted(wanted), by_hash.searchsorted(wanted, side="right")
            times = batch.column(time).to_numpy(zero_copy_only=True)
            left = _bisected(np.less, times, left, right, low[begin:end])
            counts = _bisected(np.less_equal, times, left, right, high[begin:end]) - left
            places = np.repeat(np.arange(begin, end, dtype=np.int64), counts)
            starts = np.repeat(left - np.cumsum(counts) + counts, counts)
            rows = np.arange(len(places), dtype=np.int64) + starts
            equal = _same_key(queries, places, batch, rows)
            yield Hits(batch, rows[equal], places[equal])


def _bisected(passes: np.ufunc, times: Int64s, begin: Int64s, end: Int64s, edge: Int64s) -> Int64s:
    """In each stretch [begin, end), which is in order of time, the place behind the times that `passes` its edge."""
    begin, end = begin.copy(), end.copy()
    searching = np.flatnonzero(begin < end)
    while len(searching):
        middle = (begin[searching] + end[searching]) >> 1
        passed = passes(times[middle], edge[searching])
        begin[searching[passed]] = middle[passed] + 1
        end[searching[~passed]] = middle[~passed]
        searching = searching[begin[searching] < end[searching]]
    return begin


def _overlaps(wanted: Int64s, layer: Layer, load: Load) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """The pieces that may hold some of the sorted hashes, and which of these."""
    for piece in layer:
        begin = int(wanted.searchsorted(piece.low))
        end = int(wanted.searchsorted(piece.run.high, side="right"))
        if begin < end:
            yield load(piece), begin, end


def _match(queries: Queries, places: Int64s, batch: pa.RecordBatch) -> Int64s:
    """The row of each query's key, -1 where there is none."""
    by_hash, wanted = hashes(batch), queries.hashes[places]
    result = np.full(len(places), -1, dtype=np.int64)
    rows = by_hash.searchsorted(wanted)
    asking = np.arange(len(places), dtype=np.int64)
    while len(asking):
        inside = rows < len(by_hash)
        asking, rows = asking[inside], rows[inside]
        candidate = by_hash[rows] == wanted[asking]
        asking, rows = asking[candidate], rows[candidate]
        equal = _same_key(queries, places[asking], batch, rows)
        result[asking[equal]] = rows[equal]
        asking, rows = asking[~equal], rows[~equal] + 1
    return result


def _same_key(queries: Queries, places: Int64s, batch: pa.RecordBatch, rows: Int64s) -> Bools:
    # `take` of everything in order would copy what is there already.
    asked = queries.keys if len(places) == len(queries.keys) and _is_all(places) else _take(queries.keys, places)
    return equal_keys(asked, _take(flat(batch.column("key")), rows))


def _is_all(places: Int64s) -> bool:
    return bool(len(places) == 0 or (places[0] == 0 and (np.diff(places) == 1).all()))


def _take(keys: pa.Array, at: Int64s) -> pa.Array:
    return keys.take(pa.array(at))
