"""Contributions: which rows of a batch change which aggregates, folded in stretches and written.

A row changes the aggregate of its key, or one for each of its windows. Rows are folded in stretches of their order, so
that memory is bounded by bytes (law 9); each stretch begins with what the one before left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.folds import Folded, FoldKernel, Work, in_time
from watersmeet._engine.operator import Events, Failed, failed_rows, sent
from watersmeet._engine.row_sizes import LARGEST_RECORD, RESULT_BYTES, Picked, cut, in_pieces, row_bytes, take_rows
from watersmeet._engine.rows import Bools, Int64s, array_of, gather, ints, joined
from watersmeet._engine.state.lookups import Lookup
from watersmeet._engine.state.runs import Table
from watersmeet._plan.physical import Operator
from watersmeet.errors import FunctionError

MOST_ROWS = 131_072
"""Rows that are folded at a time."""

Meta = Callable[[Int64s, Int64s], dict[str, "pa.Array | Picked"]]
"""Metadata columns of the results of some contributions, which have these timestamps."""


@dataclass(frozen=True)
class Contributions:
    """The changes of aggregates, in the order of the results."""

    events: Events  # the batch's rows
    row: Int64s  # of each contribution, the row of the events; ascending
    group: Int64s  # number of the aggregate that it changes
    # of each aggregate, what it is stored under: hash, key, and what else tells it from others
    identity: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def keys(self) -> pa.Array:
        return self.identity["key"]

    @property
    def at(self) -> Int64s:
        """Of each window what tells it from others of its key: the last column of the identity."""
        column: Int64s = next(reversed(self.identity.values())).to_numpy()  # type: ignore[call-overload]
        return column

    def ordered(self, start: int, end: int) -> Int64s:
        """These contributions, aggregate after aggregate, in their order within each."""
        return start + np.argsort(self.group[start:end], kind="stable")


@dataclass
class StandingAggregates:
    """The state (null: none) and timestamp of each aggregate."""

    states: pa.Array
    ts: Int64s

    @classmethod
    def of(cls, lookup: Lookup, fold: FoldKernel) -> StandingAggregates:
        ts = np.append(ints(lookup.rows, "ts"), 0)[lookup.index]
        return cls(array_of(lookup.aligned("value"), fold.state), ts)


def look_up_states(rows: Contributions, table: Table) -> Lookup:
    hashes, keys, *columns = rows.identity.values()
    return table.point(hashes.to_numpy(), keys, *columns)


def folded(
    rows: Contributions,
    fold: FoldKernel,
    standing: StandingAggregates,
    *,
    single_stretch: bool,
    floor: Int64s | None = None,
) -> Iterator[tuple[Int64s, Folded]]:
    """(contributions, what became of them), stretch after stretch; `standing` goes along.

    Parameters
    ----------
    single_stretch : all in one stretch, as where one change is sent of all.
    floor : of each row, what the timestamp of its result may not be below; None: nothing.
    """

    def growth(start: int, end: int) -> int:
        return grown(rows.group[start:end], row_bytes(standing.states), sizes[start:end]) if fold.grows else 0

    sizes = sizes_of(rows.events)[rows.row]
    spans = stretches(sizes, growth, single_stretch=single_stretch)
    for start, end in _of_whole_rows(rows, spans) if fold.tolerates_errors else spans:
        indices = rows.ordered(start, end)
        work = _work(rows, indices, standing)
        row = rows.row[indices]
        done = _run_whole_rows(fold, work, row) if floor is None else in_time(fold, work, floor[row])
        yield indices, done
        _settle(rows, indices, done, standing)


def _of_whole_rows(rows: Contributions, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The stretches, each with all contributions of its rows: a row that ends changes none of its aggregates."""
    start = 0
    for _, end in spans:
        until = int(np.searchsorted(rows.row, rows.row[end - 1], side="right"))
        if until > start:
            yield start, until
        start = until


def _run_whole_rows(fold: FoldKernel, work: Work, of: Int64s) -> Folded:
    """The results of contributions. If a function raises for one contribution of a row, all of the row's end.

    Which rows these are depends on those before them that do not end. So what has been found is taken for so, and
    folded anew, until the same is found: of each aggregate one row more is right each time, and most often all are.

    Parameters
    ----------
    of : the row of each contribution.
    """
    while True:
        done = fold.run_by_policy(work)
        if done.void is None:
            return done
        ends = np.isin(of, of[list(done.failed)])
        if (ends == done.void).all():
            return done
        work = replace(work, ends=ends)


def stretches(sizes: Int64s, growth: Callable[[int, int], int], *, single_stretch: bool) -> Iterator[tuple[int, int]]:
    """Stretches of rows that have so many bytes each, as large as memory allows.

    Parameters
    ----------
    growth : bytes of the states after each row of a stretch.
    """
    if single_stretch:
        yield from [(0, len(sizes))] if len(sizes) else []
        return
    for start, end in cut(sizes, RESULT_BYTES):
        at = start
        while at < end:
            until = min(end, at + MOST_ROWS)
            while until - at > 1 and growth(at, until) > RESULT_BYTES:
                until = at + (until - at) // 2
            yield at, until
            at = until


