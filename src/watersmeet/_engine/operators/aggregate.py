"""stream_aggregate, table_aggregate: what is kept of each key, and each change of it (semantics/table_aggregate.md).

A record of a stream adds its value; a message of a grouped table subtracts an old value, strictly before it adds a new
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.contributions import (
    Contributions,
    StandingAggregates,
    changes,
    failures,
    folded,
    look_up_states,
    to_store,
)
from watersmeet._engine.aggregates.registry import fold_of
from watersmeet._engine.matching import running_most
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, keep_rows, operator_table
from watersmeet._engine.row_sizes import slices_with_time
from watersmeet._engine.rows import Bools, Int64s, ints, valid
from watersmeet._engine.state.lookups import Lookup
from watersmeet._engine.state.runs import State, Table
from watersmeet._engine.time import BatchTimes
from watersmeet._engine.windowing import latest_headers
from watersmeet._plan.folds import NamedFold
from watersmeet._plan.operators.aggregates import AggregateParams
from watersmeet._plan.reasons import EXPIRED_VERSION


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped | Failed]:
    """See `operators.run_operator`."""
    params = context.params(AggregateParams)
    if params.history_ms is not None:
        yield from _with_history(context, inputs, state, params.history_ms)
        return
    events = Events(context, inputs, sides=len(context.values))
    if params.is_confluence:
        step = params.fold.how
        void = _come_and_go(events, operator_table(context, state), step.rows if isinstance(step, NamedFold) else None)
        if void.any():
            events = Events(context, keep_rows(inputs, events, ~void), sides=len(context.values))
    yield from _aggregated(context, events, state)


def _come_and_go(events: Events, table: Table, counts: str | None) -> Bools:
    """Rows of groups that begin and are empty again within one record, and did not stand before it.

    Where a record takes several ways to a table, its intermediate results may belong to groups of their own
    (docs/semantics, row 39): these never stood.

    Parameters
    ----------
    counts : the field with the number of a group's rows, where it goes with its last one; None: it stays.
    """
    void, groups = np.zeros(len(events), dtype=np.bool_), events.groups
    rows = events.tables[0]
    if "old" not in rows.column_names or not len(events):
        return void
    group, record = groups.group_of_row[groups.order], events.number_of_record[groups.order]
    fresh = np.append(True, (np.diff(group) != 0) | (np.diff(record) != 0))
    starts = np.flatnonzero(fresh)
    if len(starts) == len(events):
        return void
    less = valid(rows.column("old"))[events.own][groups.order].astype(np.int64)
    gain = events.present[groups.order] - less
    running = np.cumsum(gain) - gain
    least = np.minimum.reduceat(running - less, starts) - running[starts]
    empty = (np.add.reduceat(gain, starts) == 0) & (least >= 0) & (np.diff(np.append(starts, len(events))) > 1)
    full, of_run = np.cumsum(~empty), group[starts]
    first = np.searchsorted(of_run, of_run)
    # how often the group has been full before, or how many rows it has had then
    earlier = (full - ~empty) - (full - ~empty)[first] if counts is None else running[starts] - running[starts][first]
    candidates = np.flatnonzero(np.bincount(of_run[empty], minlength=groups.count))
    at = groups.first[candidates]
    lookup = table.point(events.hash[at], events.key.take(pa.array(at)), columns=["value"])
    base = np.zeros(groups.count, dtype=np.int64)
    base[candidates] = lookup.found if counts is None else _counted(lookup, counts)
    void[groups.order] = (empty & (base[of_run] + earlier == 0))[np.cumsum(fresh) - 1]
    return void


def _counted(lookup: Lookup, field: str) -> Int64s:
    """The number that a field of each group's stored aggregate has; 0 where none is stored."""
    counts: Int64s = pc.struct_field(lookup.aligned("value"), field).fill_null(0).to_numpy()
    return counts


def _with_history(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State, history_ms: int
) -> Iterator[pa.Table | Dropped | Failed]:
    """The same without what the result's history has passed (docs/semantics/versioned_table.md)."""
    sides = len(context.values)
    for part in slices_with_time(inputs):
        events = Events(context, part, sides=sides)
        times = BatchTimes(context, part, events, state, sides=sides)
        rows = np.arange(len(events))
        reach = [times.side_time_before(side, rows, times.of_row) for side in range(sides)]
        floor = np.max(reach, axis=0, initial=-1) - history_ms
        if not (events.ts < floor).any():
            yield from _aggregated(context, events, state)
            continue
        expired = _expired(events, floor, operator_table(context, state))
        yield from events.drops(EXPIRED_VERSION, np.flatnonzero(expired))
        if expired.any():
            events = Events(context, keep_rows(dict(enumerate(events.tables)), events, ~expired), sides=sides)
        yield from _aggregated(context, events, state, floor[~expired])
    times.store(state)


def _expired(events: Events, floor: Int64s, table: Table) -> Bools:
    """Which rows surely come when the history has passed them, and the aggregate as it stands, too.

    Of the others some may have, where a fold deletes: what stands behind that has the time of its own records alone.
    """
    groups = events.groups
    lookup = table.point(events.hash[groups.first], events.key.take(pa.array(groups.first)), columns=["ts"])
    times = np.append(ints(lookup.rows, "ts"), -1)[lookup.index]
    # the timestamp of the aggregate behind each row: never less than before
    latest = np.maximum(running_most(groups, events.ts), times[groups.group_of_row])
    return np.asarray(latest < floor)


def _aggregated(
    context: OperatorContext, events: Events, state: State, floor: Int64s | None = None
) -> Iterator[pa.Table | Dropped | Failed]:
    """The changes of aggregates, where rows without a result in time end; `floor`: see `folded`."""
    if not len(events):
        return
    params = context.params(AggregateParams)
    # which rows have expired goes by what was folded before them, which one that fails is not
    tolerates_errors = context.tolerates_errors and params.history_ms is None
    fold = fold_of(params.fold, context.operator.node, tolerates_errors=tolerates_errors)
    table = operator_table(context, state)
    rows = _contributions(events)
    lookup, void = look_up_states(rows, table), np.zeros(len(rows), dtype=np.bool_)
    standing = StandingAggregates.of(lookup, fold)
    previous = standing.states
    for selection, done in folded(rows, fold, standing, single_stretch=context.operator.cached, floor=floor):
        yield from changes(rows, fold, selection, done, events.meta)
        yield from failures(rows, selection, done)
        void[selection] = False if done.void is None else done.void
        if floor is not None and done.void is not None:
            yield from events.drops(EXPIRED_VERSION, np.sort(rows.row[selection[done.void]]))
    beside = {"headers": latest_headers(rows, ~void, lookup)} if "headers" in table.schema.names else {}
    to_store(rows, previous, standing, **beside).put(table)


def _contributions(events: Events) -> Contributions:
    first = events.groups.first
    identity = {"hash": pa.array(events.hash[first]), "key": events.key.take(pa.array(first))}
    return Contributions(events, np.arange(len(events)), events.groups.group_of_row, identity)
