"""sliding_window_aggregate: aggregates by key and sliding window (semantics/windows.md; KIP-450).

A record that is later than all before it of its key changes the windows that hold it, makes the one that begins
behind the record before it, and the one that ends with it. The latter gets no further record, and begins with what the
latest window holds that ends before the record. So records in order are processed at once, from their times alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import stretches, values_of
from watersmeet._engine.aggregates.folds import FoldKernel
from watersmeet._engine.aggregates.registry import fold_of
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, failed_rows, operator_table
from watersmeet._engine.rows import Bools, Int64s, order_of
from watersmeet._engine.state.runs import State
from watersmeet._engine.time import BatchTimes
from watersmeet._engine.windowing import (
    Links,
    Partitions,
    Shard,
    StandingWindows,
    States,
    WindowChanges,
    fold_chains,
    group_ids,
)
from watersmeet._plan.operators.aggregates import WindowParams
from watersmeet._plan.reasons import EXPIRED_WINDOW
from watersmeet.windows import SlidingWindows

# The common part of all ways to find sliding windows: the present ones, and their changes by records.
#
# Numbers alone: a state is the number of a stored one, then of the additions that make further ones.

WHOLE = -1
"""Stands for all windows of a record that changes none, since a function raises for it; windows begin at 0 or later."""


@dataclass(frozen=True)
class StoredWindows:
    """Windows that stand, in order of (key, start): key group, start, timestamp, and number of the state."""

    key: Int64s
    start: Int64s
    ts: Int64s
    state: Int64s


@dataclass(frozen=True)
class SlidingOfSeveral:
    """Windows of keys that lie in several partitions (`windowing.Partitions`)."""

    standing: Mapping[tuple[int, int], int]  # of those that stand, the time domain by key and start
    # those that had been let go and replaced by another one: key, start, timestamp, number of the state, time domain,
    # and the record that changed it last (-1: none of these)
    replaced: Sequence[tuple[int, int, int, int, int, int]]


@dataclass(frozen=True)
class SlidingChanges:
    """The changes of windows by a batch's records."""

    # record, parent: of each addition, what is added to which state (-1: to none); addition n makes state known + n
    record: Int64s
    parent: Int64s
    # head, level: the first addition of its chain, in which each adds to what the one before made; and the chain's
    # level: it begins with what chains of lower levels have made
    head: Int64s
    level: Int64s
    # by, start, ts, state, before: of each change of a window, in order: the record, the window's start, its new
    # timestamp and state, and the state before, -1 for none
    by: Int64s
    start: Int64s
    ts: Int64s
    state: Int64s
    before: Int64s
    late: Int64s  # records that came when a window of theirs was closed
    standing: StoredWindows  # what stands behind the batch, of the records' keys
    # of keys that lie in several partitions
    several: SlidingOfSeveral = field(default_factory=lambda: SlidingOfSeveral({}, ()))

    def with_more(self, tail: SlidingChanges) -> SlidingChanges:
        """These, of keys of one partition, and those of other keys, with additions numbered after these."""
        if not any(map(len, (tail.record, tail.by, tail.late, tail.standing.key))):
            return self
        moved = replace(tail, head=tail.head + len(self.head))
        names = [f.name for f in fields(self) if f.name not in ("standing", "several")]
        columns = {name: np.concatenate([getattr(self, name), getattr(moved, name)]) for name in names}
        left = [
            np.concatenate([getattr(part.standing, f.name) for part in (self, tail)]) for f in fields(StoredWindows)
        ]
        return SlidingChanges(**columns, standing=StoredWindows(*left), several=tail.several)


_MOST_CODES = 2**62
NO_STATE = -1


