"""LogTable: rows under (key, time) that are only ever added, and dropped when time has passed them.

State of windowed joins: no row is ever changed, so a lookup gathers hits without telling versions apart, a
merge only sorts, and a run whose newest row is too old is dropped without being read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond._engine.arrays import Bools, Int64s
from millpond._engine.state.manifest import Layer, Level, Piece
from millpond._engine.state.merge import order
from millpond._engine.state.search import Hits, Queries, find_within
from millpond._engine.state.tables import MultiLookup, _Table

_NEVER = -(2**63)


class LogTable(_Table):
    """Rows of many per key, with a time. Columns `hash`, `key`, the layout's sort columns, then values.

    Rows below the floor of their part (see `expire`) may be found until a merge or a drop removes them.
    """

    _floors: Mapping[int, int] = {}
    _part: str | None = None

    def lookup(
        self,
        hashes: npt.ArrayLike,
        keys: pa.Array | pa.ChunkedArray,
        low: Int64s,
        high: Int64s,
        columns: Sequence[str] | None = None,
    ) -> MultiLookup:
        """All rows of distinct keys whose time lies between the query's `low` and `high`, both included."""
        queries = Queries.of(np.asarray(hashes, dtype=np.int64), keys)
        wanted = self._columns(columns)
        if not len(low):
            return MultiLookup(np.zeros(0, dtype=np.int64), self._gather([], wanted))
        if queries.order is not None:
            low, high = low[queries.order], high[queries.order]
        layers = self._reaching(int(low.min()), int(high.max()))
        hits = list(find_within(queries, layers, self._load, self._time(), low, high))
        query = np.concatenate([queries.asked(hit.queries) for hit in hits] or [np.zeros(0, dtype=np.int64)])
        return MultiLookup(query, self._gather(hits, wanted))

    def between(self, low: int, high: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows with low <= time < high, of all keys."""
        return self.gather(list(self.hits(low, high)), columns)

    def hits(self, low: int, high: int, flag: str | None = None) -> Iterator[Hits]:
        """Places of the rows with low <= time < high, of all keys, where the boolean column `flag` holds."""
        for layer in self._reaching(low, high - 1):
            for piece in layer:
                batch = self._load(piece)
                time = batch.column(self._time()).to_numpy(zero_copy_only=True)
                chosen = (time >= low) & (time < high)
                if flag is not None:
                    chosen &= batch.column(flag).to_numpy(zero_copy_only=False)
                rows = np.flatnonzero(chosen)
                yield Hits(batch, rows, rows)

    def gather(self, hits: Sequence[Hits], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at these places, one hit after the other."""
        return self._gather(hits, self._columns(columns))

    def expire(self, floors: Mapping[int, int], part: str | None = None) -> None:
        """Rows whose time is below `floors[part]` are not wanted any more; without `part` all are part 0."""
        self._floors, self._part = dict(floors), part

    def _to_write(self, rows: pa.RecordBatch, *, drop_tombstones: bool) -> Int64s:
        return order(rows, np.arange(len(rows)), self.layout)

    def _left(self, rows: pa.RecordBatch, *, drop_tombstones: bool) -> Int64s:
        """The rows that are still wanted."""
        keep = np.flatnonzero(self._wanted(rows))
        return keep[order(rows, keep, self.layout)]

    def has_expired(self, levels: Sequence[Level]) -> bool:
        """Whether whole runs can be dropped."""
        return any(not self._alive(piece) for level in levels for piece in level.pieces())

    def drop_expired(self, levels: Sequence[Level]) -> tuple[tuple[Level, ...], list[str]]:
        """The levels without the runs that time has passed, and the ids of these runs."""
        gone = [p.run.id for level in levels for p in level.pieces() if not self._alive(p)]
        if not gone:
            return tuple(levels), gone
        kept = []
        for level in levels:
            layers = tuple(filter(None, (tuple(filter(self._alive, layer)) for layer in level.layers)))
            done = tuple(filter(self._alive, level.done))
            if layers:
                kept.append(replace(level, layers=layers, done=done))
            elif done:
                kept.append(Level((done,)))
        return tuple(kept), gone

    def _alive(self, piece: Piece) -> bool:
        newest = piece.run.time
        return newest is None or not self._floors or newest[1] >= min(self._floors.values())

    def _wanted(self, rows: pa.RecordBatch) -> Bools:
        if not self._floors:
            return np.ones(len(rows), dtype=np.bool_)
        time = rows.column(self._time()).to_numpy(zero_copy_only=False)
        if self._part is None:
            return np.asarray(time >= self._floors[0])
        parts = np.array(sorted(self._floors), dtype=np.int64)
        floors = np.array([self._floors[int(part)] for part in parts], dtype=np.int64)
        part = rows.column(self._part).to_numpy(zero_copy_only=False)
        at = np.minimum(np.searchsorted(parts, part), len(parts) - 1)
        return np.asarray(time >= np.where(parts[at] == part, floors[at], _NEVER))

    def _time(self) -> str:
        assert self.layout.time is not None
        return self.layout.time

    def _reaching(self, low: int, high: int) -> list[Layer]:
        """The layers, without the runs that lie outside of these times."""
        layers = []
        for layer in self._layers():
            near = (p for p in layer if p.run.time is None or (p.run.time[0] <= high and p.run.time[1] >= low))
            layers.append(tuple(near))
        return [layer for layer in layers if layer]
