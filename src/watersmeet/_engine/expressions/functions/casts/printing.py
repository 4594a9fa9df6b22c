"""Casts to text: what Spark prints."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.expressions.modes import MICROS_A_DAY, tries
from watersmeet._engine.expressions.tree import Call
from watersmeet._engine.expressions.vectors import all_valid, numbers, where_null

Octets = npt.NDArray[np.uint8]


def plain(call: Call, values: pa.Array) -> pa.Array:
    """What Arrow prints, too; of texts, the bytes."""
    return values.cast(call.type)


def decimal(call: Call, values: pa.Array) -> pa.Array:
    """With all digits of the scale; where a cast is lenient, small numbers with an exponent, as Java writes them."""
    scale = values.type.scale
    if not (call.ansi or tries(call)) or not scale:
        return values.cast(pa.string())
    buffers = values.buffers()
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), buffers, offset=values.offset)
    text = pc.utf8_lpad(pc.utf8_ltrim(whole.cast(pa.string()), "-"), scale + 1, "0")
    sign = pc.if_else(pc.less(whole, pa.scalar(Decimal(0), whole.type)), "-", "")
    before = pc.binary_slice(text.cast(pa.binary()), 0, -scale).cast(pa.string())
    behind = pc.binary_slice(text.cast(pa.binary()), -scale).cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, before, ""), behind, ".")


def date(call: Call, values: pa.Array) -> pa.Array:
    """Year, month and day."""
    year, month, day = calendar(numbers(values).astype(np.int64))
    rest = np.concatenate([digits(month, 2, "-"), digits(day, 2, "-")], axis=1)
    return where_null(pc.binary_join_element_wise(year_text(year), joined_octets(rest), ""), all_valid(values))


def timestamp(call: Call, values: pa.Array) -> pa.Array:
    """Date and time in UTC; of the fraction of a second what is not zero."""
    micros = numbers(values)
    days = micros // MICROS_A_DAY
    year, month, day = calendar(days)
    left = micros - days * MICROS_A_DAY
    seconds = left // 1_000_000
    parts = [(month, 2, "-"), (day, 2, "-"), (seconds // 3600, 2, " "), (seconds // 60 % 60, 2, ":")]
    parts += [(seconds % 60, 2, ":"), (left % 1_000_000, 6, ".")]
    rest = joined_octets(np.concatenate([digits(*each) for each in parts], axis=1))
    fraction_cut = pc.utf8_rtrim(pc.utf8_rtrim(rest, "0"), ".")
    return where_null(pc.binary_join_element_wise(year_text(year), fraction_cut, ""), all_valid(values))


def calendar(days: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Year, month and day of the month of days since 1970."""
    whole = days.astype("<M8[D]")
    months = whole.astype("<M8[M]")
    number = months.astype(np.int64)
    day = (whole - months.astype("<M8[D]")).astype(np.int64) + 1
    return number // 12 + 1970, number % 12 + 1, day


def year_text(year: Int64s) -> pa.Array:
    """Four digits; more of them, and those of years before 0, behind a sign."""
    figures = pc.utf8_lpad(pa.array(np.abs(year)).cast(pa.string()), 4, "0")
    sign = pc.if_else(pa.array(year < 0), "-", pc.if_else(pa.array(year > 9999), "+", ""))
    return pc.binary_join_element_wise(sign, figures, "")


def digits(values: Int64s, width: int, before: str = "") -> Octets:
    """So many digits of each, perhaps behind a character, as the bytes of each row."""
    found = np.empty((len(values), len(before) + width), np.uint8)
    found[:, : len(before)] = ord(before) if before else 0
    for at in range(len(before) + width - 1, len(before) - 1, -1):
        found[:, at] = values % 10 + ord("0")
        values = values // 10
    return found


def joined_octets(octets: Octets) -> pa.Array:
    """The text of each row of bytes."""
    rows, width = octets.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(octets)], 0)
