"""The tables of a shard's state: latest value by key, and many rows by key.

Both are runs of rows told apart by their identity columns, with a flag for tombstones; they differ in what
identifies a row, so in what a lookup returns. A tombstone keeps its identity and no value. Lookups see the
last commit; `put` only buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond._engine.arrays import Bools, Int64s
from millpond._engine.keys.keys import group_keys, hash_keys
from millpond._engine.rows.columns import ARRAY_BYTES, gather
from millpond._engine.rows.sizes import row_bytes
from millpond._engine.state.manifest import Layer, Level
from millpond._engine.state.merge import (
    TOMBSTONE,
    Layout,
    Load,
    chosen,
    distinct,
    joined,
    newest,
    order,
    take_front,
    tombstones,
    without_values,
)
from millpond._engine.state.search import Hits, Queries, find_all, find_newest
from millpond.errors import StateError

# A scan reads state this many bytes at a time, so that it needs no more memory than a batch does.
_SCAN_BYTES = 16 << 20


@dataclass(frozen=True)
class Lookup:
    """What a table holds of some keys.

    index : for each query the row in `rows`, -1 where the table has none.
    rows : the rows found, each once, in no particular order: gather through `index` or `aligned`.
    """

    index: Int64s
    rows: pa.Table

    @cached_property
    def found(self) -> Bools:
        """Whether each query has a row."""
        return self.index >= 0

    def aligned(self, column: str) -> pa.Array:
        """One value per query, null where nothing was found."""
        return gather(self.rows.column(column), self.index)


@dataclass(frozen=True)
class MultiLookup:
    """All rows a table holds of some keys: row i of `rows` has the key of query `query[i]`.

    Rows come in order of query, those of one query in an order that depends on their identity alone.
    """

    query: Int64s
    rows: pa.Table


class Found:
    """All rows a table holds of some keys, found but not yet read: so values can be gathered piece by piece.

    Attributes
    ----------
    query : of each row, the number of its query; order is as in `MultiLookup`.
    """

    def __init__(self, query: Int64s, places: Int64s, hits: Sequence[Hits], schema: pa.Schema) -> None:
        self.query = query
        self._places = places
        self._hits = hits
        self._schema = schema

    def __len__(self) -> int:
        return len(self.query)

    def sizes(self, column: str) -> Int64s:
        """Bytes of all rows' values of a column."""
        parts = [row_bytes(hit.batch.column(column), hit.rows) for hit in self._hits]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])[self._places]

    def take(self, columns: Sequence[str], rows: Int64s | None = None) -> pa.Table:
        """Columns of the given rows, in their order; of all rows if None."""
        places = self._places if rows is None else self._places[rows]
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


