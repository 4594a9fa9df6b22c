"""stream_stream: joins of two streams in a window, as pairs of an event and an earlier row of the other side.

docs/semantics/stream_stream.md: equal keys, timestamps within the window, and the row still visible, which section A
row 14 (docs/semantics/differences.md) keeps true while an on-time partner may come. Pairs are integers, made a block
at a time; one event's partners come in order of (ts, arrival).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet._engine.operator import Dropped, Events, OperatorContext, operator_table
from watersmeet._engine.row_sizes import Picked, in_pieces
from watersmeet._engine.rows import (
    HEADERS,
    Bools,
    Int64s,
    bools,
    ints,
    joined,
    merged,
    order_of,
    position_columns,
    valid,
)
from watersmeet._engine.state.lookups import Hits
from watersmeet._engine.state.runs import State
from watersmeet._engine.time import BatchTimes, moments
from watersmeet._engine.waiting_rows import Bound, HeldRows, WaitingRows, release
from watersmeet._plan.operators.joins import JoinWindowParams, MatchParams
from watersmeet._plan.reasons import EXPIRED_WINDOW_RECORD

# The rows that a windowed join keeps: what a record may meet, and which unmatched records wait.
#
# One table per side (one for both in a self join), with rows that are only appended, sorted by (ts, arrival) within a
# key. A row waits when it was unmatched at the end of its batch and its window is still open; that is a flag of the
# row. When it is matched in a later batch, its number goes into a small table of its own, since rows are never changed.
# Nothing else is ever written, and all of it is dropped by time, each row by that of its own domain (law 3): a
# partition that is quiet keeps nothing of the others.


@dataclass(frozen=True)
class MeetableRows:
    """Rows of one side that records of the other side may meet, stored ones and the batch's."""

    # group, ts, arrival, domain: of each row; `group` is its key group, `domain` its domain's number
    group: Int64s
    ts: Int64s
    arrival: Int64s
    domain: Int64s
    pointer: Int64s  # its value among `values`
    row: Int64s  # its event, -1 for a stored row
    number: Int64s  # what it is known by while it waits, -1 where it does not
    values: pa.Array  # values of the batch's rows of the side, then of the stored rows


@dataclass(frozen=True)
class NumberedRows:
    """Rows that wait, each by the hash of its key and its number: merged shards may have numbers twice."""

    # hash, number: of each row
    hash: Int64s
    number: Int64s

    def among(self, rows: NumberedRows) -> Bools:
        """Which of them are among the others."""
        matches = np.isin(self.number, rows.number)
        # pairs are slow to compare, and few numbers that are there are of another row
        matches[matches] = np.isin(self._pairs(matches), rows._pairs(np.isin(rows.number, self.number)))
        return matches

    def and_of(self, rows: NumberedRows) -> NumberedRows:
        return NumberedRows(*(np.concatenate([getattr(part, n) for part in (self, rows)]) for n in ("hash", "number")))

    def _pairs(self, mask: Bools) -> npt.NDArray[np.void]:
        pairs = np.empty(int(mask.sum()), dtype=[("hash", np.int64), ("number", np.int64)])
        pairs["hash"], pairs["number"] = self.hash[mask], self.number[mask]
        return pairs


NOBODY = NumberedRows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class KeyRanges:
    """Key groups that are looked for in a side's stored rows, each with its earliest and latest ts."""

    group: Int64s
    low: Int64s
    high: Int64s


