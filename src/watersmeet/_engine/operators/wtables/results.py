"""Results of a join with windows as numbers of rows, and what of them stands: the old values of later ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.windows.windowed import numbered
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events
from watersmeet._engine.operators.wtables.rows import Further, SideRows, Span
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.table import Table


@dataclass(frozen=True)
class WindowResults:
    """Results as numbers.

    Parameters
    ----------
    event : the event that causes each.
    start, end : its window; 0 where results have none.
    left, right : the row of each side that it shows, -1 for none.
    joined : whether it is a joined value; else a tombstone.
    ts : its timestamp.
    """

    event: Int64s
    start: Int64s
    end: Int64s
    left: Int64s
    right: Int64s
    joined: Bools
    ts: Int64s

    def where(self, chosen: Bools | Int64s) -> WindowResults:
        """Some of them."""
        return WindowResults(*(getattr(self, each.name)[chosen] for each in fields(self)))

    @staticmethod
    def together(parts: Sequence[WindowResults]) -> WindowResults:
        """All of several parts."""
        return WindowResults(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(WindowResults))
        )

    def ordered(self) -> WindowResults:
        """In order of position, and of one event in order of the windows' starts, then ends."""
        return self.where(np.lexsort((self.end, self.start, self.event)))


class LastResults:
    """The last result of each key and window: what stood before a batch, and what each of its results replaces."""

    def __init__(self, events: Events, table: Table, span: Span, left: SideRows, right: SideRows) -> None:
        """`span`: the windows that may get results, of each key group.

        A result belongs where its left row does, or, if it shows none, its right one; and stands as long.
        """
        self._events, self._table, self._sides = events, table, (left, right)
        asked = np.flatnonzero(span.low <= span.high)
        first = events.groups.first[asked]
        keys = events.key.take(pa.array(first))
        self._found = table.range(events.hash[first], keys, span.low[asked], span.high[asked])
        self._group = asked[self._found.query]
        numbers = self._found.take(["start", "end", "domain"])
        self._start, self._end = ints(numbers, "start"), ints(numbers, "end")
        self._domain = left.clocks.times.index(ints(numbers, "domain"))

    def replaced(self, results: WindowResults) -> dict[str, pa.Array | Picked]:
        """The old results that these replace, which come with all of their keys, and are kept from now on."""
        known, count = len(self._group), len(results.event)
        group = np.concatenate([self._group, self._events.groups.group_of_row[results.event]])
        start, end = (np.concatenate(both) for both in ((self._start, results.start), (self._end, results.end)))
        number = numbered(start, end, group)
        order = np.lexsort((np.arange(known + count), number))
        follows = np.diff(number[order]) == 0
        before = np.full(known + count, -1, dtype=np.int64)
        before[order[1:][follows]] = order[:-1][follows]
        replaced = before[known:]
        joined = np.concatenate([np.ones(known, dtype=np.bool_), results.joined])
        of_results = self._domain_of(results)
        called = np.append(joined, False)[replaced]
        called &= self._was_sent(np.concatenate([self._domain, of_results, [0]])[replaced], results)
        out: dict[str, pa.Array | Picked] = {"old_joined": pa.array(called)}
        for rows, name, shown in zip(self._sides, ("left", "right"), (results.left, results.right), strict=True):
            pointers = np.concatenate([len(rows) + np.arange(known), shown])
            wanted = np.where(called, np.append(pointers, -1)[replaced], -1)
            out[f"old_{name}"] = rows.picked(wanted, Further(self._found, name))
        last = np.ones(known + count, dtype=np.bool_)
        last[order[:-1][follows]] = False
        self._keep(results.where(last[known:]), of_results[last[known:]])
        return out

    def _domain_of(self, results: WindowResults) -> Int64s:
        """The domain that each result belongs to, by its place."""
        left, right = self._sides
        mine, other = np.append(left.domain, 0)[results.left], np.append(right.domain, 0)[results.right]
        own = left.clocks.of_event[results.event]
        return np.where(results.left >= 0, mine, np.where(results.right >= 0, other, own))

    def _was_sent(self, domain: Int64s, results: WindowResults) -> Bools:
        """Whether what these results replace stands when they come, if it belongs to these domains."""
        left = self._sides[0]
        assert left.live is not None
        return np.asarray(results.end >= left.clocks.at(domain, results.event) - left.live)

    def _keep(self, results: WindowResults, domain: Int64s) -> None:
        event = results.event
        columns: dict[str, pa.Array | Picked] = {
            "hash": pa.array(self._events.hash[event]),
            "key": self._events.key.take(pa.array(event)),
            "start": pa.array(results.start),
            "end": pa.array(results.end),
            "domain": pa.array(self._sides[0].clocks.times.number(domain)),
        }
        for rows, name, shown in zip(self._sides, ("left", "right"), (results.left, results.right), strict=True):
            columns[name] = rows.picked(shown)
        self._table.put(columns, ~results.joined)
