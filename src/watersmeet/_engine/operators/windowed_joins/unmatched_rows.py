"""Unmatched rows of a windowed join with a window that closes in a batch, as a source of `time.held`.

They lie in the join's own tables, where a flag says which of them wait; those of the batch itself join them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.matching.matches import LEFT, Rules
from watersmeet._engine.matching.window_rows import NumberedRows, WindowRows
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.rows.types import HEADERS
from watersmeet._engine.time.held import Bound, WaitingRows
from watersmeet._engine.time.times import Times


class UnmatchedRows:
    """The closing rows of one side in one batch; see `held.Source`.

    Parameters
    ----------
    closes : which events of the batch wait and close in it.
    matched : numbers of stored rows that were matched in the batch.
    """

    def __init__(
        self,
        context: OperatorContext,
        rules: Rules,
        log: WindowRows,
        events: Events,
        times: Times,
        closes: Bools,
        matched: NumberedRows,
        side: int,
    ) -> None:
        self._context = context
        self._rules = rules
        self._log = log
        self._events = events
        self._times = times
        self._closes = np.flatnonzero(closes & (events.side == side))
        self._matched = matched
        self._side = side

    @property
    def columns(self) -> Mapping[str, tuple[str, pa.DataType]]:
        """See `held.Source`."""
        headers = {"headers": ("headers", HEADERS)} if self._context.headers else {}
        return {"left" if self._side == LEFT else "right": ("value", self._context.values[self._side])} | headers

    def waiting(self, after: Bound) -> Iterator[WaitingRows]:
        """See `held.Source`: matched rows are still among them."""
        times = self._times
        first, last = times.passing()
        wait = int(self._rules.close(np.zeros(1, dtype=np.int64), self._side)[0])
        for hits in self._log.unmatched(self._side, first - wait, last - wait):
            ts, domain = (hits.batch.column(n).to_numpy(zero_copy_only=True)[hits.rows] for n in ("ts", "domain"))
            index, close = times.index(domain), ts + wait
            due = times.passes(index, close)
            yield self._placed(hits.batch, hits.rows[due], ts[due], index[due])
        for batch in self._own:
            index = times.index(ints(batch, "domain"))
            yield self._placed(batch, np.arange(len(batch), dtype=np.int64), ints(batch, "ts"), index)

    def left(self, picked: Sequence[WaitingRows]) -> Sequence[WaitingRows]:
        """Those that were not matched since they were stored."""
        if not picked:
            return picked
        names = ("ts", "arrival", "hash")
        ts, arrival, key_hash = (np.concatenate([_numbers(part, name) for part in picked]) for name in names)
        close = self._rules.close(ts, self._side)
        matched = self._log.matched_between(int(close.min()), int(close.max()) + 1)
        alone = ~NumberedRows(key_hash, arrival * 2 + self._side).among(matched.and_of(self._matched))
        ends = np.cumsum([len(part.rows) for part in picked])
        return [part.where(wanted) for part, wanted in zip(picked, np.split(alone, ends[:-1]), strict=True)]

    def _placed(self, batch: pa.RecordBatch, rows: Int64s, ts: Int64s, domain: Int64s) -> WaitingRows:
        """These rows with where they stand: of one time the right side's come first."""
        stands, latest = self._times.release_positions(domain, self._rules.close(ts, self._side))
        place = self._rules.place(ts, np.full(len(ts), self._side)) + self._context.time.hold_back
        return WaitingRows(batch, rows, stands, np.minimum(place, latest), 2 * ts + (1 - self._side))

    @cached_property
    def _own(self) -> list[pa.RecordBatch]:
        """The batch's rows that close in it."""
        rows, events = self._closes, self._events
        if not len(rows):
            return []
        columns: dict[str, pa.Array | Picked] = {
            "key": events.key.take(pa.array(rows)),
            "hash": pa.array(events.hash[rows]),
            "ts": pa.array(events.ts[rows]),
            "arrival": pa.array(self._log.arrivals + rows),
            "domain": pa.array(self._times.number(self._times.of_row[rows])),
        }
        given = ("value", "headers") if self._context.headers else ("value",)
        columns |= {name: Picked(events.tables[self._side].column(name), events.own[rows]) for name in given}
        return [batch for piece in in_pieces(columns) for batch in piece.combine_chunks().to_batches()]


def _numbers(part: WaitingRows, name: str) -> Int64s:
    numbers: Int64s = part.batch.column(name).to_numpy(zero_copy_only=True)[part.rows]
    return numbers
