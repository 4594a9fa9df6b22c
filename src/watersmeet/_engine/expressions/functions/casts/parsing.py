"""Casts of texts: as strict and as lenient as Spark's.

Spark leaves out whitespace and control characters of ASCII on both sides.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.expressions.modes import fails, tries
from watersmeet._engine.expressions.tree import Call
from watersmeet._engine.expressions.vectors import all_valid, checked, dtype_of, flags, made, numbers
from watersmeet._engine.rows.columns import valid

_AROUND = "".join(map(chr, [*range(0x21), 0x7F]))
_JAVA_AROUND = "".join(map(chr, range(0x21)))
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_DECIMAL = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?$"
_HEXADECIMAL = r"^[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?$"
_NAMES = {"^[+]?inf(?:inity)?$": np.inf, "^-inf(?:inity)?$": -np.inf, "^nan$": np.nan}
_JAVA_NAMES = r"^[+-]?NaN$"
_INVALID = "CAST_INVALID_INPUT"
_DATE = r"^(?P<sign>[+-]?)(?P<year>\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[ T](?s:.*))?)?)?$"


def _refused(call: Call, bad: Bools, there: Bools | None) -> Bools | None:
    return checked(bad, there, fails(call), _INVALID, f"A text cannot be cast to {call.type}, since it is malformed.")


def integer(call: Call, values: pa.Array) -> pa.Array:
    """Digits with a sign, and where casts are lenient a fraction, which is cut off."""
    text = pc.utf8_trim(values, _AROUND)
    pattern = r"^[+-]?\d+$" if fails(call) or tries(call) else r"^[+-]?(?:\d+(?:\.\d*)?|\.\d*)$"
    known = flags(pc.match_substring_regex(text, pattern))
    digits = pc.replace_substring_regex(text, r"^[+-]?0*(\d*)(?:\.\d*)?$", r"\1")
    fitting = known & flags(pc.less_equal(pc.binary_length(digits), 19))
    whole = pc.if_else(pa.array(fitting), pc.if_else(pc.equal(digits, ""), "0", digits), "0").cast(pa.uint64())
    size = np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.uint64)
    negative = flags(pc.starts_with(text, "-"))
    most = np.where(
        negative, np.uint64(np.iinfo(dtype_of(call.type)).max) + np.uint64(1), np.iinfo(dtype_of(call.type)).max
    )
    bad = ~fitting | (size > most.astype(np.uint64))
    signed = size.view(np.int64)
    with np.errstate(all="ignore"):
        found = np.where(negative, -signed, signed).astype(dtype_of(call.type))
    return made(found, _refused(call, bad, all_valid(values)), call.type)


def boolean(call: Call, values: pa.Array) -> pa.Array:
    """Some words and digits, in letters of any case."""
    text = pc.ascii_lower(pc.utf8_trim(values, _AROUND))
    true, false = (flags(pc.is_in(text, pa.array(words))) for words in (_TRUE, _FALSE))
    there = _refused(call, ~(true | false), all_valid(values))
    return pa.array(true, mask=None if there is None else ~there)


def double(call: Call, values: pa.Array) -> pa.Array:
    """Java's literals, and names of infinity and of what is no number."""
    text = pc.utf8_trim(values, _JAVA_AROUND)
    known = flags(pc.match_substring_regex(text, _DECIMAL))
    figures = pc.replace_substring_regex(text, "[fFdD]$", "")
    found = np.array(numbers(pc.if_else(pa.array(known), figures, "0").cast(pa.float64())))
    if known.all():
        return made(found, all_valid(values), call.type)
    lower = pc.ascii_lower(text)
    for pattern, value in _NAMES.items():
        named = flags(pc.match_substring_regex(lower, pattern))
        found[named] = value
        known |= named
    signed = flags(pc.match_substring_regex(text, _JAVA_NAMES))
    found[signed] = np.nan
    known |= signed
    in_hexadecimal = np.flatnonzero(flags(pc.match_substring_regex(text, _HEXADECIMAL)))
    # hardly anybody writes numbers so, and no kernel reads them
    found[in_hexadecimal] = [_hexadecimal(each) for each in text.take(pa.array(in_hexadecimal)).to_pylist()]
    known[in_hexadecimal] = True
    return made(found, _refused(call, ~known, all_valid(values)), call.type)


def _hexadecimal(text: str) -> float:
    figures = re.sub("(?<=[0-9])[fFdD]$", "", text)
    try:
        return float.fromhex(figures)
    except OverflowError:
        return -np.inf if text.startswith("-") else np.inf


def date(call: Call, values: pa.Array) -> pa.Array:
    """A year, perhaps a month, perhaps a day, behind which after a T or a blank anything may stand."""
    parts = pc.extract_regex(pc.utf8_trim(values, _AROUND), _DATE)
    there = valid(parts)
    year, month, day = (_number(parts.field(at), default) for at, default in ((1, 0), (2, 1), (3, 1)))
    year = np.where(flags(pc.equal(parts.field(0), "-")), -year, year)
    first = (year - 1970).astype("<M8[Y]").astype("<M8[M]") + (month - 1).astype("<m8[M]")
    begin = first.astype("<M8[D]").astype(np.int64)
    length = (first + np.timedelta64(1, "M")).astype("<M8[D]").astype(np.int64) - begin
    found = begin + day - 1
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
    exists &= (found >= np.iinfo(np.int32).min) & (found <= np.iinfo(np.int32).max)
    return made(found.astype(np.int32), _refused(call, ~(there & exists), all_valid(values)), call.type)


def _number(digits: pa.Array, default: int) -> Int64s:
    whole = pc.if_else(pc.equal(pc.fill_null(digits, ""), ""), str(default), digits).cast(pa.int64())
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.int64)