class WindowRows:
    """The state of one windowed join."""

    def __init__(self, context: OperatorContext, state: State) -> None:
        self._context = context
        self._state = state
        stores = sum(table.shown for table in context.kept)
        self.shared = stores == 1
        tables = [operator_table(context, state, number) for number in range(len(context.kept))]
        self._tables = [tables[0], tables[stores - 1]]
        self._matched = tables[stores] if len(tables) > stores else None
        self.arrivals = int(state.get_scalar("arrivals", 0))

    def _flags(self, side: int) -> tuple[str, ...]:
        return self._tables[side].declared.due or ()

    def _flag(self, side: int) -> str | None:
        flags = self._flags(side)
        return flags[side if self.shared else 0] if flags else None

    def book(self, side: int, events: Events, rows: Int64s, ranges: KeyRanges, domain: Int64s) -> MeetableRows:
        """The given events of a side (`domain`: of each) and the stored rows that are asked for."""
        first = events.groups.first[ranges.group]
        keys = events.key.take(pa.array(first))
        table = self._tables[side]
        matches = table.range(events.hash[first], keys, ranges.low, ranges.high)
        state_rows, flag = matches.take([name for name in table.schema.names if name != "headers"]), self._flag(side)
        pending = np.zeros(len(state_rows), dtype=np.bool_) if flag is None else bools(state_rows, flag)
        number = np.where(pending, ints(state_rows, "arrival") * 2 + side, -1)
        batch = events.tables[side].column("value")
        count = len(state_rows)
        group, ts, arrival, domains, pointer, row, numbers = (
            np.concatenate([ranges.group[matches.query], events.groups.group_of_row[rows]]),
            np.concatenate([ints(state_rows, "ts"), events.ts[rows]]),
            np.concatenate([ints(state_rows, "arrival"), self.arrivals + rows]),
            np.concatenate([ints(state_rows, "domain"), domain]),
            np.concatenate([len(batch) + np.arange(count, dtype=np.int64), events.own[rows]]),
            np.concatenate([np.full(count, -1, dtype=np.int64), rows]),
            np.concatenate([number, np.full(len(rows), -1, dtype=np.int64)]),
        )
        values = joined([batch, state_rows.column("value")], self._context.values[side])
        return MeetableRows(group, ts, arrival, domains, pointer, row, numbers, values)

    def unmatched(self, side: int, low: int, high: int) -> Iterator[Hits]:
        """Places of stored rows of a side, with low <= ts < high, that were waiting when they were stored."""
        return self._tables[side].due(low, high, self._flag(side))

    def matched_between(self, low: int, high: int) -> NumberedRows:
        assert self._matched is not None
        rows = self._matched.gather(list(self._matched.due(low, high)), ["hash", "key"])
        return NumberedRows(ints(rows, "hash"), ints(rows, "key"))

    def match(self, rows: NumberedRows, closes: Int64s, domain: Int64s) -> None:
        """Remember that these waiting rows, each given once, have been matched; when each closes, in which domain."""
        assert self._matched is not None
        hashes, numbers = rows.hash, rows.number
        existing = self._matched.rows(hashes, pa.array(numbers))
        fresh = np.ones(len(numbers), dtype=np.bool_)
        fresh[existing.query] = False
        if fresh.any():
            columns = {"hash": hashes, "key": numbers, "closes": closes, "domain": domain}
            self._matched.put({name: pa.array(column[fresh]) for name, column in columns.items()})

    def put(self, side: int, events: Events, rows: Int64s, domain: Int64s, pending: list[Bools]) -> None:
        """Store events of a side; `pending`: one flag each, in a self join also for its right half."""
        if not len(rows):
            return
        batch, pointers = events.tables[side], events.own[rows]
        columns = {
            "hash": pa.array(events.hash[rows]),
            "key": events.key.take(pa.array(rows)),
            "ts": pa.array(events.ts[rows]),
            "arrival": pa.array(self.arrivals + rows),
            "domain": pa.array(domain),
            "value": Picked(batch.column("value"), pointers),
        }
        columns |= {name: pa.array(flags) for name, flags in zip(self._flags(side), pending, strict=False)}
        if "headers" in self._tables[side].schema.names:
            columns["headers"] = Picked(batch.column("headers"), np.where(np.logical_or.reduce(pending), pointers, -1))
        self._tables[side].put(columns)

    def finish(self, events: int, floors: list[dict[int, int]], closed: dict[int, int]) -> None:
        """Count the events, and let go what its domain's time has passed: rows below their floor, numbers."""
        self._state.set_scalar("arrivals", self.arrivals + events)
        for side in range(len(floors)):
            self._tables[side].expire(floors[side])
        if self.shared:
            lowest = {d: min(floor.get(d, f) for floor in floors) for d, f in floors[0].items()}
            self._tables[0].expire(lowest)
        if self._matched is not None:
            self._matched.expire(closed)


# Integer kernels of windowed joins: which rows of a sorted side lie within an interval of time, and pairs.
#
# Nothing here looks at keys or values: keys are group numbers, rows are places. Pairs are made a bounded
# number at a time, so that a hot key costs no more memory than any other (law 9).

_LARGEST = 2**62


