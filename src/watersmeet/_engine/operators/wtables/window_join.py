"""Joins of which a side is a table by key and window (docs/semantics, section 20).

All are of one kind: a row of the left side points at a row of the right side of the same key, by its window (the same
one, the one a distance earlier, or the one that a function names) or, where the right side has no windows, by its key
alone. A change of a left row looks up what it points at; a change of a right row is met by all live rows that point at
it. A **version** is a left row from the change that brings it to the next one: so a right change meets the versions
that stand when it comes, and a batch is matched by counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.windows.windowed import numbered, windowed
from watersmeet._engine.arrays import Int64s
from watersmeet._engine.matching.intervals import interval_bounds, pairs_of
from watersmeet._engine.operator import Events, OperatorContext, operator_table
from watersmeet._engine.operators.wtables.belonging import Clocks
from watersmeet._engine.operators.wtables.results import LastResults, WindowResults
from watersmeet._engine.operators.wtables.rows import LAST, NONE, AsOf, SideRows, Span, struct_numbers
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.rows.sizes import Picked, cut, in_pieces
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.wtables import NAMED, POINTER, WindowJoinParams

LEFT, RIGHT = 0, 1
PAIRS = 262_144
"""Results that are made at a time, about; those of a key are never parted."""
_NOWHERE = np.zeros(0, dtype=np.int64)


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    params = context.params(WindowJoinParams)
    events = Events(context, inputs, sides=2)
    times = Times(context, inputs, events, state, sides=2)
    tables = [operator_table(context, state, number) for number in range(len(context.kept))]
    if len(events):
        join = _WindowJoin(params, events, Clocks(times, context.time.hold_back), tables)
        for results in join.results():
            yield from _result_tables(events, join, results)
        join.store()
    for table, live in zip(tables, (*_lives(params), params.lives[LEFT]), strict=False):
        if live is not None:
            # what the sources' time has passed joins no more, however late a record above is let go
            table.expire(times.by_domain(times.end + context.time.hold_back - live))
    times.store(state)


def _lives(params: WindowJoinParams) -> tuple[int | None, ...]:
    """Of each side that is kept."""
    return params.lives if params.stored else params.lives[RIGHT:]


class _WindowJoin:
    """One batch of one shard.

    Attributes
    ----------
    left, right : their rows.
    standing : the last results, where old values are asked for.
    """

    def __init__(self, params: WindowJoinParams, events: Events, clocks: Clocks, tables: list[Table]) -> None:
        self._params, self._events, self._clocks = params, events, clocks
        self._tables = tables[: len(_lives(params))]
        spans = self._left_span()
        self.left = self._rows(LEFT, self._tables[0] if params.stored else None, spans)
        self._to = self._pointed()
        self.right = self._rows(RIGHT, self._tables[-1], self._right_span())
        self._meet()
        sides = self.left, self.right
        more = tables[len(self._tables) :]
        self.standing = LastResults(events, more[0], spans, *sides) if more and spans is not None else None

    # -- what is read ----------------------------------------------------------------------------------------

    def _rows(self, side: int, table: Table | None, span: Span | None) -> SideRows:
        return SideRows.of(self._events, side, table, span, self._clocks, self._params.lives[side])

    def _left_span(self) -> Span | None:
        events, params = self._events, self._params
        live = params.lives[LEFT]
        if live is None:
            return None
        span, group, end = Span.none(events.groups.count), events.groups.group_of_row, events.numbers("end")
        at, other = (np.flatnonzero(events.side == side) for side in (LEFT, RIGHT))
        span.take_in(group[at], end[at])
        if params.names or params.lives[RIGHT] is None:
            span.take_in(group[other], self._clocks.least[other] - live, np.full(len(other), LAST))
        else:
            span.take_in(group[other], np.minimum(end[other], LAST - params.distance) + params.distance)
        return span

    def _right_span(self) -> Span | None:
        events = self._events
        if self._params.lives[RIGHT] is None:
            return None
        span, at = Span.none(events.groups.count), np.flatnonzero(events.side == RIGHT)
        span.take_in(events.groups.group_of_row[at], events.numbers("end")[at])
        rows = np.flatnonzero(self._to[1] != NONE)
        span.take_in(self.left.group[rows], self._to[1][rows])
        return span

    def _pointed(self) -> tuple[Int64s, Int64s]:
        """Start and end of the window that each left row points at; `NONE` where there is none."""
        params, left = self._params, self.left
        if params.names:
            brought = struct_numbers(self._events, LEFT, NAMED, left.event[left.stored :])
            known = left.found.take([name for name, _ in POINTER]) if left.stored else None
            stored = [_NOWHERE if known is None else ints(known, name) for name, _ in POINTER]
            start, end = (np.concatenate(both) for both in zip(stored, brought, strict=True))
            return start, end
        if params.lives[RIGHT] is None:
            nothing = np.zeros(len(left), dtype=np.int64)
            return nothing, nothing
        there = left.start >= params.distance
        return (np.where(there, left.start - params.distance, NONE), np.where(there, left.end - params.distance, NONE))

    def _meet(self) -> None:
        """Numbers the right rows, and gives each left row that of the one that it points at, -1 for none."""
        left, right = self.left, self.right
        start, end = self._to
        rows = np.flatnonzero(end != NONE)
        both = ((right.start, start), (right.end, end), (right.group, left.group))
        number = numbered(*(np.concatenate([mine, other[rows]]) for mine, other in both))
        self._number = number[: len(right)]
        self._meets = np.full(len(left), -1, dtype=np.int64)
        self._meets[rows] = number[len(right) :]
        self._as_of = AsOf(self._number, right.event, len(self._events))

    # -- what meets ------------------------------------------------------------------------------------------

    def results(self) -> Iterator[WindowResults]:
        """The results, those of a key together and in their order."""
        left, right = self.left, self.right
        brought = np.arange(right.stored, len(right))
        brought = brought[right.joins(brought, right.event[brought])]
        brought = brought[np.lexsort((right.event[brought], self._number[brought]))]
        waiting = np.flatnonzero(left.present & (self._meets >= 0)) if self._params.stored else _NOWHERE
        waiting = waiting[np.argsort(left.group[waiting], kind="stable")]
        begin, end = interval_bounds(
            self._number[brought],
            right.event[brought],
            self._meets[waiting],
            left.event[waiting] + 1,
            left.until[waiting] - 1,
        )
        of_left = np.arange(left.stored, len(left))
        group = np.concatenate([left.group[of_left], right.group[brought]])
        count = np.bincount(group, minlength=self._events.groups.count)
        count += np.bincount(left.group[waiting], weights=end - begin, minlength=len(count)).astype(np.int64)
        for first, last in cut(count, PAIRS):
            some = slice(*np.searchsorted(left.group[waiting], [first, last]))
            told = self._results_of_rights(waiting[some], brought, begin[some], end[some])
            alone = brought[(right.group[brought] >= first) & (right.group[brought] < last)]
            mine = of_left[(left.group[of_left] >= first) & (left.group[of_left] < last)]
            parts = [self._of_left(mine), told, *self._unmatched(alone, told)]
            yield WindowResults.together(parts).ordered()

    def _of_left(self, rows: Int64s) -> WindowResults:
        """Results of changes of left rows: one each, at most."""
        params, left = self._params, self.left
        event = left.event[rows]
        rows = rows[left.joins(rows, event)]
        event, before = left.event[rows], left.before[rows]
        new, old = left.present[rows], left.has(before)
        other = self._found(rows, event)
        outer = params.how != "inner"
        if not params.stored:
            emitted = (other >= 0) | outer
            called, seen, ts = new, other, left.ts[rows]
        elif params.lives[LEFT] is None:
            gone = np.where(old, self._found(before, event), -1)
            called, had = new & ((other >= 0) | outer), old & ((gone >= 0) | outer)
            emitted, seen = called | had, np.where(called, other, gone)
            ts = np.maximum(left.ts[rows], np.append(self.right.ts, NONE)[seen])
        else:
            emitted = (other >= 0) | (outer & (new | old))
            called, seen = np.where(new, (other >= 0) | outer, (other >= 0) & (params.how == "outer")), other
            ts = np.maximum(left.ts[rows], np.append(self.right.ts, NONE)[seen])
        seen = np.where(called, seen, -1)
        made = WindowResults(
            event, left.start[rows], left.end[rows], np.where(called & new, rows, -1), seen, called, ts
        )
        return made.where(emitted)

    def _found(self, rows: Int64s, event: Int64s) -> Int64s:
        """The right row that each of these left rows finds when the event comes; -1: none."""
        found = self._as_of.before(np.append(self._meets, -1)[rows], event)
        return np.where(self.right.has(found) & self.right.joins(found, event), found, -1)

    def _results_of_rights(self, waiting: Int64s, brought: Int64s, begin: Int64s, end: Int64s) -> WindowResults:
        """Results of changes of right rows: one for each live left row that points at them."""
        left, right = self.left, self.right
        pairs = list(pairs_of(begin, end, PAIRS))
        rows = waiting[np.concatenate([_NOWHERE, *(each.query for each in pairs)])]
        other = brought[np.concatenate([_NOWHERE, *(each.place for each in pairs)])]
        event = right.event[other]
        live = left.joins(rows, event)
        rows, other, event = rows[live], other[live], event[live]
        there = right.present[other]
        called = there | (self._params.how != "inner")
        ts = np.maximum(right.ts[other], left.ts[rows])
        seen = np.where(there, other, -1)
        return WindowResults(event, left.start[rows], left.end[rows], np.where(called, rows, -1), seen, called, ts)

    def _unmatched(self, brought: Int64s, told: WindowResults) -> Iterator[WindowResults]:
        """Results of changes of unmatched right rows, in an outer join."""
        if self._params.how != "outer":
            return
        right = self.right
        rows = brought[~np.isin(right.event[brought], told.event)]
        rows = rows[right.present[rows] | right.has(right.before[rows])]
        there, event = right.present[rows], right.event[rows]
        nothing = np.full(len(rows), -1, dtype=np.int64)
        seen = np.where(there, rows, -1)
        yield WindowResults(event, right.start[rows], right.end[rows], nothing, seen, there, right.ts[rows])

    # -- state -----------------------------------------------------------------------------------------------

    def store(self) -> None:
        """Write what has changed."""
        if self._params.stored:
            pointer = dict(zip((name for name, _ in POINTER), self._to, strict=True))
            self.left.put(self._tables[0], pointer)
        self.right.put(self._tables[-1], {})


def _result_tables(events: Events, join: _WindowJoin, results: WindowResults) -> Iterator[pa.Table]:
    """Results as the next stage reads them."""
    if not len(results.event):
        return
    operator = events.context.operator
    out: dict[str, pa.Array | Picked] = events.meta(results.event, results.ts)
    if operator.fan:
        del out["hash"]
        keys = events.key.take(pa.array(results.event))
        out["key"] = windowed(keys, results.start, results.end)
        place = np.arange(len(results.event)) - np.searchsorted(results.event, results.event)
        out[f"p{operator.slot}"] = pa.array(place * operator.fan)
    out["left"], out["right"] = join.left.picked(results.left), join.right.picked(results.right)
    out["joined"] = pa.array(results.joined)
    if join.standing is not None:
        out |= join.standing.replaced(results)
    yield from in_pieces(out)
