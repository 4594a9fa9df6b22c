"""session_window_aggregate: aggregates by key and session (docs/semantics, sections 13 to 15; KIP-94).

A record merges the sessions that it comes near to: each of them gives a tombstone, then the one that they make gives a
result. A session is let go when stream time has passed its end, the gap and the grace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import stretches, values_of
from watersmeet._engine.aggregates.of_plan import fold_of
from watersmeet._engine.aggregates.windows.chains import States
from watersmeet._engine.aggregates.windows.session_folds import fold_sessions
from watersmeet._engine.aggregates.windows.sessions import Merged, merged
from watersmeet._engine.aggregates.windows.sessions_known import SessionRecords, StoredSessions
from watersmeet._engine.aggregates.windows.standing import Shard, WindowChanges
from watersmeet._engine.aggregates.windows.windowed import late_rows
from watersmeet._engine.arrays import Int64s, order_of
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, failed_rows, operator_table
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.aggregates.session_window_aggregate import SessionWindowAggregateSpec
from watersmeet._plan.operators.aggregates.window import WindowParams
from watersmeet.windows import SessionWindows

(EXPIRED,) = SessionWindowAggregateSpec.drop_reasons


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped | Failed]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=len(context.values))
    times = Times(context, inputs, events, state, sides=len(context.values))
    params = context.params(WindowParams)
    assert isinstance(params.windows, SessionWindows)
    gap, wait = params.windows.gap_ms, params.windows.gap_ms + params.windows.grace_ms
    fold = fold_of(params.fold, context.operator.node, outlives=context.outlives)
    shard = Shard(events, times, fold, operator_table(context, state), gap, wait)
    for begin, end in stretches(shard.sizes, shard.growth, whole=context.operator.cached):
        yield from _take_in(shard, begin, end, times.at_row[begin:end] - wait, gap)
    if params.on_close:
        yield from shard.closing(wait + 1)
    shard.write(wait)
    times.store(state)


def _take_in(shard: Shard, begin: int, end: int, close: Int64s, gap: int) -> Iterator[pa.Table | Dropped | Failed]:
    """The results of a stretch of the events, behind what was late."""
    events, standing = shard.events, shard.standing
    ts = events.ts[begin:end]
    none = np.zeros(len(ts), dtype=np.bool_)
    key, domain = events.groups.group_of_row[begin:end], shard.domain[begin:end]
    records = SessionRecords(key, ts, close, vanishes=none, ends=none, domain=domain)
    stored = StoredSessions(standing.key, *(standing.numbers[name] for name in ("start", "end", "domain")))
    partitions = shard.partitions.stretch(begin, end) if shard.partitions is not None else None
    keys, values = events.key.slice(begin, end - begin), values_of(events, np.arange(begin, end))
    while True:
        found = merged(records, stored, gap, partitions)
        raises = records.ends if records.ends.any() else None
        states, failed = fold_sessions(shard.fold, found, keys, values, standing.states, raises)
        ends = none.copy()
        ends[list(failed)] = True
        if (ends != records.ends).any():
            # as of hopping windows (`contributions`): until the same is found
            records = replace(records, ends=ends)
            continue
        gone = np.flatnonzero((states.pointer[found.known :] < 0) & ~found.late & ~records.vanishes & ~ends)
        if not len(gone):
            break
        # what a key's later records meet is another then
        flags = records.vanishes.copy()
        flags[gone[np.unique(records.key[gone], return_index=True)[1]]] = True
        records = replace(records, vanishes=flags)
    yield from late_rows(EXPIRED, events, begin + np.flatnonzero(found.late))
    yield from failed_rows(events, {begin + row: error for row, error in failed.items()})
    found = found.without(records.ends) if failed else found
    if not events.context.params(WindowParams).on_close:
        yield from shard.results(_changes(begin, records, found, stored), states)
    _settle(shard, begin, records, found, states)


def _settle(shard: Shard, begin: int, records: SessionRecords, found: Merged, states: States) -> None:
    """The sessions after a stretch: those not merged, and those made and not merged since."""
    before, known = shard.standing, found.known
    made = np.flatnonzero(~found.late & ~records.vanishes & ~found.gone[known:])
    kept = np.flatnonzero(~found.gone[:known])
    of = {"end": found.end, "start": found.start, "domain": found.domain}
    if "headers" in before.numbers:
        of["headers"] = begin + np.arange(len(found.end), dtype=np.int64)
    if len(found.replaced):
        numbers = {name: np.concatenate([before.numbers[name], of[name]])[found.replaced] for name in of}
        key = np.concatenate([before.key, records.key])[found.replaced]
        shard.let_go(key, numbers, states.of(found.replaced))
    shard.settle(
        np.concatenate([before.key[kept], records.key[made]]),
        {name: np.concatenate([before.numbers[name][kept], column[made]]) for name, column in of.items()},
        np.concatenate([before.fresh[kept], np.ones(len(made), dtype=np.bool_)]),
        states.of(np.concatenate([kept, known + made])),
    )


def _changes(begin: int, records: SessionRecords, found: Merged, stored: StoredSessions) -> WindowChanges:
    """Of each record the tombstones of the sessions that it merges, then what it makes of them."""
    made = np.flatnonzero(~found.late)
    # a session that is replaced by one of the same times gives no tombstone
    grows = (found.start != records.ts) | (found.end != records.ts)
    ends = grows[found.by]
    record = np.concatenate([found.by[ends], made])
    session = np.concatenate([found.session[ends], found.known + made])
    place = np.concatenate([found.rank[ends], np.where(grows, found.count, 0)[made]])
    order = order_of([record, place])
    record, session, place = record[order], session[order], place[order]
    start, end = np.concatenate([stored.start, found.start])[session], np.concatenate([stored.end, found.end])[session]
    dies = session != found.known + record
    # what is replaced without a tombstone is the old value of what replaces it
    replaced = np.full(len(found.start), -1, dtype=np.int64)
    replaced[found.by[~ends]] = found.session[~ends]
    new, old = np.where(dies, -1, session), np.where(dies, session, replaced[record])
    return WindowChanges(begin + record, place, start, end, end, new, old)
