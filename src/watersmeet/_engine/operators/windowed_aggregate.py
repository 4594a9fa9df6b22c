"""time_window_aggregate: aggregates by key and time window (docs/semantics/windows.md and window_aggregate.md).

Of keys with records in several partitions (`windowing.Partitions`) a window may begin anew after it has closed: as
another aggregate, a further generation; all but the last one are let go by what closes in the batch. Whether a window
stands depends on what functions make of the records before, as a null deletes it. So what has been found is taken for
so, and folded anew, until the same is found: of each key one record more is right each time, and most often all are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import (
    Contributions,
    StandingAggregates,
    WrittenAggregates,
    changes,
    failures,
    folded,
    look_up_states,
    to_store,
)
from watersmeet._engine.aggregates.folds import FoldKernel
from watersmeet._engine.aggregates.registry import fold_of
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, operator_table
from watersmeet._engine.row_sizes import Picked, take_rows
from watersmeet._engine.rows import Bools, Int64s, ints
from watersmeet._engine.state.lookups import Lookup
from watersmeet._engine.state.runs import State
from watersmeet._engine.time import BatchTimes
from watersmeet._engine.windowing import Calendar, Closing, Partitions, domains, in_windows, latest_headers, meta_of
from watersmeet._plan.operators.aggregates import WindowParams
from watersmeet._plan.reasons import EXPIRED_WINDOW, NO_WINDOW
from watersmeet.windows import CalendarWindows, TimeWindows, UnlimitedWindows

_NOBODY = -1


@dataclass(frozen=True)
class Reopenings:
    """Contributions to windows, those that are begun anew apart; and what stands of each."""

    rows: Contributions  # the contributions
    standing: StandingAggregates  # what stands before them
    # of each window the time domain that it belongs to; None: of each it is that of its records
    domain: Int64s | None = None
    # of each aggregate, what it is a generation of, in order of generations; None: each is the only one
    window: Int64s | None = None

    def domains(self, counts: Bools, lookup: Lookup, of_row: Int64s) -> Int64s:
        return domains(self.rows, counts, lookup, of_row) if self.domain is None else self.domain

    def latest(self, written: WrittenAggregates) -> WrittenAggregates:
        """Of each window's generations the last one that is written."""
        if self.window is None:
            return written
        window = self.window[written.group]
        _, last = np.unique(window[::-1], return_index=True)
        indices = np.sort(len(window) - 1 - last)
        columns = {name: take_rows(column, indices) for name, column in written.columns.items()}
        return WrittenAggregates(columns, written.delete[indices], written.group[indices])


def generations(
    rows: Contributions,
    lookup: Lookup,
    fold: FoldKernel,
    events: Events,
    times: BatchTimes,
    wait: int,
    *,
    single_stretch: bool,
) -> Reopenings:
    """The generations of windows.

    Parameters
    ----------
    rows : contributions to windows.
    lookup : what state has of each window.
    wait : from a window's start on until it is closed, in ms.
    single_stretch : see `folded`.
    """
    standing = StandingAggregates.of(lookup, fold)
    domain = np.full(len(rows.keys), _NOBODY, dtype=np.int64)
    hits = np.flatnonzero(lookup.found)
    domain[hits] = ints(lookup.rows, "domain")[lookup.index[hits]]
    key = np.zeros(len(rows.keys), dtype=np.int64)
    key[rows.group] = events.groups.group_of_row[rows.row]
    partitions = Partitions.of(events, times, key[hits], domain[hits], wait)
    if partitions is None:
        return Reopenings(rows, standing)
    shared = np.flatnonzero(partitions.several[key[rows.group]])
    counted = _Counted(rows, shared, domain, partitions)
    while True:
        counted.count()
        again = counted.rows_of(fold, standing, single_stretch=single_stretch)
        if not again:
            break
    return counted.generations(standing)


