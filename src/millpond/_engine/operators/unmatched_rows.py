"""Unmatched rows of a windowed join whose window closes in a batch: a bounded number at a time, in order.

When time jumps, all that waits may close at once, and that is as large as the state (law 9). So the rows are
picked by (place, timestamp) in passes over times alone, and only what is picked is gathered; rows that share
both are let go together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millpond._engine.arrays import Bools, Int64s
from millpond._engine.matching.matches import LEFT, SIDES, Rules
from millpond._engine.matching.window_rows import WindowRows
from millpond._engine.operators.operator import Events, OperatorContext
from millpond._engine.operators.window_emission import results_at
from millpond._engine.rows.columns import gather, ints, joined
from millpond._engine.state.search import Hits
from millpond._engine.time.times import Times

ROWS = 262_144
"""Rows that are let go at a time."""

Bound = tuple[int, int]
_BEGINNING: Bound = (-(2**63), -(2**63))


@dataclass(frozen=True)
class _Picked:
    """Rows of a side: stored ones of one piece of a run, or events of the batch (`hits` is None).

    `stands` is the order_ts of the records that each stands behind.
    """

    side: int
    hits: Hits | None
    rows: Int64s
    stands: Int64s
    ts: Int64s

    def where(self, wanted: Bools) -> _Picked:
        """Some of them."""
        return _Picked(self.side, self.hits, self.rows[wanted], self.stands[wanted], self.ts[wanted])

    def after(self, bound: Bound) -> Bools:
        """Those behind (stands, ts)."""
        stands, ts = bound
        return np.asarray((self.stands > stands) | ((self.stands == stands) & (self.ts > ts)))


class UnmatchedRows:
    """The closing rows of one batch.

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
        matched: Int64s,
    ) -> None:
        self._context = context
        self._rules = rules
        self._log = log
        self._events = events
        self._times = times
        self._closes = closes
        self._matched = matched

    def results(self) -> Iterator[pa.Table]:
        """What is let go, as results in order of position, about `ROWS` at a time."""
        after: Bound | None = _BEGINNING
        while after is not None:
            picked, after = self._next(after)
            rows = self._gathered(picked)
            if len(rows):
                ts, side, domain = (ints(rows, name) for name in ("ts", "side", "domain"))
                stands, latest = self._times.stands(self._times.index(domain), self._rules.close(ts, side))
                place = self._rules.place(ts, side) + self._context.time.hold_back
                yield results_at(self._context, rows, stands, np.minimum(place, latest))

    # -- which rows come next ------------------------------------------------------------------------------

    def _next(self, after: Bound) -> tuple[list[_Picked], Bound | None]:
        """The first rows behind a bound, and the new bound; None when nothing is left behind it."""
        picked: list[_Picked] = []
        bound: Bound | None = None
        for part in self._candidates(after):
            part = part.where(part.after(after))
            part = part if bound is None else part.where(~part.after(bound))
            if len(part.rows):
                picked.append(part)
            if sum(len(p.rows) for p in picked) > 2 * ROWS:
                picked, bound = _first_rows(picked)
        return _first_rows(picked) if sum(len(p.rows) for p in picked) > ROWS else (picked, bound)

    def _candidates(self, after: Bound) -> Iterator[_Picked]:
        """All rows that close in this batch, matched or not, but for those that surely lie before a bound."""
        times, events = self._times, self._events
        first, last = int(times.start.min(initial=2**62)), int(times.end.max(initial=-1))
        if self._times.stands_at_close:
            first = max(first, after[0] - self._context.time.hold_back)
        for side in (side for side in SIDES if self._rules.outer[side]):
            wait = int(self._rules.close(np.zeros(1, dtype=np.int64), side)[0])
            for hits in self._log.unmatched(side, first - wait, last - wait):
                ts, domain = (ints(hits.batch, name)[hits.rows] for name in ("ts", "domain"))
                index, close = times.index(domain), ts + wait
                stands = times.stands(index, close)[0]
                due = (close >= times.start[index]) & (close < times.end[index])
                yield _Picked(side, hits, hits.rows, stands, ts).where(due)
            mine = np.flatnonzero(self._closes & (events.side == side))
            ts = events.ts[mine]
            yield _Picked(side, None, mine, times.stands(times.of_row[mine], ts + wait)[0], ts)

    # -- the rows themselves -------------------------------------------------------------------------------

    def _gathered(self, picked: Sequence[_Picked]) -> pa.Table:
        parts = [self._of_side(side, [p for p in picked if p.side == side]) for side in SIDES]
        return pa.concat_tables(parts).combine_chunks()

    def _of_side(self, side: int, picked: Sequence[_Picked]) -> pa.Table:
        events, times = self._events, self._times
        stored = self._unmatched(side, [Hits(p.hits.batch, p.rows, p.rows) for p in picked if p.hits is not None])
        mine = np.concatenate([_NO_ROWS, *(p.rows for p in picked if p.hits is None)])
        numbers = {
            "ts": np.concatenate([ints(stored, "ts"), events.ts[mine]]),
            "hash": np.concatenate([ints(stored, "hash"), events.hash[mine]]),
            "arrival": np.concatenate([ints(stored, "arrival"), self._log.arrivals + mine]),
            "domain": np.concatenate([ints(stored, "domain"), times.number(times.of_row[mine])]),
            "side": np.full(len(stored) + len(mine), side, dtype=np.int64),
        }
        columns = {name: pa.array(column) for name, column in numbers.items()}
        columns["key"] = joined([stored.column("key"), events.key.take(pa.array(mine))], self._context.key)
        batch = joined([events.tables[side].column("value")], self._context.values[side])
        value = joined([stored.column("value"), gather(batch, events.own[mine])], self._context.values[side])
        nothing = pa.nulls(len(value), self._context.values[1 - side])
        left, right = (value, nothing) if side == LEFT else (nothing, value)
        return pa.table(columns | {"left": left, "right": right})

    def _unmatched(self, side: int, hits: Sequence[Hits]) -> pa.Table:
        """Stored rows, without those that were matched since."""
        stored = self._log.gathered(side, hits)
        if not len(stored):
            return stored
        close = self._rules.close(ints(stored, "ts"), side)
        matched = self._log.matched_between(int(close.min()), int(close.max()) + 1)
        number = ints(stored, "arrival") * 2 + side
        return stored.filter(pa.array(~np.isin(number, np.concatenate([matched, self._matched]))))


def _first_rows(picked: Sequence[_Picked]) -> tuple[list[_Picked], Bound]:
    """The first `ROWS` by (stands, ts), with all that share the last one's; and that one's."""
    stands, ts = (np.concatenate([getattr(p, name) for p in picked]) for name in ("stands", "ts"))
    last = np.lexsort((ts, stands))[ROWS - 1]
    bound = int(stands[last]), int(ts[last])
    kept = (p.where(~p.after(bound)) for p in picked)
    return [p for p in kept if len(p.rows)], bound


_NO_ROWS = np.zeros(0, dtype=np.int64)
