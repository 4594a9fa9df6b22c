"""The timers of a processor in one batch: those of a slice of keys are read, fire in order, and are written in bulk.

A timer is a held row without a value (`held_schema`): due at the last moment before its own, one of each key and
moment. Those that fire are not deleted: their time is below the floor then. A dial has the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.operators.processors.dials import Dial
from watersmeet._engine.operators.processors.states import Present
from watersmeet._engine.operators.processors.timer_positions import Place
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.state.table import Table

_FURTHEST = 2**62
_Timer: TypeAlias = tuple[int, int, bool, bool]


class Due:
    """The timers of the present key, of all clocks, that fire in the batch.

    Attributes
    ----------
    heap : those that the batch lets go: place, domain, processor, number, moment, timers.
    at_once : those that fire when the present call ends: moment, number, domain, timers.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[Any, ...]] = []
        self.at_once: list[tuple[int, int, int, Timers]] = []
        self._number = 0

    def number(self) -> int:
        """Another number: of two things of one place that was first which has the smaller one."""
        self._number += 1
        return self._number

    def fire(self, limit: Place | None) -> Iterator[tuple[Timers, int, int, Place | None]]:
        """Those that fire now, one after the other: they may set and delete others.

        Parameters
        ----------
        limit : where the key's next record stands; None: there is none in the batch.

        Yields
        ------
        Its key, time, domain, and the timer's place; None: at once, where its key is.
        """
        while True:
            if self.at_once:
                moment, _, domain, timers = heappop(self.at_once)
                yield timers, moment, domain, None
            elif self.heap and (limit is None or self.heap[0] < limit):
                *place, domain, _, number, moment, timers = heappop(self.heap)
                if timers.take(moment, number):
                    yield timers, moment, domain, tuple(place)
            else:
                return


class Timers:
    """The timers of one clock, of one key at a time.

    Each is (number, domain, whether a row of it is stored, whether one is to be put) under its moment; those that are
    due in the batch are in `Due`, too.

    Parameters
    ----------
    table : where they are kept.
    dial : their clock.
    due : what fires.
    member : the number of the processor that has them.
    """

    def __init__(self, table: Table, dial: Dial, now: Present, due: Due, member: int) -> None:
        self._table, self.dial, self._now, self._due, self.member = table, dial, now, due, member
        self._starts: list[int] = [0]
        self._dues: list[int] = []
        self._domains: list[int] = []
        self._group = 0
        self._key = b""
        self._encoded: list[bytes] | None = None
        self._own: dict[int, _Timer] = {}
        self._gone: dict[int, int] = {}
        """Stored timers that were deleted, with their domains."""
        self._out: list[tuple[int, int, int, bool]] = []

    # -- slices and keys -----------------------------------------------------------------------------------

    def keys_due(self) -> pa.Table:
        """Hash and key of those that may be due in the batch."""
        hits = [hit for hit in self._table.due(*self.dial.span) if len(hit.rows)]
        return self._table.gather(hits, ["hash", "key"])

    def load(self, hashes: Int64s, keys: pa.Array, encoded: list[bytes] | None = None) -> None:
        """Read the timers of the keys of a slice that have not fired yet; `encoded`: where places need their bytes."""
        self._encoded = encoded
        low = np.full(len(hashes), self.dial.span[0], dtype=np.int64)
        found = self._table.range(hashes, keys, low, np.full(len(hashes), _FURTHEST))
        rows = found.take(["due", "domain", "arrival"])
        domain, waiting = self.dial.waiting(rows)
        waits = np.flatnonzero(waiting)
        self._starts = np.searchsorted(found.query[waits], np.arange(len(hashes) + 1)).tolist()
        self._dues, self._domains = ints(rows, "due")[waits].tolist(), domain[waits].tolist()

    def enter(self, group: int) -> None:
        """The next key."""
        if self._own or self._gone:
            self._leave()
        self._group, self._key = group, b"" if self._encoded is None else self._encoded[group]
        begin, end = self._starts[group], self._starts[group + 1]
        for at in range(begin, end):
            self._add(self._dues[at] + 1, self._domains[at], stored=True, put=False)

    def _add(self, moment: int, domain: int, *, stored: bool, put: bool) -> None:
        number = self._due.number()
        self._own[moment] = (number, domain, stored, put)
        place = self.dial.place(domain, moment, self._key)
        if place is not None:
            heappush(self._due.heap, (*place, domain, self.member, number, moment, self))

    def _leave(self) -> None:
        """Note those that wait on, to be written."""
        group, out = self._group, self._out
        out += [(group, at, domain, False) for at, (_, domain, _, put) in self._own.items() if put]
        out += [(group, at, domain, True) for at, domain in self._gone.items()]
        self._own, self._gone = {}, {}

    def write(self, hashes: Int64s, keys: pa.Array) -> None:
        """Put what has changed in the slice."""
        if self._own or self._gone:
            self._leave()
        if self._out:
            group, moment, domain, gone = (np.array(column) for column in zip(*self._out, strict=True))
            columns = {
                "hash": pa.array(hashes[group]),
                "key": keys.take(pa.array(group)),
                "due": pa.array(moment - 1),
                "ts": pa.array(moment),
            } | self.dial.written(domain)
            self._table.put({name: columns[name] for name in self._table.schema.names}, gone)
            self._out = []

    def forget(self, floors: Mapping[int, int]) -> None:
        """Those that lie below the floor of their domain have fired."""
        self._table.expire(floors)

    # -- a key's timers ------------------------------------------------------------------------------------

    def set(self, moment: int) -> None:
        """A timer of the present key; one that is there already stays as it is."""
        now, at_once = self._now, self._due.at_once
        if self.dial.has_passed(moment):
            if not any(each[0] == moment and each[3] is self for each in at_once):
                heappush(at_once, (moment, self._due.number(), now.domain, self))
            return
        if moment in self._own:
            return
        gone = self._gone.get(moment)
        stored = gone is not None and self.dial.same(gone, now.domain)
        if stored:
            del self._gone[moment]
        self._add(moment, now.domain, stored=stored, put=gone != now.domain)
        if now.journal is not None:
            now.journal.append(lambda: self._take_back(moment, None, gone))

    def delete(self, moment: int) -> None:
        """The present key's timer of this moment is no more."""
        at_once = self._due.at_once
        at_once[:] = [each for each in at_once if each[0] != moment or each[3] is not self]
        given = self._own.pop(moment, None)
        if given is None:
            return
        gone = self._gone.get(moment)
        if given[2]:
            self._gone[moment] = given[1]
        if self._now.journal is not None:
            self._now.journal.append(lambda: self._take_back(moment, given, gone))

    def _take_back(self, moment: int, given: _Timer | None, gone: int | None) -> None:
        """A moment's timer as it was."""
        self._own.pop(moment, None)
        self._gone.pop(moment, None)
        if given is not None:
            self._own[moment] = given
        if gone is not None:
            self._gone[moment] = gone

    def take(self, moment: int, number: int) -> bool:
        """Whether it has this number still; then it is no more."""
        mine = self._own.get(moment, _NONE)[0] == number
        if mine:
            del self._own[moment]
        return mine


_NONE = (0, 0, False, False)
