"""Operators on one input that keep a row of each key: table, versioned_table, distinct and expiry.

Rows of a key are processed in order of position (law 2), those of a batch like those of state (law 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.matching import Sides, Versions, superseded
from watersmeet._engine.operator import Dropped, Events, OperatorContext, SideValues, operator_table, sent, store_last
from watersmeet._engine.operators.process_timers import Timeline
from watersmeet._engine.row_sizes import Picked, in_pieces, slices_with_time
from watersmeet._engine.rows import Bools, Int64s, ints, merged, position_columns, reachable, valid
from watersmeet._engine.state.runs import State, Table
from watersmeet._engine.time import BatchTimes
from watersmeet._engine.waiting_rows import HeldRows, release
from watersmeet._engine.windowing import time_of
from watersmeet._plan.operators.tables import UNTIL, DistinctParams, ExpiryParams, TableParams, VersionedParams
from watersmeet._plan.reasons import DUPLICATE

# distinct: the first record of each key within a while (docs/semantics/distinct.md).
#
# A record that passes says until which moment records of its key are duplicates: by the time of its own domain, as it
# is when the record is processed. So of a key's records each one that passes leads to the next that does, the first one
# for which that moment is over; and those that pass are what is reached from the first.


def run_distinct(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=1)
    table, duration = operator_table(context, state), context.params(DistinctParams).within_ms
    if duration is None:
        yield from _results(context, events, _for_ever(events, table))
        return
    times = BatchTimes(context, inputs, events, state, sides=1)
    yield from _results(context, events, _BatchRecords(events, times, duration).passing(table))
    table.expire(times.by_domain(times.end))
    times.store(state)


def _results(context: OperatorContext, events: Events, passing: Bools) -> Iterator[pa.Table | Dropped]:
    # nothing says what a record without a key is a duplicate of
    passing = passing | ~valid(events.key)
    rows = np.flatnonzero(passing)
    if len(rows):
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
        out["value"] = Picked(events.tables[0].column("value"), events.own[rows])
        yield from context.in_pieces(out)
    yield from events.drops(DUPLICATE, np.flatnonzero(~passing))


def _for_ever(events: Events, table: Table) -> Bools:
    """Which records are the first of their key, which is known from then on."""
    first, passing = events.groups.first, np.zeros(len(events), dtype=np.bool_)
    keyed = first[valid(events.key)[first]]
    keys = events.key.take(pa.array(keyed))
    new = table.point(events.hash[keyed], keys).index < 0
    passing[keyed[new]] = True
    fresh = keyed[new]
    stamps = {"hash": events.hash[fresh], "key": keys.filter(pa.array(new)), "ts": events.ts[fresh]}
    table.put({name: pa.array(column) for name, column in stamps.items()})
    return passing


class _BatchRecords:
    """A batch's records by key, in order; places are meant by their number in this."""

    def __init__(self, events: Events, times: BatchTimes, duration: int) -> None:
        self._events, self._times = events, times
        groups = events.groups
        self._rows, self._starts = groups.order, groups.starts[:-1]
        self._group = np.repeat(np.arange(groups.count), groups.sizes)
        self._until = times.at_row[self._rows] + duration - 1
        self._domain = times.of_row[self._rows]

    def passing(self, table: Table) -> Bools:
        """Which records pass; until when their keys are known then is put into the table."""
        passing = np.zeros(len(self._events), dtype=np.bool_)
        if not len(self._events):
            return passing
        following = self._next(self._group, self._domain, self._until)
        reached = np.flatnonzero(reachable(self._first_passing(table), following))
        passing[self._rows[reached]] = True
        last = np.append(self._group[reached][1:] != self._group[reached][:-1], True)[: len(reached)]
        self._put(table, reached[last])
        return passing

    def _first_passing(self, table: Table) -> Int64s:
        """Of each key the first record that passes: where one before the batch is in force, the first behind it."""
        first, times = self._events.groups.first, self._times
        low, high = (np.full(len(first), end) for end in (times.start.min(), np.iinfo(np.int64).max))
        matches = table.range(self._events.hash[first], self._events.key.take(pa.array(first)), low, high)
        starts, rows = self._starts.copy(), matches.take([UNTIL, "domain"])
        until, domain = ints(rows, UNTIL), times.index(ints(rows, "domain"))
        active = np.flatnonzero(until >= times.start[domain])
        starts[matches.query[active]] = self._next(matches.query[active], domain[active], until[active])
        return starts

    def _next(self, group: Int64s, domain: Int64s, until: Int64s) -> Int64s:
        """Of each group that asks the first record at which the time of a domain is past a moment; behind all: none."""
        places = np.full(len(group), len(self._rows))
        for domain_index in np.unique(domain):
            asking = np.flatnonzero(domain == domain_index)
            mask = np.zeros(len(self._starts), dtype=np.bool_)
            mask[group[asking]] = True
            rows = np.flatnonzero(mask[self._group])
            # a group's times rise; so do group and rank of time together, over all of them
            time = np.concatenate([time_of(self._times, self._rows[rows], int(domain_index)), until[asking]])
            _, rank = np.unique(time, return_inverse=True)
            place = np.concatenate([self._group[rows], group[asking]]) * len(time) + rank
            at = place[: len(rows)].searchsorted(place[len(rows) :], side="right")
            inside = at < self._group[rows].searchsorted(group[asking], side="right")
            places[asking[inside]] = rows[at[inside]]
        return places

    def _put(self, table: Table, places: Int64s) -> None:
        """The state of keys after these records of theirs."""
        places = places[valid(self._events.key)[self._rows[places]]]
        rows = self._rows[places]
        columns = {"hash": self._events.hash[rows], UNTIL: self._until[places]}
        numbers = {**columns, "domain": self._times.number(self._domain[places])}
        table.put(
            {"key": self._events.key.take(pa.array(rows))}
            | {name: pa.array(column) for name, column in numbers.items()}
        )


