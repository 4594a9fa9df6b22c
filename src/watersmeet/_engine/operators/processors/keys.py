"""The keys of a processors' batch, and the order in which what happens to each is seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import KeyGroups, group_keys
from watersmeet._engine.matching.versions import moments_of
from watersmeet._engine.operator import Events
from watersmeet._engine.operators.processors.timers import Timers
from watersmeet._engine.rows.columns import joined

SLICE_ROWS = 32_768
"""Records, and keys whose timers are due, of a slice, about: those of one key are in one."""


@dataclass(frozen=True)
class Keys:
    """The keys of a batch: those of its records, and those with timers that are due.

    Parameters
    ----------
    hashes, keys : of each event of such a key, in the order in which they are seen, then of each due timer.
    groups : these by key.
    events : numbers of the events; None: all of them, as they stand.
    count : how many events there are.
    """

    hashes: Int64s
    keys: pa.Array
    groups: KeyGroups
    events: Int64s | None
    count: int

    @classmethod
    def of(cls, events: Events, timers: Iterable[Timers], members: int) -> Keys:
        """Those of a batch of so many processors."""
        hashes, keys, chosen = events.hash, events.key, _sequence(events, members)
        if chosen is not None:
            hashes, keys = hashes[chosen], keys.take(pa.array(chosen))
        for each in timers:
            due = each.keys_due()
            hashes = np.concatenate([hashes, due.column("hash").to_numpy()])
            keys = joined([keys, due.column("key")], events.context.key)
        found = cls(hashes, keys, group_keys(hashes, keys), chosen, len(events))
        return found if chosen is None else found._called(events, chosen, members)

    def _called(self, events: Events, chosen: Int64s, members: int) -> Keys:
        """Without keys of which tables alone have changes: for these nobody is called."""
        calls = np.append(events.side[chosen] < members, np.ones(len(self.hashes) - self.count, dtype=np.bool_))
        wanted = np.zeros(self.groups.count, dtype=np.bool_)
        wanted[self.groups.group_of_row[calls]] = True
        rows = np.flatnonzero(wanted[self.groups.group_of_row])
        if len(rows) == len(self.hashes):
            return self
        hashes, keys = self.hashes[rows], self.keys.take(pa.array(rows))
        left = chosen[rows[rows < self.count]]
        return Keys(hashes, keys, group_keys(hashes, keys), left, len(left))

    def slices(self) -> Iterator[tuple[int, int]]:
        """The groups, in ranges of about `SLICE_ROWS` rows."""
        ends, begin = self.groups.starts[1:], 0
        while begin < len(ends):
            last = int(ends.searchsorted(self.groups.starts[begin] + SLICE_ROWS, side="left"))
            yield begin, min(last + 1, len(ends))
            begin = last + 1

    def events_of(self, begin: int, end: int) -> tuple[Int64s, Int64s]:
        """The events of some groups, in order, and where those of each group begin and end among them."""
        starts = self.groups.starts
        rows = self.groups.order[starts[begin] : starts[end]]
        # what no event stands behind is a timer that is due
        is_event = rows < self.count
        edges = np.cumsum(np.append(0, is_event))[starts[begin : end + 1] - starts[begin]]
        rows = rows[is_event]
        return (rows if self.events is None else self.events[rows]), edges


def _sequence(events: Events, members: int) -> Int64s | None:
    """The events in the order in which they are seen; None: as they stand, for no table is read by the present key.

    Where one input record reaches a processor and its table, the table's change is seen from where its store has it.
    """
    if len(events.tables) == members:
        return None
    if not events.context.operator.shared_root:
        return np.arange(len(events), dtype=np.int64)
    seen, looks = moments_of(events)
    return np.argsort(np.where(events.side < members, looks, seen), kind="stable")