class _Counted:
    """Reopenings, as far as it is known what functions make of the records."""

    def __init__(self, rows: Contributions, shared: Int64s, domain: Int64s, partitions: Partitions) -> None:
        """`shared`: the contributions to windows of keys that lie in several partitions."""
        self._rows = rows
        self._shared = shared
        self._domain = domain
        self._partitions = partitions
        self._empties, self._void = (np.zeros(len(shared), dtype=np.bool_) for _ in range(2))
        self._order = np.argsort(rows.group[shared], kind="stable")
        self._generation = np.zeros(len(shared), dtype=np.int64)
        self._owner: dict[tuple[int, int], int] = {}

    def count(self) -> None:
        """The generation of each contribution, and the owners of generations."""
        at, partitions = self._shared[self._order], self._partitions
        row = self._rows.row[at]
        starts = self._rows.at[self._rows.group[at]]
        columns = (self._order, self._rows.group[at], row, starts, partitions.domain[row])
        flags = (self._empties[self._order], self._void[self._order])
        owner, generation, group = _NOBODY, 0, -1
        self._owner = {}
        # which generation a record goes to depends on those before it; of keys of several partitions alone
        for place, window, event, start, domain, empties, void in zip(
            *(column.tolist() for column in (*columns, *flags)), strict=True
        ):
            if window != group:
                group, owner, generation = window, int(self._domain[window]), 0
                self._owner[window, 0] = owner
            closed = owner not in (_NOBODY, domain) and start <= partitions.closes[owner][event]
            self._generation[place] = generation + closed
            if void:
                continue
            generation += closed
            if closed or owner == _NOBODY:
                owner = domain
            self._owner[window, generation] = owner
            if empties:
                owner = _NOBODY

    def rows_of(self, fold: FoldKernel, standing: StandingAggregates, *, single_stretch: bool) -> bool:
        """Fold; whether functions make something else of the records than was taken for so."""
        tolerant = copy(fold)
        tolerant.tolerates_errors = True
        window_generations = self.generations(standing)
        rows = replace(
            window_generations.rows,
            row=window_generations.rows.row[self._shared],
            group=window_generations.rows.group[self._shared],
        )
        scratch = StandingAggregates(window_generations.standing.states, window_generations.standing.ts.copy())
        empties, void = (np.zeros(len(self._shared), dtype=np.bool_) for _ in range(2))
        for selection, done in folded(rows, tolerant, scratch, single_stretch=single_stretch):
            void[selection] = False if done.void is None else done.void
            empties[selection] = done.after < 0
        empties &= ~void
        if (empties == self._empties).all() and (void == self._void).all():
            return False
        self._empties, self._void = empties, void
        return True

    def generations(self, standing: StandingAggregates) -> Reopenings:
        """As they are counted."""
        rows, count = self._rows, len(self._rows.keys)
        again = self._generation > 0
        pairs = np.stack([rows.group[self._shared], self._generation]).T[again]
        windows, window = np.unique(pairs, axis=0, return_inverse=True)
        group = rows.group.copy()
        group[self._shared[again]] = count + window.reshape(-1)
        of = np.concatenate([np.arange(count), windows[:, 0]])
        identity = {name: column.take(pa.array(of)) for name, column in rows.identity.items()}
        states = pa.concat_arrays([standing.states, pa.nulls(len(windows), standing.states.type)])
        ts = np.concatenate([standing.ts, np.zeros(len(windows), dtype=np.int64)])
        whose = np.concatenate([self._domain, np.full(len(windows), _NOBODY)])
        first = np.flatnonzero(whose[rows.group] == _NOBODY)[::-1]
        whose[rows.group[first]] = self._partitions.domain[rows.row[first]]
        numbers = {(int(w), int(g)): count + at for at, (w, g) in enumerate(windows)}
        for (w, g), domain in self._owner.items():
            whose[numbers.get((w, g), w) if g else w] = domain
        return Reopenings(replace(rows, group=group, identity=identity), StandingAggregates(states, ts), whose, of)


# time_window_aggregate: aggregates by key and window: tumbling, hopping, unlimited, calendar (window_aggregate.md).
#
# A record changes the aggregates of all its windows, in ascending order, but for those that are closed. A window's row
# is let go when stream time has passed its end and the grace.

