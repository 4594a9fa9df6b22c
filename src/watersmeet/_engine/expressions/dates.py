"""Dates and timestamps in UTC: their parts, their distances, and what is put to them. Years go on before 1 and 1582."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.expressions import casts
from watersmeet._engine.expressions.casts import calendar, digits, joined_octets, year_text
from watersmeet._engine.expressions.texts import constant
from watersmeet._engine.expressions.tree import (
    DURATION,
    INTEGERS,
    LONG_OVERFLOW,
    MICROS_A_DAY,
    TIMESTAMPS,
    Call,
    Kernel,
    LazyKernel,
    all_valid,
    checked,
    fixed_array,
    is_utc,
    numbers,
    type_of,
    where_null,
)
from watersmeet._engine.rows import Bools, Int64s

_DAY, _INT = pa.date32(), pa.int32()
_SECOND = 1_000_000
_OF_DAY = {"Hour": (3_600 * _SECOND, 24), "Minute": (60 * _SECOND, 60), "Second": (_SECOND, 60)}
_SINCE = {"UnixSeconds": _SECOND, "UnixMillis": 1000, "UnixMicros": 1}
_TIMES = {"SecondsToTimestamp": _SECOND, "MillisToTimestamp": 1000, "MicrosToTimestamp": 1}
_MONTHS = {"YEAR": 12, "YYYY": 12, "YY": 12, "QUARTER": 3, "MONTH": 1, "MM": 1, "MON": 1}
_MICROS = {"DAY": MICROS_A_DAY, "DD": MICROS_A_DAY, "HOUR": 3_600 * _SECOND, "MINUTE": 60 * _SECOND, "SECOND": _SECOND}
_MICROS |= {"MILLISECOND": 1000, "MICROSECOND": 1}


def _months(days: Int64s) -> Int64s:
    return days.astype("<M8[D]").astype("<M8[M]").astype(np.int64)


def _first_day(months: Int64s) -> Int64s:
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


def fits_dates(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    if not is_utc(call) or call.option("legacyInterval") == "true":
        return False
    if call.function in ("TruncDate", "TruncTimestamp") and not any(constant(argument) for argument in call.arguments):
        return False
    if call.function == "NextDay" and str(constant(call.arguments[1])).upper() not in _WEEKDAY:
        return False
    signature = _KINDS[call.function]
    return len(kinds) == len(signature) and all(kind in allowed for kind, allowed in zip(kinds, signature, strict=True))


def _part(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (days,) = arguments
    parts = _PARTS[call.function](numbers(days).astype(np.int64))
    return fixed_array(parts.astype(np.int32), all_valid(days), call.type)


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
    weekday = _WEEKDAY[str(constant(call.arguments[1])).upper()] - _WEEKDAY["TH"]
    # days, and what is between two of them, are ints of Java's, and wrap as such
    result = days + 1 + (weekday % 7 - 1 - days).astype(np.int32) % 7
    return fixed_array(result.astype(np.int32), all_valid(*arguments), call.type)


def _add_days(call: Call, arguments: list[pa.Array]) -> pa.Array:
    days, count = (numbers(argument).astype(np.int64) for argument in arguments)
    result = days - count if call.function == "DateSub" else days + count
    # days are an int of Java's, and wrap as such
    return fixed_array(result.astype(np.int32), all_valid(*arguments), call.type)


def _days_between(call: Call, arguments: list[pa.Array]) -> pa.Array:
    end, start = (numbers(argument).astype(np.int64) for argument in arguments)
    return fixed_array((end - start).astype(np.int32), all_valid(*arguments), call.type)


def _add_months(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The same day of another month, or its last one."""
    days, count = (numbers(argument).astype(np.int64) for argument in arguments)
    months = _months(days)
    target = months + count
    most = _first_day(target + 1) - _first_day(target)
    result = _first_day(target) + np.minimum(days - _first_day(months), most - 1)
    bad = result != result.astype(np.int32)
    present = checked(bad, all_valid(*arguments), True, "ARITHMETIC_OVERFLOW", "integer overflow")
    return fixed_array(result.astype(np.int32), present, call.type)


def _part_of_day(call: Call, arguments: list[pa.Array]) -> pa.Array:
    unit, many = _OF_DAY[call.function]
    parts = numbers(arguments[0]) // unit % many
    return fixed_array(parts.astype(np.int32), all_valid(*arguments), call.type)


