"""The partition that judges rows of WTables with keys in several partitions (decision 30; row 20).

A row by key and window belongs to the partition of the change that begins it, also if others change it later. It joins
until the time of that partition has passed it. A later change begins it anew, for its own partition, without a previous
row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.time.times import Times


@dataclass(frozen=True)
class Clocks:
    """The time of each domain when an event comes.

    Parameters
    ----------
    times : of the operator.
    ahead : how much later than the operator's time that is, in ms: what the operators above hold back.
    """

    times: Times
    ahead: int
    _others: dict[int, Int64s] = field(default_factory=dict)

    @property
    def of_event(self) -> Int64s:
        """Domain of each event, by its place among the domains."""
        return self.times.of_row

    @property
    def own(self) -> Int64s:
        """The time of each event's own domain."""
        return self.times.at_row + self.ahead

    @property
    def least(self) -> Int64s:
        """For each event a time that no domain is behind when it comes."""
        if len(self.times.domains) < 2:
            return self.own
        return np.full(len(self.of_event), int(self.times.start.min()) + self.ahead)

    def at(self, domain: Int64s, event: Int64s) -> Int64s:
        """The time of these domains, by their places, when these events come."""
        now = self.own[event]
        foreign = np.flatnonzero(domain != self.of_event[event])
        # one a partition that such rows belong to
        for other in np.unique(domain[foreign]).tolist():
            mine = foreign[domain[foreign] == other]
            now[mine] = self._of(other)[event[mine]]
        return now

    def one_at(self, domain: int, event: int) -> int:
        """The same of one."""
        return int((self.own if domain == self.of_event[event] else self._of(domain))[event])

    def _of(self, domain: int) -> Int64s:
        """The time of a domain when each event comes that is not of its own."""
        if domain not in self._others:
            now, other = self.own.copy(), np.flatnonzero(self.of_event != domain)
            now[other] = self.times.elsewhere(other, np.full(len(other), domain)) + self.ahead
            self._others[domain] = now
        return self._others[domain]


@dataclass(frozen=True)
class Belonging:
    """Of versions of rows, to which domain each belongs, and which begin their row anew.

    Parameters
    ----------
    domain : of each, by its place among the domains.
    begins : whether it is the first that is seen of its row, since time has passed the version before it.
    """

    domain: Int64s
    begins: Bools

    @classmethod
    def of(
        cls,
        clocks: Clocks,
        number: Int64s,
        event: Int64s,
        domain: Int64s,
        present: Bools,
        *,
        passed: Int64s,
        live: int,
    ) -> Belonging:
        """Those of versions.

        Parameters
        ----------
        number, event : of each what row it is of, and the event that brings it; -1: it stood before.
        domain : of those that stood before the one that they belong to, of others that of their event.
        present : whether it has a value.
        passed, live : end of each one's window, and how long behind it a row joins.
        """
        whose, begins = domain.copy(), np.zeros(len(domain), dtype=np.bool_)
        order = np.lexsort((event, number))
        same = np.diff(number[order]) == 0
        foreign = order[1:][same & (np.diff(domain[order]) != 0)]
        if not len(foreign):
            return cls(whose, begins)
        rows = order[np.isin(number[order], number[foreign])]
        of, owner, stands = -1, -1, False
        columns = (rows, number[rows], event[rows], domain[rows], present[rows], passed[rows])
        # to whom a row belongs depends on all its versions before; of keys that lie in several partitions alone
        for row, each, at, mine, there, end in zip(*(column.tolist() for column in columns), strict=True):
            if each != of:
                of, stands = each, False
            elif stands and end < clocks.one_at(owner, at) - live:
                begins[row], stands = True, False
            owner = owner if stands else mine
            whose[row], stands = owner, there
        return cls(whose, begins)
