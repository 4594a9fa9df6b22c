"""Windows by the calendar: where days, weeks and months begin and end, by the clocks of their zone."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from watersmeet._engine.windowing import Calendar
from watersmeet.errors import TopologyError
from watersmeet.windows import CalendarWindows

HOUR = 3_600_000


def ms(zone: str, *parts: int) -> int:
    return round(datetime(*parts, tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def window(windows: CalendarWindows, ts: int) -> tuple[str, str]:
    """Start and end by the clock of the windows' zone."""
    ends = Calendar(windows).around(np.array([ts]))
    shown = (datetime.fromtimestamp(int(end[0]) / 1_000, ZoneInfo(windows.zone)) for end in ends)
    start, end = (f"{each:%Y-%m-%d %H:%M}" for each in shown)
    return start, end


def hours(windows: CalendarWindows, ts: int) -> float:
    start, end = Calendar(windows).around(np.array([ts]))
    return float(end[0] - start[0]) / HOUR


BERLIN = "Europe/Berlin"


def test_a_day_has_23_hours_where_clocks_are_put_forward_and_25_where_they_are_put_back() -> None:
    days = CalendarWindows("1 day", zone=BERLIN)
    assert hours(days, ms(BERLIN, 2026, 3, 29, 12)) == 23
    assert hours(days, ms(BERLIN, 2026, 10, 25, 12)) == 25
    assert hours(days, ms(BERLIN, 2026, 3, 28, 12)) == hours(days, ms(BERLIN, 2026, 3, 30, 12)) == 24


def test_with_an_offset_windows_go_from_that_hour_to_that_hour() -> None:
    evenings = CalendarWindows("1 day", zone=BERLIN, offset="18 hours")
    assert window(evenings, ms(BERLIN, 2026, 3, 29, 17, 59)) == ("2026-03-28 18:00", "2026-03-29 18:00")
    assert window(evenings, ms(BERLIN, 2026, 3, 29, 18)) == ("2026-03-29 18:00", "2026-03-30 18:00")
    assert hours(evenings, ms(BERLIN, 2026, 3, 29, 12)) == 23


def test_weeks_start_on_monday_unless_another_day_is_said() -> None:
    ts = ms(BERLIN, 2026, 11, 25, 9)  # a Wednesday
    assert window(CalendarWindows("1 week", zone=BERLIN), ts) == ("2026-11-23 00:00", "2026-11-30 00:00")
    sundays = CalendarWindows("1 week", zone=BERLIN, week_starts="Sunday")
    assert window(sundays, ts) == ("2026-11-22 00:00", "2026-11-29 00:00")
    assert hours(CalendarWindows("1 week", zone=BERLIN), ms(BERLIN, 2026, 3, 25)) == 167


def test_months_have_their_days_and_may_begin_later_in_the_month() -> None:
    months = CalendarWindows("1 month", zone=BERLIN)
    assert window(months, ms(BERLIN, 2028, 2, 29, 23)) == ("2028-02-01 00:00", "2028-03-01 00:00")
    late = CalendarWindows("1 month", zone=BERLIN, offset="27 days 20 hours")
    assert window(late, ms(BERLIN, 2027, 2, 28, 10)) == ("2027-01-28 20:00", "2027-02-28 20:00")


def test_an_hour_that_clocks_skip_begins_a_window_later_and_one_they_show_twice_the_first_time() -> None:
    half_past_two = CalendarWindows("1 day", zone=BERLIN, offset="150 minutes")
    assert window(half_past_two, ms(BERLIN, 2026, 3, 29, 12))[0] == "2026-03-29 03:30"
    start, _ = Calendar(half_past_two).around(np.array([ms(BERLIN, 2026, 10, 25, 12)]))
    assert datetime.fromtimestamp(int(start[0]) / 1_000, UTC) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_a_day_that_a_zone_has_skipped_has_no_window() -> None:
    apia = CalendarWindows("1 day", zone="Pacific/Apia")
    before = ms("Pacific/Apia", 2011, 12, 29, 23, 59)
    assert window(apia, before) == ("2011-12-29 00:00", "2011-12-31 00:00")
    assert window(apia, before + 60_000) == ("2011-12-31 00:00", "2012-01-01 00:00")