@dataclass(frozen=True)
class SlidingRecords:
    """Records by key, and in order of position."""

    row: Int64s  # number of each
    key: Int64s  # its key group
    place: Int64s  # the how manieth key that is, from 0
    ts: Int64s  # timestamp
    before: Int64s  # time of the record before, in state too; -1: none

    @classmethod
    def of(cls, row: Int64s, key: Int64s, ts: Int64s, windows: StoredWindows) -> SlidingRecords:
        """With the times before them."""
        first = np.diff(key, prepend=NO_STATE) != 0
        place = np.cumsum(first) - 1
        latest = np.full(int(first.sum()), NO_STATE, dtype=np.int64)
        theirs, at = _theirs(key[first], windows)
        np.maximum.at(latest, at, windows.ts[theirs])
        previous = np.append(NO_STATE, ts[:-1])[: len(ts)]
        previous[first] = latest
        return cls(row, key, place, ts, previous)

    def some(self, mask: Bools) -> SlidingRecords:
        place = np.cumsum(np.diff(self.place[mask], prepend=NO_STATE) != 0) - 1
        return SlidingRecords(self.row[mask], self.key[mask], place, self.ts[mask], self.before[mask])

    @property
    def firsts(self) -> Int64s:
        return np.flatnonzero(np.diff(self.place, prepend=NO_STATE))


@dataclass(frozen=True)
class Codes:
    """One number for a key and a time, which orders by both."""

    lowest: int  # the earliest time
    span: int  # how many times there are

    @classmethod
    def of(cls, records: SlidingRecords, windows: StoredWindows, difference: int) -> Codes:
        times = np.concatenate([records.ts, windows.start])
        lowest, highest = int(times.min(initial=0)), int(times.max(initial=0))
        return cls(lowest - difference, highest - lowest + 3 * difference + 1)

    def of_windows(self, place: Int64s, time: Int64s) -> Int64s:
        """The number of the how manieth key and a time."""
        return np.asarray(place * self.span + (time - self.lowest))


def in_order(
    records: SlidingRecords,
    close: Int64s,
    windows: StoredWindows,
    difference: int,
    vanishing: AbstractSet[tuple[int, int]],
) -> Bools:
    """The records of keys with changes that `changes_in_order` knows.

    Parameters
    ----------
    close : of each record, the least end of a window that is still open.
    vanishing : (record, start) of the changes with a null aggregate.
    """
    ts, gap = records.ts, records.ts - records.before
    follows = records.before != NO_STATE
    # as Kafka Streams looks two differences back, it finds the record before one of this gap at times
    fine = (ts >= np.maximum(close, difference)) & ~(follows & ((gap <= 0) | (gap == difference + 1)))
    fine &= ~np.isin(records.row, [row for row, _ in vanishing])
    fine[records.firsts] &= _finds_window(records, windows, difference)
    broken = np.zeros(int(records.place.max(initial=-1)) + 1, dtype=np.bool_)
    broken[records.place[~fine]] = True
    if Codes.of(records, windows, difference).span * len(broken) >= _MOST_CODES:
        broken[:] = True
    return np.asarray(~broken[records.place])


def _finds_window(records: SlidingRecords, windows: StoredWindows, difference: int) -> Bools:
    """Whether each key's first record, if one before it is within the difference, finds a window that holds that."""
    firsts = records.firsts
    ts, previous = records.ts[firsts], records.before[firsts]
    theirs, at = _theirs(records.key[firsts], windows)
    earlier = windows.start[theirs] < ts[at] - difference
    last = np.full(len(firsts), NO_STATE, dtype=np.int64)
    last[at[earlier]] = theirs[earlier]  # they ascend
    rows = np.flatnonzero(last != NO_STATE)
    near = (windows.start[last[rows]] >= ts[rows] - 2 * difference) & (windows.ts[last[rows]] == previous[rows])
    matches = (previous == NO_STATE) | (ts - previous > difference)
    matches[rows[near]] = True
    return np.asarray(matches)


