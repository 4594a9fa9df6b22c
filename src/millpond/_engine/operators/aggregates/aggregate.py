"""stream_aggregate, table_aggregate: what is kept of each key, and each change of it (docs/semantics, section 12).

A record of a stream adds its value; a message of a grouped table subtracts an old value, strictly before it adds a new
one. Rows are folded in stretches of their order, so that memory is bounded by bytes (law 9); each stretch begins with
what the one before left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millpond._engine.aggregates.fold import Fold, Folded, Work
from millpond._engine.aggregates.of_plan import fold_of
from millpond._engine.arrays import Int64s
from millpond._engine.operators.operator import Events, OperatorContext, kept_table, sent
from millpond._engine.rows.columns import array_of, gather, ints, joined
from millpond._engine.rows.sizes import LARGEST_RECORD, RESULT_BYTES, Picked, cut, in_pieces, row_bytes
from millpond._engine.state.runs import State
from millpond._engine.state.table import Table
from millpond._plan.operators.aggregates.aggregate import AggregateParams
from millpond.errors import FunctionError

MOST_ROWS = 65_536
"""Rows that are folded at a time."""


@dataclass
class Standing:
    """What stands for each key group: its state (null: none) and timestamp."""

    states: pa.Array
    ts: Int64s


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=len(context.values))
    if not len(events):
        return
    fold = fold_of(context.params(AggregateParams).fold)
    table = kept_table(context, state)
    standing = stored(events, table, fold)
    before = standing.states
    for begin, end in stretches(events, fold, standing):
        rows = _in_groups(events, begin, end)
        done = fold.run(work_of(events, rows, standing))
        yield from changes(events, fold, rows, done)
        settle(events, rows, done, standing)
    store(events, before, standing, table)


def stored(events: Events, table: Table, fold: Fold) -> Standing:
    """What the state holds of each key group."""
    first = events.groups.first
    lookup = table.point(events.hash[first], events.key.take(pa.array(first)))
    ts = np.append(ints(lookup.rows, "ts"), 0)[lookup.index]
    return Standing(array_of(gather(lookup.rows.column("value"), lookup.index), fold.state), ts)


def stretches(events: Events, fold: Fold, standing: Standing) -> Iterator[tuple[int, int]]:
    """Stretches of rows in order of position; with the record cache one change is sent of all, so there is one."""
    if events.context.operator.cached:
        yield 0, len(events)
        return
    sizes = sizes_of(events)
    for begin, end in cut(sizes, RESULT_BYTES):
        at = begin
        while at < end:
            until = min(end, at + MOST_ROWS)
            while until - at > 1 and fold.grows and _states_bytes(events, standing, sizes, at, until) > RESULT_BYTES:
                until = at + (until - at) // 2
            yield at, until
            at = until


def _states_bytes(events: Events, standing: Standing, sizes: Int64s, begin: int, end: int) -> int:
    """About how many bytes the states after each of these rows have, where each may hold all values before it."""
    groups, counts = np.unique(events.groups.group_of_row[begin:end], return_counts=True)
    states = row_bytes(standing.states, groups)
    value = int(sizes[begin:end].max(initial=0)) + 1
    return int((counts * (states + counts * value // 2)).sum())


def _in_groups(events: Events, begin: int, end: int) -> Int64s:
    """Rows of a stretch, group after group."""
    order = events.groups.order
    return order if end - begin == len(events) else order[(order >= begin) & (order < end)]


def work_of(events: Events, rows: Int64s, standing: Standing) -> Work:
    """These rows, which stand group after group, as the fold takes them."""
    groups = events.groups.group_of_row[rows]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    present, batch = groups[starts], events.tables[0]
    at = pa.array(present)
    olds = gather(batch.column("old"), events.own[rows]) if "old" in batch.column_names else None
    return Work(
        keys=events.key.take(pa.array(events.groups.first[present])),
        starts=np.append(starts, len(rows)),
        values=values_of(events, rows),
        ts=events.ts[rows],
        prior=standing.states.take(at),
        prior_ts=standing.ts[present],
        olds=olds,
    )


def values_of(events: Events, rows: Int64s) -> pa.Array:
    """Values of rows; of several sides a struct with a field for each, of which one is not null."""
    fields = []
    for side, batch in enumerate(events.tables):
        pointers = np.where(events.side[rows] == side, events.own[rows], -1)
        fields.append(array_of(gather(batch.column("value"), pointers), events.context.values[side]))
    if len(fields) == 1:
        return fields[0]
    return pa.StructArray.from_arrays(fields, names=[f"side{side}" for side in range(len(fields))])


def sizes_of(events: Events) -> Int64s:
    """Bytes of each row's value."""
    sizes = np.zeros(len(events), dtype=np.int64)
    for side, batch in enumerate(events.tables):
        mine = events.side == side
        sizes[mine] = row_bytes(batch.column("value"))[events.own[mine]]
    return sizes


