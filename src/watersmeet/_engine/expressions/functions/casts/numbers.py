"""Casts among numbers, decimals and booleans."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.expressions.functions.decimals import LONG, bounded, rounded
from watersmeet._engine.expressions.modes import fails, is_lenient, tries
from watersmeet._engine.expressions.tree import Call
from watersmeet._engine.expressions.vectors import Numbers, all_valid, checked, dtype_of, made, numbers

CAST_OVERFLOW = ("CAST_OVERFLOW", "A value is out of the range of the type that it is cast to.")


def _bounded(call: Call, bad: Bools, there: Bools | None) -> Bools | None:
    """Where there is a value, if a `bad` one is none: it is one where casts wrap."""
    return checked(bad, there, fails(call), *CAST_OVERFLOW) if fails(call) or tries(call) else there


def integer_to_integer(call: Call, values: pa.Array) -> pa.Array:
    """To another width."""
    given = numbers(values)
    found = given.astype(dtype_of(call.type))
    return made(found, _bounded(call, found != given, all_valid(values)), call.type)


def as_numpy_does(call: Call, values: pa.Array) -> pa.Array:
    """To the nearest float, infinity where it is too large."""
    with np.errstate(all="ignore"):
        return made(numbers(values).astype(dtype_of(call.type)), all_valid(values), call.type)


def float_to_integer(call: Call, values: pa.Array) -> pa.Array:
    """Cut off; out of range, to the least or greatest int or long, of which narrower types keep the lowest bits."""
    given, dtype = numbers(values), dtype_of(call.type)
    there = all_valid(values)
    if fails(call) or tries(call):
        least, most = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
        with np.errstate(all="ignore"):
            exact = given.astype(np.float64)
            there = _bounded(call, ~((np.floor(exact) <= most) & (np.ceil(exact) >= least)), there)
    return made(saturated(given, np.dtype("<i8" if dtype.itemsize == 8 else "<i4")).astype(dtype), there, call.type)


def saturated(values: Numbers, dtype: np.dtype[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """Floats as Java casts them to int or long: cut off, at most its limits, NaN as 0."""
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        over, under = values >= float(limits.max), values <= float(limits.min)
        inside = np.where(over | under | np.isnan(values), 0, values).astype(dtype)
    return np.where(over, limits.max, np.where(under, limits.min, inside)).astype(dtype)


def of_boolean(call: Call, values: pa.Array) -> pa.Array:
    """1 or 0."""
    ones = values.cast(pa.int8())
    if pt.is_decimal(call.type):
        return to_decimal(call, ones)
    return ones.cast(call.type)


def to_boolean(call: Call, values: pa.Array) -> pa.Array:
    """False for zero alone."""
    return pa.array(numbers(values) != 0, mask=_null_mask(values))


def decimal_to_boolean(call: Call, values: pa.Array) -> pa.Array:
    """False for zero alone."""
    return pc.not_equal(values, pa.scalar(Decimal(0), values.type))


def to_decimal(call: Call, values: pa.Array) -> pa.Array:
    """Integers and decimals, rounded half up."""
    if not pt.is_decimal(values.type):
        values = values.cast(pa.int64()).cast(pa.decimal128(19, 0))
    return bounded(values, call.type, fails(call))


def decimal_to_integer(call: Call, values: pa.Array) -> pa.Array:
    """Cut off; where casts wrap, the lowest bits.

    Where they do not, Spark makes a double of a long decimal first, which may be the next integer.
    """
    if values.type.precision > LONG and call.type != pa.int64() and not is_lenient(call):
        return float_to_integer(call, decimal_to_float(Call("Cast", (), pa.float64()), values))
    low, high = _words(rounded(values, 0, "towards_zero").cast(pa.decimal128(38, 0)))
    found = low.astype(dtype_of(call.type))
    return made(found, _bounded(call, (found != low) | (high != low >> 63), all_valid(values)), call.type)


def _words(values: pa.Array) -> tuple[Int64s, Int64s]:
    """The lower and the higher half of decimals' integers."""
    data = values.buffers()[1]
    words = np.frombuffer(data, "<i8", 2 * len(values), values.offset * 16) if len(values) else np.zeros(0, "<i8")
    return words[::2], words[1::2]


def decimal_to_float(call: Call, values: pa.Array) -> pa.Array:
    """The nearest float: that of the text, since Arrow's own cast rounds more than once."""
    return values.cast(pa.string()).cast(call.type)


def _null_mask(values: pa.Array) -> Bools | None:
    there = all_valid(values)
    return None if there is None else ~there
