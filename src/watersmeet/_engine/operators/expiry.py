"""expiry: rows that last for a while; then a tombstone deletes them (docs/semantics/expiry.md).

Records pass as they come. A row waits for the moment at which it has lasted long enough, as all do that are held back
(`time.held_rows`), unless another record of its key comes before. So tombstones stand where time passes that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.windows.partitions import time_of
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events, OperatorContext, operator_table
from watersmeet._engine.operators.processors.timer_positions import TimerPositions
from watersmeet._engine.rows.columns import ints, position_columns
from watersmeet._engine.rows.position import merged
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.held import release
from watersmeet._engine.time.held_rows import HeldRows
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.lasting.expiry import ExpiryParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    params = context.params(ExpiryParams)
    events = Events(context, inputs, sides=1)
    times = Times(context, inputs, events, state, sides=1)
    table = operator_table(context, state)
    held = HeldRows(context, table, times, {})
    # the last moment of each row; of one that is over when it comes there is none
    now = np.array(TimerPositions(context, events, times, placed=True).stream_time, dtype=np.int64)
    due = (events.ts if params.of_record else now) + params.ttl_ms - 1
    lasts = events.present & (due >= now)
    _Lasting(events, times, now, due, lasts).hold(held, table)
    held.finish()
    times.store(state)
    kind = context.values[0]
    gone = (rows.append_column("value", pa.nulls(len(rows), kind)) for rows in release(context, times, [held]))
    yield from merged(_passing(context, events, lasts), gone, position_columns(context.slots))


def _passing(context: OperatorContext, events: Events, lasts: Bools) -> Iterator[pa.Table]:
    """The records as they come; what is over already deletes the row that is there."""
    rows = np.arange(len(events))
    if len(rows):
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts)
        out["value"] = Picked(events.tables[0].column("value"), np.where(lasts, events.own, -1))
        yield from context.in_pieces(out)


class _Lasting:
    """A batch's records by key, in order."""

    def __init__(self, events: Events, times: Times, now: Int64s, due: Int64s, lasts: Bools) -> None:
        self._events, self._times = events, times
        self._due, self._lasts = due, lasts
        self._now = now

    def hold(self, held: HeldRows, table: Table) -> None:
        """Have those rows wait that no record of their key replaces before their time."""
        events, groups, times = self._events, self._events.groups, self._times
        order = groups.order
        follows = np.append(order[1:], -1)
        follows[groups.starts[1:] - 1] = -1
        next_of = np.full(len(events), -1, dtype=np.int64)
        next_of[order] = follows
        rows = np.flatnonzero(self._lasts)
        waits = rows[self._over(next_of[rows], times.of_row[rows], self._due[rows])]
        waits = waits[~self._replaced(table, held, waits)]
        held.hold(
            {
                "hash": pa.array(events.hash[waits]),
                "key": events.key.take(pa.array(waits)),
                "ts": pa.array(self._due[waits] + 1),
                "arrival": pa.array(np.zeros(len(waits), dtype=np.int64)),
            },
            self._due[waits],
            times.number(times.of_row[waits]),
        )

    def _over(self, row: Int64s, domain: Int64s, due: Int64s) -> Bools:
        """Whether a row's time is over when this record comes; there is none where it is negative."""
        over = np.ones(len(row), dtype=np.bool_)
        there = row >= 0
        own = there & (self._times.of_row[row] == domain)
        over[own] = due[own] < self._now[row[own]]
        for other in np.unique(domain[there & ~own]):
            mine = np.flatnonzero(there & ~own & (domain == other))
            over[mine] = due[mine] < time_of(self._times, row[mine], int(other))
        return over

    def _replaced(self, table: Table, held: HeldRows, waits: Int64s) -> Bools:
        """Which of the rows that wait stand in state as they are; what else the batch has replaced there is dropped."""
        events, groups, times = self._events, self._events.groups, self._times
        if not groups.count:
            return np.zeros(len(waits), dtype=np.bool_)
        found = table.rows(events.hash[groups.first], events.key.take(pa.array(groups.first)))
        stored, group = found.take(table.schema.names), found.query
        due, domain = ints(stored, "due"), times.index(ints(stored, "domain"))
        known = np.flatnonzero(due >= times.start[domain])
        known = known[~self._over(groups.first[group[known]], domain[known], due[known])]
        # of a key at most one is known, and at most one row that waits has its moment
        at = np.full(groups.count, -1, dtype=np.int64)
        at[group[known]] = known
        mine = at[groups.group_of_row[waits]]
        there = np.flatnonzero(mine >= 0)
        same = np.zeros(len(waits), dtype=np.bool_)
        row, known_row = waits[there], mine[there]
        same[there] = (due[known_row] == self._due[row]) & (domain[known_row] == times.of_row[row])
        stays = np.zeros(len(due), dtype=np.bool_)
        stays[mine[same]] = True
        held.drop(stored.take(pa.array(known[~stays[known]])))
        return same
