"""Casts among dates, timestamps and numbers, in UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.expressions.functions.casts.numbers import CAST_OVERFLOW
from watersmeet._engine.expressions.modes import LONG_OVERFLOW, MICROS_A_DAY, fails, tries
from watersmeet._engine.expressions.tree import Call
from watersmeet._engine.expressions.vectors import TIMESTAMPS, all_valid, checked, dtype_of, made, numbers

_SECOND = 1_000_000
_MOST_DAYS = np.iinfo(np.int64).max // MICROS_A_DAY
"""Days before and behind 1970 that a timestamp reaches."""


def same(call: Call, values: pa.Array) -> pa.Array:
    """Timestamps with a zone from those without, and the other way round."""
    return values.view(call.type)


def to_date(call: Call, values: pa.Array) -> pa.Array:
    """The day."""
    return made((numbers(values) // MICROS_A_DAY).astype(np.int32), all_valid(values), call.type)


def of_date(call: Call, values: pa.Array) -> pa.Array:
    """The day's begin."""
    days = numbers(values).astype(np.int64)
    bad = (days > _MOST_DAYS) | (days < -_MOST_DAYS)
    there = checked(bad, all_valid(values), not tries(call), *LONG_OVERFLOW)
    with np.errstate(all="ignore"):
        return made(days * MICROS_A_DAY, there, TIMESTAMPS[1] if call.type == TIMESTAMPS[1] else TIMESTAMPS[0])


def to_seconds(call: Call, values: pa.Array) -> pa.Array:
    """Whole seconds since 1970, the ones before."""
    seconds = numbers(values) // _SECOND
    found = seconds.astype(dtype_of(call.type))
    there = checked(found != seconds, all_valid(values), fails(call), *CAST_OVERFLOW)
    return made(found, there, call.type)


def to_float(call: Call, values: pa.Array) -> pa.Array:
    """Seconds since 1970."""
    return made((numbers(values) / float(_SECOND)).astype(dtype_of(call.type)), all_valid(values), call.type)


def of_seconds(call: Call, values: pa.Array) -> pa.Array:
    """Seconds since 1970, at most what a timestamp holds."""
    seconds = numbers(values).astype(np.int64)
    most = np.iinfo(np.int64).max // _SECOND
    inside = np.clip(seconds, -most - 1, most)
    with np.errstate(all="ignore"):
        found = inside * _SECOND
    found = np.where(seconds > most, np.iinfo(np.int64).max, np.where(seconds < -most, np.iinfo(np.int64).min, found))
    return made(found, all_valid(values), call.type)
