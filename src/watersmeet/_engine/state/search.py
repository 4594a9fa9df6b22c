"""Finding keys in layers of runs: binary search of the batch's hashes, then comparison of the keys.

A hash may belong to several keys, so a row found by its hash is only a candidate. Layers come newest first,
and the first row of a key decides, tombstones included. Only runs with a requested range of hashes are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keyform import flat
from watersmeet._engine.keys.keys import equal_keys
from watersmeet._engine.state.manifest import Layer
from watersmeet._engine.state.merge import Load, hashes


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
            if hit.any():
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
            if not counts.any():
                continue
            places = np.repeat(np.arange(begin, end, dtype=np.int64), counts)
            rows = np.arange(len(places), dtype=np.int64) + np.repeat(left - np.cumsum(counts) + counts, counts)
            equal = _same_key(queries, places, batch, rows)
            yield Hits(batch, rows[equal], places[equal])


def find_range(
    queries: Queries, layers: Sequence[Layer], load: Load, order: str, low: Int64s, high: Int64s
) -> Iterator[Hits]:
    """Every row that has the key of a query and a value of `order` from the query's `low` to its `high`.

    Rows of one hash are sorted by that column, so that a hot key costs what it has there, and not its history.
    """
    for layer in layers:
        for batch, begin, end in _overlaps(queries.hashes, layer, load):
            numbers, left, right = _stretches(queries, batch, order, slice(begin, end))
            if not (left < right).any():
                continue
            left = _bisected(np.less, numbers, left, right, low[begin:end])
            counts = _bisected(np.less_equal, numbers, left, right, high[begin:end]) - left
            places = np.repeat(np.arange(begin, end, dtype=np.int64), counts)
            starts = np.repeat(left - np.cumsum(counts) + counts, counts)
            rows = np.arange(len(places), dtype=np.int64) + starts
            equal = _same_key(queries, places, batch, rows)
            yield Hits(batch, rows[equal], places[equal])


def find_last(
    queries: Queries, layers: Sequence[Layer], load: Load, order: str, at: Int64s, asking: Int64s
) -> Iterator[Hits]:
    """For the queries in `asking`, in each run the last row of the key with a value of `order` of at most `at`."""
    for layer in layers:
        for batch, begin, end in _overlaps(queries.hashes[asking], layer, load):
            mine = asking[begin:end]
            numbers, left, right = _stretches(queries, batch, order, mine)
            rows = _bisected(np.less_equal, numbers, left, right, at[mine]) - 1
            found = np.full(len(mine), -1, dtype=np.int64)
            looking = np.flatnonzero(rows >= left)
            # one turn, but for keys that share a hash
            while len(looking):
                equal = _same_key(queries, mine[looking], batch, rows[looking])
                found[looking[equal]] = rows[looking[equal]]
                looking = looking[~equal]
                rows[looking] -= 1
                looking = looking[rows[looking] >= left[looking]]
            hit = found >= 0
            yield Hits(batch, found[hit], mine[hit])


def where_equal(hits: Iterator[Hits], queries: Queries, columns: Mapping[str, pa.Array]) -> Iterator[Hits]:
    """The hits with rows that match their queries in these columns too."""
    for hit in hits:
        equal = np.ones(len(hit.rows), dtype=np.bool_)
        for name, asked in columns.items():
            wanted = _take(asked, queries.asked(hit.queries))
            equal &= equal_keys(wanted, _take(flat(hit.batch.column(name)), hit.rows))
        yield Hits(hit.batch, hit.rows[equal], hit.queries[equal])


def first_of_each(hits: Iterator[Hits], count: int) -> Iterator[Hits]:
    """Of hits that come newest first, the first one of each query; `count` queries there are."""
    taken = np.zeros(count, dtype=np.bool_)
    for hit in hits:
        fresh = ~taken[hit.queries]
        taken[hit.queries[fresh]] = True
        yield Hits(hit.batch, hit.rows[fresh], hit.queries[fresh])


def latest_of_each(all_hits: Iterator[Hits], order: str, count: int) -> list[Hits]:
    """Of hits that come newest first, of each query the first one with the largest value of `order`."""
    hits = list(all_hits)
    best, owner = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    for number, hit in enumerate(hits):
        values = hit.batch.column(order).to_numpy(zero_copy_only=True)[hit.rows]
        better = (owner[hit.queries] < 0) | (values > best[hit.queries])
        owner[hit.queries[better]] = number
        best[hit.queries[better]] = values[better]
    kept = [owner[hit.queries] == number for number, hit in enumerate(hits)]
    return [Hits(hit.batch, hit.rows[mine], hit.queries[mine]) for hit, mine in zip(hits, kept, strict=True)]


def _stretches(
    queries: Queries, batch: pa.RecordBatch, order: str, asking: Int64s | slice
) -> tuple[Int64s, Int64s, Int64s]:
    """The column that rows of one hash are sorted by, and where the rows of each query's hash begin and end."""
    by_hash, wanted = hashes(batch), queries.hashes[asking]
    left, right = by_hash.searchsorted(wanted), by_hash.searchsorted(wanted, side="right")
    return batch.column(order).to_numpy(zero_copy_only=True), left, right


def _bisected(passes: np.ufunc, numbers: Int64s, begin: Int64s, end: Int64s, edge: Int64s) -> Int64s:
    """In each stretch [begin, end), which is sorted, the place behind the numbers that `passes` its edge."""
    begin, end = begin.copy(), end.copy()
    searching = np.flatnonzero(begin < end)
    while len(searching):
        middle = (begin[searching] + end[searching]) >> 1
        passed = passes(numbers[middle], edge[searching])
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
