"""Emission on window close (KIP-825; docs/semantics, section 15): due windows give their one result.

The changes of the batch are not in state yet: those windows come with their new states, and their old rows in state, or
those of merged sessions, do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.fold import FoldKernel
from watersmeet._engine.aggregates.windows.windowed import Ends, windowed
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keys import encode_keys
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.rows.columns import array, ints
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.held import Bound, WaitingRows, release
from watersmeet._engine.time.times import Times


@dataclass(frozen=True)
class Closing:
    """The windows of a shard that close in a batch; a `Source` of what is released.

    Parameters
    ----------
    context, times : of the operator.
    table : what the last commit knows of windows.
    due : the column of the time at which they close.
    wait : from that time on until a window is closed, in ms.
    fresh : rows of the windows that the batch has changed, as the table is to have them, and of those that others
        have replaced since they were closed.
    stale : columns key and `due` of the windows of which state has something else.
    """

    context: OperatorContext
    times: Times
    table: Table
    due: str
    wait: int
    fresh: Sequence[Mapping[str, pa.Array | Picked]]
    stale: pa.Table

    @property
    def columns(self) -> Mapping[str, tuple[str, pa.DataType]]:
        """See `Source`."""
        names = ("start", self.due, "value", *(("headers",) if self.context.headers else ()))
        return {name: (name, self.table.schema.field(name).type) for name in names}

    def results(self, fold: FoldKernel, ends: Ends | None = None) -> Iterator[pa.Table]:
        """One result for each window that closes; `ends` gives ends where the table does not have them."""
        for rows in release(self.context, self.times, [self]):
            start = ints(rows, "start")
            end = ints(rows, "end") if ends is None else ends(start)
            value = fold.finish(array(rows, "value"))
            out = rows.drop_columns(["hash", "key", "value", *dict.fromkeys(("start", self.due))])
            out = out.append_column("key", windowed(array(rows, "key"), start, end)).append_column("value", value)
            yield out.append_column("old", pa.nulls(len(out), value.type)) if self.context.operator.emits_old else out

    def waiting(self, after: Bound) -> Iterator[WaitingRows]:
        """See `Source`."""
        first, end = self.times.passing()
        for hits in self.table.due(first - self.wait + 1, end - self.wait + 1):
            rows = hits.rows[~self._stale(hits.batch, hits.rows)]
            yield self._closing(hits.batch, rows)
        for piece in chain.from_iterable(map(in_pieces, self.fresh)):
            for batch in piece.to_batches():
                yield self._closing(batch, np.arange(len(batch)))

    def left(self, picked: Sequence[WaitingRows]) -> Sequence[WaitingRows]:
        """See `Source`."""
        return picked

    def _closing(self, batch: pa.RecordBatch, rows: Int64s) -> WaitingRows:
        times = self.times
        domain = times.index(ints(batch, "domain")[rows])
        close = ints(batch, self.due)[rows] + self.wait - 1
        mine = times.passes(domain, close)
        rows, domain, close = rows[mine], domain[mine], close[mine]
        stands, latest = times.release_positions(domain, close)
        now = np.minimum(close + self.context.time.hold_back, latest)
        return WaitingRows(_named(batch, self.due), rows, stands, now, 2 * ints(batch, "start")[rows])

    def _stale(self, batch: pa.RecordBatch, rows: Int64s) -> Bools:
        """Which of these rows the batch has changed."""
        mine = ints(batch, self.due)[rows]
        found = np.isin(mine, ints(self.stale, self.due))
        some = np.flatnonzero(found)
        if len(some):
            at = pa.array(rows[some])
            asked = _encoded(batch.column("key").take(at), mine[some])
            found[some] = pc.is_in(asked, value_set=self._encoded).to_numpy(zero_copy_only=False)
        return found

    @cached_property
    def _encoded(self) -> pa.Array:
        return _encoded(array(self.stale, "key"), ints(self.stale, self.due))


def _encoded(keys: pa.Array, due: Int64s) -> pa.Array:
    return encode_keys(pa.StructArray.from_arrays([keys, pa.array(due)], ["key", "due"]))


def _named(batch: pa.RecordBatch, due: str) -> pa.RecordBatch:
    """The rows with all that rows have which wait: no two windows of a key close alike, so nothing is arrival's."""
    if "ts" not in batch.schema.names:
        batch = batch.append_column("ts", batch.column(due))
    return batch.append_column("arrival", pa.array(np.zeros(len(batch), dtype=np.int64)))