def changes_in_order(records: SlidingRecords, windows: StoredWindows, difference: int, offset: int) -> SlidingChanges:
    """The changes that these records bring.

    Parameters
    ----------
    windows : what stands.
    offset : how many states there are already.
    """
    codes = Codes.of(records, windows, difference)
    growing = _Growing.of(records, windows, codes, difference, offset)
    ending = _Ending.of(records, growing, codes, difference, offset)
    standing = StoredWindows(
        records.key[records.firsts][np.concatenate([growing.place, records.place[ending.record]])],
        np.concatenate([growing.start, ending.start]),
        np.concatenate([growing.ts, records.ts[ending.record]]),
        np.concatenate([growing.state, offset + len(growing.record) + np.arange(len(ending.record))]),
    )
    record = np.concatenate([growing.record, ending.record])
    start = np.concatenate([growing.start[growing.window], ending.start])
    parent = np.concatenate([growing.parent, ending.parent])
    # updates from the latest start down, the window behind the record before, and the one that ends here
    turn = np.concatenate([growing.makes, np.full(len(ending.record), 2)])
    order = order_of([record, turn, -start])
    return SlidingChanges(
        record=records.row[record],
        parent=parent,
        head=np.concatenate([growing.head, ending.head]),
        level=np.concatenate([np.zeros(len(growing.record), dtype=np.int64), ending.level]),
        by=records.row[record[order]],
        start=start[order],
        ts=records.ts[record[order]],
        state=offset + order,
        before=np.where(turn == 2, NO_STATE, parent)[order],
        late=np.zeros(0, dtype=np.int64),
        standing=standing,
    )


@dataclass(frozen=True)
class _Growing:
    """Windows that records come to: stored ones, and those that begin behind a record; and the additions to them."""

    code: Int64s  # key and start of each window, as one number
    # place, start, ts, state: its key, its start, and what it comes to
    place: Int64s
    start: Int64s
    ts: Int64s
    state: Int64s
    # window, record: of each addition
    window: Int64s
    record: Int64s
    # head, parent, makes: the first addition to its window, the state that it adds to, and whether it makes the
    # window
    head: Int64s
    parent: Int64s
    makes: Bools

    @classmethod
    def of(
        cls, records: SlidingRecords, windows: StoredWindows, codes: Codes, difference: int, offset: int
    ) -> _Growing:
        """All of them."""
        theirs, at = _theirs(records.key[records.firsts], windows)
        opens = np.flatnonzero((records.before != NO_STATE) & (records.ts - records.before <= difference))
        place = np.concatenate([records.place[opens], at])
        start = np.concatenate([records.before[opens] + 1, windows.start[theirs]])
        first_record = np.concatenate([opens, records.firsts[at]])
        end = codes.of_windows(records.place, records.ts).searchsorted(
            codes.of_windows(place, start + difference), side="right"
        )
        count = end - first_record
        first = np.cumsum(count) - count
        window = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(window))
        record = first_record[window] + number - first[window]
        prior = np.concatenate([np.full(len(opens), NO_STATE), windows.state[theirs]])
        heads = number == first[window]
        return cls(
            codes.of_windows(place, start),
            place,
            start,
            np.where(count > 0, records.ts[end - 1], np.concatenate([records.ts[opens], windows.ts[theirs]])),
            np.where(count > 0, offset + end - first_record + first - 1, prior),
            window,
            record,
            first[window],
            np.where(heads, prior[window], offset + number - 1),
            heads & (window < len(opens)),
        )


