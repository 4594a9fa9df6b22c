"""A table of a replica as a batch has left it: lookups that other threads make while the replica goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import group_keys, hash_keys
from watersmeet._engine.state.table import Table
from watersmeet._spark.serving.order import behind, order_columns, sorted_positions
from watersmeet._spark.serving.stores import ServedStore


@dataclass(frozen=True, eq=False)
class TableView:
    """A table as a batch has left it.

    Parameters
    ----------
    store : which table it is.
    shards : the shards that have rows, by label.
    """

    store: ServedStore
    shards: Mapping[int, Table]

    @property
    def is_versioned(self) -> bool:
        """Whether it keeps versions of its rows; False where it has no rows yet."""
        return any(shard.layout.ends is not None for shard in self.shards.values())

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell rows apart behind the key."""
        return next((shard.layout.identity[1:] for shard in self.shards.values()), ())

    @cached_property
    def live(self) -> pa.Table | None:
        """All rows; None where there are none."""
        found = [rows for shard in self.shards.values() for rows in _scanned(shard)]
        return pa.concat_tables(found).combine_chunks() if found else None

    def of_keys(self, keys: pa.Array) -> pa.Table | None:
        """All rows of some keys, which may be asked for twice, by key and then in the table's order."""
        return _joined(self._found(keys))

    def between(self, keys: pa.Array | None, low: int, high: int) -> pa.Table | None:
        """Rows of windows that start between `low` and `high`, in ms, both included.

        Parameters
        ----------
        keys : of these alone; None: of all.
        """
        rows = self.live if keys is None else self.of_keys(keys)
        if rows is None:
            return None
        start = rows.column("start").to_numpy()
        return rows.filter(pa.array((start >= low) & (start <= high)))

    def as_of(self, keys: pa.Array | None, at: int | None) -> pa.Table | None:
        """Of each key the version that was valid at a time, in ms; None: the latest. Deleted keys have none."""
        rows = self.live if keys is None else self.of_keys(keys)
        if rows is None or not len(rows):
            return rows
        if at is not None:
            rows = rows.filter(pa.array(rows.column("ts").to_numpy() <= at))
        key = rows.column("key").combine_chunks()
        last = np.sort(group_keys(rows.column("hash").to_numpy(), key).last)
        found = rows.take(pa.array(last))
        return found.filter(pc.is_valid(found.column("value")))

    def ordered(
        self, rows: pa.Table | None, bounds: tuple[pa.Array | None, pa.Array | None], after: Sequence[pa.Array] | None
    ) -> pa.Table | None:
        """Rows in order of their keys, and of what else tells them apart.

        Parameters
        ----------
        bounds : a lowest and a highest key, both included, each an array of one; None: there is none.
        after : the key, and what else tells it apart, of the row behind which the first one comes.
        """
        if rows is None:
            return None
        keys = order_columns(_flat(rows.column("key")))
        chosen = np.ones(len(rows), dtype=np.bool_)
        low, high = bounds
        if low is not None:
            chosen &= behind(keys, order_columns(low), included=True)
        if high is not None:
            chosen &= ~behind(keys, order_columns(high), included=False)
        columns = [*keys, *(_flat(rows.column(name)) for name in self.identity)]
        if after is not None:
            chosen &= behind(columns, [*order_columns(after[0]), *after[1:]], included=False)
        return rows.take(pa.array(sorted_positions(columns, chosen)))

    def _found(self, keys: pa.Array) -> Iterator[pa.Table]:
        hashes = hash_keys(keys)
        if len(keys) > 1:
            distinct = group_keys(hashes, keys).first
            hashes, keys = hashes[distinct], keys.take(pa.array(distinct))
        labels = self.store.label_of(hashes)
        for label in np.unique(labels).tolist():
            shard = self.shards.get(label)
            if shard is not None:
                some = np.flatnonzero(labels == label)
                yield _rows_of(shard, hashes[some], keys.take(pa.array(some)))


def _rows_of(shard: Table, hashes: Int64s, keys: pa.Array) -> pa.Table:
    if shard.layout.identity == ("key",):
        found: pa.Table = shard.point(hashes, keys).rows
    else:
        found = shard.rows(hashes, keys).rows
    return _wanted(shard, found)


def _scanned(shard: Table) -> Iterator[pa.Table]:
    for rows in shard.scan():
        yield _wanted(shard, rows)


def _wanted(shard: Table, rows: pa.Table) -> pa.Table:
    """Those that time has not passed: a merge removes these later."""
    if not shard.floors or not len(rows):
        return rows
    (batch,) = rows.combine_chunks().to_batches()
    return rows.filter(pa.array(shard.wanted(batch)))


def _joined(found: Iterator[pa.Table]) -> pa.Table | None:
    tables = list(found)
    if len(tables) < 2:
        return tables[0] if tables else None
    return pa.concat_tables(tables)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
