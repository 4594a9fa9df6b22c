"""stream_aggregate, table_aggregate: what is kept of each key, and each change of it (docs/semantics, section 12).

A record of a stream adds its value; a message of a grouped table subtracts an old value, strictly before it adds a new
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import (
    Contributions,
    StandingAggregates,
    changes,
    failures,
    folded,
    stored,
    to_store,
)
from watersmeet._engine.aggregates.of_plan import fold_of
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.matching.match import running_most
from watersmeet._engine.matching.versions import EXPIRED
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, keep_rows, operator_table
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.rows.slices import slices_with_time
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.aggregates.aggregate import AggregateParams


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped | Failed]:
    """See `level.run_operator`."""
    history = context.params(AggregateParams).history_ms
    if history is not None:
        yield from _with_history(context, inputs, state, history)
    else:
        yield from _aggregated(context, Events(context, inputs, sides=len(context.values)), state)


def _with_history(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State, history_ms: int
) -> Iterator[pa.Table | Dropped | Failed]:
    """The same without what the result's history has passed (docs/semantics, section 3, versioned)."""
    sides = len(context.values)
    for part in slices_with_time(inputs):
        events = Events(context, part, sides=sides)
        times = Times(context, part, events, state, sides=sides)
        rows = np.arange(len(events))
        reach = [times.side_time_before(side, rows, times.of_row) for side in range(sides)]
        floor = np.max(reach, axis=0, initial=-1) - history_ms
        if not (events.ts < floor).any():
            yield from _aggregated(context, events, state)
            continue
        expired = _expired(events, floor, operator_table(context, state))
        yield from _dropped(events, np.flatnonzero(expired))
        if expired.any():
            events = Events(context, keep_rows(dict(enumerate(events.tables)), events, ~expired), sides=sides)
        yield from _aggregated(context, events, state, floor[~expired])
    times.store(state)


def _expired(events: Events, floor: Int64s, table: Table) -> Bools:
    """Which rows surely come when the history has passed them, and the aggregate as it stands, too.

    Of the others some may have, where a fold deletes: what stands behind that has the time of its own records alone.
    """
    groups = events.groups
    found = table.point(events.hash[groups.first], events.key.take(pa.array(groups.first)), columns=["ts"])
    stored = np.append(ints(found.rows, "ts"), -1)[found.index]
    # the timestamp of the aggregate behind each row: never less than before
    latest = np.maximum(running_most(groups, events.ts), stored[groups.group_of_row])
    return np.asarray(latest < floor)


def _dropped(events: Events, rows: Int64s) -> Iterator[Dropped]:
    """These rows have expired."""
    for side, table in enumerate(events.tables):
        mine = rows[events.side[rows] == side]
        if len(mine):
            yield Dropped(EXPIRED, table, events.own[mine])


def _aggregated(
    context: OperatorContext, events: Events, state: State, floor: Int64s | None = None
) -> Iterator[pa.Table | Dropped | Failed]:
    """The changes of aggregates, where rows without a result in time end; `floor`: see `folded`."""
    if not len(events):
        return
    params = context.params(AggregateParams)
    # which rows have expired goes by what was folded before them, which one that fails is not
    outlives = context.outlives and params.history_ms is None
    fold = fold_of(params.fold, context.operator.node, outlives=outlives)
    table = operator_table(context, state)
    rows = _contributions(events)
    standing = StandingAggregates.of(stored(rows, table), fold)
    before = standing.states
    for chosen, done in folded(rows, fold, standing, whole=context.operator.cached, floor=floor):
        yield from changes(rows, fold, chosen, done, events.meta)
        yield from failures(rows, chosen, done)
        if floor is not None and done.void is not None:
            yield from _dropped(events, np.sort(rows.row[chosen[done.void]]))
    to_store(rows, before, standing).put(table)


def _contributions(events: Events) -> Contributions:
    """Each row changes the aggregate of its key."""
    first = events.groups.first
    identity = {"hash": pa.array(events.hash[first]), "key": events.key.take(pa.array(first))}
    return Contributions(events, np.arange(len(events)), events.groups.group_of_row, identity)
