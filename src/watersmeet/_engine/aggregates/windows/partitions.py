"""Windows of keys with records in several partitions, each with a time of its own (decision 9; row 20).

A window belongs to the partition of the record that began it, and is closed by the time of that partition, also if
others add to it. Until then records of all partitions see it. Later a record that is in time in its own partition does
not: it begins the window anew, for its own partition. So a window has at most one row in state, and what is replaced
has been let go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events
from watersmeet._engine.time.times import Times


@dataclass(frozen=True)
class Partitions:
    """The windows that records of such keys see.

    Parameters
    ----------
    several : of each key group, whether it has records or windows of several partitions.
    domain : of each event, number of its time domain.
    closes : of each domain that such keys have, the least time at which a window of it is still open, at each event;
        of other keys' events it says nothing.
    """

    several: Bools
    domain: Int64s
    closes: Mapping[int, Int64s]

    @classmethod
    def of(cls, events: Events, times: Times, key: Int64s, domain: Int64s, wait: int) -> Partitions | None:
        """None where each key lies in one partition.

        Parameters
        ----------
        key, domain : of each window in state that the batch's records may see, its key group and time domain.
        wait : how far time is behind what is still open.
        """
        if len(times.domains) < 2:
            return None
        group, mine = events.groups.group_of_row, times.of_row
        first, there = mine[events.groups.first], times.index(domain)
        several = np.zeros(len(first), dtype=np.bool_)
        several[group[mine != first[group]]] = True
        several[key[there != first[key]]] = True
        if not several.any():
            return None
        rows = np.flatnonzero(several[group])
        closes = {}
        for other in np.union1d(mine[rows], there[several[key]]):
            now = np.zeros(len(group), dtype=np.int64)
            now[rows] = time_of(times, rows, int(other))
            closes[int(times.domains[other])] = now - wait
        return cls(several, times.number(mine), closes)

    def stretch(self, begin: int, end: int) -> Partitions:
        """The same of some events in succession, numbered from 0."""
        closes = {domain: column[begin:end] for domain, column in self.closes.items()}
        return replace(self, domain=self.domain[begin:end], closes=closes)


def time_of(times: Times, rows: Int64s, domain: int) -> Int64s:
    """The time of a domain, by its place, when these events are processed."""
    now, other = times.at_row[rows], times.of_row[rows] != domain
    if other.any():
        asking = rows[other]
        now[other] = times.elsewhere(asking, np.full(len(asking), domain, dtype=np.int64))
    return now
