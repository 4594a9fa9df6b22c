"""The lookups of a join: each row's previous value on its own side, and the other side's current value.

Keeps law 1 (one record at a time, in order of position) and the visibility rule: a lookup sees every change
with an update of the table before the looking record's position. The two differ only where one input record
reaches both sides of the join (`Operator.shared_root`): then the table's store is updated before either
path is followed, as in Kafka Streams' depth-first processing.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s, order_of
from watersmeet._engine.keys.keys import group_keys
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, SideValues


class Sides:
    """The lookups of each row: pointers to values, -1 for none. Each side is looked up once, for all readers.

    Parameters
    ----------
    events : the rows.
    values : of each side.
    """

    def __init__(self, events: Events, values: list[SideValues]) -> None:
        self._events, self._values = events, values
        self._found: dict[int, Int64s] = {}

    def own_before(self) -> Int64s:
        """The value that each row's own side had before it: what the row says, if it does."""
        result = self._per_side(own=True)
        for side in (0, 1):
            carried = self._values[side].carried
            if carried is not None:
                mine = self._events.side == side
                result = result.copy()
                result[mine] = carried[self._events.own[mine]]
        return result

    def other_side(self) -> Int64s:
        """The value that the other side has at each row."""
        if self._events.context.operator.shared_root:
            return _other_side_visible(self._events, self._values)
        return self._per_side(own=False)

    def _per_side(self, *, own: bool) -> Int64s:
        """The value before each row on its own side, or on the other one."""
        is_left = self._events.side == 0
        if is_left.all():
            return self._before(0 if own else 1)
        left, right = (0, 1) if own else (1, 0)
        return np.where(is_left, self._before(left), self._before(right))

    def _before(self, side: int) -> Int64s:
        """The side's own value before each row."""
        if side not in self._found:
            last = self._ordered.last_before(self._events.side == side, inclusive=False)
            self._found[side] = values_at(self._events, last, self._values[side])
        return self._found[side]

    @cached_property
    def _ordered(self) -> Ordered:
        return Ordered(self._events.groups)


def values_at(events: Events, last: Int64s, values: SideValues) -> Int64s:
    """Pointers to the values of a side at rows of the batch; where there is none (-1), to what the state holds."""
    prior = values.prior[events.groups.group_of_row]
    return np.where(last >= 0, np.where(events.present[last], events.own[last], -1), prior)


def _other_side_visible(events: Events, values: list[SideValues]) -> Int64s:
    """As `Sides.other_side`, with every row standing twice: as an update where it becomes visible, and as a lookup."""
    seen = VisibleRows(events, events.position)
    return np.where(events.side == 0, seen.pointers(1, values[1]), seen.pointers(0, values[0]))


class VisibleRows:
    """The rows visible to lookups at each row's position; of two changes at one place, both.

    Parameters
    ----------
    events : the rows; each is an update where it becomes visible.
    at : columns of the position at which each row looks, most significant first.
    """

    def __init__(self, events: Events, at: list[Int64s]) -> None:
        rows = len(events)
        columns = [np.concatenate(pair) for pair in zip(*map(events.ranked, (events.visible(), at)), strict=True)]
        is_lookup = np.repeat(np.array([0, 1], dtype=np.int64), rows)
        # At one place updates stand before lookups.
        order = order_of([*columns, is_lookup])
        self._events = events
        self._row = order % rows if rows else order
        self._is_lookup = is_lookup[order] == 1
        self._ordered = Ordered(group_keys(events.hash[self._row], events.key.take(pa.array(self._row))))

    def pointers(self, side: int, values: SideValues) -> Int64s:
        """Pointer to the value of a side that each row sees, -1 for none."""
        updates = ~self._is_lookup & (self._events.side[self._row] == side)
        last = self._ordered.last_before(updates, inclusive=False)[self._is_lookup]
        found = np.empty(len(self._events), dtype=np.int64)
        found[self._row[self._is_lookup]] = np.where(last >= 0, self._row[last], -1)
        return values_at(self._events, found, values)