def interval_bounds(groups: Int64s, times: Int64s, group: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """For each query the places [begin, end) of the rows of its group with low <= time <= high.

    Parameters
    ----------
    groups, times : of the rows, which are in order of (group, time).
    group, low, high : of the queries.
    """
    if not len(times):
        return np.zeros(len(group), dtype=np.int64), np.zeros(len(group), dtype=np.int64)
    base, width = int(times.min()), int(times.max() - times.min()) + 2
    if (int(groups[-1]) + 1) * width < _LARGEST:
        place, first = times - base, np.clip(low, base, base + width - 1) - base
        stop = np.clip(high, base - 1, base + width - 2) - base + 1
    else:
        distinct = np.unique(times)
        width = len(distinct) + 1
        place, first = np.searchsorted(distinct, times), np.searchsorted(distinct, low)
        stop = np.searchsorted(distinct, high, side="right")
    rows = groups * width + place
    start = np.searchsorted(rows, group * width + first)
    end = np.searchsorted(rows, group * width + np.maximum(stop, first))
    return start, end


@dataclass(frozen=True)
class Pairs:
    """Some pairs, in order of query and place: all those of the queries from `first` to `last`."""

    query: Int64s
    place: Int64s
    first: int
    last: int


def pairs_of(starts: Int64s, end: Int64s, limit: int) -> Iterator[Pairs]:
    """Each query with each place of its interval, about `limit` at a time, never cutting a query."""
    counts = end - starts
    total = np.cumsum(counts)
    first = 0
    while first < len(starts):
        done = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, done + limit, side="right")))
        sizes = counts[first:last]
        query = np.repeat(np.arange(first, last, dtype=np.int64), sizes)
        start = np.repeat(starts[first:last] - (total[first:last] - sizes - done), sizes)
        yield Pairs(query, np.arange(len(query), dtype=np.int64) + start, first, last)
        first = last


PAIRS = 262_144
"""Pairs that are made at a time."""

SIDES = LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Rules:
    """The rules of a join, by its type, window and generation."""

    # back, forward: per side, how far a record of it looks into the other side
    back: tuple[int, int]
    forward: tuple[int, int]
    ahead: tuple[int, int]  # per side, how far its partners may be ahead of it
    # grace, retention: in ms
    grace: int
    retention: int
    outer: tuple[bool, bool]  # per side, whether unmatched records give results
    # searches, stores: per side, whether records look the other side up, and are kept
    searches: tuple[bool, bool]
    stores: tuple[bool, bool]
    waits: bool  # whether unmatched results come when the window has passed
    old: bool  # the rules of 0.10.0 and 0.10.1

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
        is_full_outer = all(self.outer)
        return ts + max(self.ahead) + self.grace if is_full_outer else self.close(ts, side)


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
        self, rules: Rules, state: WindowRows, events: Events, times: BatchTimes, searching: Bools, in_store: Bools
    ) -> None:
        self._rules = rules
        self._events = events
        self._times = times
        self._arrivals = state.arrivals
        self._domain = times.number(times.of_row)
        self._rows = rows = np.flatnonzero(searching)
        side = events.side[rows]
        self._low = events.ts[rows] - np.array(rules.back)[side]
        self._high = np.maximum(0, events.ts[rows] + np.array(rules.forward)[side])
        self.books = [self._book(state, side, in_store) for side in SIDES]
        self._index()
        self._visible_from = self._own_visibility(rows, 1 - side)
        overdue = events.ts[rows] < times.at_row[rows] - rules.grace
        self.expired: Int64s = rows[overdue & (np.maximum(0, self._low) < self._visible_from)]

    def _book(self, state: WindowRows, side: int, in_store: Bools) -> MeetableRows:
        events = self._events
        asking = events.side[self._rows] != side
        low = np.full(events.groups.count, np.iinfo(np.int64).max)
        high = np.full(events.groups.count, np.iinfo(np.int64).min)
        group = events.groups.group_of_row[self._rows[asking]]
        np.minimum.at(low, group, self._low[asking])
        np.maximum.at(high, group, self._high[asking])
        groups = np.flatnonzero(low <= high)
        rows = np.flatnonzero(in_store & (events.side == side))
        return state.book(side, events, rows, KeyRanges(groups, low[groups], high[groups]), self._domain[rows])

    def _index(self) -> None:
        """Both books in one order of (side, key group, ts, arrival), and each searching event's interval."""
        events, count = self._events, max(self._events.groups.count, 1)
        side = np.repeat(np.array(SIDES), [len(book.ts) for book in self.books])
        of_key = self._column("group")
        group = of_key + side * count
        order = order_of([group, self._column("ts"), self._column("arrival")])
        self.side, self.ts, self.row = side[order], self._column("ts")[order], self._column("row")[order]
        self.hash: Int64s = events.hash[events.groups.first[of_key[order]]]
        self.number, self.domain = self._column("number")[order], self._column("domain")[order]
        self.pointer, self._arrival = self._column("pointer")[order], self._column("arrival")[order]
        targets = events.groups.group_of_row[self._rows] + (1 - events.side[self._rows]) * count
        self._start, self._end = interval_bounds(group[order], self.ts, targets, self._low, self._high)

    def _column(self, name: str) -> Int64s:
        return np.concatenate([getattr(book, name) for book in self.books])

    def blocks(self) -> Iterator[MatchedRows]:
        """All pairs in order of event, then of (ts, arrival); at least one block."""
        return iter([self._only]) if self._total <= PAIRS else self._blocks()

    @cached_property
    def _total(self) -> int:
        return int((self._end - self._start).sum())

    @cached_property
    def _only(self) -> MatchedRows:
        """The one block of a small batch: it is asked for twice."""
        blocks = list(self._blocks())
        return blocks[0] if blocks else MatchedRows(_NO_ROWS, _NO_ROWS, 0, len(self._events))

    def _blocks(self) -> Iterator[MatchedRows]:
        first = 0
        for pairs in pairs_of(self._start, self._end, max(PAIRS, 1)):
            event = self._rows[pairs.query]
            meets = self._arrival[pairs.place] < self._arrivals + event
            meets &= self._visible(pairs.query, pairs.place, event)
            last = len(self._events) if pairs.last == len(self._rows) else int(self._rows[pairs.last])
            yield MatchedRows(event[meets], pairs.place[meets], first, last)
            first = last

    def _own_visibility(self, rows: Int64s, sides: Int64s) -> Int64s:
        """From which ts on each searching event sees the other side's rows of its own time domain.

        How far the other side has moved on matters to late records alone: what an on-time one looks for is
        still there.
        """
        time, rules = self._times.at_row[rows], self._rules
        visible: Int64s = time - rules.grace - np.maximum(np.array(rules.ahead), 0)[sides]
        overdue = self._events.ts[rows] < time - rules.grace
        for side in SIDES:
            asking = np.flatnonzero(overdue & (sides == side))
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