@dataclass(frozen=True)
class _Ending:
    """Windows that end with a record, an addition each."""

    # record, start: of each
    record: Int64s
    start: Int64s
    # head, parent, level: of its addition
    head: Int64s
    parent: Int64s
    level: Int64s

    @classmethod
    def of(cls, records: SlidingRecords, growing: _Growing, codes: Codes, difference: int, offset: int) -> _Ending:
        """All that are not there yet."""
        # records come by key and time, and so do these windows; the others are put into that order once
        code = codes.of_windows(records.place, records.ts - difference)
        order = np.argsort(growing.code, kind="stable")
        grown, states = np.append(NO_STATE, growing.code[order]), np.append(NO_STATE, growing.state[order])
        position = grown.searchsorted(code)
        record = np.flatnonzero(np.append(grown, NO_STATE)[position] != code)
        code, start, previous = code[record], records.ts[record] - difference, records.before[record]
        # what it begins with: the latest window that begins before it, where that holds the record before
        earlier = position[record] - 1
        inside = (previous != NO_STATE) & (start <= previous)
        goes_on = inside & (np.append(NO_STATE, code)[:-1] > grown[earlier])
        state = states[earlier]
        number = len(growing.record) + np.arange(len(record))
        head = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(record))))
        return cls(
            record,
            start,
            len(growing.record) + head,
            np.where(goes_on, offset + number - 1, np.where(inside, state, NO_STATE)),
            (inside & ~goes_on).astype(np.int64)[head],
        )


def _theirs(keys: Int64s, windows: StoredWindows) -> tuple[Int64s, Int64s]:
    """Which windows are of these keys, which ascend, and the place of each one's key among them."""
    theirs = np.flatnonzero(np.isin(windows.key, keys))
    return theirs, keys.searchsorted(windows.key[theirs])


# Sliding windows of keys with records out of order, at one time, or before the first difference is over.
#
# The windows that such a record meets depend on all before it of its key, so records are processed one by one; a window
# costs about a microsecond, and usually gives a result.


@dataclass(frozen=True)
class WindowOwners:
    """Which partitions windows belong to, where keys lie in several."""

    partitions: Partitions  # what such keys' records see
    domain: Int64s  # of each window that stands, its time domain


class _Window(NamedTuple):
    """Timestamp and state of a window, and whether it has made that state itself, so that nothing else adds to it.

    And where its key lies in several time domains, the one that it belongs to and the record that changed it last.
    """

    ts: int
    state: int
    own: bool
    domain: int = 0
    by: int = -1


def out_of_order(
    rows: Int64s,
    keys: Int64s,
    ts: Int64s,
    close: Int64s,
    windows: StoredWindows,
    difference: int,
    offset: int,
    vanishing: AbstractSet[tuple[int, int]],
    owner: WindowOwners | None = None,
) -> SlidingChanges:
    """The changes that records bring, one after the other.

    Parameters
    ----------
    rows : numbers of the records, by key and then in order of position.
    keys, ts, close : of each of them: key group, timestamp, and the least end of a window that is still open.
    windows : what stands, and may be changed.
    offset : states there are already.
    vanishing : (record, start) of the changes with a null aggregate, so that there is no window; see `WHOLE`, too.
    owner : of keys that lie in several partitions; None: there are none.
    """
    making = _SlidingOneByOne(difference, offset, vanishing, owner)
    domain = np.zeros(len(windows.key), dtype=np.int64) if owner is None else owner.domain
    edges = np.flatnonzero(np.diff(keys, prepend=-1, append=-2))
    for first_row, end in pairwise(edges):  # keys
        key = int(keys[first_row])
        first, last = (int(np.searchsorted(windows.key, key, side=side)) for side in ("left", "right"))
        entries = zip(
            *(c[first:last].tolist() for c in (windows.start, windows.ts, windows.state, domain)), strict=True
        )
        making.begin(key, {start: _Window(stamp, state, False, of) for start, stamp, state, of in entries})
        # each record changes what the next one meets
        for row, at, closed in zip(*(c[first_row:end].tolist() for c in (rows, ts, close)), strict=True):
            making.take_in(row, at, closed)
    making.end()
    return making.slid()


