"""Windows by the calendar: days, weeks and months of a time zone.

Vocabulary, frozen and checked when made.
"""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from watersmeet.errors import TopologyError
from watersmeet.names import answering
from watersmeet.windows.durations import DAY_MS, Duration, KafkaName, duration_ms, not_negative

_MADE = "CalendarWindows('1 day', zone='Europe/Berlin', offset='18 hours')"
_SHORTEST_DAYS = {"day": 1, "week": 7, "month": 28}
_LONGEST_DAYS = {"day": 1, "week": 7, "month": 31}
_LONGER_MS = DAY_MS // 2
"""How much longer a window may be for its zone's clocks: no zone has put its clocks back further at once since 1970."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@answering
@dataclass(frozen=True, init=False)
class CalendarWindows(metaclass=KafkaName):
    """A window for each day, week or month of a time zone, one behind the other.

    Where clocks are put forward or back a day has 23 or 25 hours (docs/semantics, section 13).

    Parameters
    ----------
    period : "1 day", "1 week" or "1 month".
    zone : name of the time zone, as in the database of IANA: "Europe/Berlin".
    offset : when on its first day a window begins, by that day's clock, a duration ("18 hours"); less than the period.
    grace : how long late records are taken after a window's end, a duration.
    week_starts : of weeks, the first day.

    Raises
    ------
    TopologyError : no such period, zone or day, or the offset is not within the period.

    Examples
    --------
    From 18:00 to 18:00 in Berlin; a record may come an hour late:

    >>> CalendarWindows("1 day", zone="Europe/Berlin", offset="18 hours", grace="1 hour")
    CalendarWindows(period='day', zone='Europe/Berlin', offset_ms=64800000, grace_ms=3600000, week_starts='Monday')
    """

    period: str
    zone: str
    offset_ms: int
    grace_ms: int
    week_starts: str

    def __init__(
        self,
        period: str,
        *,
        zone: str = "UTC",
        offset: Duration = "0 ms",
        grace: Duration = "0 ms",
        week_starts: str = "Monday",
    ) -> None:
        named = {
            "period": _period(period),
            "zone": _zone(zone),
            "offset_ms": not_negative(duration_ms(offset, "offset"), "offset", _MADE),
            "grace_ms": not_negative(duration_ms(grace, "grace"), "grace", _MADE),
            "week_starts": week_starts,
        }
        vars(self).update(named)
        if self.offset_ms >= _SHORTEST_DAYS[self.period] * DAY_MS:
            raise TopologyError(
                f"offset must be shorter than one {self.period}: offset={offset!r:.80}.",
                hint=f"Give less than {_SHORTEST_DAYS[self.period]} days: {_MADE}.",
            )
        if week_starts not in WEEKDAYS:
            raise TopologyError(f"Unknown week_starts={week_starts!r:.80}.", hint=f"Take one of {', '.join(WEEKDAYS)}.")
        if self.period != "week" and week_starts != "Monday":
            raise TopologyError(
                f"week_starts={week_starts!r} is for weeks only, and period={period!r}.",
                hint="CalendarWindows('1 week', week_starts='Sunday').",
            )

    @property
    def longest_ms(self) -> int:
        """No window is longer, in ms."""
        return _LONGEST_DAYS[self.period] * DAY_MS + _LONGER_MS


def _period(given: Any) -> str:
    period = given.strip().removeprefix("1 ").lower() if isinstance(given, str) else None
    if period not in _SHORTEST_DAYS:
        raise TopologyError(
            f"Unknown period {given!r:.80}.",
            hint="Take '1 day', '1 week' or '1 month'; windows of other lengths are wm.TimeWindows.",
        )
    return period


def _zone(given: Any) -> str:
    try:
        return zoneinfo.ZoneInfo(given).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, AttributeError, OSError):
        known = sorted(zoneinfo.available_timezones())
        near = get_close_matches(str(given).replace(" ", "_"), known, n=1)
        raise TopologyError(
            f"Unknown time zone: zone={given!r:.80}.",
            hint=f"zone={near[0]!r}?" if near else "A name of the IANA database: zone='Europe/Berlin'.",
        ) from None
