"""Rounding, signs and roots: the functions that IEEE 754 or whole numbers determine to the last bit.

Logarithms, powers and angles are Spark's, and so is rounding of floats to a place behind the point: Java does that on
the digits that it prints of a float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools
from watersmeet._engine.expressions.functions.casts.numbers import saturated
from watersmeet._engine.expressions.functions.decimals import bounded, rounded
from watersmeet._engine.expressions.functions.texts import constant
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.modes import fails
from watersmeet._engine.expressions.rowwise import by_row
from watersmeet._engine.expressions.tree import Call, type_of
from watersmeet._engine.expressions.vectors import FLOATS, INTEGERS, Numbers, all_valid, both, checked, made, numbers

_RADIANS, _DEGREES = 0.017453292519943295, 57.29577951308232
"""Of a degree and of a radian, as Java has them."""
_OF_DOUBLES: Mapping[str, Callable[[Numbers], Numbers]] = {
    "Sqrt": np.sqrt,
    "Rint": np.rint,
    "ToRadians": lambda values: values * _RADIANS,
    "ToDegrees": lambda values: values * _DEGREES,
}
_FACTORIALS = np.array([math.factorial(n) for n in range(21)])
_MODES = {"Round": "half_towards_infinity", "BRound": "half_to_even"}


def fits(call: Call) -> bool:
    """See `kernel`."""
    kind = type_of(call.arguments[0])
    if call.function in _MODES:
        scale = constant(call.arguments[1])
        if not isinstance(scale, int):
            return False
        if kind in FLOATS:
            return scale == 0
        return (kind in INTEGERS and scale > -10) or (bool(pt.is_decimal(kind)) and _exact(call, kind) and scale >= 0)
    if call.function in ("Factorial", "Bin"):
        return bool(kind == (pa.int32() if call.function == "Factorial" else pa.int64()))
    if call.function in ("Floor", "Ceil"):
        return bool(kind == pa.float64() or pt.is_decimal(kind) or kind == pa.int64())
    return kind == pa.float64() and len(call.arguments) == 1


def _exact(call: Call, kind: pa.DataType) -> bool:
    """Whether nothing is rounded twice, which rounding to the even neighbour does not bear."""
    return bool(call.function == "Round" or kind.precision < 38)


def _of_double(call: Call, arguments: list[pa.Array]) -> pa.Array:
    with np.errstate(all="ignore"):
        found = _OF_DOUBLES[call.function](numbers(arguments[0]))
    return made(found, all_valid(*arguments), call.type)


def _factorial(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Null of what has none, or one that is no long."""
    values = numbers(arguments[0])
    there = (values >= 0) & (values < len(_FACTORIALS))
    return made(_FACTORIALS[np.where(there, values, 0)], both(there, all_valid(*arguments)), call.type)


def _binary(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The digits of a long as Java writes them: those of the two's complement."""
    return by_row(call, arguments, lambda value: f"{value & 0xFFFF_FFFF_FFFF_FFFF:b}")


def _sign(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """1, -1, or the number itself if it is zero or none."""
    values = numbers(arguments[0])
    with np.errstate(all="ignore"):
        found = np.where((values == 0) | np.isnan(values), values, np.copysign(1.0, values))
    return made(found, all_valid(*arguments), call.type)


def _floor(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = arguments
    down = call.function == "Floor"
    if pt.is_decimal(values.type):
        return bounded(rounded(values, 0, "down" if down else "up"), call.type, fails(call))
    if pt.is_integer(values.type):
        return values
    given = numbers(values)
    with np.errstate(all="ignore"):
        whole = np.floor(given) if down else np.ceil(given)
    there = all_valid(values)
    if fails(call):
        there = checked((whole >= 2.0**63) | (whole < -(2.0**63)), there, True, "ARITHMETIC_OVERFLOW", "overflow")
    return made(saturated(whole, np.dtype("<i8")), there, call.type)


def _round(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values, scale = arguments[0], int(str(constant(call.arguments[1])))
    if pt.is_decimal(values.type):
        return bounded(rounded(values, scale, _MODES[call.function]), call.type, fails(call))
    given = numbers(values)
    if pt.is_floating(values.type):
        return made(_whole(given, call.function == "BRound"), all_valid(values), call.type)
    return values if scale >= 0 else _to_tens(call, values, 10**-scale)


def _whole(values: Numbers, even: bool) -> Numbers:
    """The nearest whole number; zero without a sign, since Java's decimals have none."""
    with np.errstate(all="ignore"):
        cut = np.trunc(values)
        found = np.rint(values) if even else cut + np.where(np.abs(values - cut) >= 0.5, np.copysign(1.0, values), 0)
        return np.where(np.isfinite(values), found + 0.0, values).astype(values.dtype)


def _to_tens(call: Call, values: pa.Array, unit: int) -> pa.Array:
    """Integers to a multiple of a power of ten."""
    given = numbers(values)
    wide = values.cast(pa.int64()).cast(pa.decimal128(19, 0))
    digits = len(str(unit)) - 1
    exact = pc.round(wide.cast(pa.decimal256(76, 0)), -digits, round_mode=_MODES[call.function])
    limits = np.iinfo(given.dtype)
    bad = _beyond(exact, limits.min, limits.max)
    there = (
        checked(bad, all_valid(values), True, "ARITHMETIC_OVERFLOW", "Overflow in rounding.") if fails(call) else None
    )
    low = np.frombuffer(exact.buffers()[1], "<i8", 4 * len(exact), exact.offset * 32)[::4]
    return made(low.astype(given.dtype), there if fails(call) else all_valid(values), call.type)


def _beyond(values: pa.Array, least: int, most: int) -> Bools:
    kind = values.type
    bad = pc.or_(pc.less(values, pa.scalar(Decimal(least), kind)), pc.greater(values, pa.scalar(Decimal(most), kind)))
    return np.asarray(bad.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_OF_DOUBLES, _of_double),
    "Signum": _sign,
    "Factorial": _factorial,
    "Bin": _binary,
    **dict.fromkeys(("Floor", "Ceil"), _floor),
    **dict.fromkeys(_MODES, _round),
}
LAZY: Mapping[str, LazyKernel] = {}
