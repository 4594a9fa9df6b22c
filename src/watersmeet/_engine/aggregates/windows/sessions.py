"""Sessions: which ones each record of a batch merges, and what becomes of them (docs/semantics, sections 13 and 14).

Numbers alone: keys are group numbers, sessions are numbers of stored ones, then of the records that made them. A record
that is the latest of its key meets its key's latest session, if any: all such keys are done at once. The records of
the other keys are looked at one by one, since each may change what the next one meets; so are those of keys that lie in
several partitions (`sessions_of_several`).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from watersmeet._engine.aggregates.windows.partitions import Partitions
from watersmeet._engine.aggregates.windows.sessions_known import SessionRecords, StoredSessions
from watersmeet._engine.aggregates.windows.sessions_of_several import SessionsOfSeveral
from watersmeet._engine.arrays import Bools, Int64s

_NEVER = -(2**63)
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Merged:
    """The sessions that each record meets and makes.

    Parameters
    ----------
    known : how many sessions were stored: record r makes session known + r.
    start, end : of the session that each record makes.
    late : which records came when even their merged session was closed.
    by, session : a record, and a session that it merges, in order of (record, end of session).
    domain : the time domain that the session belongs to which each record makes.
    replaced : sessions that had been let go and replaced by another one with the same end.
    """

    known: int
    start: Int64s
    end: Int64s
    late: Bools
    by: Int64s
    session: Int64s
    domain: Int64s
    replaced: Int64s

    def without(self, ends: Bools) -> Merged:
        """The same without records that leave all as it is."""
        mine = ~ends[self.by]
        return replace(self, late=self.late | ends, by=self.by[mine], session=self.session[mine])

    @cached_property
    def count(self) -> Int64s:
        """How many sessions each record merges."""
        return np.bincount(self.by, minlength=len(self.start))

    @cached_property
    def gone(self) -> Bools:
        """Which sessions have been merged into others, or replaced."""
        flags = np.zeros(self.known + len(self.start), dtype=np.bool_)
        flags[self.session] = True
        flags[self.replaced] = True
        return flags

    @cached_property
    def rank(self) -> Int64s:
        """Of each merged session, the how manieth of its record it is."""
        return np.arange(len(self.by)) - np.searchsorted(self.by, self.by)

    @cached_property
    def head(self) -> Int64s:
        """The first record of each record's chain: in a chain each record adds to what the one before it made."""
        head = np.arange(len(self.start))
        alone = self.count[self.by] == 1
        of_record = alone & (self.session >= self.known)
        head[self.by[of_record]] = self.session[of_record] - self.known
        while len(head) and (head[head] != head).any():
            head = head[head]
        return head

    @cached_property
    def level(self) -> Int64s:
        """The level of each record's chain: it begins with what chains of lower levels have made."""
        joins = (self.count[self.by] > 1) & (self.session >= self.known)
        to, of = self.by[joins], self.head[self.session[joins] - self.known]
        level = np.zeros(len(self.start), dtype=np.int64)
        while len(to):
            higher = level[of] + 1
            if (level[to] >= higher).all():
                break
            np.maximum.at(level, to, higher)
        return level[self.head]


def merged(records: SessionRecords, stored: StoredSessions, gap: int, partitions: Partitions | None = None) -> Merged:
    """The sessions that each record merges and makes."""
    order = records.by_key
    forward = _forward(records, stored, order)
    parts, replaced, domain = [], _NONE, records.domain
    start, end, late = records.ts.copy(), records.ts.copy(), np.zeros(len(records), dtype=np.bool_)
    if partitions is not None:
        there = partitions.several[records.key]
        several = SessionsOfSeveral(records, stored, gap, partitions)
        several.take_in(order[there[order]])
        start, end, late, domain = several.start, several.end, several.late, several.domain
        replaced = np.array(several.replaced, dtype=np.int64)
        parts.append((np.array(several.by, dtype=np.int64), np.array(several.session, dtype=np.int64)))
        forward, order = forward & ~there, order[~there[order]]
    parts.append(_at_once(records, stored, gap, order[forward[order]], start))
    parts.append(_one_by_one(records, stored, gap, order[~forward[order]], start, end, late))
    by, session = (np.concatenate(column) for column in zip(*parts, strict=True))
    in_order = np.argsort(by, kind="stable")
    return Merged(len(stored), start, end, late, by[in_order], session[in_order], domain, replaced)


