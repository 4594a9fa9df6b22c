"""Dates and timestamps in UTC: their parts, their distances, and what is put to them. Years go on before 1 and 1582."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.expressions.functions.texts import constant
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.modes import LONG_OVERFLOW, MICROS_A_DAY, is_utc
from watersmeet._engine.expressions.tree import Call, type_of
from watersmeet._engine.expressions.vectors import (
    DURATION,
    INTEGERS,
    TIMESTAMPS,
    all_valid,
    checked,
    made,
    numbers,
    where_null,
)

_DAY, _INT = pa.date32(), pa.int32()
_SECOND = 1_000_000
_OF_DAY = {"Hour": (3_600 * _SECOND, 24), "Minute": (60 * _SECOND, 60), "Second": (_SECOND, 60)}
_SINCE = {"UnixSeconds": _SECOND, "UnixMillis": 1000, "UnixMicros": 1}
_TIMES = {"SecondsToTimestamp": _SECOND, "MillisToTimestamp": 1000, "MicrosToTimestamp": 1}
_MONTHS = {"YEAR": 12, "YYYY": 12, "YY": 12, "QUARTER": 3, "MONTH": 1, "MM": 1, "MON": 1}
_MICROS = {"DAY": MICROS_A_DAY, "DD": MICROS_A_DAY, "HOUR": 3_600 * _SECOND, "MINUTE": 60 * _SECOND, "SECOND": _SECOND}
_MICROS |= {"MILLISECOND": 1000, "MICROSECOND": 1}


def _months(days: Int64s) -> Int64s:
    """Months since 1970."""
    return days.astype("<M8[D]").astype("<M8[M]").astype(np.int64)


def _first_day(months: Int64s) -> Int64s:
    """The first day of each month."""
    return months.astype("<M8[M]").astype("<M8[D]").astype(np.int64)


def _week(days: Int64s) -> Int64s:
    """The number of the week in its year after ISO 8601: that of its Thursday."""
    thursday = days - (days + 3) % 7 + 3
    return (thursday - _first_day(_months(thursday) // 12 * 12)) // 7 + 1


_PARTS: Mapping[str, Callable[[Int64s], Int64s]] = {
    "Year": lambda days: _months(days) // 12 + 1970,
    "Quarter": lambda days: _months(days) % 12 // 3 + 1,
    "Month": lambda days: _months(days) % 12 + 1,
    "DayOfMonth": lambda days: days - _first_day(_months(days)) + 1,
    "DayOfYear": lambda days: days - _first_day(_months(days) // 12 * 12) + 1,
    "DayOfWeek": lambda days: (days + 4) % 7 + 1,
    "WeekDay": lambda days: (days + 3) % 7,
    "WeekOfYear": _week,
    "LastDay": lambda days: _first_day(_months(days) + 1) - 1,
}
_KINDS: Mapping[str, tuple[tuple[pa.DataType, ...], ...]] = {
    **dict.fromkeys(_PARTS, ((_DAY,),)),
    **dict.fromkeys(("DateAdd", "DateSub"), ((_DAY,), INTEGERS[:3])),
    "DateDiff": ((_DAY,), (_DAY,)),
    "AddMonths": ((_DAY,), (_INT,)),
    **dict.fromkeys(_OF_DAY, (TIMESTAMPS,)),
    **dict.fromkeys(_SINCE, (TIMESTAMPS[:1],)),
    **dict.fromkeys(_TIMES, (INTEGERS,)),
    "TruncDate": ((_DAY,), (pa.string(),)),
    "TruncTimestamp": ((pa.string(),), TIMESTAMPS[:1]),
    "TimestampAddInterval": (TIMESTAMPS, (DURATION,)),
    "ExtractANSIIntervalDays": ((DURATION,),),
    "SubtractTimestamps": (TIMESTAMPS, TIMESTAMPS),
    **dict.fromkeys(("UnixDate", "DayName", "MonthName"), ((_DAY,),)),
    "DateFromUnixDate": ((_INT,),),
    "NextDay": ((_DAY,), (pa.string(),)),
}
_WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_WEEKDAY = {name[:letters]: n for n, name in enumerate(_WEEKDAYS) for letters in (2, 3, len(name))}
_NAMES = {
    "DayName": [name[:3].capitalize() for name in _WEEKDAYS],
    "MonthName": ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
}


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    if not is_utc(call) or call.option("legacyInterval") == "true":
        return False
    if call.function in ("TruncDate", "TruncTimestamp") and not any(constant(each) for each in call.arguments):
        return False
    if call.function == "NextDay" and str(constant(call.arguments[1])).upper() not in _WEEKDAY:
        return False
    known = _KINDS[call.function]
    return len(kinds) == len(known) and all(kind in each for kind, each in zip(kinds, known, strict=True))


def _part(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (days,) = arguments
    found = _PARTS[call.function](numbers(days).astype(np.int64))
    return made(found.astype(np.int32), all_valid(days), call.type)


def _name(call: Call, arguments: list[pa.Array]) -> pa.Array:
    part = _PARTS["WeekDay" if call.function == "DayName" else "Month"](numbers(arguments[0]).astype(np.int64))
    names = pa.array(_NAMES[call.function]).take(pa.array(part if call.function == "DayName" else part - 1))
    return where_null(names, all_valid(*arguments))


def _same_number(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return arguments[0].view(call.type)


def _next_day(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The first such day of the week behind a day."""
    days = numbers(arguments[0]).astype(np.int64)
    # 1 January 1970 was a Thursday
    wanted = _WEEKDAY[str(constant(call.arguments[1])).upper()] - _WEEKDAY["TH"]
    # days, and what is between two of them, are ints of Java's, and wrap as such
    found = days + 1 + (wanted % 7 - 1 - days).astype(np.int32) % 7
    return made(found.astype(np.int32), all_valid(*arguments), call.type)


