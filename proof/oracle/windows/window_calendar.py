"""Windows by the calendar of a time zone.

Owns where days, weeks and months begin. Laws: they begin by the zone's clock, `offset_ms` behind the beginning of their
first day; one that clocks skip is as much later as they were put forward, one that they show twice is the first; none
is before 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class CalendarWindows:
    """Days, weeks (from a day of the week on, Monday is 0) or months."""

    period: str
    zone: str
    offset_ms: int
    grace_ms: int
    weekday: int = 0

    @property
    def size_ms(self) -> int:
        """No window is longer."""
        return {"day": 36, "week": 7 * 24 + 12, "month": 31 * 24 + 12}[self.period] * HOUR

    def starts(self, ts: int) -> list[int]:
        """The start of the window that contains this time."""
        return [] if ts < 0 else [max(0, max(begin for begin in self._begins(ts) if begin <= ts))]

    def end(self, start: int) -> int:
        """The end of the window that starts there."""
        return min(begin for begin in self._begins(start) if begin > start)

    def _begins(self, ts: int) -> Iterator[int]:
        """What begins in the weeks around a moment, a day after the other."""
        around = date(1970, 1, 1) + timedelta(days=ts // (24 * HOUR))
        for days in range(-66, 67):
            day = around + timedelta(days=days)
            if self._is_first(day):
                clock = datetime.combine(day, time()) + timedelta(milliseconds=self.offset_ms)
                yield round(clock.replace(tzinfo=ZoneInfo(self.zone)).timestamp() * 1_000)

    def _is_first(self, day: date) -> bool:
        if self.period == "day":
            return True
        return day.weekday() == self.weekday if self.period == "week" else day.day == 1
