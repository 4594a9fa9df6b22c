"""stream_match: windowed join of each left record with one right record (docs/semantics/stream_match.md).

A left record waits until its window and the grace have passed, as all rows do that are held back (`time.held_rows`).
Then it is joined with the best of the right records that it can meet, of those that came before. Left records that
are let go are events again, beside the batch's right records: so what each can meet follows from its position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.matching.matches import LEFT, RIGHT, MatchedRows, Matches, Rules
from watersmeet._engine.matching.window_rows import WindowRows
from watersmeet._engine.operator import Dropped, Events, OperatorContext, operator_table
from watersmeet._engine.rows.columns import position_columns, valid
from watersmeet._engine.rows.position import merged
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.held import release
from watersmeet._engine.time.held_rows import HeldRows
from watersmeet._engine.time.times import Times, moments
from watersmeet._plan.operators.stream_stream import MatchParams, StreamMatchSpec

(EXPIRED,) = StreamMatchSpec.drop_reasons
HELD = LEFT
"""Left records that wait are in the table of the left side."""


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
    log = WindowRows(context, state)
    join = _MatchJoin(context, inputs, state, log)
    held = HeldRows(
        context, operator_table(context, state, HELD), join.times, {name: name for name in _carried(context)}
    )
    join.hold(held)
    yield from join.late()
    gone = release(context, join.times, [held])
    released = (_MatchJoin(context, {**inputs, LEFT: rows}, state, log).matched() for rows in gone)
    yield from merged(join.unkeyed(), chain.from_iterable(released), position_columns(context.slots))
    join.write()
    join.times.store(state)


def _carried(context: OperatorContext) -> tuple[str, ...]:
    return ("value", "headers") if context.headers else ("value",)


class _MatchJoin:
    """The left records of a batch, or some that are let go in it, and the batch's right records.

    Attributes
    ----------
    times : the join's.
    """

    def __init__(self, context: OperatorContext, inputs: Mapping[int, pa.Table], state: State, log: WindowRows) -> None:
        self._context, self._log = context, log
        self._params = context.params(MatchParams)
        self._rules = _rules(self._params)
        self._events = events = Events(context, inputs, sides=2)
        self.times = Times(context, inputs, events, state, sides=2)
        keyed = valid(events.key)
        self._left = keyed & (events.side == LEFT)
        self._right = keyed & (events.side == RIGHT)
        # no left record that it could meet waits any more, or will
        self._missed = self._right & (events.ts + self._retention < self.times.at_row)

    @property
    def _retention(self) -> int:
        """For how long a right record may be met."""
        return self._rules.retention - 1

    # -- left records as they come ---------------------------------------------------------------------------

    def hold(self, held: HeldRows) -> None:
        """Hold those back with a window that is still open."""
        events, times = self._events, self.times
        rows = np.flatnonzero(self._waits)
        held.hold(
            {
                "hash": pa.array(events.hash[rows]),
                "key": events.key.take(pa.array(rows)),
                "ts": pa.array(events.ts[rows]),
                "arrival": pa.array(self._log.arrivals + rows),
                **{
                    name: Picked(events.tables[LEFT].column(name), events.own[rows]) for name in _carried(self._context)
                },
            },
            self._due[rows],
            times.number(times.of_row[rows]),
        )

    @property
    def _due(self) -> Int64s:
        """The last time at which each record waits, were it a left one."""
        return self._events.ts + self._rules.grace

    @property
    def _waits(self) -> Bools:
        return np.asarray(self._left & (2 * self._due >= moments(self._events, self.times)))

    def late(self) -> Iterator[Dropped]:
        """Left records with a window that has closed, and right ones that no record can meet any more."""
        events = self._events
        for side, late in ((LEFT, self._left & ~self._waits), (RIGHT, self._missed)):
            if late.any():
                yield Dropped(EXPIRED, events.tables[side], events.own[late])

    def unkeyed(self) -> Iterator[pa.Table]:
        """Results of left records without a key, which can meet none."""
        rows = np.flatnonzero((self._events.side == LEFT) & ~self._left)
        yield from self._results(rows, self._events.ts[rows], np.full(len(rows), -1, dtype=np.int64), None)

    def write(self) -> None:
        """Store the right records that may still be met; forget what time has passed."""
        events, times = self._events, self.times
        floor = np.minimum(times.end, times.side_time_at_end(RIGHT)) - self._retention
        kept = self._right & ~self._missed & (events.ts >= floor[times.of_row])
        rows = np.flatnonzero(kept)
        self._log.put(RIGHT, events, rows, times.number(times.of_row[rows]), [])
        self._log.finish(len(events), [times.by_domain(times.end), times.by_domain(floor)], {})

    # -- left records that are let go ------------------------------------------------------------------------

    def matched(self) -> Iterator[pa.Table]:
        """Their results, in order of position."""
        events = self._events
        matches = Matches(self._rules, self._log, events, self.times, self._left, self._right & ~self._missed)
        best = [self._best(matches, block) for block in matches.blocks()]  # blocks of pairs
        event, place = (np.concatenate(column) for column in zip(*best, strict=True))
        partner = np.full(len(events), -1, dtype=np.int64)
        partner[event] = place
        rows = np.flatnonzero(self._left) if self._rules.outer[LEFT] else np.sort(event)
        place = partner[rows]
        met = place >= 0
        ts, pointer = events.ts[rows], np.full(len(rows), -1, dtype=np.int64)
        ts[met] = np.maximum(ts[met], matches.ts[place[met]])
        pointer[met] = matches.pointer[place[met]]
        yield from self._results(rows, ts, pointer, matches.books[RIGHT].values)

    def _best(self, matches: Matches, block: MatchedRows) -> tuple[Int64s, Int64s]:
        """(events, the place of the best partner of each); of equally good ones the first in (ts, arrival)."""
        event, place = block.event, block.place
        # a window that ends before time 0 has no records, while those of all pairs begin at 0 there (section 6)
        inside = matches.ts[place] <= self._events.ts[event] + self._rules.forward[LEFT]
        event, place = event[inside], place[inside]
        if self._params.match == "nearest":
            distance = np.abs(matches.ts[place] - self._events.ts[event])
            order = np.lexsort((distance, event))
            event, place = event[order], place[order]
        first = np.append(True, event[1:] != event[:-1])[: len(event)]
        return event[first], place[first]

    def _results(self, rows: Int64s, ts: Int64s, partner: Int64s, partners: pa.Array | None) -> Iterator[pa.Table]:
        if not len(rows):
            return
        events = self._events
        out: dict[str, pa.Array | Picked] = events.meta(rows, ts)
        out["left"] = Picked(events.tables[LEFT].column("value"), events.own[rows])
        out["right"] = (
            pa.nulls(len(rows), self._context.values[RIGHT]) if partners is None else Picked(partners, partner)
        )
        out["joined"] = pa.array(np.ones(len(rows), dtype=np.bool_))
        yield from in_pieces(out)


def _rules(params: MatchParams) -> Rules:
    """The rules by which pairs are found: left records look right ones up, when the time of their wait has passed."""
    before, after, grace = params.window
    wait = max(after, 0) + grace
    return Rules(
        back=(before, after),
        forward=(after, before),
        ahead=(after, before),
        grace=wait,
        retention=max(before, 0) + wait + 1,
        outer=(params.how == "left", False),
        searches=(True, False),
        stores=(False, True),
        waits=True,
        old=False,
    )
