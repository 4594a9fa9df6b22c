"""stream_stream: windowed join of two streams, all types and generations (docs/semantics, sections 6, 7, 17).

Each record looks up the other side's records of its key within the window; what is found gives results at
once. In the current generation an unmatched record of an outer side waits until its window and the grace
have passed, and its result stands where time passed them. Pairs are made of integers, a block at a time;
values are gathered last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.matching.matches import LEFT, RIGHT, SIDES, MatchedRows, Matches, Rules
from watersmeet._engine.matching.window_rows import NOBODY, NumberedRows, WindowRows
from watersmeet._engine.operator import Dropped, Events, OperatorContext
from watersmeet._engine.operators.windowed_joins.unmatched_rows import UnmatchedRows
from watersmeet._engine.rows.columns import position_columns, valid
from watersmeet._engine.rows.position import merged
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.held import release
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.stream_stream import StreamStreamSpec

(EXPIRED,) = StreamStreamSpec.drop_reasons


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
    return _StreamJoin(context, inputs, state).run()


class _StreamJoin:
    """One join, one shard, one batch."""

    def __init__(self, context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> None:
        self._context = context
        self._rules = rules = Rules.of(context)
        self._log = WindowRows(context, state)
        self._events = events = Events(context, inputs, sides=2)
        self._times = Times(context, inputs, events, state, sides=2)
        self._state = state
        side, keyed = events.side, valid(events.key)
        self._stored = keyed & events.present & np.array(rules.stores)[side]
        self._searching = keyed & (events.present | rules.old) & np.array(rules.searches)[side]
        self._outer = np.array(rules.outer)[side]
        self._unkeyed = ~keyed & events.present & self._outer
        self._domain = self._times.number(self._times.of_row)
        self._matches = Matches(rules, self._log, events, self._times, self._searching, self._stored)
        self._matched = np.zeros(len(events), dtype=np.bool_)
        self._met = np.zeros(len(events), dtype=np.bool_)
        self._known = NOBODY

    def run(self) -> Iterator[pa.Table | Dropped]:
        """The results, behind what was late; state is written before the first."""
        if any(self._rules.outer):
            self._learn_matches()
        alone = self._searching & self._outer & ~self._matched
        close = self._rules.close(self._events.ts, self._events.side)
        patient = self._rules.waits & (close >= self._times.at_row)
        self._unmatched = alone & patient & ~self._met
        at_once = np.flatnonzero((alone & ~patient) | self._unkeyed)
        window_emission = self._window_emission(close)
        self._write(close)
        yield from self._late()
        yield from merged(self._by_events(at_once), window_emission, position_columns(self._context.slots))

    def _late(self) -> Iterator[Dropped]:
        """Rows that came when part of their window was no longer kept."""
        expired = self._matches.expired
        for side in (self._rules.furthest,) if self._log.shared else SIDES:  # a self join has each row on both
            rows = expired[self._events.side[expired] == side]
            if len(rows):
                yield Dropped(EXPIRED, self._events.tables[side], self._events.own[rows])

    # -- unmatched records ---------------------------------------------------------------------------------

    def _learn_matches(self) -> None:
        """Which events are matched when they come, and which rows are while they wait."""
        matches, rules = self._matches, self._rules
        close = rules.close(matches.ts, matches.side)
        met = np.zeros(len(close), dtype=np.bool_)
        for block in matches.blocks():  # blocks of pairs
            self._matched[block.event] = True
            met[block.place[self._now(block) <= close[block.place]]] = True
        if not rules.waits:
            return
        met &= np.array(rules.outer)[matches.side]
        self._met[matches.row[met & (matches.row >= 0)]] = True
        waited = met & (matches.number >= 0)
        self._known = NumberedRows(matches.hash[waited], matches.number[waited])
        end = self._times.end[self._times.index(matches.domain[waited])]
        later = close[waited] >= end
        if later.any():
            rows = NumberedRows(self._known.hash[later], self._known.number[later])
            self._log.match(rows, close[waited][later], matches.domain[waited][later])

    def _now(self, block: MatchedRows) -> Int64s:
        """The time of each pair's earlier row, when its event comes: that of the row's own domain lets it go."""
        times, domain = self._times, self._matches.domain[block.place]
        now: Int64s = times.now[block.event]
        foreign = np.flatnonzero(domain != self._domain[block.event])
        if len(foreign):
            now[foreign] = times.elsewhere(block.event[foreign], times.index(domain[foreign]))
        return now

    def _window_emission(self, close: Int64s) -> Iterator[pa.Table]:
        """Results of records with a window that closes in this batch, in order of position."""
        if not self._rules.waits:
            return iter(())
        closes = self._unmatched & (close < self._times.end[self._times.of_row])
        parts = self._context, self._rules, self._log, self._events, self._times, closes, self._known
        sources = [UnmatchedRows(*parts, side) for side in SIDES if self._rules.outer[side]]
        return map(self._alone, release(self._context, self._times, sources))

    def _alone(self, rows: pa.Table) -> pa.Table:
        """Results of rows that have met none."""
        for name, kind in zip(("left", "right"), self._context.values, strict=True):
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.nulls(len(rows), kind))
        return rows.append_column("joined", pa.array(np.ones(len(rows), dtype=np.bool_)))

    # -- state ---------------------------------------------------------------------------------------------

    def _write(self, close: Int64s) -> None:
        """Store what may still be met, or waits; forget what time has passed."""
        times, events = self._times, self._events
        waits = self._unmatched & (close >= times.end[times.of_row])
        floors = [self._floor(side) for side in SIDES]
        lowest = np.minimum(*floors) if self._log.shared else None
        rows = [np.flatnonzero(self._stored & (events.side == side)) for side in SIDES]
        for side in (LEFT,) if self._log.shared else SIDES:  # the stores
            flags = [waits[rows[LEFT]], waits[rows[RIGHT]]] if self._log.shared else [waits[rows[side]]]
            floor = floors[side] if lowest is None else lowest
            kept = (events.ts[rows[side]] >= floor[times.of_row[rows[side]]]) | np.logical_or.reduce(flags)
            mine = rows[side][kept]
            self._log.put(side, events, mine, self._domain[mine], [flag[kept] for flag in flags])
        *named, closed = map(times.by_domain, (*floors, times.end))
        self._log.finish(len(events), named, closed)
        times.store(self._state)

    def _floor(self, side: int) -> Int64s:
        """Per domain, the ts below which no record to come can meet a row of this side."""
        rules, times = self._rules, self._times
        needed = times.end - rules.grace - max(rules.ahead[side], 0)
        return np.minimum(needed, times.side_time_at_end(side) - rules.retention + 1)

    # -- results -------------------------------------------------------------------------------------------

    def _by_events(self, at_once: Int64s) -> Iterator[pa.Table]:
        """Results that events trigger, in order of position, a block of events at a time."""
        for block in self._matches.blocks():  # blocks of pairs
            yield from self._triggered(block, at_once[(at_once >= block.first) & (at_once < block.last)])

    def _triggered(self, block: MatchedRows, at_once: Int64s) -> Iterator[pa.Table]:
        """Results of the block's pairs and of its events that have one without a partner."""
        events, matches = self._events, self._matches
        event = np.concatenate([block.event, at_once])
        order = np.argsort(event, kind="stable")
        event = event[order]
        place = np.concatenate([block.place, np.full(len(at_once), -1, dtype=np.int64)])[order]
        other = np.where(place >= 0, matches.pointer[place], -1) if len(matches.ts) else place
        ts = events.ts[event]
        if not self._rules.old and len(matches.ts):
            ts = np.maximum(ts, np.where(place >= 0, matches.ts[place], ts))
        out = events.meta(event, ts)
        operator = self._context.operator
        fresh = np.append(True, event[1:] != event[:-1])[: len(event)]
        rows = np.arange(len(event), dtype=np.int64)
        count = rows - np.maximum.accumulate(np.where(fresh, rows, 0))
        out[f"p{operator.slot}"] = pa.array(count * operator.fan)
        by_left = events.side[event] == LEFT
        values = [book.values for book in matches.books]
        out["left"] = Picked(values[LEFT], np.where(by_left, events.own[event], other))
        out["right"] = Picked(values[RIGHT], np.where(by_left, other, events.own[event]))
        out["joined"] = pa.array(np.ones(len(event), dtype=np.bool_))
        yield from in_pieces(out)