# expiry: rows that last for a while; then a tombstone deletes them (docs/semantics/expiry.md).
#
# Records pass as they come. A row waits for the moment at which it has lasted long enough (`waiting_rows.HeldRows`),
# unless another record of its key comes before. So tombstones stand where time passes that moment.


def run_expiry(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    params = context.params(ExpiryParams)
    events = Events(context, inputs, sides=1)
    times = BatchTimes(context, inputs, events, state, sides=1)
    table = operator_table(context, state)
    buffer = HeldRows(context, table, times, {})
    # the last moment of each row; of one that is over when it comes there is none
    stream_time = np.array(Timeline(context, events, times, needs_places=True).stream_time, dtype=np.int64)
    due = (events.ts if params.of_record else stream_time) + params.ttl_ms - 1
    lasts = events.present & (due >= stream_time)
    _Lasting(events, times, stream_time, due, lasts).hold(buffer, table)
    buffer.finish()
    times.store(state)
    kind = context.values[0]
    tombstones = (rows.append_column("value", pa.nulls(len(rows), kind)) for rows in release(context, times, [buffer]))
    yield from merged(_passing(context, events, lasts), tombstones, position_columns(context.slots))


def _passing(context: OperatorContext, events: Events, lasts: Bools) -> Iterator[pa.Table]:
    """The records as they come; what is over already deletes the row that is there."""
    rows = np.arange(len(events))
    if len(rows):
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts)
        out["value"] = Picked(events.tables[0].column("value"), np.where(lasts, events.own, -1))
        yield from context.in_pieces(out)


