"""Sessions of keys with records in several partitions: record by record, by the time of each session's partition."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from watersmeet._engine.aggregates.windows.partitions import Partitions
from watersmeet._engine.aggregates.windows.sessions_known import SessionRecords, StoredSessions
from watersmeet._engine.arrays import Int64s


class _Session(NamedTuple):
    start: int
    end: int
    number: int
    domain: int


class SessionsOfSeveral:
    """The results of the records of such keys; it fills in `start`, `end`, `late` and `domain` of each.

    Attributes
    ----------
    by, session : see `Merged`.
    replaced : sessions that had been let go and replaced by another one with the same end.
    """

    def __init__(self, records: SessionRecords, stored: StoredSessions, gap: int, partitions: Partitions) -> None:
        self._records = records
        self._stored = stored
        self._gap = gap
        self._closes = {domain: column.tolist() for domain, column in partitions.closes.items()}
        self._here = partitions.domain
        self.start, self.end, self.late = records.ts.copy(), records.ts.copy(), np.zeros(len(records), dtype=np.bool_)
        self.domain = partitions.domain.copy()
        self.by: list[int] = []
        self.session: list[int] = []
        self.replaced: list[int] = []
        self._sessions: list[_Session] = []
        self._ends: list[int] = []

    def take_in(self, order: Int64s) -> None:
        """Records, key after key and in order of position within each."""
        key = -1
        # each record changes what the next one meets
        for row, of in zip(order.tolist(), self._records.key[order].tolist(), strict=True):
            if of != key:
                key = of
                self._begin(key)
            self._record(row)

    def _begin(self, key: int) -> None:
        stored = self._stored
        first, last = (int(np.searchsorted(stored.key, key, side=side)) for side in ("left", "right"))
        columns = (stored.start, stored.end, np.arange(len(stored)), stored.domain)
        rows = zip(*(column[first:last].tolist() for column in columns), strict=True)
        self._sessions = [_Session(*row) for row in rows]
        self._ends = [session.end for session in self._sessions]

    def _record(self, row: int) -> None:
        records = self._records
        ts, close = int(records.ts[row]), int(records.close[row])
        near = self._sessions[bisect_left(self._ends, ts - self._gap) :]
        met = [s for s in near if s.start <= ts + self._gap and s.end >= self._closes[s.domain][row]]
        low, high = min([ts, *(s.start for s in met)]), max([ts, *(s.end for s in met)])
        if high < close:
            self.late[row] = True
            return
        self.by += [row] * len(met)
        self.session += [s.number for s in met]
        # one that grows stays with its partition, and with it all that state has under its end
        domain = met[-1].domain if met else int(self._here[row])
        self.start[row], self.end[row], self.domain[row] = low, high, domain
        if records.ends[row]:
            return
        for session in met:
            self._remove(session)
        if not records.vanishes[row]:
            self._put(_Session(low, high, len(self._stored) + row, domain))

    def _put(self, session: _Session) -> None:
        at = bisect_left(self._ends, session.end)
        if at < len(self._ends) and self._ends[at] == session.end:
            self.replaced.append(self._sessions[at].number)
            self._remove(self._sessions[at])
        self._sessions.insert(at, session)
        self._ends.insert(at, session.end)

    def _remove(self, session: _Session) -> None:
        at = self._sessions.index(session)
        del self._sessions[at], self._ends[at]
