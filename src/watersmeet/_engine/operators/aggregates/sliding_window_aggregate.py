"""sliding_window_aggregate: aggregates by key and sliding window (docs/semantics, sections 13 to 15; KIP-450).

A record changes all windows that hold it, and makes those that begin or end with it or with the record before. The
windows of a key are stored for as long as new windows may be made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import stretches, values_of
from watersmeet._engine.aggregates.fold import FoldKernel
from watersmeet._engine.aggregates.of_plan import fold_of
from watersmeet._engine.aggregates.windows.chains import Links, States, fold_chains
from watersmeet._engine.aggregates.windows.sliding import slid
from watersmeet._engine.aggregates.windows.sliding_changes import WHOLE, Slid, StoredWindows
from watersmeet._engine.aggregates.windows.sliding_out_of_order import Whose
from watersmeet._engine.aggregates.windows.standing import Shard, StandingWindows, WindowChanges
from watersmeet._engine.aggregates.windows.windowed import late_rows, numbered
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, failed_rows, operator_table
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.aggregates.sliding_window_aggregate import SlidingWindowAggregateSpec
from watersmeet._plan.operators.aggregates.window import WindowParams
from watersmeet.windows import SlidingWindows

(EXPIRED,) = SlidingWindowAggregateSpec.drop_reasons


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped | Failed]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=len(context.values))
    times = Times(context, inputs, events, state, sides=len(context.values))
    params = context.params(WindowParams)
    assert isinstance(params.windows, SlidingWindows)
    length, grace = params.windows.difference_ms, params.windows.grace_ms
    fold = fold_of(params.fold, context.operator.node, outlives=context.outlives)
    shard = Shard(events, times, fold, operator_table(context, state), 2 * length, grace)
    for begin, end in stretches(shard.sizes, shard.growth, whole=context.operator.cached):
        yield from _take_in(shard, begin, end, times.at_row[begin:end] - grace, length)
    if params.on_close:
        yield from shard.closing(length + grace + 1, lambda start: start + length)
    # a record that is just in time, at T - grace - difference, looks two differences back (row 16 of section A)
    shard.write(grace + 3 * length)
    times.store(state)


def _take_in(shard: Shard, begin: int, end: int, close: Int64s, length: int) -> Iterator[pa.Table | Dropped | Failed]:
    """The results of a stretch of the events, behind what was late."""
    events, standing = shard.events, shard.standing
    key = events.groups.group_of_row[begin:end]
    stored = StoredWindows(standing.key, standing.numbers["start"], standing.numbers["ts"], np.arange(len(standing)))
    keys, values = events.key.slice(begin, end - begin), values_of(events, np.arange(begin, end))
    owner = None
    if shard.partitions is not None:
        owner = Whose(shard.partitions.stretch(begin, end), standing.numbers["domain"])
    vanishing: set[tuple[int, int]] = set()
    ends: set[int] = set()
    while True:
        void = {(row, WHOLE) for row in ends}
        voiding = vanishing | void if void else vanishing
        found = slid(key, events.ts[begin:end], close, stored, length, voiding, owner)
        states, failed = _folded(shard.fold, found, keys, values, standing.states, ends)
        if ends != failed.keys():
            # as of hopping windows (`contributions`): until the same is found
            ends = set(failed)
            continue
        gone = np.flatnonzero(states.pointers(found.state) < 0)
        told = [(int(found.by[at]), int(found.start[at])) not in vanishing for at in gone]
        gone = gone[np.array(told, dtype=np.bool_)]
        if not len(gone):
            break
        # what a key's later records meet is another then
        firsts = gone[np.unique(key[found.by[gone]], return_index=True)[1]]
        vanishing |= {(int(found.by[at]), int(found.start[at])) for at in firsts}
    yield from late_rows(EXPIRED, events, begin + found.late)
    yield from failed_rows(events, {begin + row: error for row, error in failed.items()})
    if not events.context.params(WindowParams).on_close:
        yield from shard.results(_changes(begin, found, length), states)
    _settle(shard, begin, key, found, states)


def _folded(
    fold: FoldKernel, found: Slid, keys: pa.Array, values: pa.Array, stored: pa.Array, ends: set[int]
) -> tuple[States, dict[int, Exception]]:
    """(the state that each addition makes, the records for which a function raises, where that is outlived)."""
    count = len(found.record)
    states = States.of_stored(fold, stored, count)
    numbers, ts = len(stored) + np.arange(count), np.zeros(count, dtype=np.int64)
    links = Links(numbers, found.record, found.head, found.level, ts)
    void = np.zeros(len(keys), dtype=np.bool_) if ends else None
    if void is not None:
        void[list(ends)] = True
    failed = fold_chains(fold, links, states, keys, values, lambda heads: states.of(found.parent[heads]), ends=void)
    return states, failed


def _changes(begin: int, found: Slid, length: int) -> WindowChanges:
    """The columns of records, record after record: in `found` they are key after key."""
    order = np.argsort(found.by, kind="stable")
    by, start = found.by[order], found.start[order]
    place = np.arange(len(by)) - np.searchsorted(by, by)
    return WindowChanges(
        begin + by, place, start, start + length, found.ts[order], found.state[order], found.before[order]
    )


def _settle(shard: Shard, begin: int, key: Int64s, found: Slid, states: States) -> None:
    """The windows after a stretch: new ones of its keys, previous ones of the other keys."""
    before, now = shard.standing, found.standing
    others = np.flatnonzero(~np.isin(before.key, key))
    domain, fresh = _taken_over(shard, begin, key, found)
    new = {"start": now.start, "ts": now.ts, "domain": domain}
    if "headers" in before.numbers:
        new["headers"] = _last_changes(before, begin, now.key, now.start, key[found.by], found.start, found.by)
    if found.several.replaced:
        gone, start, ts, state, owner, by = np.array(found.several.replaced, dtype=np.int64).T
        numbers = {"start": start, "ts": ts, "domain": owner}
        if "headers" in before.numbers:
            # one window may be replaced twice in a batch: each time it has the headers of its own last record
            none = gone[:0]
            stored = _last_changes(before, begin, gone, start, none, none, none)
            numbers["headers"] = np.where(by >= 0, begin + by, stored)
        shard.let_go(gone, numbers, states.of(state))
    shard.settle(
        np.concatenate([before.key[others], now.key]),
        {name: np.concatenate([before.numbers[name][others], column]) for name, column in new.items()},
        np.concatenate([before.fresh[others], fresh]),
        states.of(np.concatenate([others, now.state])),
    )


def _last_changes(
    before: StandingWindows, begin: int, key: Int64s, start: Int64s, changed: Int64s, starts: Int64s, by: Int64s
) -> Int64s:
    """Where the headers of windows are: of the last record that has changed each, or where they were before.

    Parameters
    ----------
    key, start : of each window.
    changed, starts, by : of each change the window and the record.
    """
    number = numbered(
        np.concatenate([key, changed, before.key]), np.concatenate([start, starts, before.numbers["start"]])
    )
    mine, theirs, known = np.split(number, np.cumsum([len(key), len(changed)]))
    last = np.full(int(number.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(last, theirs, begin + by)
    stored = np.full(len(last), -1, dtype=np.int64)
    stored[known] = before.numbers["headers"]
    return np.where(last >= 0, last, stored)[mine]


def _taken_over(shard: Shard, begin: int, key: Int64s, found: Slid) -> tuple[Int64s, Bools]:
    """Domain of each window that stands, which is that of the record that made it, and whether it is fresh."""
    before, now = shard.standing, found.standing
    number = numbered(
        np.concatenate([now.key, key[found.by], before.key]),
        np.concatenate([now.start, found.start, before.numbers["start"]]),
    )
    mine, changed, known = np.split(number, np.cumsum([len(now.key), len(found.by)]))
    domain, fresh = (np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64) for _ in range(2))
    domain[changed[::-1]] = shard.domain[begin + found.by[::-1]]
    domain[known] = before.numbers["domain"]
    fresh[known] = before.fresh
    fresh[changed] = 1
    belongs = domain[mine]
    if shard.partitions is not None:
        # windows of keys of several partitions alone
        for at in np.flatnonzero(shard.partitions.several[now.key]).tolist():
            belongs[at] = found.several.standing[int(now.key[at]), int(now.start[at])]
    return belongs, fresh[mine] > 0