class _Lasting:
    """A batch's records by key, in order."""

    def __init__(self, events: Events, times: BatchTimes, stream_time: Int64s, due: Int64s, lasts: Bools) -> None:
        self._events, self._times = events, times
        self._due, self._lasts = due, lasts
        self._stream_time = stream_time

    def hold(self, buffer: HeldRows, table: Table) -> None:
        """Have those rows wait that no record of their key replaces before their time."""
        events, groups, times = self._events, self._events.groups, self._times
        order = groups.order
        follows = np.append(order[1:], -1)
        follows[groups.starts[1:] - 1] = -1
        next_of = np.full(len(events), -1, dtype=np.int64)
        next_of[order] = follows
        rows = np.flatnonzero(self._lasts)
        pending = rows[self._over(next_of[rows], times.of_row[rows], self._due[rows])]
        pending = pending[~self._replaced(table, buffer, pending)]
        buffer.hold(
            {
                "hash": pa.array(events.hash[pending]),
                "key": events.key.take(pa.array(pending)),
                "ts": pa.array(self._due[pending] + 1),
                "arrival": pa.array(np.zeros(len(pending), dtype=np.int64)),
            },
            self._due[pending],
            times.number(times.of_row[pending]),
        )

    def _over(self, row: Int64s, domain: Int64s, due: Int64s) -> Bools:
        """Whether a row's time is over when this record comes; there is none where it is negative."""
        over = np.ones(len(row), dtype=np.bool_)
        exists = row >= 0
        same_domain = exists & (self._times.of_row[row] == domain)
        over[same_domain] = due[same_domain] < self._stream_time[row[same_domain]]
        for foreign_domain in np.unique(domain[exists & ~same_domain]):
            indices = np.flatnonzero(exists & ~same_domain & (domain == foreign_domain))
            over[indices] = due[indices] < time_of(self._times, row[indices], int(foreign_domain))
        return over

    def _replaced(self, table: Table, buffer: HeldRows, pending: Int64s) -> Bools:
        """Which of the rows that wait stand in state as they are; what else the batch has replaced there is dropped."""
        events, groups, times = self._events, self._events.groups, self._times
        if not groups.count:
            return np.zeros(len(pending), dtype=np.bool_)
        matches = table.rows(events.hash[groups.first], events.key.take(pa.array(groups.first)))
        rows, group = matches.take(table.schema.names), matches.query
        due, domain = ints(rows, "due"), times.index(ints(rows, "domain"))
        active = np.flatnonzero(due >= times.start[domain])
        active = active[~self._over(groups.first[group[active]], domain[active], due[active])]
        # of a key at most one is known, and at most one row that waits has its moment
        at = np.full(groups.count, -1, dtype=np.int64)
        at[group[active]] = active
        candidates = at[groups.group_of_row[pending]]
        hits = np.flatnonzero(candidates >= 0)
        same = np.zeros(len(pending), dtype=np.bool_)
        row, known_row = pending[hits], candidates[hits]
        same[hits] = (due[known_row] == self._due[row]) & (domain[known_row] == times.of_row[row])
        stays = np.zeros(len(due), dtype=np.bool_)
        stays[candidates[same]] = True
        buffer.drop(rows.take(pa.array(active[~stays[active]])))
        return same


# versioned_table: keeps the versions of each key, and hands each change on (docs/semantics/versioned_table.md).
#
# A change says whether it is the latest of its key; the old value beside it is the latest one before it, not the one
# before it in time.


def run_versioned_table(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped]:
    """See `operators.run_operator`."""
    params = context.params(VersionedParams)
    for part in slices_with_time(inputs):
        events = Events(context, part, sides=1)
        times = BatchTimes(context, part, events, state, sides=1)
        versions = Versions(events, 0, operator_table(context, state), times, params.history_ms)
        versions.write()
        yield versions.dropped()
        yield from _changes(context, events, versions)
    times.store(state)


def _changes(context: OperatorContext, events: Events, versions: Versions) -> Iterator[pa.Table]:
    rows = versions.puts
    if not len(rows):
        return
    previous = versions.before()
    out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
    out["value"] = Picked(events.tables[0].column("value"), events.own[rows])
    out["late"] = pa.array(superseded(versions, events, previous))
    if "old" in context.operator.emits:
        out["old"] = previous.picked()
    yield from in_pieces(out)


# table: keeps the latest value of each key and hands each change on with the value before it.
#
# docs/semantics/table.md: the last arrival wins, whatever its timestamp; a tombstone for a key that is not
# there is handed on too, unless the node knows old values and suppresses null after null (docs/semantics/table.md).


def run_table(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=1)
    if not len(events):
        return
    table = operator_table(context, state)
    values = SideValues(events, 0, table)
    old = Sides(events, [values, values]).own_before()
    new = np.where(events.present, events.own, -1)
    emitted = (new >= 0) | (old >= 0) | (not context.params(TableParams).suppress[0])
    store_last(events, 0, events.groups.last, values.prior, table)
    firsts, rows = sent(context.operator, events.groups.group_of_row, np.flatnonzero(emitted), new >= 0, old >= 0)
    if not len(rows):
        return
    out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
    out["value"] = values.picked(new[rows])
    if "old" in context.operator.emits:
        out["old"] = values.picked(old[firsts])
    yield from in_pieces(out)
