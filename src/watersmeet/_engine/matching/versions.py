"""Versions of a table's rows: what a record sees of the past (KIP-889, KIP-914; docs/semantics, section 3, versioned).

A put is a version of its key, valid from its own timestamp to that of the next version; one that is older than the
history is rejected. The table's time is how far its changes reach, in each time domain (law 3), and so known to every
shard. A lookup sees the puts that came before it, those of the batch and those in state alike (law 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.matching.last_below import last_below
from watersmeet._engine.operator import Dropped, Events
from watersmeet._engine.rows.columns import ints, joined, valid
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.versioned_table import VersionedTableSpec

(EXPIRED,) = VersionedTableSpec.drop_reasons
_LATEST = 2**62
"""Later than any version."""
_NONE = -(2**62)
"""Timestamp of no version."""


@dataclass(frozen=True)
class Valid:
    """The version that each of some questions finds.

    Parameters
    ----------
    values : of the batch's rows, then of those found in state.
    pointers : into them; -1 for none, and where the version deletes.
    ts : of the version; `_NONE` where there is none.
    """

    values: pa.Array | pa.ChunkedArray
    pointers: Int64s
    ts: Int64s

    def picked(self, rows: Int64s | slice = slice(None)) -> Picked:
        """The values of some questions; null for none."""
        return Picked(self.values, self.pointers[rows])


class Versions:
    """The versions of one side's keys: in state, and put by the batch.

    Parameters
    ----------
    events, side : the rows of the batch, and which of them are puts.
    table : what state holds, declared by `versioned_table.versions`.
    times : of the operator; it gets the time bounds of the side.
    history_ms : the history retention.

    Attributes
    ----------
    puts : the events that are versions.
    """

    def __init__(self, events: Events, side: int, table: Table, times: Times, history_ms: int) -> None:
        self._events, self._side, self._table = events, side, table
        self._times, self._history = times, history_ms
        rows = np.flatnonzero(events.side == side)
        fits = events.ts[rows] >= self._floor(rows, times.of_row[rows])
        self._expired, self.puts = rows[~fits], rows[fits]
        self._came, self._looks = moments_of(events)
        puts = self.puts
        order = np.lexsort((self._came[puts], events.ts[puts], events.groups.group_of_row[puts]))
        self._row = puts[order]
        self._group, self._ts = events.groups.group_of_row[self._row], events.ts[self._row]

    def as_of(self, rows: Int64s, at: Int64s) -> Valid:
        """The value that was valid at these times, each as one of the events sees it.

        Out of reach of the history only the latest version can answer.
        """
        found, domain = self._last(rows, at, self._looks[rows])
        lost = np.flatnonzero((found.ts > _NONE) & (at < self._floor(rows, domain)))
        if len(lost):
            latest, _ = self._last(rows[lost], np.full(len(lost), _LATEST), self._looks[rows[lost]])
            lost = lost[latest.ts != found.ts[lost]]
        pointers = np.array(found.pointers)
        pointers[lost] = -1
        return Valid(found.values, pointers, found.ts)

    def before(self) -> Valid:
        """The latest version of the key, as it was before each put."""
        found, _ = self._last(self.puts, np.full(len(self.puts), _LATEST), self._came[self.puts])
        return found

    def dropped(self) -> Dropped:
        """The rows that are older than the history."""
        return Dropped(EXPIRED, self._events.tables[self._side], self._events.own[self._expired])

    def write(self) -> None:
        """Write the versions, of several with one timestamp the last one; forget what no lookup can find any more."""
        times, events = self._times, self._events
        if len(self._row):
            again = (self._group[1:] == self._group[:-1]) & (self._ts[1:] == self._ts[:-1])
            rows = self._row[np.append(~again, True)]
            batch = events.tables[self._side]
            self._table.put(
                {
                    "hash": pa.array(events.hash[rows]),
                    "key": events.key.take(pa.array(rows)),
                    "value": Picked(batch.column("value"), events.own[rows]),
                    "ts": pa.array(events.ts[rows]),
                    "domain": pa.array(times.number(times.of_row[rows])),
                    "deleted": pa.array(~events.present[rows]),
                }
            )
        self._table.expire(times.by_domain(times.side_time_at_end(self._side) - self._history))

    def _floor(self, rows: Int64s, domain: Int64s) -> Int64s:
        """Where the history begins at these events, in these domains."""
        return self._times.side_time_before(self._side, rows, domain) - self._history

    def _last(self, rows: Int64s, at: Int64s, moment: Int64s) -> tuple[Valid, Int64s]:
        """The last version up to `at` of each event's key that came before a moment; and its domain, by place."""
        events, batch = self._events, self._events.tables[self._side]
        own = self._last_put(events.groups.group_of_row[rows], at, moment)
        stored = self._table.as_of(events.hash[rows], events.key.take(pa.array(rows)), at)
        known = np.append(ints(stored.rows, "ts"), _NONE)[stored.index]
        mine = np.append(self._ts, _NONE)[own]
        newer = (own >= 0) & (mine >= known)
        put = self._row[own[newer]]
        pointers = np.where(stored.index >= 0, stored.index + len(batch), -1)
        pointers[newer] = events.own[put]
        domain = np.append(self._times.index(ints(stored.rows, "domain")), 0)[stored.index]
        domain[newer] = self._times.of_row[put]
        values = joined([batch.column("value"), stored.rows.column("value")], events.context.values[self._side])
        present = np.append(valid(values), False)
        ts = np.maximum(mine, known)
        return Valid(values, np.where(present[pointers], pointers, -1), ts), domain

    def _last_put(self, groups: Int64s, at: Int64s, moment: Int64s) -> Int64s:
        """Place among the batch's versions, in order of time, of the one that each question finds; -1 for none."""
        if not len(self._row):
            return np.full(len(groups), -1, dtype=np.int64)
        both = np.concatenate([self._group, groups]), np.concatenate([self._ts, at])
        asks = np.arange(len(both[0])) >= len(self._row)
        order = np.lexsort((asks, both[1], both[0]))
        puts_so_far = np.cumsum(~asks[order])
        end = np.empty(len(groups), dtype=np.int64)
        end[order[asks[order]] - len(self._row)] = puts_so_far[asks[order]]
        begin = np.minimum(self._group.searchsorted(groups), end)
        return last_below(self._moment_of_put, begin, end, moment)

    @cached_property
    def _moment_of_put(self) -> Int64s:
        return self._came[self._row]


def moments_of(events: Events) -> tuple[Int64s, Int64s]:
    """Numbers that say, of each event, when it is seen as a put, and when it looks: a look sees smaller ones."""
    rows = len(events)
    if not events.context.operator.shared_root:
        places = np.arange(rows, dtype=np.int64)
        return places, places
    columns = [
        np.concatenate(pair) for pair in zip(*map(events.ranked, (events.visible(), events.position)), strict=True)
    ]
    looks = np.repeat(np.array([0, 1], dtype=np.int64), rows)
    # at one place updates stand before lookups
    order = np.lexsort((looks, *reversed(columns)))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[:rows], place[rows:]


def late(versions: Versions, events: Events, before: Valid) -> Bools:
    """Which puts are not the latest version of their key."""
    return np.asarray(events.ts[versions.puts] < before.ts)
