"""time_window_aggregate: aggregates by key and window: tumbling, hopping, unlimited, of the calendar (section 14).

A record changes the aggregates of all its windows, in ascending order, but for those that are closed. A window's row is
let go when stream time has passed its end and the grace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import changes, failures, folded, stored, to_store
from watersmeet._engine.aggregates.of_plan import fold_of
from watersmeet._engine.aggregates.windows.calendar import Calendar
from watersmeet._engine.aggregates.windows.closing import Closing
from watersmeet._engine.aggregates.windows.generations import generations
from watersmeet._engine.aggregates.windows.windowed import in_windows, late_rows, latest_headers, meta_of
from watersmeet._engine.arrays import Int64s
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, operator_table
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.aggregates.time_window_aggregate import TimeWindowAggregateSpec
from watersmeet._plan.operators.aggregates.window import WindowParams
from watersmeet.windows import CalendarWindows, TimeWindows, UnlimitedWindows

EXPIRED, NO_WINDOW = TimeWindowAggregateSpec.drop_reasons
_FOREVER = 2**63 - 1


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped | Failed]:
    """See `level.run_operator`."""
    params = context.params(WindowParams)
    fold = fold_of(params.fold, context.operator.node, outlives=context.outlives)
    windows = _WINDOWS[type(params.windows)](params.windows)
    events = Events(context, inputs, sides=len(context.values))
    times = Times(context, inputs, events, state, sides=len(context.values))
    table = operator_table(context, state)
    row, at = windows.of(events.ts)
    is_open = times.at_row[row] - at < windows.wait
    late = np.unique(row[~is_open])
    rows = in_windows(events, row[is_open], at[is_open], windows.column)
    found = stored(rows, table)
    made = generations(rows, found, fold, events, times, windows.wait, whole=context.operator.cached)
    rows, standing = made.rows, made.standing
    before, meta = standing.states, meta_of(rows, windows.bounds)
    yield from late_rows(EXPIRED, events, late)
    yield from late_rows(NO_WINDOW, events, np.setdiff1d(np.arange(len(events.ts)), row))
    void = np.zeros(len(rows), dtype=np.bool_)
    for chosen, done in folded(rows, fold, standing, whole=context.operator.cached):
        if not params.on_close:
            yield from changes(rows, fold, chosen, done, meta)
        yield from failures(rows, chosen, done)
        void[chosen] = False if done.void is None else done.void
    domain = made.domains(~void, found, times.number(times.of_row))
    beside: dict[str, Int64s | Picked] = {"domain": domain, **windows.beside(rows.at)}
    if params.on_close and context.headers:
        beside["headers"] = latest_headers(rows, ~void, found)
    written = to_store(rows, before, standing, **beside)
    if params.on_close:
        stale = pa.table({name: rows.identity[name] for name in ("key", windows.column)})
        closing = Closing(context, times, table, windows.column, windows.wait, [written.standing], stale)
        yield from closing.results(fold, windows.ends)
    made.latest(written).put(table)
    table.expire(times.by_domain(times.end - windows.wait + 1))
    times.store(state)


class _Time:
    """Tumbling and hopping windows.

    Attributes
    ----------
    column : what tells windows apart and says when they close: their start, here.
    """

    column = "start"

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
        """Their ends, excluded."""
        return start + self._windows.size_ms

    def bounds(self, at: Int64s) -> tuple[Int64s, Int64s]:
        """Start and end of windows that the column tells apart so."""
        return at, self.ends(at)

    def beside(self, at: Int64s) -> dict[str, Int64s]:
        """The stored columns of windows beside that column."""
        return {}

    @property
    def wait(self) -> int:
        """From what the column has on until a window takes no more records, in ms."""
        return self._windows.size_ms + self._windows.grace_ms


class _Unlimited:
    """One window that never ends."""

    column = "start"

    def __init__(self, windows: UnlimitedWindows) -> None:
        self._start = windows.start_ms

    def of(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """See `_Time`."""
        row = np.flatnonzero(ts >= self._start)
        return row, np.full(len(row), self._start)

    def ends(self, start: Int64s) -> Int64s:
        """See `_Time`."""
        return np.full(len(start), _FOREVER)

    def bounds(self, at: Int64s) -> tuple[Int64s, Int64s]:
        """See `_Time`."""
        return at, self.ends(at)

    def beside(self, at: Int64s) -> dict[str, Int64s]:
        """See `_Time`."""
        return {}

    @property
    def wait(self) -> int:
        """See `_Time`."""
        return _FOREVER


class _Days:
    """Windows by the calendar: they are of different lengths, so what tells them apart is when they end."""

    column = "end"
    ends = None
    """The table has starts and ends."""

    def __init__(self, windows: CalendarWindows) -> None:
        self._calendar, self.wait = Calendar(windows), windows.grace_ms

    def of(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """See `_Time`."""
        row = np.flatnonzero(ts >= 0)
        return row, self._calendar.around(ts[row])[1]

    def bounds(self, at: Int64s) -> tuple[Int64s, Int64s]:
        """See `_Time`."""
        return self._calendar.around(at - 1)[0], at

    def beside(self, at: Int64s) -> dict[str, Int64s]:
        """See `_Time`."""
        return {"start": self.bounds(at)[0]}


_WINDOWS = {TimeWindows: _Time, UnlimitedWindows: _Unlimited, CalendarWindows: _Days}
