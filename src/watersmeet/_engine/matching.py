"""Which row of another side a row sees: the last one before it, or the version of its time (law 2).

Versions of a table's rows (KIP-889, KIP-914; docs/semantics/versioned_table.md): a put is a version of its key,
valid from its own timestamp to that of the next version; one that is older than the history is rejected. The table's
time is how far its changes reach, in each time domain (law 3), and so known to every shard. A lookup sees the puts that
came before it, those of the batch and those in state alike (law 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.keys import KeyGroups, group_keys
from watersmeet._engine.operator import Dropped, Events, SideValues
from watersmeet._engine.row_sizes import Picked
from watersmeet._engine.rows import Bools, Int64s, ints, joined, order_of, valid
from watersmeet._engine.state.runs import Table
from watersmeet._engine.time import BatchTimes
from watersmeet._plan.physical import StoreReader
from watersmeet._plan.reasons import EXPIRED_VERSION

# last_below: of each stretch of some numbers, the last place with a number below a limit.
#
# A lookup in the past: versions are in order of time, their numbers give the order of arrival, and a record sees the
# last version up to its time that came before it. Logarithmic in the stretch; nothing is looped over but the levels of
# a tree of minima.

_MOST = np.iinfo(np.int64).max


def last_below(numbers: Int64s, start: Int64s, end: Int64s, limit: Int64s) -> Int64s:
    """For each stretch [begin, end) the last place with a number below its limit; -1 if there is none."""
    result = np.full(len(start), -1, dtype=np.int64)
    asking = np.flatnonzero(start < end)
    near = end[asking] - 1
    # as a rule nothing came out of order
    hit = numbers[near] < limit[asking]
    result[asking[hit]] = near[hit]
    asking = asking[~hit]
    if len(asking):
        result[asking] = _climbed(numbers, start[asking], end[asking], limit[asking])
    return result


def _climbed(numbers: Int64s, start: Int64s, end: Int64s, limit: Int64s) -> Int64s:
    minima = _tree(numbers)
    block, level, end = np.full(len(start), -1, dtype=np.int64), np.zeros(len(start), dtype=np.int64), end.copy()
    asking = np.arange(len(start), dtype=np.int64)
    for height, least in enumerate(minima):
        odd = asking[(end[asking] >> height) & 1 == 1]
        left = (end[odd] >> height) - 1
        hit = least[left] < limit[odd]
        block[odd[hit]], level[odd[hit]] = left[hit], height
        end[odd[~hit]] = left[~hit] << height
        asking = asking[(block[asking] < 0) & (end[asking] > start[asking])]
    for height in range(len(minima) - 1, 0, -1):
        down = np.flatnonzero((block >= 0) & (level >= height))
        right = 2 * block[down] + 1
        block[down] = np.where(minima[height - 1][right] < limit[down], right, right - 1)
    return np.where(block >= start, block, -1)


def _tree(numbers: Int64s) -> list[Int64s]:
    """The numbers, and of each level of pairs the smaller ones, up to one."""
    levels = [np.append(numbers, _MOST) if len(numbers) % 2 and len(numbers) > 1 else numbers]
    while len(levels[-1]) > 1:
        least = np.minimum(levels[-1][0::2], levels[-1][1::2])
        levels.append(np.append(least, _MOST) if len(least) % 2 and len(least) > 1 else least)
    return levels


_LATEST = 2**62
"""Later than any version."""
NO_TIME = -(2**62)
"""Timestamp of no version."""


@dataclass(frozen=True)
class Valid:
    """The version that each of some questions finds."""

    values: pa.Array | pa.ChunkedArray  # of the batch's rows, then of those found in state
    pointers: Int64s  # into them; -1 for none, and where the version deletes
    ts: Int64s  # of the version; `NO_TIME` where there is none

    def picked(self, rows: Int64s | slice = slice(None)) -> Picked:
        """The values of some questions; null for none."""
        return Picked(self.values, self.pointers[rows])


class Versions:
    """The versions of one side's keys: in state, and put by the batch.

    Parameters
    ----------
    events, side : the rows of the batch, and which of them are puts.
    table : what state holds, declared by `tables.versions`.
    times : of the operator; it gets the time bounds of the side.
    history_ms : the history retention.

    Attributes
    ----------
    puts : the events that are versions.
    """

    def __init__(self, events: Events, side: int, table: Table, times: BatchTimes, history_ms: int) -> None:
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
        version, domain = self._last(rows, at, self._looks[rows])
        lost = np.flatnonzero((version.ts > NO_TIME) & (at < self._floor(rows, domain)))
        if len(lost):
            latest, _ = self._last(rows[lost], np.full(len(lost), _LATEST), self._looks[rows[lost]])
            lost = lost[latest.ts != version.ts[lost]]
        pointers = np.array(version.pointers)
        pointers[lost] = -1
        return Valid(version.values, pointers, version.ts)

    def before(self) -> Valid:
        version, _ = self._last(self.puts, np.full(len(self.puts), _LATEST), self._came[self.puts])
        return version

    def dropped(self) -> Dropped:
        """The rows that are older than the history."""
        return Dropped(EXPIRED_VERSION, self._events.tables[self._side], self._events.own[self._expired])

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
        places = self._last_put(events.groups.group_of_row[rows], at, moment)
        lookup = self._table.as_of(events.hash[rows], events.key.take(pa.array(rows)), at)
        state_ts = np.append(ints(lookup.rows, "ts"), NO_TIME)[lookup.index]
        batch_ts = np.append(self._ts, NO_TIME)[places]
        newer = (places >= 0) & (batch_ts >= state_ts)
        put = self._row[places[newer]]
        pointers = np.where(lookup.index >= 0, lookup.index + len(batch), -1)
        pointers[newer] = events.own[put]
        domain = np.append(self._times.index(ints(lookup.rows, "domain")), 0)[lookup.index]
        domain[newer] = self._times.of_row[put]
        values = joined([batch.column("value"), lookup.rows.column("value")], events.context.values[self._side])
        present = np.append(valid(values), False)
        ts = np.maximum(batch_ts, state_ts)
        return Valid(values, np.where(present[pointers], pointers, -1), ts), domain

    def _last_put(self, groups: Int64s, at: Int64s, moment: Int64s) -> Int64s:
        """Place among the batch's versions, in order of time, of the one that each question finds; -1 for none."""
        if not len(self._row):
            return np.full(len(groups), -1, dtype=np.int64)
        columns = np.concatenate([self._group, groups]), np.concatenate([self._ts, at])
        asks = np.arange(len(columns[0])) >= len(self._row)
        order = np.lexsort((asks, columns[1], columns[0]))
        puts_so_far = np.cumsum(~asks[order])
        end = np.empty(len(groups), dtype=np.int64)
        end[order[asks[order]] - len(self._row)] = puts_so_far[asks[order]]
        start = np.minimum(self._group.searchsorted(groups), end)
        return last_below(self._moment_of_put, start, end, moment)

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