def grown(groups: Int64s, states: Int64s, sizes: Int64s) -> int:
    """About how many bytes states have after each of some rows, where each may hold all values before it.

    Parameters
    ----------
    groups, sizes : of each row, number of its aggregate and bytes of its value.
    states : bytes of what stands of each aggregate.
    """
    present, counts = np.unique(groups, return_counts=True)
    value = int(sizes.max(initial=0)) + 1
    return int((counts * (states[present] + counts * value // 2)).sum())


def _work(rows: Contributions, indices: Int64s, standing: StandingAggregates) -> Work:
    """These contributions, which stand aggregate after aggregate, as the fold takes them."""
    groups = rows.group[indices]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    present, batch = groups[starts], rows.events.tables[0]
    at = pa.array(present)
    olds = gather(batch.column("old"), rows.events.own[rows.row[indices]]) if "old" in batch.column_names else None
    return Work(
        keys=rows.keys.take(at),
        starts=np.append(starts, len(indices)),
        values=values_of(rows.events, rows.row[indices]),
        ts=rows.events.ts[rows.row[indices]],
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
        mask = events.side == side
        sizes[mask] = row_bytes(batch.column("value"))[events.own[mask]]
    return sizes


def _settle(rows: Contributions, indices: Int64s, done: Folded, standing: StandingAggregates) -> None:
    groups = rows.group[indices]
    lasts = np.flatnonzero(np.append(np.diff(groups), 1))
    count = len(standing.states)
    pointers = np.arange(count, dtype=np.int64)
    pointers[groups[lasts]] = np.where(done.after[lasts] >= 0, done.after[lasts] + count, -1)
    states = joined([standing.states, done.states], standing.states.type)
    standing.states = array_of(gather(states, pointers), standing.states.type)
    standing.ts[groups[lasts]] = done.ts[lasts]
    refuse_large(rows.events, standing.states, lambda group: rows.keys[group])


def refuse_large(events: Events, states: pa.Array, key_of: Callable[[int], pa.Scalar]) -> None:
    """A state is one row of a table: it cannot be as large as one likes (law 9)."""
    if states.nbytes <= LARGEST_RECORD:
        return
    sizes = row_bytes(states)
    largest = int(sizes.argmax())
    if sizes[largest] > LARGEST_RECORD:
        raise FunctionError(
            f"The aggregate of a key of {events.context.operator.node!r} has grown too large.",
            given=f"key {key_of(largest).as_py()!r:.100}: {sizes[largest]:,} bytes, {LARGEST_RECORD:,} allowed",
            hint="Keep less of each key: wm.top_k or wm.count_distinct of fewer values, a window, or another key.",
        )


def failures(rows: Contributions, indices: Int64s, done: Folded) -> Iterator[Failed]:
    """Rows for which a function has raised, each with the first of what it has raised."""
    latest_first = sorted(done.failed, reverse=True)
    yield from failed_rows(rows.events, {int(rows.row[indices[at]]): done.failed[at] for at in latest_first})


def changes(rows: Contributions, fold: FoldKernel, indices: Int64s, done: Folded, meta: Meta) -> Iterator[pa.Table]:
    """The result of each contribution, in order of position; with the record cache each aggregate's last."""
    survivors = np.sort(indices if done.void is None else indices[~done.void])
    old, new, ts = (np.zeros(len(rows), dtype=np.int64) for _ in range(3))
    old[indices], new[indices], ts[indices] = done.before, done.after, done.ts
    yield from changed_aggregates(
        rows.events.context.operator, fold, rows.group, survivors, done.states, (new, old), ts, meta
    )


def changed_aggregates(
    operator: Operator,
    fold: FoldKernel,
    group: Int64s,
    rows: Int64s,
    states: pa.Array | pa.ChunkedArray,
    pointers: tuple[Int64s, Int64s],
    ts: Int64s,
    meta: Meta,
) -> Iterator[pa.Table]:
    """Changes of aggregates as results; with the record cache each aggregate's last.

    Parameters
    ----------
    group : the aggregate of each change; of all changes.
    rows : those that give a result, ascending.
    states, pointers : the states after and before each change, as pointers into `states`; -1: none.
    ts : timestamp of each change's result.
    """
    new, old = pointers
    firsts, sending = sent(operator, group, rows, new >= 0, old >= 0)
    if not len(sending):
        return
    results = finished(fold, states)
    out = meta(sending, ts[sending])
    out["value"] = Picked(results, new[sending])
    if "old" in operator.emits:
        out["old"] = Picked(results, old[firsts])
    yield from in_pieces(out)


def finished(fold: FoldKernel, states: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if isinstance(states, pa.ChunkedArray):
        return joined([fold.finish(chunk) for chunk in states.chunks], fold.result)
    return fold.finish(states)


@dataclass(frozen=True)
class WrittenAggregates:
    """The writes of a batch: rows of aggregates, in the table's columns, and which of them are deleted.

    `group` has the number of each one's aggregate.
    """

    columns: Mapping[str, pa.Array | Picked]
    delete: Bools
    group: Int64s

    def put(self, table: Table) -> None:
        table.put(self.columns, self.delete)

    @property
    def standing(self) -> Mapping[str, pa.Array | Picked]:
        rows = np.flatnonzero(~self.delete)
        return {name: take_rows(column, rows) for name, column in self.columns.items()}


def to_store(
    rows: Contributions, prior: pa.Array, standing: StandingAggregates, **extras: Int64s | Picked
) -> WrittenAggregates:
    """The present aggregates; those that are gone are deleted.

    Parameters
    ----------
    prior : the states that stood before the batch.
    extras : further columns, of numbers or not gathered yet, one row of each aggregate.
    """
    present = standing.states.is_valid().to_numpy(zero_copy_only=False)
    groups = np.flatnonzero(present | prior.is_valid().to_numpy(zero_copy_only=False))
    at = pa.array(groups)
    columns: dict[str, pa.Array | Picked] = {name: column.take(at) for name, column in rows.identity.items()}
    columns |= {"value": Picked(standing.states, groups), "ts": pa.array(standing.ts[groups])}
    columns |= {
        name: take_rows(column, groups) if isinstance(column, Picked) else pa.array(column[groups])
        for name, column in extras.items()
    }
    return WrittenAggregates(columns, ~present[groups], groups)