def _add_days(call: Call, arguments: list[pa.Array]) -> pa.Array:
    days, count = (numbers(each).astype(np.int64) for each in arguments)
    found = days - count if call.function == "DateSub" else days + count
    # days are an int of Java's, and wrap as such
    return made(found.astype(np.int32), all_valid(*arguments), call.type)


def _days_between(call: Call, arguments: list[pa.Array]) -> pa.Array:
    end, start = (numbers(each).astype(np.int64) for each in arguments)
    return made((end - start).astype(np.int32), all_valid(*arguments), call.type)


def _add_months(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The same day of another month, or its last one."""
    days, count = (numbers(each).astype(np.int64) for each in arguments)
    months = _months(days)
    other = months + count
    most = _first_day(other + 1) - _first_day(other)
    found = _first_day(other) + np.minimum(days - _first_day(months), most - 1)
    bad = found != found.astype(np.int32)
    there = checked(bad, all_valid(*arguments), True, "ARITHMETIC_OVERFLOW", "integer overflow")
    return made(found.astype(np.int32), there, call.type)


def _part_of_day(call: Call, arguments: list[pa.Array]) -> pa.Array:
    unit, many = _OF_DAY[call.function]
    found = numbers(arguments[0]) // unit % many
    return made(found.astype(np.int32), all_valid(*arguments), call.type)


def _since(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Whole seconds, milliseconds or microseconds since 1970."""
    return made(numbers(arguments[0]) // _SINCE[call.function], all_valid(*arguments), call.type)


def _of_number(call: Call, arguments: list[pa.Array]) -> pa.Array:
    unit = _TIMES[call.function]
    given = numbers(arguments[0]).astype(np.int64)
    with np.errstate(all="ignore"):
        found = given * unit
    text = "A number of seconds or milliseconds is out of the range of timestamps."
    there = checked(found // unit != given, all_valid(*arguments), True, "DATETIME_OVERFLOW", text)
    return made(found, there, call.type)


def _unit(name: object) -> str:
    return str(name).upper()


def _cut_days(days: Int64s, unit: str) -> Int64s | None:
    if unit == "WEEK":
        # a week before the first day that there is, days go on at the last
        before = (days - 7).astype(np.int32).astype(np.int64)
        monday: Int64s = before + 1 + (np.fmod(3 - before, 7) + 7) % 7
        return monday
    if unit in _MONTHS:
        return _first_day(_months(days) // _MONTHS[unit] * _MONTHS[unit])
    return None


def _cut_date(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The first day of the week, month, quarter or year; null where the unit is none of them."""
    found = _cut_days(numbers(arguments[0]).astype(np.int64), _unit(constant(call.arguments[1])))
    if found is None:
        return pa.nulls(len(arguments[0]), call.type)
    cut = found.astype(np.int32)
    # only quarters are refused where they begin before the first day that there is
    bad = (cut != found) & (_unit(constant(call.arguments[1])) == "QUARTER")
    return made(cut, checked(bad, all_valid(*arguments), True, "ARITHMETIC_OVERFLOW", "overflow"), call.type)


def _cut_timestamp(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The begin of the unit; null for an unknown unit."""
    micros, unit = numbers(arguments[1]), _unit(constant(call.arguments[0]))
    there = all_valid(*arguments)
    if unit in _MICROS:
        return made(*_checked_range(micros // _MICROS[unit], _MICROS[unit], there), call.type)
    days = _cut_days(micros // MICROS_A_DAY, unit)
    if days is None:
        return pa.nulls(len(micros), call.type)
    return made(*_checked_range(days, MICROS_A_DAY, there), call.type)


def _checked_range(count: Int64s, unit: int, there: Bools | None) -> tuple[Int64s, Bools | None]:
    with np.errstate(all="ignore"):
        found = count * unit
    return found, checked(found // unit != count, there, True, *LONG_OVERFLOW)


def _add_interval(call: Call, arguments: list[pa.Array]) -> pa.Array:
    micros, span = map(numbers, arguments)
    with np.errstate(all="ignore"):
        found = micros + span
    bad = (micros ^ found) & (span ^ found) < 0
    return made(found, checked(bad, all_valid(*arguments), True, *LONG_OVERFLOW), call.type)


def _interval_days(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The whole days of an interval."""
    span = numbers(arguments[0])
    days = span // MICROS_A_DAY
    # towards zero; the smallest interval has no absolute value
    found = days + ((days < 0) & (days * MICROS_A_DAY != span))
    return made(found.astype(np.int32), all_valid(*arguments), call.type)


def _time_between(call: Call, arguments: list[pa.Array]) -> pa.Array:
    end, start = map(numbers, arguments)
    with np.errstate(all="ignore"):
        found = end - start
    bad = (end ^ start) & (end ^ found) < 0
    return made(found, checked(bad, all_valid(*arguments), True, *LONG_OVERFLOW), call.type)


KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_PARTS, _part),
    **dict.fromkeys(("DateAdd", "DateSub"), _add_days),
    "DateDiff": _days_between,
    "AddMonths": _add_months,
    **dict.fromkeys(_OF_DAY, _part_of_day),
    **dict.fromkeys(_SINCE, _since),
    **dict.fromkeys(_TIMES, _of_number),
    "TruncDate": _cut_date,
    "TruncTimestamp": _cut_timestamp,
    "TimestampAddInterval": _add_interval,
    "ExtractANSIIntervalDays": _interval_days,
    "SubtractTimestamps": _time_between,
    **dict.fromkeys(_NAMES, _name),
    **dict.fromkeys(("UnixDate", "DateFromUnixDate"), _same_number),
    "NextDay": _next_day,
}
LAZY: Mapping[str, LazyKernel] = {}
