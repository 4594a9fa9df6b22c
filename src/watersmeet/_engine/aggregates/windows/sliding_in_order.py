"""Sliding windows of keys with records in order: all changes at once, from the records' times alone.

A record that is later than all before it of its key changes the windows that hold it, makes the one that begins
behind the record before it, and the one that ends with it. The latter gets no further record, and begins with what the
latest window holds that ends before the record.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from watersmeet._engine.aggregates.windows.sliding_changes import Slid, StoredWindows
from watersmeet._engine.arrays import Bools, Int64s, order_of

_MOST_CODES = 2**62
_NONE = -1


@dataclass(frozen=True)
class SlidingRecords:
    """Records by key, and in order of position.

    Parameters
    ----------
    row : number of each.
    key : its key group.
    place : the how manieth key that is, from 0.
    ts : timestamp.
    before : time of the record before, in state too; -1: none.
    """

    row: Int64s
    key: Int64s
    place: Int64s
    ts: Int64s
    before: Int64s

    @classmethod
    def of(cls, row: Int64s, key: Int64s, ts: Int64s, stored: StoredWindows) -> SlidingRecords:
        """With the times before them."""
        first = np.diff(key, prepend=_NONE) != 0
        place = np.cumsum(first) - 1
        latest = np.full(int(first.sum()), _NONE, dtype=np.int64)
        theirs, at = _theirs(key[first], stored)
        np.maximum.at(latest, at, stored.ts[theirs])
        before = np.append(_NONE, ts[:-1])[: len(ts)]
        before[first] = latest
        return cls(row, key, place, ts, before)

    def some(self, which: Bools) -> SlidingRecords:
        """Those of some keys."""
        place = np.cumsum(np.diff(self.place[which], prepend=_NONE) != 0) - 1
        return SlidingRecords(self.row[which], self.key[which], place, self.ts[which], self.before[which])

    @property
    def firsts(self) -> Int64s:
        """The first record of each key."""
        return np.flatnonzero(np.diff(self.place, prepend=_NONE))


@dataclass(frozen=True)
class Codes:
    """One number for a key and a time, which orders by both.

    Parameters
    ----------
    lowest : the earliest time.
    span : how many times there are.
    """

    lowest: int
    span: int

    @classmethod
    def of(cls, records: SlidingRecords, stored: StoredWindows, difference: int) -> Codes:
        """Of all times that windows may begin or end at."""
        times = np.concatenate([records.ts, stored.start])
        lowest, highest = int(times.min(initial=0)), int(times.max(initial=0))
        return cls(lowest - difference, highest - lowest + 3 * difference + 1)

    def of_windows(self, place: Int64s, time: Int64s) -> Int64s:
        """The number of the how manieth key and a time."""
        return np.asarray(place * self.span + (time - self.lowest))


def in_order(
    records: SlidingRecords,
    close: Int64s,
    stored: StoredWindows,
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
    follows = records.before != _NONE
    # as Kafka Streams looks two differences back, it finds the record before one of this gap at times
    fine = (ts >= np.maximum(close, difference)) & ~(follows & ((gap <= 0) | (gap == difference + 1)))
    fine &= ~np.isin(records.row, [row for row, _ in vanishing])
    fine[records.firsts] &= _found(records, stored, difference)
    broken = np.zeros(int(records.place.max(initial=-1)) + 1, dtype=np.bool_)
    broken[records.place[~fine]] = True
    if Codes.of(records, stored, difference).span * len(broken) >= _MOST_CODES:
        broken[:] = True
    return np.asarray(~broken[records.place])


def _found(records: SlidingRecords, stored: StoredWindows, difference: int) -> Bools:
    """Whether each key's first record, if one before it is within the difference, finds a window that holds that."""
    firsts = records.firsts
    ts, before = records.ts[firsts], records.before[firsts]
    theirs, at = _theirs(records.key[firsts], stored)
    earlier = stored.start[theirs] < ts[at] - difference
    last = np.full(len(firsts), _NONE, dtype=np.int64)
    last[at[earlier]] = theirs[earlier]  # they ascend
    some = np.flatnonzero(last != _NONE)
    near = (stored.start[last[some]] >= ts[some] - 2 * difference) & (stored.ts[last[some]] == before[some])
    found = (before == _NONE) | (ts - before > difference)
    found[some[near]] = True
    return np.asarray(found)