class _SlidingOneByOne:
    """The results of the records, one after the other."""

    def __init__(
        self, difference: int, offset: int, vanishing: AbstractSet[tuple[int, int]], owner: WindowOwners | None
    ) -> None:
        self._difference = difference
        self._offset = offset
        self._vanishing = vanishing
        self._void = frozenset(row for row, start in vanishing if start == WHOLE)
        self._additions: list[tuple[int, int, int, int]] = []
        self._changes: list[tuple[int, int, int, int, int]] = []
        self._standing: list[tuple[int, int, int, int]] = []
        self._expired: list[int] = []
        self._partitions = None if owner is None else owner.partitions
        self._is_shared = False
        self._whose: dict[tuple[int, int], int] = {}
        self._replaced: list[tuple[int, int, int, int, int, int]] = []
        self._key = -1
        self._starts: list[int] = []
        self._windows: dict[int, _Window] = {}
        self._row = self._ts = self._close = 0

    def begin(self, key: int, windows: dict[int, _Window]) -> None:
        """Go on with the records of another key."""
        self.end()
        self._key, self._windows, self._starts = key, windows, list(windows)
        self._is_shared = self._partitions is not None and bool(self._partitions.several[key])

    def end(self) -> None:
        """Keep what stands of a key."""
        self._standing += [(self._key, s, self._windows[s].ts, self._windows[s].state) for s in self._starts]
        if self._is_shared:
            self._whose |= {(self._key, s): self._windows[s].domain for s in self._starts}
        self._starts = []

    def take_in(self, row: int, ts: int, close: int) -> None:
        """The changes that a record brings."""
        self._row, self._ts, self._close = row, ts, close
        if ts + self._difference < close:
            self._expired.append(row)
            return
        first = bisect_left(self._starts, max(0, ts - 2 * self._difference))
        near = [(s, self._windows[s]) for s in self._starts[first : bisect_right(self._starts, ts + 1)]]
        if self._is_shared:
            near = [(start, window) for start, window in near if not self._is_gone(start, window)]
        (self._share_first_window if ts < self._difference else self._usual)(near)

    def _usual(self, near: Sequence[tuple[int, _Window]]) -> None:
        """Updates from the latest start down, then the windows that begin and end at the record and the one before."""
        ts, length = self._ts, self._difference
        starts: set[int] = set()
        previous: int | None = None
        left: _Window | None = None
        right: _Window | None = None
        updates = []
        for start, window in reversed(near):
            starts.add(start)
            if start == ts + 1:
                continue
            if start + length < ts:
                left, previous = window, window.ts
                break
            if start + length > ts:
                right = right or window
            elif window.ts < ts:
                previous = window.ts
            updates.append((start, window))
        for start, window in updates:
            self._add(start, window, goes_on=True)
        if previous is not None and previous + 1 not in starts and previous + 1 + length >= ts:
            self._add(previous + 1, None)
        if ts - length not in starts:
            inside = previous is not None and ts - length <= previous
            self._add(ts - length, left if inside else None, stamp=ts)
        self._begin_right(right, starts)

    def _share_first_window(self, near: Sequence[tuple[int, _Window]]) -> None:
        """Records earlier than the difference share the window that begins at 0."""
        starts = {start for start, _ in near}
        right = shared = self._windows.get(0) if 0 in starts else None
        for start, window in near:
            if 0 < start <= self._ts:
                right = window
                self._add(start, window, goes_on=True)
        self._begin_right(right, starts)
        if shared is not None and shared.ts < self._ts and shared.ts + 1 not in starts:
            self._add(shared.ts + 1, None)
        self._add(0, shared, goes_on=True)

    def _begin_right(self, source: _Window | None, starts: AbstractSet[int]) -> None:
        """The window that begins behind the record, where later records are in it: a copy of one that holds them."""
        if self._ts + 1 not in starts and source is not None and source.ts > self._ts:
            self._put(self._ts + 1, _Window(source.ts, source.state, own=False))

    def _add(self, start: int, to: _Window | None, *, goes_on: bool = False, stamp: int | None = None) -> None:
        """Add the record to what a window holds, unless the window has closed."""
        if start + self._difference < self._close:
            if self._expired[-1:] != [self._row]:
                self._expired.append(self._row)
            return
        goes_on = goes_on and to is not None and to.own
        parent = -1 if to is None else to.state
        above = parent - self._offset
        number = len(self._additions)
        head = self._additions[above][2] if goes_on else number
        level = 0 if above < 0 else self._additions[above][3] + (not goes_on)
        self._additions.append((self._row, parent, head, level))
        ts = self._ts if to is None or stamp is not None else max(to.ts, self._ts)
        self._put(start, _Window(ts, self._offset + number, own=True))

    def _is_gone(self, start: int, window: _Window) -> bool:
        """Whether another partition than the record's, to which the window belongs, has closed it."""
        assert self._partitions is not None
        if window.domain == self._partitions.domain[self._row]:
            return False
        return bool(start + self._difference < self._partitions.closes[window.domain][self._row])

    def _put(self, start: int, window: _Window) -> None:
        if self._row in self._void:
            return
        previous = existing = self._windows.get(start)
        if self._is_shared:
            previous, window = self._among_several(start, window, existing)
        self._changes.append((self._row, start, window.ts, window.state, -1 if previous is None else previous.state))
        if (self._row, start) in self._vanishing:
            if previous is not None:
                del self._windows[start]
                self._starts.remove(start)
            return
        if existing is None:
            insort(self._starts, start)
        elif previous is None:
            self._replaced.append((self._key, start, existing.ts, existing.state, existing.domain, existing.by))
        self._windows[start] = window

    def _among_several(self, start: int, window: _Window, existing: _Window | None) -> tuple[_Window | None, _Window]:
        """(what the window had before, if it was not gone; the window with the partition that it belongs to)."""
        assert self._partitions is not None
        if existing is None or self._is_gone(start, existing):
            return None, window._replace(domain=int(self._partitions.domain[self._row]), by=self._row)
        return existing, window._replace(domain=existing.domain, by=self._row)

    def slid(self) -> SlidingChanges:
        """All of it."""
        standing = StoredWindows(*_columns(self._standing, 4))
        expired = np.array(self._expired, dtype=np.int64)
        record, parent, head, level = _columns(self._additions, 4)
        by, start, ts, state, previous = _columns(self._changes, 5)
        shared = SlidingOfSeveral(self._whose, self._replaced)
        return SlidingChanges(record, parent, head, level, by, start, ts, state, previous, expired, standing, shared)


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> list[Int64s]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, count).T.copy())


