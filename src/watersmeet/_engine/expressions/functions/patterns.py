"""Timestamps printed by a pattern of digits and separators, and the functions that stand for casts of times.

Patterns that print names, or less digits than there may be, are Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.expressions.functions import casts
from watersmeet._engine.expressions.functions.casts import times
from watersmeet._engine.expressions.functions.casts.printing import calendar, digits, joined_octets, year_text
from watersmeet._engine.expressions.functions.texts import constant
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.modes import MICROS_A_DAY, is_utc
from watersmeet._engine.expressions.tree import Call, type_of
from watersmeet._engine.expressions.vectors import TIMESTAMPS, all_valid, made, numbers, where_null

_SECOND = 1_000_000
_ZONED = TIMESTAMPS[0]
_TOKENS = re.compile(r"yyyy|MM|dd|HH|mm|ss|S{1,6}|''|'[^']+'|[-/:., _]")
_AS_CASTS = ("ParseToDate", "ParseToTimestamp")
_CLOCK: Mapping[str, Callable[[Int64s], Int64s]] = {
    "HH": lambda micros: micros // (3600 * _SECOND),
    "mm": lambda micros: micros // (60 * _SECOND) % 60,
    "ss": lambda micros: micros // _SECOND % 60,
}


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
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
        values = times.of_date(call, values)
    micros = numbers(values)
    return made(micros // _SECOND + ((micros < 0) & (micros % _SECOND != 0)), all_valid(*arguments), call.type)


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


KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_AS_CASTS, _cast),
    **dict.fromkeys(("UnixTimestamp", "ToUnixTimestamp"), _seconds),
    "FromUnixTime": _of_seconds,
    "DateFormatClass": _format,
}
LAZY: Mapping[str, LazyKernel] = {}
