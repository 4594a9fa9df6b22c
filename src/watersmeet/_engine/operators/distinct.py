"""distinct: the first record of each key within a while (docs/semantics/distinct.md).

A record that passes says until which moment records of its key are duplicates: by the time of its own domain, as it is
when the record is processed. So of a key's records each one that passes leads to the next that does, the first one for
which that moment is over; and those that pass are what is reached from the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.windows.partitions import time_of
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Dropped, Events, OperatorContext, operator_table
from watersmeet._engine.rows.columns import ints, valid
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.lasting.distinct import UNTIL, DistinctParams, DistinctSpec

(DUPLICATE,) = DistinctSpec.drop_reasons


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=1)
    table, within = operator_table(context, state), context.params(DistinctParams).within_ms
    if within is None:
        yield from _results(context, events, _for_ever(events, table))
        return
    times = Times(context, inputs, events, state, sides=1)
    yield from _results(context, events, _BatchRecords(events, times, within).passing(table))
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
    if not passing.all():
        yield Dropped(DUPLICATE, events.tables[0], events.own[~passing])


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

    def __init__(self, events: Events, times: Times, within: int) -> None:
        self._events, self._times = events, times
        groups = events.groups
        self._rows, self._starts = groups.order, groups.starts[:-1]
        self._group = np.repeat(np.arange(groups.count), groups.sizes)
        self._until = times.at_row[self._rows] + within - 1
        self._domain = times.of_row[self._rows]

    def passing(self, table: Table) -> Bools:
        """Which records pass; until when their keys are known then is put into the table."""
        passing = np.zeros(len(self._events), dtype=np.bool_)
        if not len(self._events):
            return passing
        reached = _reached(self._begin(table), self._next(self._group, self._domain, self._until))
        passing[self._rows[reached]] = True
        last = np.append(self._group[reached][1:] != self._group[reached][:-1], True)[: len(reached)]
        self._put(table, reached[last])
        return passing

    def _begin(self, table: Table) -> Int64s:
        """Of each key the first record that passes: where one before the batch is in force, the first behind it."""
        first, times = self._events.groups.first, self._times
        low, high = (np.full(len(first), end) for end in (times.start.min(), np.iinfo(np.int64).max))
        found = table.range(self._events.hash[first], self._events.key.take(pa.array(first)), low, high)
        begin, stored = self._starts.copy(), found.take([UNTIL, "domain"])
        until, domain = ints(stored, UNTIL), times.index(ints(stored, "domain"))
        known = np.flatnonzero(until >= times.start[domain])
        begin[found.query[known]] = self._next(found.query[known], domain[known], until[known])
        return begin

    def _next(self, group: Int64s, domain: Int64s, until: Int64s) -> Int64s:
        """Of each group that asks the first record at which the time of a domain is past a moment; behind all: none."""
        found = np.full(len(group), len(self._rows))
        for one in np.unique(domain):
            asking = np.flatnonzero(domain == one)
            wanted = np.zeros(len(self._starts), dtype=np.bool_)
            wanted[group[asking]] = True
            there = np.flatnonzero(wanted[self._group])
            # a group's times rise; so do group and rank of time together, over all of them
            time = np.concatenate([time_of(self._times, self._rows[there], int(one)), until[asking]])
            _, rank = np.unique(time, return_inverse=True)
            place = np.concatenate([self._group[there], group[asking]]) * len(time) + rank
            at = place[: len(there)].searchsorted(place[len(there) :], side="right")
            inside = at < self._group[there].searchsorted(group[asking], side="right")
            found[asking[inside]] = there[at[inside]]
        return found

    def _put(self, table: Table, places: Int64s) -> None:
        """The state of keys after these records of theirs."""
        places = places[valid(self._events.key)[self._rows[places]]]
        rows = self._rows[places]
        columns = {"hash": self._events.hash[rows], UNTIL: self._until[places]}
        numbers = {**columns, "domain": self._times.number(self._domain[places])}
        table.put(
            {"key": self._events.key.take(pa.array(rows))} | {name: pa.array(each) for name, each in numbers.items()}
        )


def _reached(starts: Int64s, onwards: Int64s) -> Int64s:
    """The places reached from these places, each of which leads to a later one, or behind all; ascending.

    Each turn doubles how far is jumped, so there are as many turns as a key's longest chain has doublings.
    """
    end = len(onwards)
    reached = np.zeros(end + 1, dtype=np.bool_)
    reached[starts] = True
    jump = np.append(onwards, end)
    while jump.min() < end:
        reached[jump[reached]] = True
        jump = jump[jump]
    return np.flatnonzero(reached[:end])
