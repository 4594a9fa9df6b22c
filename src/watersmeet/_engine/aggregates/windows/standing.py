"""Windows of the batch's keys that stand: read before the first record, carried from stretch to stretch, written last.

The common part of sliding and session windows: records make the windows, so state is looked up by ranges of time, and
the windows after a batch are compared with those before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import changed_aggregates, grown, refuse_large, sizes_of
from watersmeet._engine.aggregates.fold import FoldKernel
from watersmeet._engine.aggregates.windows.chains import States
from watersmeet._engine.aggregates.windows.closing import Closing
from watersmeet._engine.aggregates.windows.partitions import Partitions
from watersmeet._engine.aggregates.windows.windowed import Ends, numbered, under_windows
from watersmeet._engine.arrays import Bools, Int64s, order_of
from watersmeet._engine.operator import Events
from watersmeet._engine.rows.columns import array, ints
from watersmeet._engine.rows.sizes import Picked, row_bytes
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times

_ALWAYS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class StandingWindows:
    """Windows that stand, in order of (key, time).

    Parameters
    ----------
    key : key group of each.
    numbers : columns of the table that are numbers, the time by which windows are found first. Where it has headers,
        `headers` is where those of a window are: the number of the event that changed it last, and from the number of
        events on that of a stored row.
    fresh : which ones are not in state as they are.
    states : their states.
    """

    key: Int64s
    numbers: Mapping[str, Int64s]
    fresh: Bools
    states: pa.Array

    def __len__(self) -> int:
        return len(self.key)

    @property
    def time(self) -> Int64s:
        """The time by which each is found."""
        return next(iter(self.numbers.values()))

    def among(self, others: StandingWindows, which: Bools) -> Bools:
        """Which have key and time of one of others, of those that count."""
        times = np.concatenate([self.time, others.time])
        number = numbered(np.concatenate([self.key, others.key]), times)
        return np.isin(number[: len(self)], number[len(self) :][which])


@dataclass(frozen=True)
class WindowChanges:
    """Changes of windows, in order of position.

    Parameters
    ----------
    row : the event that brings each.
    place : the how manieth of its event it is.
    start, end, ts : of the window: its ends, and the timestamp of the result.
    new, old : its states after and before, by number; -1: none.
    """

    row: Int64s
    place: Int64s
    start: Int64s
    end: Int64s
    ts: Int64s
    new: Int64s
    old: Int64s


class Shard:
    """The windows of one shard in one batch.

    Attributes
    ----------
    sizes, domain : of each event, bytes of its value and its time domain.
    standing : what stands now.
    partitions : what records of keys see that lie in several partitions; None: there are none.
    """

    def __init__(self, events: Events, times: Times, fold: FoldKernel, table: Table, reach: int, wait: int) -> None:
        """Read what is stored.

        Parameters
        ----------
        reach : how far back from its timestamp a record looks for windows, in ms.
        wait : how far time is behind the least end of a window that is still open, in ms.
        """
        self.events = events
        self.fold = fold
        self._times = times
        self._table = table
        self._first = events.groups.first
        self.domain = times.number(times.of_row)
        self.sizes = sizes_of(events)
        self.standing = self._before = self._stored(reach)
        self._replaced: list[StandingWindows] = []
        here = self.standing
        self.partitions = Partitions.of(events, times, here.key, here.numbers["domain"], wait)

    def _stored(self, reach: int) -> StandingWindows:
        """The stored windows of the batch's keys near its records."""
        events, first = self.events, self._first
        earliest = np.full(len(first), _ALWAYS)
        np.minimum.at(earliest, events.groups.group_of_row, events.ts)
        keys = events.key.take(pa.array(first))
        found = self._table.range(events.hash[first], keys, earliest - reach, np.full(len(first), _ALWAYS))
        names = [name for name in self._table.schema.names if name not in ("hash", "key")]
        rows = found.take(names)
        numbers = {name: ints(rows, name) for name in names if name not in ("value", "headers")}
        if "headers" in names:
            self._headers = rows.column("headers")
            numbers["headers"] = len(events) + np.arange(len(rows), dtype=np.int64)
        return StandingWindows(found.query, numbers, np.zeros(len(rows), dtype=np.bool_), array(rows, "value"))

    def growth(self, begin: int, end: int) -> int:
        """About how many bytes the states after each of these events have."""
        if not self.fold.grows:
            return 0
        groups = self.events.groups
        largest = np.zeros(groups.count, dtype=np.int64)
        np.maximum.at(largest, self.standing.key, row_bytes(self.standing.states))
        return grown(groups.group_of_row[begin:end], largest, self.sizes[begin:end])

    def settle(self, key: Int64s, numbers: Mapping[str, Int64s], fresh: Bools, states: pa.Array) -> None:
        """The windows after a stretch, in any order."""
        order = order_of([key, next(iter(numbers.values()))])
        key, left = key[order], states.take(pa.array(order))
        refuse_large(self.events, left, lambda at: self.events.key[int(self._first[key[at]])])
        self.standing = StandingWindows(
            key, {name: column[order] for name, column in numbers.items()}, fresh[order], left
        )

    def let_go(self, key: Int64s, numbers: Mapping[str, Int64s], states: pa.Array) -> None:
        """Closed windows that others have replaced: they are not stored any more."""
        self._replaced.append(StandingWindows(key, numbers, np.ones(len(key), dtype=np.bool_), states))

    def results(self, changes: WindowChanges, states: States) -> Iterator[pa.Table]:
        """The changes as results; with the record cache each window's last."""
        events, all_of = self.events, np.arange(len(changes.row))
        window = numbered(events.groups.group_of_row[changes.row], changes.start, changes.end)
        pointers = states.pointers(changes.new), states.pointers(changes.old)

        def meta(chosen: Int64s, ts: Int64s) -> dict[str, pa.Array | Picked]:
            row, start, end = changes.row[chosen], changes.start[chosen], changes.end[chosen]
            return under_windows(events, row, start, end, changes.place[chosen], ts)

        operator = events.context.operator
        yield from changed_aggregates(operator, self.fold, window, all_of, states.pool, pointers, changes.ts, meta)

    def closing(self, wait: int, ends: Ends | None = None) -> Iterator[pa.Table]:
        """Results of the windows that close in the batch; see `Closing`."""
        now, before, time = self.standing, self._before, next(iter(self.standing.numbers))
        fresh = [self._rows(now, np.flatnonzero(now.fresh))]
        fresh += [self._rows(gone, np.arange(len(gone))) for gone in self._replaced]
        changed = self._rows(before, np.flatnonzero(~before.among(now, ~now.fresh)))
        stale = pa.table({name: changed[name] for name in ("key", time)})
        closing = Closing(self.events.context, self._times, self._table, time, wait, fresh, stale)
        yield from closing.results(self.fold, ends)

    def write(self, kept: int) -> None:
        """Store what stands, delete what does not any more; let go what is `kept` ms behind its domain's time."""
        now, before = self.standing, self._before
        gone = np.flatnonzero(~before.among(now, np.ones(len(now), dtype=np.bool_)))
        self._table.put(self._rows(now, np.flatnonzero(now.fresh)))
        self._table.put(self._rows(before, gone), np.ones(len(gone), dtype=np.bool_))
        self._table.expire(self._times.by_domain(self._times.end - kept))

    def _rows(self, standing: StandingWindows, rows: Int64s) -> dict[str, pa.Array | Picked]:
        """Some windows as the table has them."""
        first = self._first[standing.key[rows]]
        columns: dict[str, pa.Array | Picked] = {
            "hash": pa.array(self.events.hash[first]),
            "key": self.events.key.take(pa.array(first)),
            "value": Picked(standing.states, rows),
        }
        numbers = {name: column[rows] for name, column in standing.numbers.items()}
        if "headers" in numbers:
            columns["headers"] = self.events.headers(numbers.pop("headers"), self._headers)
        return columns | {name: pa.array(column) for name, column in numbers.items()}
