"""Windows by the calendar in random histories: of a drawn topology and its records, where hours stand for ms.

Owns which days, weeks and months, and over which days records are spread: where clocks change, weeks and months end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from proof.histories.blueprint import Op
from proof.histories.case import Case
from proof.histories.kinds.choices import Choices
from proof.oracle.windows.window_calendar import HOUR
from proof.oracle.windows.window_calendar import CalendarWindows as OracleCalendarWindows
from watersmeet.windows import WEEKDAYS, CalendarWindows

_FROM = tuple(
    round(datetime(*day, tzinfo=UTC).timestamp() * 1_000)
    for day in ((1970, 1, 1), (2026, 3, 26), (2026, 10, 23), (2011, 12, 27), (2024, 2, 27))
)
"""The first records, an hour of theirs or so: clocks change, Samoa skips a day, a leap year has its day."""
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe", "Asia/Kolkata")
_MOST = 20_000
"""What is further off than so many hours is that far off."""
Params = Mapping[str, Any]


def windows(params: Params) -> CalendarWindows:
    """As handles take them."""
    week = {"week_starts": WEEKDAYS[params["weekday"]]} if params["period"] == "week" else {}
    offset, grace = (timedelta(hours=params[name]) for name in ("offset", "grace"))
    return CalendarWindows(f"1 {params['period']}", zone=params["zone"], offset=offset, grace=grace, **week)


def oracle(params: Params) -> OracleCalendarWindows:
    """As the oracle has them."""
    offset, grace = (params[name] * HOUR for name in ("offset", "grace"))
    return OracleCalendarWindows(params["period"], params["zone"], offset, grace, params["weekday"])


def by_the_calendar(choices: Choices, case: Case) -> Case | None:
    """The case, where it has time windows, with windows by the calendar, and records over some weeks."""
    ops = tuple(_by_the_calendar(choices, op) for op in case.blueprint.ops)
    if not any(op.params.get("windows") == "calendar" for op in ops):
        return None
    begin, hours = choices.pick(_FROM), choices.pick((1, 1, 5, 30))
    records = tuple(record._replace(ts=_moment(record.ts, begin, hours)) for record in case.records)
    return replace(case, blueprint=replace(case.blueprint, ops=ops), records=records, clock=())


def _by_the_calendar(choices: Choices, op: Op) -> Op:
    scaled = {name: op.params[name] * HOUR for name in ("keep", "ms") if name in op.params}
    if op.params.get("windows") not in ("tumbling", "hopping"):
        return replace(op, params={**op.params, **scaled})
    # few definitions, so that two tables have some in common
    period, zone = choices.pick(("day", "day", "week", "month")), choices.pick(_ZONES)
    weekday = choices.pick((0, 6)) if period == "week" else 0
    own = {"windows": "calendar", "period": period, "zone": zone, "weekday": weekday}
    return replace(op, params={**op.params, **own, "offset": choices.pick((0, 0, 2, 18))})


def _moment(ts: int, begin: int, hours: int) -> int:
    return ts if ts < 0 else begin + min(ts, _MOST) * hours * HOUR + 17