# Sliding windows: which ones each record changes, makes, or is late for (semantics/windows.md; KIP-450).
#
# Of keys with records in order all is known from their times (`changes_in_order`); those of other keys are looked at
# one after the other (`out_of_order`). Both give the same where both can (tests/engine/aggregates/test_sliding.py).


def slid(
    keys: Int64s,
    ts: Int64s,
    close: Int64s,
    windows: StoredWindows,
    difference: int,
    vanishing: AbstractSet[tuple[int, int]],
    owner: WindowOwners | None = None,
) -> SlidingChanges:
    """The changes that records bring, which are in order of position.

    Parameters
    ----------
    keys, ts, close : of each record: key group, timestamp, and the least end of a window that is still open.
    windows : what stands, and may be changed.
    vanishing : (record, start) of the changes with a null aggregate, so that there is no window; with `WHOLE` as
        start, records that change nothing, and are asked for all the same.
    owner : of keys that lie in several partitions; None: there are none.
    """
    order = np.argsort(keys, kind="stable")
    records = SlidingRecords.of(order, keys[order], ts[order], windows)
    orderly = in_order(records, close[order], windows, difference, vanishing)
    if owner is not None:
        orderly &= ~owner.partitions.several[records.key]
    ordered_changes = changes_in_order(records.some(orderly), windows, difference, len(windows.key))
    disordered = records.some(~orderly)
    offset = len(windows.key) + len(ordered_changes.record)
    disordered_changes = out_of_order(
        disordered.row,
        disordered.key,
        disordered.ts,
        close[disordered.row],
        windows,
        difference,
        offset,
        vanishing,
        owner,
    )
    return ordered_changes.with_more(disordered_changes)