class _Table:
    """What tables have in common: buffered changes, and the layers of the last commit."""

    def __init__(self, name: str, schema: pa.Schema, layout: Layout, layers: Callable[[], list[Layer]], load: Load):
        self.name = name
        self.schema = schema
        self.layout = layout
        self._layers = layers
        self._load = load
        self._changes: list[pa.RecordBatch] = []

    def put(self, rows: pa.Table | pa.RecordBatch, delete: npt.ArrayLike | pa.Array | None = None) -> None:
        """Write rows at the next commit, at most one per identity; where `delete` is true, remove the row."""
        deleted = np.zeros(len(rows), dtype=np.bool_) if delete is None else np.asarray(delete, dtype=np.bool_)
        if set(rows.schema.names) != set(self.schema.names) or len(deleted) != len(rows):
            raise self._misfit(f"{len(deleted)} flags for {len(rows)} rows of {rows.schema.names}")
        if not len(rows):
            return
        kept = {"hash", *self.layout.identity, *self.layout.sort, self.layout.time}
        hollow = pa.array(np.arange(len(rows)), mask=deleted) if deleted.any() else None
        columns = []
        for field in self.schema:
            column = rows.column(field.name)
            if column.type != field.type:
                raise self._misfit(f"column {field.name} is {column.type}, the table has {field.type}")
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            columns.append(column if hollow is None or field.name in kept else column.take(hollow))
        stored = [*columns, pa.array(deleted)]
        self._changes.append(pa.RecordBatch.from_arrays(stored, schema=self.layout.schema))

    def scan(self) -> Iterator[pa.Table]:
        """All live rows of the last commit, in order of hash, some at a time."""
        layers: Sequence[Layer] = self._layers()
        while any(layers):
            taken = take_front(layers, _SCAN_BYTES, self._load)
            layers = taken.layers
            for rows in self.merge(taken.slices, _SCAN_BYTES, drop_tombstones=True):  # one turn, but for hot keys
                if rows.num_rows:
                    yield pa.Table.from_batches([rows.select(self.schema.names)])

    def changes(self, segment: int, *, drop_tombstones: bool) -> Iterator[pa.RecordBatch]:
        """The buffered changes, sorted as runs are; the buffer is left as it is."""
        choose = partial(self._to_write, drop_tombstones=drop_tombstones)
        return chosen(self._changes, self.layout, choose, segment)

    def _to_write(self, rows: pa.RecordBatch, *, drop_tombstones: bool) -> Int64s:
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

    def merge(
        self, slices: Sequence[pa.RecordBatch], segment: int, *, drop_tombstones: bool
    ) -> Iterator[pa.RecordBatch]:
        """Rows of several layers, newest first, as those of one; in batches of `segment` bytes if they are many."""
        return chosen(slices, self.layout, partial(self._left, drop_tombstones=drop_tombstones), segment)

    def count_left(self, slices: Sequence[pa.RecordBatch]) -> int:
        """How many rows a merge would leave of these, with nothing below them."""
        return len(self._left(without_values(slices, self.layout), drop_tombstones=True))

    def _left(self, rows: pa.RecordBatch, *, drop_tombstones: bool) -> Int64s:
        """Which rows a merge leaves, in the order of runs."""
        return newest(rows, self.layout, drop_tombstones=drop_tombstones)

    def has_expired(self, levels: Sequence[Level]) -> bool:
        """Whether whole runs can be dropped without being read."""
        return False

    def drop_expired(self, levels: Sequence[Level]) -> tuple[tuple[Level, ...], list[str]]:
        """The levels without such runs, and the ids of these runs."""
        return tuple(levels), []

    def forget_changes(self) -> None:
        """Empty the buffer, after a commit or to give a batch up."""
        self._changes = []

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._changes)

    def _misfit(self, given: str) -> StateError:
        return StateError(
            f"rows do not fit the table {self.name!r}",
            given=given,
            hint=f"its columns are {', '.join(f'{field.name}: {field.type}' for field in self.schema)}",
        )

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        return self.schema.names if columns is None else list(columns)

    def _gather(self, hits: Sequence[Hits], columns: list[str]) -> pa.Table:
        """The hit rows, one hit after the other."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        parts = [hit.batch.select(columns).take(pa.array(hit.rows)) for hit in hits if len(hit.rows)]
        if sum(part.nbytes for part in parts) <= ARRAY_BYTES:
            parts = [joined(parts, schema)]
        return pa.Table.from_batches(parts, schema=schema)


class StateTable(_Table):
    """One row per key: the latest. Columns `hash`, `key`, then values."""

    def lookup(
        self, hashes: npt.ArrayLike, keys: pa.Array | pa.ChunkedArray, columns: Sequence[str] | None = None
    ) -> Lookup:
        """Look up distinct keys; fastest when their hashes ascend, as those of `group_keys(...).first` do."""
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        index = np.full(len(queries.hashes), -1, dtype=np.int64)
        live: list[Hits] = []
        count = 0
        for hit in find_newest(queries, self._layers(), self._load):
            alive = ~tombstones(hit.batch, hit.rows)
            hit = Hits(hit.batch, hit.rows[alive], queries.asked(hit.queries[alive]))
            index[hit.queries] = np.arange(count, count + len(hit.rows))
            count += len(hit.rows)
            live.append(hit)
        return Lookup(index, self._gather(live, self._columns(columns)))


class MultiTable(_Table):
    """Many rows per key, told apart by a further column. Columns `hash`, `key`, the sub-key, then values."""

    def lookup(
        self, hashes: npt.ArrayLike, keys: pa.Array | pa.ChunkedArray, columns: Sequence[str] | None = None
    ) -> MultiLookup:
        """All live rows of distinct keys."""
        found = self.find(hashes, keys)
        return MultiLookup(found.query, found.take(self._columns(columns)))

    def find(self, hashes: npt.ArrayLike, keys: pa.Array | pa.ChunkedArray) -> Found:
        """All live rows of distinct keys, to be read piece by piece."""
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        hits = [hit for hit in find_all(queries, self._layers(), self._load) if len(hit.rows)]
        if not hits:
            nowhere = np.zeros(0, dtype=np.int64)
            return Found(nowhere, nowhere, [], self.schema)
        query = queries.asked(np.concatenate([hit.queries for hit in hits]))
        places = self._newest(hits, query)
        return Found(query[places], places, hits, self.schema)

    def _newest(self, hits: Sequence[Hits], query: Int64s) -> Int64s:
        """Places, in all hits, of the newest row of each query and sub-key that is no tombstone, in order."""
        subs = self.layout.identity[1:]
        names = [*subs, *self.layout.sort, TOMBSTONE]
        schema = pa.schema([self.layout.schema.field(name) for name in dict.fromkeys(names)])
        found = joined([hit.batch.select(schema.names).take(pa.array(hit.rows)) for hit in hits], schema)
        identity = pa.StructArray.from_arrays(
            [pa.array(query), *(found.column(name) for name in subs)], ["query", *subs]
        )
        keep = group_keys(hash_keys(identity), identity).first
        keep = keep[~tombstones(found, keep)]
        by = [hash_keys(found.column(name)) for name in subs]
        by = [*(found.column(name).to_numpy(zero_copy_only=False) for name in self.layout.sort), *by]
        return keep[np.lexsort((*(column[keep] for column in reversed(by)), query[keep]))]
