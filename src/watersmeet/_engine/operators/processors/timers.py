"""The timers of a processor in one batch: those of a slice of keys are read, fire in order, and are written in bulk.

A timer is a held row without a value (`held_schema`): due at the last moment before its own, one of each key and
moment. Those that fire are not deleted: their time is below the floor then.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.operators.processors.places import Place, Places
from watersmeet._engine.operators.processors.states import Present
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times

_FURTHEST = 2**62


class Timers:
    """The timers of one key at a time.

    Each is (number, domain, whether it is stored) under its moment; those that a record of the batch lets go are in a
    heap by their places, too.

    Attributes
    ----------
    heap : those that a record of the batch lets go: place, domain, number and moment.
    at_once : those that fire when the present call ends: moment, number and domain.
    """

    def __init__(self, table: Table, times: Times, places: Places, now: Present) -> None:
        self._table, self._times, self._places, self._now = table, times, places, now
        self._stored: list[tuple[list[int], list[int]]] = []
        self._starts: list[int] = [0]
        self._dues: list[int] = []
        self._domains: list[int] = []
        self._number = self._group = 0
        self._key = b""
        self._own: dict[int, tuple[int, int, bool]] = {}
        self._gone: dict[int, int] = {}
        """Stored timers that were deleted, with their domains."""
        self.heap: list[tuple[Any, ...]] = []
        self.at_once: list[tuple[int, int, int]] = []
        self._out: list[tuple[int, int, int, bool]] = []

    # -- slices and keys -----------------------------------------------------------------------------------

    def load(self, hashes: Int64s, keys: pa.Array) -> None:
        """Read the timers of the keys of a slice that have not fired yet."""
        start = self._times.start
        low = np.full(len(hashes), start.min(initial=_FURTHEST), dtype=np.int64)
        found = self._table.range(hashes, keys, low, np.full(len(hashes), _FURTHEST))
        rows = found.take(["due", "domain"])
        due, domain = ints(rows, "due"), self._times.index(ints(rows, "domain"))
        waits = np.flatnonzero(due >= start[domain])
        self._starts = np.searchsorted(found.query[waits], np.arange(len(hashes) + 1)).tolist()
        self._dues, self._domains = due[waits].tolist(), domain[waits].tolist()

    def enter(self, group: int, key: bytes) -> None:
        """The next key, and its bytes where places need them."""
        if self._own or self._gone:
            self._leave()
        self._group, self._key = group, key
        begin, end = self._starts[group], self._starts[group + 1]
        for at in range(begin, end):
            self._add(self._dues[at] + 1, self._domains[at], stored=True)

    def _add(self, moment: int, domain: int, *, stored: bool) -> None:
        self._number += 1
        self._own[moment] = (self._number, domain, stored)
        place = self._places.due(domain, moment, self._key)
        if place is not None:
            heappush(self.heap, (*place, domain, self._number, moment))

    def _leave(self) -> None:
        """Note those that wait on, to be written."""
        group, out = self._group, self._out
        out += [(group, at, domain, False) for at, (_, domain, stored) in self._own.items() if not stored]
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
                "arrival": pa.array(np.zeros(len(group), dtype=np.int64)),
                "domain": pa.array(self._times.number(domain)),
                "ts": pa.array(moment),
            }
            self._table.put({name: columns[name] for name in self._table.schema.names}, gone)
            self._out = []

    # -- a key's timers ------------------------------------------------------------------------------------

    def set(self, moment: int) -> None:
        """A timer of the present key; one that is there already stays as it is."""
        now = self._now
        if moment <= now.time:
            if all(moment != each for each, _, _ in self.at_once):
                self._number += 1
                heappush(self.at_once, (moment, self._number, now.domain))
            return
        if moment in self._own:
            return
        gone = self._gone.get(moment)
        stored = gone == now.domain
        if stored:
            del self._gone[moment]
        self._add(moment, now.domain, stored=stored)
        if now.journal is not None:
            now.journal.append(lambda: self._take_back(moment, None, gone))

    def delete(self, moment: int) -> None:
        """The present key's timer of this moment is no more."""
        self.at_once = [each for each in self.at_once if each[0] != moment]
        given = self._own.pop(moment, None)
        if given is None:
            return
        gone = self._gone.get(moment)
        if given[2]:
            self._gone[moment] = given[1]
        if self._now.journal is not None:
            self._now.journal.append(lambda: self._take_back(moment, given, gone))

    def forget_at_once(self) -> None:
        """The record under way has failed: what it has set for now does not fire."""
        self.at_once.clear()

    def _take_back(self, moment: int, given: tuple[int, int, bool] | None, gone: int | None) -> None:
        """A moment's timer as it was."""
        self._own.pop(moment, None)
        self._gone.pop(moment, None)
        if given is not None:
            self._own[moment] = given
        if gone is not None:
            self._gone[moment] = gone

    def due(self, limit: Place | None) -> Iterator[tuple[int, int, Place | None]]:
        """Those that fire now, one after the other: they may set and delete others.

        Parameters
        ----------
        limit : where the key's next record stands; None: there is none in the batch.

        Yields
        ------
        Moment, domain, and where the timer stands; None: at once, where its key is.
        """
        while True:
            if self.at_once:
                moment, _, domain = heappop(self.at_once)
                yield moment, domain, None
            elif self.heap and (limit is None or self.heap[0] < limit):
                *place, domain, number, moment = heappop(self.heap)
                if self._own.get(moment, _NONE)[0] == number:
                    del self._own[moment]
                    yield moment, domain, tuple(place)
            else:
                return


_NONE = (0, 0, False)
