"""Windows by the calendar: where days, weeks and months of a time zone begin, as moments.

The rules of zones are Python's `zoneinfo`; it is asked once for each period that records of a batch lie near, and
remembered. A beginning that clocks skip is the moment at which they show as much later as they were put forward; of one
that they show twice it is the first (PEP 495, as java.time has it).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from watersmeet._engine.arrays import Int64s
from watersmeet.windows.calendar_windows import WEEKDAYS, CalendarWindows
from watersmeet.windows.durations import DAY_MS

_EPOCH = datetime(1970, 1, 1)
_MONDAY = -3
"""1970-01-01 was a Thursday: the Monday before is three days earlier."""
_CYCLE_DAYS = 146_097
"""After 400 years the calendar is the same again, days of the week included."""
_CYCLE = {"day": _CYCLE_DAYS, "week": _CYCLE_DAYS // 7, "month": 4_800}
_CYCLES_FROM = 1_000
"""From how many years behind 1970 on it is taken for so: rules are given for ever by then, and Python's years end."""
_NEAR = np.arange(-2, 3)
"""The periods around one within which the window lies that holds a moment, by the clock of whatever zone."""


class Calendar:
    """The windows of a definition."""

    def __init__(self, windows: CalendarWindows) -> None:
        self._windows = windows

    def around(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """(start, end) of the window that holds each of these moments; none begins before 1970."""
        periods = np.unique(self._periods(ts))
        near = np.unique(periods[:, None] + _NEAR)
        # rules may skip a day: then two periods begin in one moment
        begins = np.unique(np.array([_begin(self._windows, period) for period in near.tolist()], dtype=np.int64))
        at = begins.searchsorted(ts, side="right")
        if not len(ts):
            return ts, ts
        return np.maximum(0, begins[at - 1]), begins[at]

    def earlier(self, start: int, count: int) -> tuple[int, int] | None:
        """(start, end) of the window that lies so many windows before the one that begins then; None: before 1970."""
        end = start
        for _ in range(count):
            if start <= 0:
                return None
            starts, ends = self.around(np.array([start - 1]))
            start, end = int(starts[0]), int(ends[0])
        return start, end

    def _periods(self, ts: Int64s) -> Int64s:
        if self._windows.period == "month":
            return ts.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
        days = ts // DAY_MS
        return (days - _MONDAY) // 7 if self._windows.period == "week" else days


@lru_cache(maxsize=65_536)
def _begin(windows: CalendarWindows, period: int) -> int:
    """The moment at which a period begins, by its number since 1970, in ms."""
    cycle = _CYCLE[windows.period]
    cycles = max(0, period - _CYCLES_FROM * cycle // 400) // cycle
    wall = _EPOCH + timedelta(days=_first_day(windows, period - cycles * cycle), milliseconds=windows.offset_ms)
    moment = wall.replace(tzinfo=ZoneInfo(windows.zone)).astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(milliseconds=1) + cycles * _CYCLE_DAYS * DAY_MS


def _first_day(windows: CalendarWindows, period: int) -> int:
    """The first day of a period, as its number since 1970."""
    if windows.period == "month":
        return (datetime(1970 + period // 12, 1 + period % 12, 1) - _EPOCH).days
    return _MONDAY + WEEKDAYS.index(windows.week_starts) + 7 * period if windows.period == "week" else period