def _since(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Whole seconds, milliseconds or microseconds since 1970."""
    return fixed_array(numbers(arguments[0]) // _SINCE[call.function], all_valid(*arguments), call.type)


def _of_number(call: Call, arguments: list[pa.Array]) -> pa.Array:
    unit = _TIMES[call.function]
    count = numbers(arguments[0]).astype(np.int64)
    with np.errstate(all="ignore"):
        micros = count * unit
    text = "A number of seconds or milliseconds is out of the range of timestamps."
    present = checked(micros // unit != count, all_valid(*arguments), True, "DATETIME_OVERFLOW", text)
    return fixed_array(micros, present, call.type)


def _unit(name: object) -> str:
    return str(name).upper()


def _cut_days(days: Int64s, unit: str) -> Int64s | None:
    if unit == "WEEK":
        # a week before the first day that there is, days go on at the last
        previous = (days - 7).astype(np.int32).astype(np.int64)
        monday: Int64s = previous + 1 + (np.fmod(3 - previous, 7) + 7) % 7
        return monday
    if unit in _MONTHS:
        return _first_day(_months(days) // _MONTHS[unit] * _MONTHS[unit])
    return None


def _cut_date(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The first day of the week, month, quarter or year; null where the unit is none of them."""
    days = _cut_days(numbers(arguments[0]).astype(np.int64), _unit(constant(call.arguments[1])))
    if days is None:
        return pa.nulls(len(arguments[0]), call.type)
    cut = days.astype(np.int32)
    # only quarters are refused where they begin before the first day that there is
    bad = (cut != days) & (_unit(constant(call.arguments[1])) == "QUARTER")
    return fixed_array(cut, checked(bad, all_valid(*arguments), True, "ARITHMETIC_OVERFLOW", "overflow"), call.type)


def _cut_timestamp(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The begin of the unit; null for an unknown unit."""
    micros, unit = numbers(arguments[1]), _unit(constant(call.arguments[0]))
    present = all_valid(*arguments)
    if unit in _MICROS:
        return fixed_array(*_checked_range(micros // _MICROS[unit], _MICROS[unit], present), call.type)
    days = _cut_days(micros // MICROS_A_DAY, unit)
    if days is None:
        return pa.nulls(len(micros), call.type)
    return fixed_array(*_checked_range(days, MICROS_A_DAY, present), call.type)


def _checked_range(count: Int64s, unit: int, present: Bools | None) -> tuple[Int64s, Bools | None]:
    with np.errstate(all="ignore"):
        micros = count * unit
    return micros, checked(micros // unit != count, present, True, *LONG_OVERFLOW)


def _add_interval(call: Call, arguments: list[pa.Array]) -> pa.Array:
    micros, span = map(numbers, arguments)
    with np.errstate(all="ignore"):
        total = micros + span
    bad = (micros ^ total) & (span ^ total) < 0
    return fixed_array(total, checked(bad, all_valid(*arguments), True, *LONG_OVERFLOW), call.type)


def _interval_days(call: Call, arguments: list[pa.Array]) -> pa.Array:
    span = numbers(arguments[0])
    days = span // MICROS_A_DAY
    # towards zero; the smallest interval has no absolute value
    result = days + ((days < 0) & (days * MICROS_A_DAY != span))
    return fixed_array(result.astype(np.int32), all_valid(*arguments), call.type)


def _time_between(call: Call, arguments: list[pa.Array]) -> pa.Array:
    end, start = map(numbers, arguments)
    with np.errstate(all="ignore"):
        difference = end - start
    bad = (end ^ start) & (end ^ difference) < 0
    return fixed_array(difference, checked(bad, all_valid(*arguments), True, *LONG_OVERFLOW), call.type)


DATES_KERNELS: Mapping[str, Kernel] = {
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


# Timestamps printed by a pattern of digits and separators, and the functions that stand for casts of times.
#
# Patterns that print names, or less digits than there may be, are Spark's.

_ZONED = TIMESTAMPS[0]
_TOKENS = re.compile(r"yyyy|MM|dd|HH|mm|ss|S{1,6}|''|'[^']+'|[-/:., _]")
_AS_CASTS = ("ParseToDate", "ParseToTimestamp")
_CLOCK: Mapping[str, Callable[[Int64s], Int64s]] = {
    "HH": lambda micros: micros // (3600 * _SECOND),
    "mm": lambda micros: micros // (60 * _SECOND) % 60,
    "ss": lambda micros: micros // _SECOND % 60,
}


def fits_patterns(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    if not is_utc(call):
        return False
    if call.function in _AS_CASTS:
        return len(kinds) == 1 and casts.fits(_as_cast(call))
    if call.function in ("UnixTimestamp", "ToUnixTimestamp"):
        return kinds[0] in (_ZONED, pa.date32())
    if kinds[0] != (pa.int64() if call.function == "FromUnixTime" else _ZONED):
        return False
    pattern = constant(call.arguments[1])
    return isinstance(pattern, str) and bool(pattern) and _TOKENS.sub("", pattern) == ""


def _as_cast(call: Call) -> Call:
    return replace(call, function="Cast")


def _cast(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return casts.KERNELS["Cast"](_as_cast(call), arguments)


def _seconds(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Whole seconds since 1970, cut off, not rounded down; the pattern is for texts."""
    values = arguments[0]
    if values.type == pa.date32():
        values = casts.of_date(call, values)
    micros = numbers(values)
    return fixed_array(micros // _SECOND + ((micros < 0) & (micros % _SECOND != 0)), all_valid(*arguments), call.type)


def _of_seconds(call: Call, arguments: list[pa.Array]) -> pa.Array:
    seconds = numbers(arguments[0])
    with np.errstate(all="ignore"):
        # too many seconds wrap
        micros = seconds * _SECOND
    return where_null(_printed(micros, str(constant(call.arguments[1]))), all_valid(*arguments))


def _format(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return where_null(_printed(numbers(arguments[0]), str(constant(call.arguments[1]))), all_valid(*arguments))


def _printed(micros: Int64s, pattern: str) -> pa.Array:
    """The text of each time: pieces of digits, and the separators between them."""
    days = micros // MICROS_A_DAY
    year, month, day = calendar(days)
    left = micros - days * MICROS_A_DAY
    pieces: list[pa.Array] = []
    for token in _TOKENS.findall(pattern):
        if token == "yyyy":
            pieces.append(year_text(year))
        elif token in ("MM", "dd"):
            pieces.append(joined_octets(digits(month if token == "MM" else day, 2)))
        elif token in _CLOCK:
            pieces.append(joined_octets(digits(_CLOCK[token](left), 2)))
        elif token[0] == "S":
            pieces.append(joined_octets(digits(left % _SECOND // 10 ** (6 - len(token)), len(token))))
        else:
            pieces.append(pa.repeat("'" if token == "''" else token.strip("'"), len(micros)))
    return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, "")


PATTERNS_KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_AS_CASTS, _cast),
    **dict.fromkeys(("UnixTimestamp", "ToUnixTimestamp"), _seconds),
    "FromUnixTime": _of_seconds,
    "DateFormatClass": _format,
}
