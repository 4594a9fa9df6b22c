"""Table: rows of one (operator, shard), declared by a `TableSchema`, kept as runs under the manifest.

Rows are routed by the hash of their key, told apart by their identity, sorted within a hash by the order columns, and
let go by their domain's time. A lookup asks for many keys at once and sees the last commit: `point` one row of an
identity, `rows` all of a key, `range` those with the first order column in an interval, `as_of` the last one up to a
value; `due` finds rows of all keys by time. `put` and `expire` take effect at the next commit. A tombstone keeps
what names and sorts its row, and no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keys import group_keys, hash_keys
from watersmeet._engine.state.changes import Given, PutRows, check, length, sorted_rows
from watersmeet._engine.state.expiry import Floors
from watersmeet._engine.state.layout import TOMBSTONE, TableLayout, due_between
from watersmeet._engine.state.lookups import FoundRows, Lookup, gathered
from watersmeet._engine.state.manifest import Layer, RunLayer
from watersmeet._engine.state.merge import (
    chosen,
    distinct,
    joined,
    newest,
    order,
    take_front,
    tombstones,
    without_values,
)
from watersmeet._engine.state.rundata import RunReader
from watersmeet._engine.state.search import (
    Hits,
    Queries,
    find_all,
    find_last,
    find_newest,
    find_range,
    first_of_each,
    latest_of_each,
    where_equal,
)
from watersmeet._plan.operators.spec import TableSchema
from watersmeet.errors import StateError

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

    def point(self, hashes: npt.ArrayLike, keys: Keys, *rest: Keys, columns: Sequence[str] | None = None) -> Lookup:
        """The row of each identity, which are distinct; `rest` are its columns behind `key`.

        Fastest when the hashes ascend, as those of `group_keys(...).first` do.
        """
        names = self.layout.identity[1:]
        assert not self.layout.appended, f"{self.name}: no row is told from others"
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        if not rest:
            return self._lookup(queries, find_newest(queries, self._layers(), self.load), columns)
        asked = {name: _flat(column) for name, column in zip(names, rest, strict=True)}
        first = next((name for name in self.layout.order[:1] if name in asked), None)
        if first is None:
            hits = find_all(queries, self._layers(), self.load)
        else:
            at = _in_order(queries, asked[first].to_numpy(zero_copy_only=False))
            hits = find_range(queries, self._layers(), self.load, first, at, at)
        return self._lookup(queries, first_of_each(where_equal(hits, queries, asked), len(queries.hashes)), columns)

    def rows(self, hashes: npt.ArrayLike, keys: Keys) -> FoundRows:
        """All rows of distinct keys."""
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        return self._found(queries, find_all(queries, self._layers(), self.load))

    def range(self, hashes: npt.ArrayLike, keys: Keys, low: Int64s, high: Int64s) -> FoundRows:
        """The rows of distinct keys with the first order column between the query's `low` and `high`, both included.

        In a hot key this costs what is found.
        """
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        if not len(low):
            return self._found(queries, iter(()))
        low, high = _in_order(queries, low), _in_order(queries, high)
        first, layers = self.layout.order[0], self._layers()
        if first == self.layout.time:
            layers = self._reaching(int(low.min()), int(high.max()))
        return self._found(queries, find_range(queries, layers, self.load, first, low, high))

    def as_of(self, hashes: npt.ArrayLike, keys: Keys, at: Int64s, columns: Sequence[str] | None = None) -> Lookup:
        """For each of some keys the row with the largest value of the order column that is at most `at`.

        A key may be asked for several times; a row that answers several questions is read once.
        """
        first = self.layout.order[0]
        assert self.layout.identity in ((), ("key", first)), f"{self.name}: two rows of a key may have one {first}"
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        at = np.array(_in_order(queries, at))
        asking, found = np.arange(len(at), dtype=np.int64), []
        # one turn, and one more for each deleted row that stands last
        while len(asking):
            latest = latest_of_each(find_last(queries, self._layers(), self.load, first, at, asking), first, len(at))
            again = []
            for hit in latest:
                dead = tombstones(hit.batch, hit.rows)
                number = hit.batch.column(first).to_numpy(zero_copy_only=True)[hit.rows[dead]]
                gone = hit.queries[dead]
                at[gone] = number - 1
                again.append(gone[number > _LEAST])
                found.append(Hits(hit.batch, hit.rows[~dead], hit.queries[~dead]))
            asking = np.sort(np.concatenate([_NOWHERE, *again]))
        return self._lookup(queries, iter(found), columns, shared=True)

    def due(self, low: int, high: int, flag: str | None = None) -> Iterator[Hits]:
        """Places of the rows of all keys with low <= time < high, where the column `flag` holds.

        Each run says where its rows of a time lie: what is not due is not read.
        """
        hits = self._due(low, high)
        if not self.layout.appended:
            hits = self._newest_of(list(hits))
        for hit in hits:
            if flag is not None:
                chosen_rows = hit.batch.column(flag).take(pa.array(hit.rows)).fill_null(False)
                rows = hit.rows[chosen_rows.to_numpy(zero_copy_only=False)]
                hit = Hits(hit.batch, rows, rows)
            yield hit

    def gather(self, hits: Sequence[Hits], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at these places, one hit after the other."""
        return gathered(hits, self.schema, self.schema.names if columns is None else columns)

    def scan(self) -> Iterator[pa.Table]:
        """All live rows of the last commit, in order of hash, some at a time."""
        layers: Sequence[Layer] = self._layers()
        while any(layers):
            taken = take_front(layers, _SCAN_BYTES, self.load)
            layers = taken.layers
            for rows in self.merge(taken.slices, _SCAN_BYTES, drop_tombstones=True):  # one turn, but for hot keys
                if rows.num_rows:
                    yield pa.Table.from_batches([rows.select(self.schema.names)])

    # -- changes -------------------------------------------------------------------------------------------

    def put(
        self, rows: pa.Table | pa.RecordBatch | Mapping[str, Given], delete: npt.ArrayLike | pa.Array | None = None
    ) -> None:
        """Write rows at the next commit, at most one per identity; where `delete` is true, remove the row.

        Columns that are `Picked` are gathered at the commit: until then only pointers are kept.
        """
        given = {name: rows.column(name) for name in rows.schema.names} if not isinstance(rows, Mapping) else rows
        count = max(map(length, given.values()), default=0)
        deleted = np.zeros(count, dtype=np.bool_) if delete is None else np.asarray(delete, dtype=np.bool_)
        check(self.layout, self.name, given, len(deleted))
        if len(deleted):
            assert not self.layout.appended or not deleted.any(), f"{self.name}: rows are only appended"
            self._changes.append(PutRows.of(self.layout, given, deleted))

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
        """Whether there is anything to commit."""
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
        return chosen(slices, self.layout, partial(self._left, drop_tombstones=drop_tombstones), segment)

    def count_left(self, slices: Sequence[pa.RecordBatch]) -> int:
        """How many rows a merge would leave of these, with nothing below them."""
        return len(self._left(without_values(slices, self.layout), drop_tombstones=True))

    def has_expired(self, levels: Sequence[RunLayer]) -> bool:
        """Whether whole runs can be dropped without being read."""
        return any(not self._floors.alive(piece, self.layout) for level in levels for piece in level.pieces())

    def drop_expired(self, levels: Sequence[RunLayer]) -> tuple[tuple[RunLayer, ...], list[str]]:
        """The levels without such runs, and the ids of these runs."""
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
            return keep[~self._floors.outlived(rows, keep, self.layout)] if self._floors.floors else keep
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
            asked, places = queries.asked(hit.queries), np.arange(len(hit.rows))
            if shared:
                rows, places = np.unique(hit.rows, return_inverse=True)
                hit = Hits(hit.batch, rows, rows)
            index[asked] = count + places
            count += len(hit.rows)
            live.append(hit)
        return Lookup(index, self.gather(live, columns))

    def _found(self, queries: Queries, all_hits: Iterator[Hits]) -> FoundRows:
        hits = [hit for hit in all_hits if len(hit.rows)]
        query = queries.asked(np.concatenate([_NOWHERE, *(hit.queries for hit in hits)]))
        if self.layout.appended or not hits:
            return FoundRows(query, None, hits, self.schema)
        places = self._newest(hits, query)
        return FoundRows(query[places], places, hits, self.schema)

    def _newest(self, hits: Sequence[Hits], query: Int64s) -> Int64s:
        """Places, in all hits, of the newest row of each query and identity that is no tombstone, in order."""
        rest, sort = self.layout.identity[1:], self.layout.order
        names = [*rest, *sort, TOMBSTONE]
        schema = pa.schema([self.layout.schema.field(name) for name in dict.fromkeys(names)])
        found = joined([hit.batch.select(schema.names).take(pa.array(hit.rows)) for hit in hits], schema)
        identity = pa.StructArray.from_arrays(
            [pa.array(query), *(found.column(name) for name in rest)], ["query", *rest]
        )
        keep = group_keys(hash_keys(identity), identity).first
        keep = keep[~tombstones(found, keep)]
        by = [hash_keys(found.column(name)) for name in rest if name not in sort]
        by = [*(found.column(name).to_numpy(zero_copy_only=False) for name in sort), *by]
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
        found = joined([hit.batch.select(names).take(pa.array(hit.rows)) for hit in hits], schema)
        keep = np.zeros(len(found), dtype=np.bool_)
        if len(found):
            first = distinct(found, self.layout).first
            keep[first[~tombstones(found, first)]] = True
        edges = np.cumsum([0, *(len(hit.rows) for hit in hits)])
        for hit, begin, end in zip(hits, edges[:-1], edges[1:], strict=True):
            rows = hit.rows[keep[begin:end]]
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
    """The columns of each query, in the order of the sorted queries."""
    return values if queries.order is None else values[queries.order]
