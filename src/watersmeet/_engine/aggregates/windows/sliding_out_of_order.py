"""Sliding windows of keys with records out of order, at one time, or before the first difference is over.

The windows that such a record meets depend on all before it of its key, so records are processed one by one; a window
costs about a microsecond, and usually gives a result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from watersmeet._engine.aggregates.windows.partitions import Partitions
from watersmeet._engine.aggregates.windows.sliding_changes import WHOLE, Slid, SlidingOfSeveral, StoredWindows
from watersmeet._engine.arrays import Int64s


@dataclass(frozen=True)
class Whose:
    """Which partitions windows belong to, where keys lie in several.

    Parameters
    ----------
    partitions : what such keys' records see.
    domain : of each window that stands, its time domain.
    """

    partitions: Partitions
    domain: Int64s


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
    before: StoredWindows,
    difference: int,
    known: int,
    vanishing: AbstractSet[tuple[int, int]],
    owner: Whose | None = None,
) -> Slid:
    """The changes that records bring, one after the other.

    Parameters
    ----------
    rows : numbers of the records, by key and then in order of position.
    keys, ts, close : of each of them: key group, timestamp, and the least end of a window that is still open.
    before : what stands, and may be changed.
    known : states there are already.
    vanishing : (record, start) of the changes with a null aggregate, so that there is no window; see `WHOLE`, too.
    owner : of keys that lie in several partitions; None: there are none.
    """
    making = _SlidingOneByOne(difference, known, vanishing, owner)
    domain = np.zeros(len(before.key), dtype=np.int64) if owner is None else owner.domain
    edges = np.flatnonzero(np.diff(keys, prepend=-1, append=-2))
    for begin, end in pairwise(edges):  # keys
        key = int(keys[begin])
        first, last = (int(np.searchsorted(before.key, key, side=side)) for side in ("left", "right"))
        stored = zip(*(c[first:last].tolist() for c in (before.start, before.ts, before.state, domain)), strict=True)
        making.begin(key, {start: _Window(stamp, state, False, of) for start, stamp, state, of in stored})
        # each record changes what the next one meets
        for row, at, closed in zip(*(c[begin:end].tolist() for c in (rows, ts, close)), strict=True):
            making.take_in(row, at, closed)
    making.end()
    return making.slid()


class _SlidingOneByOne:
    """The results of the records, one after the other."""

    def __init__(
        self, difference: int, known: int, vanishing: AbstractSet[tuple[int, int]], owner: Whose | None
    ) -> None:
        self._difference = difference
        self._known = known
        self._vanishing = vanishing
        self._void = frozenset(row for row, start in vanishing if start == WHOLE)
        self._additions: list[tuple[int, int, int, int]] = []
        self._changes: list[tuple[int, int, int, int, int]] = []
        self._standing: list[tuple[int, int, int, int]] = []
        self._late: list[int] = []
        self._partitions = None if owner is None else owner.partitions
        self._several = False
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
        self._several = self._partitions is not None and bool(self._partitions.several[key])

    def end(self) -> None:
        """Keep what stands of a key."""
        self._standing += [(self._key, s, self._windows[s].ts, self._windows[s].state) for s in self._starts]
        if self._several:
            self._whose |= {(self._key, s): self._windows[s].domain for s in self._starts}
        self._starts = []

    def take_in(self, row: int, ts: int, close: int) -> None:
        """The changes that a record brings."""
        self._row, self._ts, self._close = row, ts, close
        if ts + self._difference < close:
            self._late.append(row)
            return
        first = bisect_left(self._starts, max(0, ts - 2 * self._difference))
        near = [(s, self._windows[s]) for s in self._starts[first : bisect_right(self._starts, ts + 1)]]
        if self._several:
            near = [(start, window) for start, window in near if not self._is_gone(start, window)]
        (self._early if ts < self._difference else self._usual)(near)

    def _usual(self, near: Sequence[tuple[int, _Window]]) -> None:
        """Updates from the latest start down, then the windows that begin and end at the record and the one before."""
        ts, length = self._ts, self._difference
        seen: set[int] = set()
        previous: int | None = None
        left: _Window | None = None
        right: _Window | None = None
        updates = []
        for start, window in reversed(near):
            seen.add(start)
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
        if previous is not None and previous + 1 not in seen and previous + 1 + length >= ts:
            self._add(previous + 1, None)
        if ts - length not in seen:
            inside = previous is not None and ts - length <= previous
            self._add(ts - length, left if inside else None, stamp=ts)
        self._begin_right(right, seen)

    def _early(self, near: Sequence[tuple[int, _Window]]) -> None:
        """Records earlier than the difference share the window that begins at 0."""
        seen = {start for start, _ in near}
        right = shared = self._windows.get(0) if 0 in seen else None
        for start, window in near:
            if 0 < start <= self._ts:
                right = window
                self._add(start, window, goes_on=True)
        self._begin_right(right, seen)
        if shared is not None and shared.ts < self._ts and shared.ts + 1 not in seen:
            self._add(shared.ts + 1, None)
        self._add(0, shared, goes_on=True)

    def _begin_right(self, source: _Window | None, seen: AbstractSet[int]) -> None:
        """The window that begins behind the record, where later records are in it: a copy of one that holds them."""
        if self._ts + 1 not in seen and source is not None and source.ts > self._ts:
            self._put(self._ts + 1, _Window(source.ts, source.state, own=False))

    def _add(self, start: int, to: _Window | None, *, goes_on: bool = False, stamp: int | None = None) -> None:
        """Add the record to what a window holds, unless the window has closed."""
        if start + self._difference < self._close:
            if self._late[-1:] != [self._row]:
                self._late.append(self._row)
            return
        goes_on = goes_on and to is not None and to.own
        parent = -1 if to is None else to.state
        above = parent - self._known
        number = len(self._additions)
        head = self._additions[above][2] if goes_on else number
        level = 0 if above < 0 else self._additions[above][3] + (not goes_on)
        self._additions.append((self._row, parent, head, level))
        ts = self._ts if to is None or stamp is not None else max(to.ts, self._ts)
        self._put(start, _Window(ts, self._known + number, own=True))

    def _is_gone(self, start: int, window: _Window) -> bool:
        """Whether another partition than the record's, to which the window belongs, has closed it."""
        assert self._partitions is not None
        if window.domain == self._partitions.domain[self._row]:
            return False
        return bool(start + self._difference < self._partitions.closes[window.domain][self._row])

    def _put(self, start: int, window: _Window) -> None:
        if self._row in self._void:
            return
        before = known = self._windows.get(start)
        if self._several:
            before, window = self._among_several(start, window, known)
        self._changes.append((self._row, start, window.ts, window.state, -1 if before is None else before.state))
        if (self._row, start) in self._vanishing:
            if before is not None:
                del self._windows[start]
                self._starts.remove(start)
            return
        if known is None:
            insort(self._starts, start)
        elif before is None:
            self._replaced.append((self._key, start, known.ts, known.state, known.domain, known.by))
        self._windows[start] = window

    def _among_several(self, start: int, window: _Window, known: _Window | None) -> tuple[_Window | None, _Window]:
        """(what the window had before, if it was not gone; the window with the partition that it belongs to)."""
        assert self._partitions is not None
        if known is None or self._is_gone(start, known):
            return None, window._replace(domain=int(self._partitions.domain[self._row]), by=self._row)
        return known, window._replace(domain=known.domain, by=self._row)

    def slid(self) -> Slid:
        """All of it."""
        standing = StoredWindows(*_columns(self._standing, 4))
        late = np.array(self._late, dtype=np.int64)
        record, parent, head, level = _columns(self._additions, 4)
        by, start, ts, state, before = _columns(self._changes, 5)
        several = SlidingOfSeveral(self._whose, self._replaced)
        return Slid(record, parent, head, level, by, start, ts, state, before, late, standing, several)


def _columns(rows: Sequence[tuple[int, ...]], count: int) -> list[Int64s]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, count).T.copy())
