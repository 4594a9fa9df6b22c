"""Which records of a windowed join meet: pairs of an event and an earlier row of the other side.

Semantics.md, section 6: equal keys, timestamps within the window, and the row still visible, which section A
row 14 keeps true while an on-time partner may come. Pairs are integers, made a block at a time; one event's
partners come in order of (ts, arrival).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from watersmeet._engine.arrays import Bools, Int64s, order_of
from watersmeet._engine.matching.intervals import interval_bounds, pairs_of
from watersmeet._engine.matching.window_rows import Asked, Book, WindowRows
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.stream_stream import JoinWindowParams

PAIRS = 262_144
"""Pairs that are made at a time."""

SIDES = LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Rules:
    """The rules of a join, by its type, window and generation.

    Parameters
    ----------
    back, forward : per side, how far a record of it looks into the other side.
    ahead : per side, how far its partners may be ahead of it.
    grace, retention : in ms.
    outer : per side, whether unmatched records give results.
    searches, stores : per side, whether records look the other side up, and are kept.
    waits : whether unmatched results come when the window has passed.
    old : the rules of 0.10.0 and 0.10.1.
    """

    back: tuple[int, int]
    forward: tuple[int, int]
    ahead: tuple[int, int]
    grace: int
    retention: int
    outer: tuple[bool, bool]
    searches: tuple[bool, bool]
    stores: tuple[bool, bool]
    waits: bool
    old: bool

    @classmethod
    def of(cls, context: OperatorContext) -> Rules:
        """The rules of an operator."""
        params = context.params(JoinWindowParams)
        before, after, grace = params.window
        old = params.generation.startswith("old")
        swapped = params.generation != "old-0.10.0"
        left_only = old and params.how == "left"
        return cls(
            back=(before, after) if swapped else (before, before),
            forward=(after, before) if swapped else (after, after),
            ahead=(after, before),
            grace=grace,
            retention=before + after + grace,
            outer=(params.how in ("left", "outer"), params.how == "outer"),
            searches=(True, not left_only),
            # one store for both sides of a self join: what stands in it is looked up as the right side
            stores=(not left_only or len(context.operator.stores) == 1, True),
            waits=params.generation == "current" and params.how != "inner",
            old=old,
        )

    @property
    def furthest(self) -> int:
        """The side with records that look back further."""
        return LEFT if self.back[LEFT] >= self.back[RIGHT] else RIGHT

    def close(self, ts: Int64s, side: Int64s | int) -> Int64s:
        """The last time at which a partner of a record may still come."""
        last: Int64s = ts + np.array(self.ahead)[side] + self.grace
        return last

    def place(self, ts: Int64s, side: Int64s) -> Int64s:
        """When a waiting record has its turn: where both sides wait, in the order of their timestamps."""
        both = all(self.outer)
        return ts + max(self.ahead) + self.grace if both else self.close(ts, side)


@dataclass(frozen=True)
class MatchedRows:
    """A block of pairs: of the events [first, last), all; `place` counts over both books."""

    event: Int64s
    place: Int64s
    first: int
    last: int


class Matches:
    """The meetings of one batch.

    Attributes
    ----------
    books : rows of each side that can be met.
    ts, hash, row, number, side, domain : of each place; places count over the sides.
    expired : events that come too late for part of what they look for: it is not kept any more.
    """

    def __init__(
        self, rules: Rules, log: WindowRows, events: Events, times: Times, searching: Bools, stored: Bools
    ) -> None:
        self._rules = rules
        self._events = events
        self._times = times
        self._arrivals = log.arrivals
        self._domain = times.number(times.of_row)
        self._rows = rows = np.flatnonzero(searching)
        side = events.side[rows]
        self._low = events.ts[rows] - np.array(rules.back)[side]
        self._high = np.maximum(0, events.ts[rows] + np.array(rules.forward)[side])
        self.books = [self._book(log, side, stored) for side in SIDES]
        self._index()
        self._visible_from = self._own_visibility(rows, 1 - side)
        late = events.ts[rows] < times.at_row[rows] - rules.grace
        self.expired: Int64s = rows[late & (np.maximum(0, self._low) < self._visible_from)]

    def _book(self, log: WindowRows, side: int, stored: Bools) -> Book:
        events = self._events
        asking = events.side[self._rows] != side
        low = np.full(events.groups.count, np.iinfo(np.int64).max)
        high = np.full(events.groups.count, np.iinfo(np.int64).min)
        group = events.groups.group_of_row[self._rows[asking]]
        np.minimum.at(low, group, self._low[asking])
        np.maximum.at(high, group, self._high[asking])
        asked = np.flatnonzero(low <= high)
        rows = np.flatnonzero(stored & (events.side == side))
        return log.book(side, events, rows, Asked(asked, low[asked], high[asked]), self._domain[rows])

    def _index(self) -> None:
        """Both books in one order of (side, key group, ts, arrival), and each searching event's interval."""
        events, count = self._events, max(self._events.groups.count, 1)
        side = np.repeat(np.array(SIDES), [len(book.ts) for book in self.books])
        of_key = self._both("group")
        group = of_key + side * count
        order = order_of([group, self._both("ts"), self._both("arrival")])
        self.side, self.ts, self.row = side[order], self._both("ts")[order], self._both("row")[order]
        self.hash: Int64s = events.hash[events.groups.first[of_key[order]]]
        self.number, self.domain = self._both("number")[order], self._both("domain")[order]
        self.pointer, self._arrival = self._both("pointer")[order], self._both("arrival")[order]
        wanted = events.groups.group_of_row[self._rows] + (1 - events.side[self._rows]) * count
        self._begin, self._end = interval_bounds(group[order], self.ts, wanted, self._low, self._high)

    def _both(self, name: str) -> Int64s:
        return np.concatenate([getattr(book, name) for book in self.books])

    def blocks(self) -> Iterator[MatchedRows]:
        """All pairs in order of event, then of (ts, arrival); at least one block."""
        return iter([self._only]) if self._total <= PAIRS else self._blocks()

    @cached_property
    def _total(self) -> int:
        return int((self._end - self._begin).sum())

    @cached_property
    def _only(self) -> MatchedRows:
        """The one block of a small batch: it is asked for twice."""
        blocks = list(self._blocks())
        return blocks[0] if blocks else MatchedRows(_NO_ROWS, _NO_ROWS, 0, len(self._events))

    def _blocks(self) -> Iterator[MatchedRows]:
        first = 0
        for pairs in pairs_of(self._begin, self._end, max(PAIRS, 1)):
            event = self._rows[pairs.query]
            meets = self._arrival[pairs.place] < self._arrivals + event
            meets &= self._visible(pairs.query, pairs.place, event)
            last = len(self._events) if pairs.last == len(self._rows) else int(self._rows[pairs.last])
            yield MatchedRows(event[meets], pairs.place[meets], first, last)
            first = last

    def _own_visibility(self, rows: Int64s, other: Int64s) -> Int64s:
        """From which ts on each searching event sees the other side's rows of its own time domain.

        How far the other side has moved on matters to late records alone: what an on-time one looks for is
        still there.
        """
        time, rules = self._times.at_row[rows], self._rules
        visible: Int64s = time - rules.grace - np.maximum(np.array(rules.ahead), 0)[other]
        late = self._events.ts[rows] < time - rules.grace
        for side in SIDES:
            asking = np.flatnonzero(late & (other == side))
            if len(asking):
                reach = self._times.side_time_before(side, rows[asking], self._times.of_row[rows[asking]])
                visible[asking] = np.minimum(visible[asking], reach - rules.retention + 1)
        return visible

    def _visible(self, query: Int64s, place: Int64s, event: Int64s) -> Bools:
        visible = self.ts[place] >= self._visible_from[query]
        foreign = self.domain[place] != self._domain[event]
        if foreign.any():
            visible[foreign] = self._visible_elsewhere(place[foreign], event[foreign])
        return visible

    def _visible_elsewhere(self, place: Int64s, event: Int64s) -> Bools:
        """Rows of another domain are judged by that domain's time: the furthest that its sides reach."""
        rules, times, ts, side = self._rules, self._times, self.ts[place], self.side[place]
        domain = times.index(self.domain[place])
        left, right = (times.side_time_before(s, event, domain) for s in SIDES)
        needed_from = np.maximum(left, right) - rules.grace - np.maximum(np.array(rules.ahead), 0)[side]
        kept_from = np.where(side == LEFT, left, right) - rules.retention + 1
        return np.asarray(ts >= np.minimum(needed_from, kept_from))


_NO_ROWS = np.zeros(0, dtype=np.int64)