# sliding_window_aggregate: aggregates by key and sliding window (semantics/windows.md; KIP-450).
#
# A record changes all windows that hold it, and makes those that begin or end with it or with the record before. The
# windows of a key are stored for as long as new windows may be made of it.


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped | Failed]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=len(context.values))
    times = BatchTimes(context, inputs, events, state, sides=len(context.values))
    params = context.params(WindowParams)
    assert isinstance(params.windows, SlidingWindows)
    length, grace = params.windows.difference_ms, params.windows.grace_ms
    fold = fold_of(params.fold, context.operator.node, tolerates_errors=context.tolerates_errors)
    shard = Shard(events, times, fold, operator_table(context, state), 2 * length, grace)
    for first_row, end in stretches(shard.sizes, shard.growth, single_stretch=context.operator.cached):
        yield from _take_in(shard, first_row, end, times.at_row[first_row:end] - grace, length)
    if params.on_close:
        yield from shard.closing(length + grace + 1, lambda start: start + length)
    # a record that is just in time, at T - grace - difference, looks two differences back (row 16 of section A)
    shard.write(grace + 3 * length)
    times.store(state)


def _take_in(
    shard: Shard, first_row: int, end: int, close: Int64s, length: int
) -> Iterator[pa.Table | Dropped | Failed]:
    """The results of a stretch of the events, behind what was late."""
    events, standing = shard.events, shard.standing
    key = events.groups.group_of_row[first_row:end]
    windows = StoredWindows(standing.key, standing.numbers["start"], standing.numbers["ts"], np.arange(len(standing)))
    keys, values = events.key.slice(first_row, end - first_row), values_of(events, np.arange(first_row, end))
    owner = None
    if shard.partitions is not None:
        owner = WindowOwners(shard.partitions.stretch(first_row, end), standing.numbers["domain"])
    vanishing: set[tuple[int, int]] = set()
    ends: set[int] = set()
    while True:
        void = {(row, WHOLE) for row in ends}
        voiding = vanishing | void if void else vanishing
        changes = slid(key, events.ts[first_row:end], close, windows, length, voiding, owner)
        states, failed = _folded(shard.fold, changes, keys, values, standing.states, ends)
        if ends != failed.keys():
            # as of hopping windows (see `windowed_aggregate`): until the same is found
            ends = set(failed)
            continue
        nulls = np.flatnonzero(states.pointers(changes.state) < 0)
        is_new = [(int(changes.by[at]), int(changes.start[at])) not in vanishing for at in nulls]
        nulls = nulls[np.array(is_new, dtype=np.bool_)]
        if not len(nulls):
            break
        # what a key's later records meet is another then
        firsts = nulls[np.unique(key[changes.by[nulls]], return_index=True)[1]]
        vanishing |= {(int(changes.by[at]), int(changes.start[at])) for at in firsts}
    yield from events.drops(EXPIRED_WINDOW, first_row + changes.late)
    yield from failed_rows(events, {first_row + row: error for row, error in failed.items()})
    if not events.context.params(WindowParams).on_close:
        yield from shard.results(_changes(first_row, changes, length), states)
    _settle(shard, first_row, key, changes, states)


def _folded(
    fold: FoldKernel, changes: SlidingChanges, keys: pa.Array, values: pa.Array, old_states: pa.Array, ends: set[int]
) -> tuple[States, dict[int, Exception]]:
    """(the state that each addition makes, the records for which a function raises, where that is tolerated)."""
    count = len(changes.record)
    states = States.of_stored(fold, old_states, count)
    numbers, ts = len(old_states) + np.arange(count), np.zeros(count, dtype=np.int64)
    links = Links(numbers, changes.record, changes.head, changes.level, ts)
    void = np.zeros(len(keys), dtype=np.bool_) if ends else None
    if void is not None:
        void[list(ends)] = True
    failed = fold_chains(fold, links, states, keys, values, lambda heads: states.of(changes.parent[heads]), ends=void)
    return states, failed