def superseded(versions: Versions, events: Events, previous: Valid) -> Bools:
    return np.asarray(events.ts[versions.puts] < previous.ts)


# Integer kernels that every join is built on: which row of the other side stands last before a row.
#
# Rows are numbered in order of position; a result is a row number or -1. No value is looked at here, so the
# kernels serve every type of key and value (law 4).


@dataclass(frozen=True)
class Ordered:
    """Rows of several sides in order of (key group, position)."""

    groups: KeyGroups  # the rows grouped by key; rows must be numbered in order of position

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
        in_group = latest >= self.group_start
        result = np.full(len(order), -1, dtype=np.int64)
        result[order[in_group]] = order[latest[in_group]]
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


# The lookups of a join: each row's previous value on its own side, and the other side's current value.
#
# Keeps law 1 (one record at a time, in order of position) and the visibility rule: a lookup sees every change
# with an update of the table before the looking record's position. The two differ only where one input record
# reaches both sides of the join (`Operator.shared_root`): then the table's store is updated before either
# path is followed, as in Kafka Streams' depth-first processing.


class Sides:
    """The lookups of each row: pointers to values, -1 for none. Each side is looked up once, for all readers.

    Parameters
    ----------
    events : the rows.
    values : of each side.
    """

    def __init__(self, events: Events, values: list[SideValues]) -> None:
        self._events, self._values = events, values
        self._pointers: dict[int, Int64s] = {}

    def own_before(self) -> Int64s:
        """The value that each row's own side had before it: what the row says, if it does."""
        result = self._per_side(same_side=True)
        for side in (0, 1):
            carried = self._values[side].carried
            if carried is not None:
                rows = self._events.side == side
                result = result.copy()
                result[rows] = carried[self._events.own[rows]]
        return result

    def other_side(self) -> Int64s:
        if self._events.context.operator.shared_root:
            return _other_side_visible(self._events, self._values)
        return self._per_side(same_side=False)

    def _per_side(self, *, same_side: bool) -> Int64s:
        """The value before each row on its own side, or on the other one."""
        is_left = self._events.side == 0
        if is_left.all():
            return self._previous(0 if same_side else 1)
        left, right = (0, 1) if same_side else (1, 0)
        return np.where(is_left, self._previous(left), self._previous(right))

    def _previous(self, side: int) -> Int64s:
        """The side's own value before each row."""
        if side not in self._pointers:
            last = self._ordered.last_before(self._events.side == side, inclusive=False)
            self._pointers[side] = values_at(self._events, last, self._values[side])
        return self._pointers[side]

    @cached_property
    def _ordered(self) -> Ordered:
        return Ordered(self._events.groups)