def _forward(records: SessionRecords, stored: StoredSessions, order: Int64s) -> Bools:
    """Which records are of keys that go forward in time, none of them late."""
    key, ts = records.key[order], records.ts[order]
    before = _before(records, stored, order)[0]
    wrong = (ts < before) | (ts < records.close[order]) | records.vanishes[order]
    wrong |= records.ends[order]
    keys = int(records.key.max(initial=-1)) + 1
    return np.asarray(np.bincount(key, weights=wrong, minlength=keys)[records.key] == 0)


def _before(records: SessionRecords, stored: StoredSessions, order: Int64s) -> tuple[Int64s, Int64s]:
    """(time, session) of what stands last before each record of its key: a record, or its latest stored session."""
    key = records.key[order]
    first = np.append(True, np.diff(key) != 0)[: len(order)]
    last = np.searchsorted(stored.key, key[first], side="right") - 1
    known = np.append(stored.key, -1)[last] == key[first]
    time, session = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    time[1:], session[1:] = records.ts[order[:-1]], len(stored) + order[:-1]
    time[first] = np.where(known, np.append(stored.end, _NEVER)[last], _NEVER)
    session[first] = np.where(known, last, -1)
    return time, session


def _at_once(
    records: SessionRecords, stored: StoredSessions, gap: int, order: Int64s, start: Int64s
) -> tuple[Int64s, Int64s]:
    """Of records of keys that go forward; fills in `start`."""
    time, session = _before(records, stored, order)
    meets = (session >= 0) & (time >= records.close[order]) & (time >= records.ts[order] - gap)
    of_stored = meets & (session < len(stored))
    begins = np.where(of_stored, np.append(stored.start, 0)[np.where(of_stored, session, -1)], records.ts[order])
    heads = np.where(~meets | of_stored, np.arange(len(order)), 0)
    start[order] = begins[np.maximum.accumulate(heads)]
    return order[meets], session[meets]


def _one_by_one(
    records: SessionRecords, stored: StoredSessions, gap: int, order: Int64s, start: Int64s, end: Int64s, late: Bools
) -> tuple[Int64s, Int64s]:
    """Of the other records; fills in `start`, `end` and `late`."""
    by: list[int] = []
    session: list[int] = []
    key = -1
    starts: list[int] = []
    ends: list[int] = []
    numbers: list[int] = []
    columns = (records.key, records.ts, records.close, records.vanishes, records.ends)
    rows = zip(order.tolist(), *(column[order].tolist() for column in columns), strict=True)
    # What a record meets depends on what the one before it merged; about two microseconds each.
    for row, of, ts, close, vanishes, ends_here in rows:
        if of != key:
            key = of
            first, last = (int(np.searchsorted(stored.key, key, side=side)) for side in ("left", "right"))
            starts, ends = stored.start[first:last].tolist(), stored.end[first:last].tolist()
            numbers = list(range(first, last))
        at = bisect_left(ends, max(ts - gap, close))
        until = at
        low, high = ts, ts
        while until < len(ends) and starts[until] <= ts + gap:
            low, high = min(low, starts[until]), max(high, ends[until])
            until += 1
        if high < close:
            late[row] = True
            continue
        by += [row] * (until - at)
        session += numbers[at:until]
        start[row], end[row] = low, high
        if ends_here:
            continue
        starts[at:until], ends[at:until], numbers[at:until] = [low], [high], [len(stored) + row]
        if vanishes:
            del starts[at], ends[at], numbers[at]
    return np.array(by, dtype=np.int64), np.array(session, dtype=np.int64)
