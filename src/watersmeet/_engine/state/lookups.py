"""Results of lookups: rows found in runs, each by its place, so that values are gathered as late as possible.

Law 9: a lookup holds places and numbers; values are read a piece at a time where they may be many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine import rows as arrow
from watersmeet._engine.keys import equal_keys, flat_keys
from watersmeet._engine.row_sizes import row_bytes
from watersmeet._engine.rows import Bools, Int64s, gather
from watersmeet._engine.state.manifest import Layer
from watersmeet._engine.state.merge import Load, hashes, joined

# Finding keys in layers of runs: binary search of the batch's hashes, then comparison of the keys.
#
# A hash may belong to several keys, so a row found by its hash is only a candidate. Layers come newest first,
# and the first row of a key decides, tombstones included. Only runs with a requested range of hashes are loaded.


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
        hashed, keys = np.asarray(hashed, dtype=np.int64), flat_keys(keys)
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
        answered = np.zeros(len(open_queries), dtype=np.bool_)
        for batch, start, end in _overlaps(queries.hashes[open_queries], layer, load):
            rows = _match(queries, open_queries[start:end], batch)
            hit = rows >= 0
            # a hot hash may go on in the next piece
            if hit.any():
                answered[start:end] |= hit
                yield Hits(batch, rows[hit], open_queries[start:end][hit])
        open_queries = open_queries[~answered]


def find_all(queries: Queries, layers: Sequence[Layer], load: Load) -> Iterator[Hits]:
    """Every row that has the key of a query, newest layers first, old versions and tombstones included."""
    for layer in layers:
        for batch, start, end in _overlaps(queries.hashes, layer, load):
            by_hash, query_hashes = hashes(batch), queries.hashes[start:end]
            left, right = by_hash.searchsorted(query_hashes), by_hash.searchsorted(query_hashes, side="right")
            counts = right - left
            if not counts.any():
                continue
            places = np.repeat(np.arange(start, end, dtype=np.int64), counts)
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
        for batch, start, end in _overlaps(queries.hashes, layer, load):
            numbers, left, right = _stretches(queries, batch, order, slice(start, end))
            if not (left < right).any():
                continue
            left = _bisected(np.less, numbers, left, right, low[start:end])
            counts = _bisected(np.less_equal, numbers, left, right, high[start:end]) - left
            places = np.repeat(np.arange(start, end, dtype=np.int64), counts)
            starts = np.repeat(left - np.cumsum(counts) + counts, counts)
            rows = np.arange(len(places), dtype=np.int64) + starts
            equal = _same_key(queries, places, batch, rows)
            yield Hits(batch, rows[equal], places[equal])


def find_last(
    queries: Queries, layers: Sequence[Layer], load: Load, order: str, at: Int64s, asking: Int64s
) -> Iterator[Hits]:
    """For the queries in `asking`, in each run the last row of the key with a value of `order` of at most `at`."""
    for layer in layers:
        for batch, start, end in _overlaps(queries.hashes[asking], layer, load):
            indices = asking[start:end]
            numbers, left, right = _stretches(queries, batch, order, indices)
            rows = _bisected(np.less_equal, numbers, left, right, at[indices]) - 1
            matches = np.full(len(indices), -1, dtype=np.int64)
            looking = np.flatnonzero(rows >= left)
            # one turn, but for keys that share a hash
            while len(looking):
                equal = _same_key(queries, indices[looking], batch, rows[looking])
                matches[looking[equal]] = rows[looking[equal]]
                looking = looking[~equal]
                rows[looking] -= 1
                looking = looking[rows[looking] >= left[looking]]
            hit = matches >= 0
            yield Hits(batch, matches[hit], indices[hit])


def where_equal(hits: Iterator[Hits], queries: Queries, columns: Mapping[str, pa.Array]) -> Iterator[Hits]:
    """The hits with rows that match their queries in these columns too."""
    for hit in hits:
        equal = np.ones(len(hit.rows), dtype=np.bool_)
        for name, column in columns.items():
            expected = _take(column, queries.asked(hit.queries))
            equal &= equal_keys(expected, _take(flat_keys(hit.batch.column(name)), hit.rows))
        yield Hits(hit.batch, hit.rows[equal], hit.queries[equal])


def first_of_each(hits: Iterator[Hits], count: int) -> Iterator[Hits]:
    """Of hits that come newest first, the first one of each query; `count` queries there are."""
    answered = np.zeros(count, dtype=np.bool_)
    for hit in hits:
        fresh = ~answered[hit.queries]
        answered[hit.queries[fresh]] = True
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
    masks = [owner[hit.queries] == number for number, hit in enumerate(hits)]
    return [Hits(hit.batch, hit.rows[mask], hit.queries[mask]) for hit, mask in zip(hits, masks, strict=True)]


def _stretches(
    queries: Queries, batch: pa.RecordBatch, order: str, asking: Int64s | slice
) -> tuple[Int64s, Int64s, Int64s]:
    by_hash, query_hashes = hashes(batch), queries.hashes[asking]
    left, right = by_hash.searchsorted(query_hashes), by_hash.searchsorted(query_hashes, side="right")
    return batch.column(order).to_numpy(zero_copy_only=True), left, right


def _bisected(passes: np.ufunc, numbers: Int64s, start: Int64s, end: Int64s, edge: Int64s) -> Int64s:
    """In each stretch [begin, end), which is sorted, the place behind the numbers that `passes` its edge."""
    start, end = start.copy(), end.copy()
    searching = np.flatnonzero(start < end)
    while len(searching):
        middle = (start[searching] + end[searching]) >> 1
        passed = passes(numbers[middle], edge[searching])
        start[searching[passed]] = middle[passed] + 1
        end[searching[~passed]] = middle[~passed]
        searching = searching[start[searching] < end[searching]]
    return start


def _overlaps(query_hashes: Int64s, layer: Layer, load: Load) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """The pieces that may hold some of the sorted hashes, and which of these."""
    for piece in layer:
        start = int(query_hashes.searchsorted(piece.low))
        end = int(query_hashes.searchsorted(piece.run.high, side="right"))
        if start < end:
            yield load(piece), start, end


def _match(queries: Queries, places: Int64s, batch: pa.RecordBatch) -> Int64s:
    """The row of each query's key, -1 where there is none."""
    by_hash, query_hashes = hashes(batch), queries.hashes[places]
    result = np.full(len(places), -1, dtype=np.int64)
    rows = by_hash.searchsorted(query_hashes)
    asking = np.arange(len(places), dtype=np.int64)
    while len(asking):
        inside = rows < len(by_hash)
        asking, rows = asking[inside], rows[inside]
        candidate = by_hash[rows] == query_hashes[asking]
        asking, rows = asking[candidate], rows[candidate]
        equal = _same_key(queries, places[asking], batch, rows)
        result[asking[equal]] = rows[equal]
        asking, rows = asking[~equal], rows[~equal] + 1
    return result