def values_at(events: Events, last: Int64s, values: SideValues) -> Int64s:
    """Pointers to the values of a side at rows of the batch; where there is none (-1), to what the state holds."""
    prior = values.prior[events.groups.group_of_row]
    return np.where(last >= 0, np.where(events.present[last], events.own[last], -1), prior)


def _other_side_visible(events: Events, values: list[SideValues]) -> Int64s:
    """As `Sides.other_side`, with every row standing twice: as an update where it becomes visible, and as a lookup."""
    visible = VisibleRows(events, events.position)
    return np.where(events.side == 0, visible.pointers(1, values[1]), visible.pointers(0, values[0]))


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
        rows = np.empty(len(self._events), dtype=np.int64)
        rows[self._row[self._is_lookup]] = np.where(last >= 0, self._row[last], -1)
        return values_at(self._events, rows, values)


# The rows of a store that another operator owns, as its reader would have got them (law 1).
#
# Both operators stand in one shard. The lookups of the reader go to the store as the last batch has left it, and to the
# batch's rows of the store, which come once: here they get the position of the reader's own way. Rows of keys that the
# reader does not look up are left out.


def with_rows_of_owner(
    reader: StoreReader, inputs: Mapping[int, pa.Table], owner_inputs: Mapping[int, pa.Table]
) -> dict[int, pa.Table]:
    """The rows of each side of a reader.

    Parameters
    ----------
    reader : how it reads the store.
    inputs : the rows of its other sides.
    owner_inputs : the rows of the store's owner, by side.
    """
    table = owner_inputs.get(reader.side)
    if table is None or not inputs:
        return dict(inputs)
    looked_up = np.unique(np.concatenate([ints(rows, "hash") for rows in inputs.values()]))
    hashes = ints(table, "hash")
    at = np.minimum(looked_up.searchsorted(hashes), len(looked_up) - 1)
    updates = table.filter(pa.array(looked_up[at] == hashes))
    if not len(updates):
        return dict(inputs)
    path = f"p{reader.slot}"
    moved = pa.array(ints(updates, path) + reader.shift)
    return {**inputs, reader.side: updates.set_column(updates.schema.get_field_index(path), path, moved)}