_FOREVER = 2**63 - 1


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped | Failed]:
    """See `operators.run_operator`."""
    params = context.params(WindowParams)
    fold = fold_of(params.fold, context.operator.node, tolerates_errors=context.tolerates_errors)
    windows = _WINDOWS[type(params.windows)](params.windows)
    events = Events(context, inputs, sides=len(context.values))
    times = BatchTimes(context, inputs, events, state, sides=len(context.values))
    table = operator_table(context, state)
    row, at = windows.of(events.ts)
    is_open = times.at_row[row] - at < windows.wait
    expired = np.unique(row[~is_open])
    rows = in_windows(events, row[is_open], at[is_open], windows.column)
    lookup = look_up_states(rows, table)
    window_generations = generations(
        rows, lookup, fold, events, times, windows.wait, single_stretch=context.operator.cached
    )
    rows, standing = window_generations.rows, window_generations.standing
    old_states, meta = standing.states, meta_of(rows, windows.bounds)
    yield from events.drops(EXPIRED_WINDOW, expired)
    yield from events.drops(NO_WINDOW, np.setdiff1d(np.arange(len(events.ts)), row))
    void = np.zeros(len(rows), dtype=np.bool_)
    for selection, done in folded(rows, fold, standing, single_stretch=context.operator.cached):
        if not params.on_close:
            yield from changes(rows, fold, selection, done, meta)
        yield from failures(rows, selection, done)
        void[selection] = False if done.void is None else done.void
    domain = window_generations.domains(~void, lookup, times.number(times.of_row))
    beside: dict[str, Int64s | Picked] = {"domain": domain, **windows.beside(rows.at)}
    if "headers" in table.schema.names:
        beside["headers"] = latest_headers(rows, ~void, lookup)
    written = to_store(rows, old_states, standing, **beside)
    if params.on_close:
        stale = pa.table({name: rows.identity[name] for name in ("key", windows.column)})
        closing = Closing(context, times, table, windows.column, windows.wait, [written.standing], stale)
        yield from closing.results(fold, windows.ends)
    window_generations.latest(written).put(table)
    table.expire(times.by_domain(times.end - windows.wait + 1))
    times.store(state)


class _ByStart:
    """Windows that their start alone defines: it tells them apart, and says when they close."""

    column = "start"

    def ends(self, start: Int64s) -> Int64s:
        raise NotImplementedError

    def bounds(self, at: Int64s) -> tuple[Int64s, Int64s]:
        """Start and end of windows that the column tells apart so."""
        return at, self.ends(at)

    def beside(self, at: Int64s) -> dict[str, Int64s]:
        """The stored columns of windows beside that column."""
        return {}


class _FixedLengthKind(_ByStart):
    """Tumbling and hopping windows."""

    def __init__(self, windows: TimeWindows) -> None:
        self._windows = windows

    def of(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """(rows, starts of the windows that hold them), in ascending order."""
        size, advance = self._windows.size_ms, self._windows.advance_ms
        first = np.maximum(0, ts - size + advance) // advance * advance
        count = np.where(ts >= 0, (ts - first) // advance + 1, 0)
        row = np.repeat(np.arange(len(ts)), count)
        return row, first[row] + (np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)) * advance

    def ends(self, start: Int64s) -> Int64s:
        return start + self._windows.size_ms

    @property
    def wait(self) -> int:
        """From what the column has on until a window takes no more records, in ms."""
        return self._windows.size_ms + self._windows.grace_ms


class _Unlimited(_ByStart):
    """One window that never ends."""

    def __init__(self, windows: UnlimitedWindows) -> None:
        self._start = windows.start_ms

    def of(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        row = np.flatnonzero(ts >= self._start)
        return row, np.full(len(row), self._start)

    def ends(self, start: Int64s) -> Int64s:
        return np.full(len(start), _FOREVER)

    @property
    def wait(self) -> int:
        return _FOREVER


class _CalendarKind:
    """Windows by the calendar: they are of different lengths, so what tells them apart is when they end."""

    column = "end"
    ends = None
    """The table has starts and ends."""

    def __init__(self, windows: CalendarWindows) -> None:
        self._calendar, self.wait = Calendar(windows), windows.grace_ms

    def of(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        row = np.flatnonzero(ts >= 0)
        return row, self._calendar.around(ts[row])[1]

    def bounds(self, at: Int64s) -> tuple[Int64s, Int64s]:
        return self._calendar.around(at - 1)[0], at

    def beside(self, at: Int64s) -> dict[str, Int64s]:
        return {"start": self.bounds(at)[0]}


_WINDOWS = {TimeWindows: _FixedLengthKind, UnlimitedWindows: _Unlimited, CalendarWindows: _CalendarKind}
