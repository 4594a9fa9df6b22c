"""Which rows of a batch fall into which entries of what suppress holds back (docs/semantics, section 22).

Rows fall into entries group after group: an entry takes rows until time has passed its due, and the next row begins
another one. An entry belongs to the partition of the row that began it, and ends by that one's time, whichever
partitions the rows come in that it takes (row 20).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from watersmeet._engine.aggregates.windows.partitions import time_of
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events
from watersmeet._engine.time.times import Times, moments, moments_at

OWN = -1
"""The domain that ends an entry of a group in one partition: its own."""


@dataclass(frozen=True)
class Judges:
    """The domains that end entries by their time.

    Parameters
    ----------
    moments : the moment (`times.moments`) of each event, by the domain that decides: `OWN`, or for groups in several
        partitions the place of each of their domains.
    of_row : the domain that ends the entry that each event would begin.
    of_known : the same of each group's entry in state.
    """

    moments: Mapping[int, Int64s]
    of_row: Int64s
    of_known: Int64s

    @classmethod
    def of(cls, events: Events, times: Times, group: Int64s, known: Int64s) -> Judges:
        """Those of groups; `known`: the domain of each one's entry in state, by its place, -1 where there is none."""
        mine, own = times.of_row, moments(events, times)
        first = np.full(len(known), -1, dtype=np.int64)
        first[group[::-1]] = mine[::-1]
        several = (known >= 0) & (known != first)
        several[group[mine != first[group]]] = True
        rows, by_domain = np.flatnonzero(several[group]), {OWN: own}
        # one a partition that such keys lie in
        for domain in np.union1d(mine[rows], known[several & (known >= 0)]).tolist():
            by_domain[domain] = np.array(own)
            by_domain[domain][rows] = moments_at(events, times, rows, time_of(times, rows, domain))
        return cls(by_domain, np.where(several[group], mine, OWN), np.where(several, known, OWN))


@dataclass(frozen=True)
class Entries:
    """Rows that fall into entries, group after group; within a group time does not go back.

    Parameters
    ----------
    group : of each row, ascending from 0.
    moments, judge : see `Judges`.
    due : when an entry is due that begins with the row.
    """

    group: Int64s
    moments: Mapping[int, Int64s]
    judge: Int64s
    due: Int64s

    @classmethod
    def of(cls, group: Int64s, judges: Judges, due: Int64s, order: Int64s) -> Entries:
        """Those of events, in this order."""
        by_judge = {judge: moment[order] for judge, moment in judges.moments.items()}
        return cls(group[order], by_judge, judges.of_row[order], due[order])

    def cut(self, known: Int64s, judge: Int64s) -> tuple[Int64s, Bools]:
        """(first row of each entry, whether it goes on with a known one).

        Parameters
        ----------
        known, judge : of groups, when known entries are due, and by which domain's time.
        """
        count = len(self.group)
        begin = np.searchsorted(self.group, np.arange(len(known)))
        ends = np.append(begin[1:], count)[: len(known)]
        start = self._behind(np.arange(len(known)), known, judge)
        following = np.maximum(self._behind(self.group, self.due, self.judge), np.arange(count) + 1)
        following = np.where(following < ends[self.group], following, count)
        begins = _reached(start[start < ends], following)
        first = begins.copy()
        first[begin[start > begin]] = True
        first_rows = np.flatnonzero(first)
        return first_rows, ~begins[first_rows]

    def _behind(self, group: Int64s, due: Int64s, judge: Int64s) -> Int64s:
        """For groups and times, the first row of the group that comes later than the time, else the group's end."""
        result = np.empty(len(group), dtype=np.int64)
        # one, or one a partition that keys of several lie in
        for one in np.unique(judge).tolist():
            mine = np.flatnonzero(judge == one)
            result[mine] = self._behind_alike(group[mine], due[mine], self.moments[one])
        return result

    def _behind_alike(self, group: Int64s, due: Int64s, moment: Int64s) -> Int64s:
        """The same by one time."""
        asking = np.repeat([False, True], [len(self.group), len(group)])
        merged_order = np.lexsort((asking, np.concatenate([moment, 2 * due]), np.concatenate([self.group, group])))
        asks = asking[merged_order]
        result = np.empty(len(group), dtype=np.int64)
        result[merged_order[asks] - len(self.group)] = np.cumsum(~asks)[asks]
        return result


def _reached(starts: Int64s, following: Int64s) -> Bools:
    """Which rows are reached from these by following pointers; the number of rows points nowhere.

    Each turn doubles how far it has come.
    """
    count = len(following)
    jump = np.append(following, count)
    reached = np.zeros(count + 1, dtype=np.bool_)
    reached[starts] = True
    while True:
        further = jump[np.flatnonzero(reached)]
        if (further == count).all():
            return reached[:count]
        reached[further] = True
        jump = jump[jump]