# stream_match: windowed join of each left record with one right record (docs/semantics/stream_match.md).
#
# A left record waits until its window and the grace have passed (`waiting_rows.HeldRows`). Then it is joined with the
# best of the right records that it can meet, of those that came before. Left records that are let go are events again,
# beside the batch's right records: so what each can meet follows from its position.

HELD = LEFT
"""Left records that wait are in the table of the left side."""


def run_stream_match(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped]:
    """See `operators.run_operator`."""
    window_rows = WindowRows(context, state)
    join = _MatchJoin(context, inputs, state, window_rows)
    buffer = HeldRows(
        context, operator_table(context, state, HELD), join.times, {name: name for name in _carried(context)}
    )
    join.hold(buffer)
    yield from join.late()
    tables = release(context, join.times, [buffer])
    released = (_MatchJoin(context, {**inputs, LEFT: rows}, state, window_rows).matched() for rows in tables)
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

    def __init__(
        self, context: OperatorContext, inputs: Mapping[int, pa.Table], state: State, window_rows: WindowRows
    ) -> None:
        self._context, self._window_rows = context, window_rows
        self._params = context.params(MatchParams)
        self._rules = _rules(self._params)
        self._events = events = Events(context, inputs, sides=2)
        self.times = BatchTimes(context, inputs, events, state, sides=2)
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

    def hold(self, buffer: HeldRows) -> None:
        """Hold those back with a window that is still open."""
        events, times = self._events, self.times
        rows = np.flatnonzero(self._pending)
        buffer.hold(
            {
                "hash": pa.array(events.hash[rows]),
                "key": events.key.take(pa.array(rows)),
                "ts": pa.array(events.ts[rows]),
                "arrival": pa.array(self._window_rows.arrivals + rows),
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
    def _pending(self) -> Bools:
        return np.asarray(self._left & (2 * self._due >= moments(self._events, self.times)))

    def late(self) -> Iterator[Dropped]:
        """Left records with a window that has closed, and right ones that no record can meet any more."""
        expired = np.flatnonzero((self._left & ~self._pending) | self._missed)
        return self._events.drops(EXPIRED_WINDOW_RECORD, expired)

    def unkeyed(self) -> Iterator[pa.Table]:
        """Results of left records without a key, which can meet none."""
        rows = np.flatnonzero((self._events.side == LEFT) & ~self._left)
        yield from self._results(rows, self._events.ts[rows], np.full(len(rows), -1, dtype=np.int64), None)

    def write(self) -> None:
        """Store the right records that may still be met; forget what time has passed."""
        events, times = self._events, self.times
        floor = np.minimum(times.end, times.side_time_at_end(RIGHT)) - self._retention
        live = self._right & ~self._missed & (events.ts >= floor[times.of_row])
        rows = np.flatnonzero(live)
        self._window_rows.put(RIGHT, events, rows, times.number(times.of_row[rows]), [])
        self._window_rows.finish(len(events), [times.by_domain(times.end), times.by_domain(floor)], {})

    # -- left records that are let go ------------------------------------------------------------------------

    def matched(self) -> Iterator[pa.Table]:
        """Their results, in order of position."""
        events = self._events
        matches = Matches(self._rules, self._window_rows, events, self.times, self._left, self._right & ~self._missed)
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
        # a window that ends before time 0 has no records, while those of all pairs begin at 0 there (stream_stream.md)
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


# Unmatched rows of a windowed join with a window that closes in a batch, as a `waiting_rows.HeldSource`.
#
# They lie in the join's own tables, where a flag says which of them wait; those of the batch itself join them.


class UnmatchedRows:
    """The closing rows of one side in one batch; see `waiting_rows.HeldSource`.

    Parameters
    ----------
    closes : which events of the batch wait and close in it.
    matched : numbers of stored rows that were matched in the batch.
    """

    def __init__(
        self,
        context: OperatorContext,
        rules: Rules,
        window_rows: WindowRows,
        events: Events,
        times: BatchTimes,
        closes: Bools,
        matched: NumberedRows,
        side: int,
    ) -> None:
        self._context = context
        self._rules = rules
        self._window_rows = window_rows
        self._events = events
        self._times = times
        self._closes = np.flatnonzero(closes & (events.side == side))
        self._matched = matched
        self._side = side

    @property
    def columns(self) -> Mapping[str, tuple[str, pa.DataType]]:
        headers = {"headers": ("headers", HEADERS)} if self._context.headers else {}
        return {"left" if self._side == LEFT else "right": ("value", self._context.values[self._side])} | headers

    def waiting(self, bound: Bound) -> Iterator[WaitingRows]:
        """See `waiting_rows.HeldSource`: matched rows are still among them."""
        times = self._times
        first, last = times.passing()
        wait = int(self._rules.close(np.zeros(1, dtype=np.int64), self._side)[0])
        for hits in self._window_rows.unmatched(self._side, first - wait, last - wait):
            ts, domain = (hits.batch.column(n).to_numpy(zero_copy_only=True)[hits.rows] for n in ("ts", "domain"))
            index, close = times.index(domain), ts + wait
            due = times.passes(index, close)
            yield self._waiting_rows(hits.batch, hits.rows[due], ts[due], index[due])
        for batch in self._batch_rows:
            index = times.index(ints(batch, "domain"))
            yield self._waiting_rows(batch, np.arange(len(batch), dtype=np.int64), ints(batch, "ts"), index)

    def left(self, picked: Sequence[WaitingRows]) -> Sequence[WaitingRows]:
        """Those that were not matched since they were stored."""
        if not picked:
            return picked
        names = ("ts", "arrival", "hash")
        ts, arrival, key_hash = (np.concatenate([_numbers(part, name) for part in picked]) for name in names)
        close = self._rules.close(ts, self._side)
        matched = self._window_rows.matched_between(int(close.min()), int(close.max()) + 1)
        unmatched = ~NumberedRows(key_hash, arrival * 2 + self._side).among(matched.and_of(self._matched))
        ends = np.cumsum([len(part.rows) for part in picked])
        return [part.where(mask) for part, mask in zip(picked, np.split(unmatched, ends[:-1]), strict=True)]

    def _waiting_rows(self, batch: pa.RecordBatch, rows: Int64s, ts: Int64s, domain: Int64s) -> WaitingRows:
        """These rows with where they stand: of one time the right side's come first."""
        positions, latest = self._times.release_positions(domain, self._rules.close(ts, self._side))
        place = self._rules.place(ts, np.full(len(ts), self._side)) + self._context.time.hold_back
        return WaitingRows(batch, rows, positions, np.minimum(place, latest), 2 * ts + (1 - self._side))

    @cached_property
    def _batch_rows(self) -> list[pa.RecordBatch]:
        """The batch's rows that close in it."""
        rows, events = self._closes, self._events
        if not len(rows):
            return []
        columns: dict[str, pa.Array | Picked] = {
            "key": events.key.take(pa.array(rows)),
            "hash": pa.array(events.hash[rows]),
            "ts": pa.array(events.ts[rows]),
            "arrival": pa.array(self._window_rows.arrivals + rows),
            "domain": pa.array(self._times.number(self._times.of_row[rows])),
        }
        names = ("value", "headers") if self._context.headers else ("value",)
        columns |= {name: Picked(events.tables[self._side].column(name), events.own[rows]) for name in names}
        return [batch for piece in in_pieces(columns) for batch in piece.combine_chunks().to_batches()]


def _numbers(part: WaitingRows, name: str) -> Int64s:
    numbers: Int64s = part.batch.column(name).to_numpy(zero_copy_only=True)[part.rows]
    return numbers


# stream_stream: windowed join of two streams, all types and generations (semantics/stream_stream.md).
#
# Each record looks up the other side's records of its key within the window; what is found gives results at
# once. In the current generation an unmatched record of an outer side waits until its window and the grace
# have passed, and its result stands where time passed them. Pairs are made of integers, a block at a time;
# values are gathered last.


def run_stream_stream(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped]:
    return _StreamJoin(context, inputs, state).run()


class _StreamJoin:
    """One join, one shard, one batch."""

    def __init__(self, context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> None:
        self._context = context
        self._rules = rules = Rules.of(context)
        self._window_rows = WindowRows(context, state)
        self._events = events = Events(context, inputs, sides=2)
        self._times = BatchTimes(context, inputs, events, state, sides=2)
        self._state = state
        side, keyed = events.side, valid(events.key)
        self._in_store = keyed & events.present & np.array(rules.stores)[side]
        self._searching = keyed & (events.present | rules.old) & np.array(rules.searches)[side]
        self._outer = np.array(rules.outer)[side]
        self._unkeyed = ~keyed & events.present & self._outer
        self._domain = self._times.number(self._times.of_row)
        self._matches = Matches(rules, self._window_rows, events, self._times, self._searching, self._in_store)
        self._matched = np.zeros(len(events), dtype=np.bool_)
        self._met = np.zeros(len(events), dtype=np.bool_)
        self._matched_rows = NOBODY

    def run(self) -> Iterator[pa.Table | Dropped]:
        """The results, behind what was late; state is written before the first."""
        if any(self._rules.outer):
            self._learn_matches()
        unmatched = self._searching & self._outer & ~self._matched
        close = self._rules.close(self._events.ts, self._events.side)
        patient = self._rules.waits & (close >= self._times.at_row)
        self._unmatched = unmatched & patient & ~self._met
        at_once = np.flatnonzero((unmatched & ~patient) | self._unkeyed)
        window_emission = self._window_emission(close)
        self._write(close)
        yield from self._expired_rows()
        yield from merged(self._by_events(at_once), window_emission, position_columns(self._context.slots))

    def _expired_rows(self) -> Iterator[Dropped]:
        """Rows that came when part of their window was no longer kept."""
        expired = self._matches.expired
        if self._window_rows.shared:  # a self join has each row on both sides
            expired = expired[self._events.side[expired] == self._rules.furthest]
        return self._events.drops(EXPIRED_WINDOW_RECORD, expired)

    # -- unmatched records ---------------------------------------------------------------------------------

    def _learn_matches(self) -> None:
        """Which events are matched when they come, and which rows are while they wait."""
        matches, rules = self._matches, self._rules
        close = rules.close(matches.ts, matches.side)
        met = np.zeros(len(close), dtype=np.bool_)
        for block in matches.blocks():  # blocks of pairs
            self._matched[block.event] = True
            met[block.place[self._pair_times(block) <= close[block.place]]] = True
        if not rules.waits:
            return
        met &= np.array(rules.outer)[matches.side]
        self._met[matches.row[met & (matches.row >= 0)]] = True
        waited = met & (matches.number >= 0)
        self._matched_rows = NumberedRows(matches.hash[waited], matches.number[waited])
        end = self._times.end[self._times.index(matches.domain[waited])]
        later = close[waited] >= end
        if later.any():
            rows = NumberedRows(self._matched_rows.hash[later], self._matched_rows.number[later])
            self._window_rows.match(rows, close[waited][later], matches.domain[waited][later])

    def _pair_times(self, block: MatchedRows) -> Int64s:
        """The time of each pair's earlier row, when its event comes: that of the row's own domain lets it go."""
        times, domain = self._times, self._matches.domain[block.place]
        row_times: Int64s = times.now[block.event]
        foreign = np.flatnonzero(domain != self._domain[block.event])
        if len(foreign):
            row_times[foreign] = times.elsewhere(block.event[foreign], times.index(domain[foreign]))
        return row_times

    def _window_emission(self, close: Int64s) -> Iterator[pa.Table]:
        """Results of records with a window that closes in this batch, in order of position."""
        if not self._rules.waits:
            return iter(())
        closes = self._unmatched & (close < self._times.end[self._times.of_row])
        parts = self._context, self._rules, self._window_rows, self._events, self._times, closes, self._matched_rows
        sources = [UnmatchedRows(*parts, side) for side in SIDES if self._rules.outer[side]]
        return map(self._unmatched_results, release(self._context, self._times, sources))

    def _unmatched_results(self, rows: pa.Table) -> pa.Table:
        """Results of rows that have met none."""
        for name, kind in zip(("left", "right"), self._context.values, strict=True):
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.nulls(len(rows), kind))
        return rows.append_column("joined", pa.array(np.ones(len(rows), dtype=np.bool_)))

    # -- state ---------------------------------------------------------------------------------------------

    def _write(self, close: Int64s) -> None:
        """Store what may still be met, or waits; forget what time has passed."""
        times, events = self._times, self._events
        pending = self._unmatched & (close >= times.end[times.of_row])
        floors = [self._floor(side) for side in SIDES]
        lowest = np.minimum(*floors) if self._window_rows.shared else None
        rows = [np.flatnonzero(self._in_store & (events.side == side)) for side in SIDES]
        for side in (LEFT,) if self._window_rows.shared else SIDES:  # the stores
            flags = [pending[rows[LEFT]], pending[rows[RIGHT]]] if self._window_rows.shared else [pending[rows[side]]]
            floor = floors[side] if lowest is None else lowest
            live = (events.ts[rows[side]] >= floor[times.of_row[rows[side]]]) | np.logical_or.reduce(flags)
            live_rows = rows[side][live]
            self._window_rows.put(side, events, live_rows, self._domain[live_rows], [flag[live] for flag in flags])
        *domain_floors, closed = map(times.by_domain, (*floors, times.end))
        self._window_rows.finish(len(events), domain_floors, closed)
        times.store(self._state)

    def _floor(self, side: int) -> Int64s:
        """Per domain, the ts below which no record to come can meet a row of this side."""
        rules, times = self._rules, self._times
        needed = times.end - rules.grace - max(rules.ahead[side], 0)
        return np.minimum(needed, times.side_time_at_end(side) - rules.retention + 1)

    # -- results -------------------------------------------------------------------------------------------

    def _by_events(self, at_once: Int64s) -> Iterator[pa.Table]:
        for block in self._matches.blocks():  # blocks of pairs
            yield from self._triggered(block, at_once[(at_once >= block.first) & (at_once < block.last)])

    def _triggered(self, block: MatchedRows, at_once: Int64s) -> Iterator[pa.Table]:
        """Results of the block's pairs and of its events that have one without a partner."""
        events, matches = self._events, self._matches
        event = np.concatenate([block.event, at_once])
        order = np.argsort(event, kind="stable")
        event = event[order]
        place = np.concatenate([block.place, np.full(len(at_once), -1, dtype=np.int64)])[order]
        partner = np.where(place >= 0, matches.pointer[place], -1) if len(matches.ts) else place
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
        out["left"] = Picked(values[LEFT], np.where(by_left, events.own[event], partner))
        out["right"] = Picked(values[RIGHT], np.where(by_left, partner, events.own[event]))
        out["joined"] = pa.array(np.ones(len(event), dtype=np.bool_))
        yield from in_pieces(out)