def changes(events: Events, fold: Fold, rows: Int64s, done: Folded) -> Iterator[pa.Table]:
    """Each row's result, in order of position; with the record cache each group's last."""
    place = np.full(len(events), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    wanted = np.sort(rows)
    before, after, ts = (np.zeros(len(events), dtype=np.int64) for _ in range(3))
    before[rows], after[rows], ts[rows] = done.before, done.after, done.ts
    group = events.groups.group_of_row
    firsts, sending = sent(events.context.operator, group, wanted, after >= 0, before >= 0)
    if not len(sending):
        return
    results = finished(fold, done.states)
    out: dict[str, pa.Array | Picked] = events.meta(sending, ts[sending])
    out["value"] = Picked(results, after[sending])
    if events.context.operator.emits_old:
        out["old"] = Picked(results, before[firsts])
    yield from in_pieces(out)


def finished(fold: Fold, states: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """What is shown of states."""
    if isinstance(states, pa.ChunkedArray):
        return joined([fold.finish(chunk) for chunk in states.chunks], fold.result)
    return fold.finish(states)


def settle(events: Events, rows: Int64s, done: Folded, standing: Standing) -> None:
    """What stands behind these rows."""
    groups = events.groups.group_of_row[rows]
    lasts = np.flatnonzero(np.append(np.diff(groups), 1))
    known = len(standing.states)
    pointers = np.arange(known, dtype=np.int64)
    pointers[groups[lasts]] = np.where(done.after[lasts] >= 0, done.after[lasts] + known, -1)
    standing.states = array_of(
        gather(joined([standing.states, done.states], standing.states.type), pointers), standing.states.type
    )
    standing.ts[groups[lasts]] = done.ts[lasts]
    _refuse_large(events, standing)


def _refuse_large(events: Events, standing: Standing) -> None:
    """A state is one row of a table: it cannot be as large as one likes (law 9)."""
    if standing.states.nbytes <= LARGEST_RECORD:
        return
    sizes = row_bytes(standing.states)
    largest = int(sizes.argmax())
    if sizes[largest] > LARGEST_RECORD:
        key = events.key[int(events.groups.first[largest])].as_py()
        raise FunctionError(
            f"The aggregate of a key of {events.context.operator.node!r} has grown too large.",
            given=f"key {key!r:.100}: {sizes[largest]:,} bytes, {LARGEST_RECORD:,} allowed",
            hint="Keep less of each key: mp.top_k or mp.count_distinct of fewer values, a window, or another key.",
        )


def store(events: Events, before: pa.Array, standing: Standing, table: Table) -> None:
    """Write what stands; what stood and does not any more is deleted."""
    stands = standing.states.is_valid().to_numpy(zero_copy_only=False)
    groups = np.flatnonzero(stands | before.is_valid().to_numpy(zero_copy_only=False))
    first = events.groups.first[groups]
    columns = {"hash": pa.array(events.hash[first]), "key": events.key.take(pa.array(first))}
    columns |= {"value": Picked(standing.states, groups), "ts": pa.array(standing.ts[groups])}
    table.put(columns, ~stands[groups])