def _same_key(queries: Queries, places: Int64s, batch: pa.RecordBatch, rows: Int64s) -> Bools:
    # `take` of everything in order would copy what is there already.
    query_keys = queries.keys if len(places) == len(queries.keys) and _is_all(places) else _take(queries.keys, places)
    return equal_keys(query_keys, _take(flat_keys(batch.column("key")), rows))


def _is_all(places: Int64s) -> bool:
    return bool(len(places) == 0 or (places[0] == 0 and (np.diff(places) == 1).all()))


def _take(keys: pa.Array, at: Int64s) -> pa.Array:
    return keys.take(pa.array(at))


@dataclass(frozen=True)
class Lookup:
    """At most one row for each query.

    index : for each query the row in `rows`, -1 where the table has none.
    rows : the rows found, each once, in no particular order: gather through `index` or `aligned`.
    """

    index: Int64s
    rows: pa.Table

    @cached_property
    def found(self) -> Bools:
        return self.index >= 0

    def aligned(self, column: str) -> pa.Array:
        """One value per query, null where nothing was found."""
        return gather(self.rows.column(column), self.index)


class FoundRows:
    """Any number of rows for each query, found but not yet read.

    Rows of a table of replaced rows come in order of query, then of the table's order columns, then in one that
    depends on their identity alone; appended rows come in no particular order.

    Attributes
    ----------
    query : of each row, the number of its query.
    """

    def __init__(self, query: Int64s, places: Int64s | None, hits: Sequence[Hits], schema: pa.Schema) -> None:
        self.query = query
        self._places = places
        self._hits = hits
        self._schema = schema

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def rows(self) -> pa.Table:
        return self.take(self._schema.names)

    def sizes(self, column: str) -> Int64s:
        parts = [row_bytes(hit.batch.column(column), hit.rows) for hit in self._hits]
        sizes = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        return sizes if self._places is None else sizes[self._places]

    def take(self, columns: Sequence[str], rows: Int64s | None = None) -> pa.Table:
        """Columns of the given rows, in their order; of all rows if None."""
        if self._places is None and rows is None:
            return gathered(self._hits, self._schema, columns)
        places = np.arange(len(self.query), dtype=np.int64) if self._places is None else self._places
        places = places if rows is None else places[rows]
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        # Hits lie one after the other, so the wanted places of one hit are a stretch of the sorted ones.
        starts = np.cumsum([0] + [len(hit.rows) for hit in self._hits])
        edges = ordered.searchsorted(starts)
        schema = pa.schema([self._schema.field(name) for name in columns])
        parts = [
            hit.batch.select(schema.names).take(pa.array(hit.rows[ordered[edges[i] : edges[i + 1]] - starts[i]]))
            for i, hit in enumerate(self._hits)
            if edges[i] < edges[i + 1]
        ]
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        table = pa.Table.from_batches([joined(parts, schema)] if parts else [], schema=schema)
        return table.take(pa.array(back))


def gathered(hits: Sequence[Hits], schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """The rows that were hit, one hit after the other; in chunks where they are too large for one array."""
    schema = pa.schema([schema.field(name) for name in columns])
    parts = [hit.batch.select(schema.names).take(pa.array(hit.rows)) for hit in hits if len(hit.rows)]
    if sum(part.nbytes for part in parts) <= arrow.ARRAY_BYTES:
        parts = [joined(parts, schema)]
    return pa.Table.from_batches(parts, schema=schema)