def changes_in_order(records: SlidingRecords, stored: StoredWindows, difference: int, known: int) -> Slid:
    """The changes that these records bring.

    Parameters
    ----------
    stored : what stands.
    known : how many states there are already.
    """
    codes = Codes.of(records, stored, difference)
    growing = _Growing.of(records, stored, codes, difference, known)
    ending = _Ending.of(records, growing, codes, difference, known)
    kept = StoredWindows(
        records.key[records.firsts][np.concatenate([growing.place, records.place[ending.record]])],
        np.concatenate([growing.start, ending.start]),
        np.concatenate([growing.ts, records.ts[ending.record]]),
        np.concatenate([growing.state, known + len(growing.record) + np.arange(len(ending.record))]),
    )
    record = np.concatenate([growing.record, ending.record])
    start = np.concatenate([growing.start[growing.window], ending.start])
    parent = np.concatenate([growing.parent, ending.parent])
    # updates from the latest start down, the window behind the record before, and the one that ends here
    turn = np.concatenate([growing.makes, np.full(len(ending.record), 2)])
    order = order_of([record, turn, -start])
    return Slid(
        record=records.row[record],
        parent=parent,
        head=np.concatenate([growing.head, ending.head]),
        level=np.concatenate([np.zeros(len(growing.record), dtype=np.int64), ending.level]),
        by=records.row[record[order]],
        start=start[order],
        ts=records.ts[record[order]],
        state=known + order,
        before=np.where(turn == 2, _NONE, parent)[order],
        late=np.zeros(0, dtype=np.int64),
        standing=kept,
    )


@dataclass(frozen=True)
class _Growing:
    """Windows that records come to: stored ones, and those that begin behind a record; and the additions to them.

    Parameters
    ----------
    code : key and start of each window, as one number.
    place, start, ts, state : its key, its start, and what it comes to.
    window, record : of each addition.
    head, parent, makes : the first addition to its window, the state that it adds to, and whether it makes the window.
    """

    code: Int64s
    place: Int64s
    start: Int64s
    ts: Int64s
    state: Int64s
    window: Int64s
    record: Int64s
    head: Int64s
    parent: Int64s
    makes: Bools

    @classmethod
    def of(cls, records: SlidingRecords, stored: StoredWindows, codes: Codes, difference: int, known: int) -> _Growing:
        """All of them."""
        theirs, at = _theirs(records.key[records.firsts], stored)
        opens = np.flatnonzero((records.before != _NONE) & (records.ts - records.before <= difference))
        place = np.concatenate([records.place[opens], at])
        start = np.concatenate([records.before[opens] + 1, stored.start[theirs]])
        begin = np.concatenate([opens, records.firsts[at]])
        end = codes.of_windows(records.place, records.ts).searchsorted(
            codes.of_windows(place, start + difference), side="right"
        )
        count = end - begin
        first = np.cumsum(count) - count
        window = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(window))
        record = begin[window] + number - first[window]
        prior = np.concatenate([np.full(len(opens), _NONE), stored.state[theirs]])
        heads = number == first[window]
        return cls(
            codes.of_windows(place, start),
            place,
            start,
            np.where(count > 0, records.ts[end - 1], np.concatenate([records.ts[opens], stored.ts[theirs]])),
            np.where(count > 0, known + end - begin + first - 1, prior),
            window,
            record,
            first[window],
            np.where(heads, prior[window], known + number - 1),
            heads & (window < len(opens)),
        )


@dataclass(frozen=True)
class _Ending:
    """Windows that end with a record, an addition each.

    Parameters
    ----------
    record, start : of each.
    head, parent, level : of its addition.
    """

    record: Int64s
    start: Int64s
    head: Int64s
    parent: Int64s
    level: Int64s

    @classmethod
    def of(cls, records: SlidingRecords, growing: _Growing, codes: Codes, difference: int, known: int) -> _Ending:
        """All that are not there yet."""
        # records come by key and time, and so do these windows; the others are put into that order once
        code = codes.of_windows(records.place, records.ts - difference)
        order = np.argsort(growing.code, kind="stable")
        grown, states = np.append(_NONE, growing.code[order]), np.append(_NONE, growing.state[order])
        behind = grown.searchsorted(code)
        record = np.flatnonzero(np.append(grown, _NONE)[behind] != code)
        code, start, before = code[record], records.ts[record] - difference, records.before[record]
        # what it begins with: the latest window that begins before it, where that holds the record before
        earlier = behind[record] - 1
        inside = (before != _NONE) & (start <= before)
        goes_on = inside & (np.append(_NONE, code)[:-1] > grown[earlier])
        state = states[earlier]
        number = len(growing.record) + np.arange(len(record))
        head = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(record))))
        return cls(
            record,
            start,
            len(growing.record) + head,
            np.where(goes_on, known + number - 1, np.where(inside, state, _NONE)),
            (inside & ~goes_on).astype(np.int64)[head],
        )


def _theirs(keys: Int64s, stored: StoredWindows) -> tuple[Int64s, Int64s]:
    """Which windows are of these keys, which ascend, and the place of each one's key among them."""
    theirs = np.flatnonzero(np.isin(stored.key, keys))
    return theirs, keys.searchsorted(stored.key[theirs])
