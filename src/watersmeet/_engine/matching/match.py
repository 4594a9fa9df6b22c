"""Integer kernels that every join is built on: which row of the other side stands last before a row.

Rows are numbered in order of position; a result is a row number or -1. No value is looked at here, so the
kernels serve every type of key and value (law 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keys import KeyGroups


@dataclass(frozen=True)
class Ordered:
    """Rows of several sides in order of (key group, position).

    Parameters
    ----------
    groups : the rows grouped by key; rows must be numbered in order of position.
    """

    groups: KeyGroups

    @cached_property
    def group_start(self) -> Int64s:
        """Where the group of each place in `groups.order` begins."""
        return np.repeat(self.groups.starts[:-1], self.groups.sizes)

    def last_before(self, member: Bools, *, inclusive: bool) -> Int64s:
        """The last row of the same key, among the rows where `member` holds, that stands before each row.

        Parameters
        ----------
        member : one flag per row.
        inclusive : whether a row may find itself.

        Returns
        -------
        One row number per row, -1 where there is none.
        """
        order = self.groups.order
        places = np.arange(len(order), dtype=np.int64)
        latest = np.maximum.accumulate(np.where(member[order], places, -1)) if len(order) else places
        if not inclusive:
            latest = np.concatenate([np.array([-1], dtype=np.int64), latest[:-1]])
        found = latest >= self.group_start
        result = np.full(len(order), -1, dtype=np.int64)
        result[order[found]] = order[latest[found]]
        return result

    def last_of_each(self, member: Bools) -> Int64s:
        """The last row of each group among the members, -1 for groups without one."""
        order = self.groups.order
        places = np.where(member[order], np.arange(len(order), dtype=np.int64), -1)
        if not len(order):
            return places
        latest = np.maximum.reduceat(places, self.groups.starts[:-1])
        return np.where(latest >= 0, order[latest], -1)


def running_most(groups: KeyGroups, values: Int64s) -> Int64s:
    """The largest value of each row's group so far, the row's own included."""
    if not len(values):
        return values
    distinct, rank = np.unique(values[groups.order], return_inverse=True)
    # later groups have larger numbers, so that nothing of one reaches the next
    number = np.repeat(np.arange(groups.count, dtype=np.int64), groups.sizes) * len(distinct) + rank
    result = np.empty(len(values), dtype=np.int64)
    result[groups.order] = distinct[np.maximum.accumulate(number) % len(distinct)]
    return result