def test_no_window_begins_before_1970() -> None:
    start, end = Calendar(CalendarWindows("1 day", zone="America/New_York")).around(np.array([0, 4 * HOUR]))
    assert start.tolist() == [0, 0]
    assert end.tolist() == [5 * HOUR, 5 * HOUR]


@pytest.mark.parametrize("period", ["day", "week", "month"])
@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Australia/Lord_Howe", "America/New_York"])
def test_windows_lie_one_behind_the_other_and_hold_their_moments_however_far_off(period: str, zone: str) -> None:
    windows = CalendarWindows(period, zone=zone, offset="18 hours")
    dice = np.random.default_rng(len(zone))
    ts = np.concatenate([dice.integers(0, 3_000_000_000_000, 300), dice.integers(0, 2**60 - 1, 300), [2**60 - 1]])
    start, end = Calendar(windows).around(ts)
    assert (start <= ts).all()
    assert (ts < end).all()
    assert (end - start <= windows.longest_ms).all()
    behind, _ = Calendar(windows).around(end)
    assert (behind == end).all()


def test_far_off_windows_are_those_of_400_years_before() -> None:
    windows, cycle = CalendarWindows("1 week", zone=BERLIN), 146_097 * 24 * HOUR
    ts = np.array([ms(BERLIN, 2600, 3, day) for day in range(1, 29)])
    near, far = Calendar(windows).around(ts), Calendar(windows).around(ts + 3 * cycle)
    assert [(each + 3 * cycle).tolist() for each in near] == [each.tolist() for each in far]


@pytest.mark.proof
def test_no_zone_has_a_day_that_is_longer_than_a_window_may_be() -> None:
    days = np.arange(0, 25_000) * 24 * HOUR
    for zone in sorted(zoneinfo.available_timezones()):
        windows = CalendarWindows("1 day", zone=zone)
        start, end = Calendar(windows).around(days)
        assert (end - start).max() <= windows.longest_ms, zone


@pytest.mark.parametrize(
    ("made", "said", "hint"),
    [
        (lambda: CalendarWindows("2 days"), "'2 days'", "1 week"),
        (lambda: CalendarWindows("1 day", zone="Europe/Berln"), "zone='Europe/Berln'", "Europe/Berlin"),
        (lambda: CalendarWindows("1 day", zone=3), "zone=3", "IANA"),  # type: ignore[arg-type]
        (lambda: CalendarWindows("1 day", offset="24 hours"), "offset='24 hours'", "less than 1"),
        (lambda: CalendarWindows("1 week", week_starts="Mon"), "week_starts='Mon'", "Monday"),
        (lambda: CalendarWindows("1 day", week_starts="Sunday"), "week_starts='Sunday'", "1 week"),
        (lambda: CalendarWindows("1 day", grace="-1 hour"), "-3600000 ms", "0 ms"),
    ],
)
def test_what_is_no_calendar_is_refused_with_the_value_and_a_hint(made: Any, said: str, hint: str) -> None:
    with pytest.raises(TopologyError) as caught:
        made()
    told, _, cure = str(caught.value).partition("Hint:")
    assert said in told.splitlines()[0]
    assert hint in cure


def test_a_day_closes_at_its_own_end_and_takes_late_records_for_its_grace() -> None:
    builder = arrow_builder("days")
    days = CalendarWindows("1 day", zone=BERLIN, grace=timedelta(hours=1))
    grouped = builder.stream("in", key="string", value="string").group_by_key().windowed_by(days)
    grouped.count(name="count").to_stream(key="start").to("out")
    driver = EngineDriver(builder.build())
    midnight = ms(BERLIN, 2026, 3, 30)
    for ts in (midnight - 23 * HOUR, midnight, midnight - 1, midnight + HOUR, midnight - 2):
        driver.pipe("in", "k", "v", ts=ts)
    driver.run_batch()
    assert [result.value for result in driver.read("out")] == [1, 1, 2, 2]
    assert +driver.drops == {("count", "expired_window"): 1}