def _changes(first_row: int, changes: SlidingChanges, length: int) -> WindowChanges:
    """The columns of records, record after record: in `changes` they are key after key."""
    order = np.argsort(changes.by, kind="stable")
    by, start = changes.by[order], changes.start[order]
    place = np.arange(len(by)) - np.searchsorted(by, by)
    return WindowChanges(
        first_row + by, place, start, start + length, changes.ts[order], changes.state[order], changes.before[order]
    )


def _settle(shard: Shard, first_row: int, key: Int64s, changes: SlidingChanges, states: States) -> None:
    """The windows after a stretch: new ones of its keys, previous ones of the other keys."""
    old, windows = shard.standing, changes.standing
    unchanged = np.flatnonzero(~np.isin(old.key, key))
    domain, fresh = _taken_over(shard, first_row, key, changes)
    new = {"start": windows.start, "ts": windows.ts, "domain": domain}
    if "headers" in old.numbers:
        new["headers"] = _last_changes(
            old, first_row, windows.key, windows.start, key[changes.by], changes.start, changes.by
        )
    if changes.several.replaced:
        keys, start, ts, state, owner, by = np.array(changes.several.replaced, dtype=np.int64).T
        numbers = {"start": start, "ts": ts, "domain": owner}
        if "headers" in old.numbers:
            # one window may be replaced twice in a batch: each time it has the headers of its own last record
            none = keys[:0]
            headers = _last_changes(old, first_row, keys, start, none, none, none)
            numbers["headers"] = np.where(by >= 0, first_row + by, headers)
        shard.let_go(keys, numbers, states.of(state))
    shard.settle(
        np.concatenate([old.key[unchanged], windows.key]),
        {name: np.concatenate([old.numbers[name][unchanged], column]) for name, column in new.items()},
        np.concatenate([old.fresh[unchanged], fresh]),
        states.of(np.concatenate([unchanged, windows.state])),
    )


def _last_changes(
    old: StandingWindows, first_row: int, key: Int64s, start: Int64s, changed: Int64s, starts: Int64s, by: Int64s
) -> Int64s:
    """Where the headers of windows are: of the last record that has changed each, or where they were before.

    Parameters
    ----------
    key, start : of each window.
    changed, starts, by : of each change the window and the record.
    """
    number = group_ids(np.concatenate([key, changed, old.key]), np.concatenate([start, starts, old.numbers["start"]]))
    numbers, theirs, old_numbers = np.split(number, np.cumsum([len(key), len(changed)]))
    last = np.full(int(number.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(last, theirs, first_row + by)
    headers = np.full(len(last), -1, dtype=np.int64)
    headers[old_numbers] = old.numbers["headers"]
    return np.where(last >= 0, last, headers)[numbers]


def _taken_over(shard: Shard, first_row: int, key: Int64s, changes: SlidingChanges) -> tuple[Int64s, Bools]:
    """Domain of each window that stands, which is that of the record that made it, and whether it is fresh."""
    old, windows = shard.standing, changes.standing
    number = group_ids(
        np.concatenate([windows.key, key[changes.by], old.key]),
        np.concatenate([windows.start, changes.start, old.numbers["start"]]),
    )
    numbers, changed, old_numbers = np.split(number, np.cumsum([len(windows.key), len(changes.by)]))
    domain, fresh = (np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64) for _ in range(2))
    domain[changed[::-1]] = shard.domain[first_row + changes.by[::-1]]
    domain[old_numbers] = old.numbers["domain"]
    fresh[old_numbers] = old.fresh
    fresh[changed] = 1
    belongs = domain[numbers]
    if shard.partitions is not None:
        # windows of keys of several partitions alone
        for at in np.flatnonzero(shard.partitions.several[windows.key]).tolist():
            belongs[at] = changes.several.standing[int(windows.key[at]), int(windows.start[at])]
    return belongs, fresh[numbers] > 0
