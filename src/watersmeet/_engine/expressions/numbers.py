"""Arithmetic on integers and floats as Java does it: integers wrap unless ANSI forbids it, division cuts off.

Add, Subtract, Multiply, Divide, IntegralDivide, Remainder, Pmod, UnaryMinus, UnaryPositive, Abs and the functions of
bits. `decimals` has those of decimals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.expressions import decimals
from watersmeet._engine.expressions.casts import saturated
from watersmeet._engine.expressions.decimals import bounded, rounded
from watersmeet._engine.expressions.texts import constant
from watersmeet._engine.expressions.tree import (
    DURATION,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Call,
    Expression,
    Kernel,
    LazyKernel,
    Numbers,
    all_valid,
    by_row,
    checked,
    fails,
    fixed_array,
    is_constant,
    is_lenient,
    mask_and,
    numbers,
    tries,
    type_of,
)
from watersmeet._engine.rows import Bools

_BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
_SHIFTS = ("ShiftLeft", "ShiftRight", "ShiftRightUnsigned")
_INT = (pa.int32(), pa.int64())
_INTERVAL = ("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", "long overflow")
_DIVISIONS = ("IntegralDivide", "Divide")


def fits_arithmetic(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    if any(pt.is_decimal(kind) for kind in kinds):
        return decimals.fits(call)
    if call.function in _SHIFTS:
        return kinds[0] in _INT and kinds[1] == pa.int32()
    if len(set(kinds)) != 1:
        return False
    (kind,) = set(kinds)
    if call.function in ("Add", "Multiply") and kind in INTEGERS and _folded(call):
        return False
    if call.function == "Divide":
        return bool(kind == pa.float64())
    if call.function == "IntegralDivide":
        return bool(kind == pa.int64())
    if kind == DURATION:
        return call.function == "UnaryMinus"
    return kind in (INTEGERS if call.function in _BITS else NUMBERS)


def _folded(call: Call) -> bool:
    """Whether Spark folds constants of a chain of sums or products, which may fail elsewhere, or nowhere."""
    return not is_lenient(call) and sum(map(is_constant, _chain(call))) > 1


def _chain(call: Call) -> list[Expression]:
    terms: list[Expression] = []
    for argument in call.arguments:
        terms += _chain(argument) if isinstance(argument, Call) and argument.function == call.function else [argument]
    return terms


def overflow(kind: pa.DataType, sign: str = "") -> tuple[str, str]:
    """Condition and sentence of what Spark says of a number too large for its type."""
    name = {pa.int8(): "byte", pa.int16(): "short", pa.int32(): "integer"}.get(kind, "long")
    small = kind in (pa.int8(), pa.int16()) and sign
    return ("BINARY_ARITHMETIC_OVERFLOW" if small else "ARITHMETIC_OVERFLOW"), f"{name} overflow"


def _sum(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    minus = call.function == "Subtract"
    with np.errstate(all="ignore"):
        result = left - right if minus else left + right
    validity = all_valid(*arguments)
    if call.type in INTEGERS and (fails(call) or tries(call)):
        signs = (left ^ right) & (left ^ result) if minus else (left ^ result) & (right ^ result)
        validity = checked(signs < 0, validity, fails(call), *overflow(call.type, "+"))
    return fixed_array(result, validity, call.type)


def _product(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    with np.errstate(all="ignore"):
        result = left * right
    validity = all_valid(*arguments)
    if call.type in INTEGERS and (fails(call) or tries(call)):
        validity = checked(_too_large(left, right, result), validity, fails(call), *overflow(call.type, "*"))
    return fixed_array(result, validity, call.type)


def _too_large(left: Numbers, right: Numbers, product: Numbers) -> Bools:
    if product.itemsize < 8:
        exact: Bools = left.astype(np.int64) * right.astype(np.int64) != product
        return exact
    # products below 2^62 are surely right, and floats tell them from the rest
    near = np.abs(left.astype(np.float64) * right.astype(np.float64)) >= 2.0**62
    bad = np.zeros(len(product), dtype=np.bool_)
    rows = np.flatnonzero(near)
    factor, multiplier, wrapped = left[rows], right[rows], product[rows]
    least = np.iinfo(np.int64).min
    backwards = (factor == -1) & (multiplier == least) | (multiplier == -1) & (factor == least)
    safe = np.where(backwards | (multiplier == 0), 1, multiplier)
    bad[rows] = backwards | (wrapped // safe != factor) & (multiplier != 0) | (wrapped % safe != 0)
    return bad


def _by_zero(call: Call, arguments: list[pa.Array], divisor: Numbers) -> Bools | None:
    condition = "DIVIDE_BY_ZERO" if call.function in _DIVISIONS else "REMAINDER_BY_ZERO"
    return checked(divisor == 0, all_valid(*arguments), fails(call), condition, "Division by zero.")


def _quotient(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    validity = _by_zero(call, arguments, right)
    with np.errstate(all="ignore"):
        return fixed_array(left / right, validity, call.type)


def _integral(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    validity = _by_zero(call, arguments, right)
    least = np.iinfo(np.int64).min
    over = (left == least) & (right == -1)
    if fails(call) or tries(call):
        validity = checked(over, validity, fails(call), "ARITHMETIC_OVERFLOW", "Overflow in integral divide.")
    safe = np.where((right == 0) | over, 1, right)
    down = left // safe
    # numpy goes down, Java towards zero
    return fixed_array(down + ((down < 0) & (down * safe != left)), validity, call.type)


def _remainder(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    validity = _by_zero(call, arguments, right)
    return fixed_array(_truncated_remainder(left, right), validity, call.type)


def _truncated_remainder(left: Numbers, right: Numbers) -> Numbers:
    """What Java's % gives; that by zero means nothing."""
    with np.errstate(all="ignore"):
        if left.dtype.kind == "f":
            return np.fmod(left, right)
        # the least number by -1 is a trap of the processor
        remainder: Numbers = np.fmod(left, np.where((right == 0) | (right == -1), 1, right).astype(right.dtype))
        return remainder


def _pmod(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    validity = _by_zero(call, arguments, right)
    if left.dtype.kind == "i" and left.itemsize < 4:
        left, right = left.astype(np.int32), right.astype(np.int32)
    remainder = _truncated_remainder(left, right)
    with np.errstate(all="ignore"):
        result = np.where(remainder < 0, _truncated_remainder(remainder + right, right), remainder)
    return fixed_array(result, validity, call.type)


def _minus(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = map(numbers, arguments)
    with np.errstate(all="ignore"):
        result = -values if call.function == "UnaryMinus" else np.abs(values)
    validity = all_valid(*arguments)
    if call.type == DURATION:
        return fixed_array(result, checked(values == np.iinfo(np.int64).min, validity, True, *_INTERVAL), call.type)
    if call.type in INTEGERS and fails(call):
        validity = checked(values == np.iinfo(values.dtype).min, validity, True, *overflow(call.type))
    return fixed_array(result, validity, call.type)


def _same(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return arguments[0]


def _bits(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values = list(map(numbers, arguments))
    of = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}
    result = ~values[0] if call.function == "BitwiseNot" else of[call.function](*values)
    return fixed_array(result, all_valid(*arguments), call.type)


def _shift(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values, by = map(numbers, arguments)
    # Java looks at the lowest bits of the distance alone
    by = (by & (values.itemsize * 8 - 1)).astype(values.dtype)
    if call.function == "ShiftLeft":
        result = values << by
    elif call.function == "ShiftRight":
        result = values >> by
    else:
        unsigned = values.view(f"<u{values.itemsize}")
        result = (unsigned >> by.astype(unsigned.dtype)).view(values.dtype)
    return fixed_array(result, all_valid(*arguments), call.type)


def _for(numeric: Kernel, decimal: Kernel) -> Kernel:
    def kernel(call: Call, arguments: list[pa.Array]) -> pa.Array:
        return (decimal if pt.is_decimal(arguments[0].type) else numeric)(call, arguments)

    return kernel


_NUMERIC: Mapping[str, Kernel] = {
    "Add": _sum,
    "Subtract": _sum,
    "Multiply": _product,
    "Divide": _quotient,
    "IntegralDivide": _integral,
    "Remainder": _remainder,
    "Pmod": _pmod,
    "UnaryMinus": _minus,
    "UnaryPositive": _same,
    "Abs": _minus,
}
ARITHMETIC_KERNELS: Mapping[str, Kernel] = {
    **{name: _for(kernel, decimals.KERNELS.get(name, kernel)) for name, kernel in _NUMERIC.items()},
    **dict.fromkeys(_BITS, _bits),
    **dict.fromkeys(_SHIFTS, _shift),
}
LAZY: Mapping[str, LazyKernel] = {}


# Rounding, signs and roots: the functions that IEEE 754 or whole numbers determine to the last bit.
#
# Logarithms, powers and angles are Spark's, and so is rounding of floats to a place behind the point: Java does that on
# the digits that it prints of a float.

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


def fits_rounding(call: Call) -> bool:
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
        result = _OF_DOUBLES[call.function](numbers(arguments[0]))
    return fixed_array(result, all_valid(*arguments), call.type)


def _factorial(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Null of what has none, or one that is no long."""
    values = numbers(arguments[0])
    in_range = (values >= 0) & (values < len(_FACTORIALS))
    return fixed_array(_FACTORIALS[np.where(in_range, values, 0)], mask_and(in_range, all_valid(*arguments)), call.type)


def _binary(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The digits of a long as Java writes them: those of the two's complement."""
    return by_row(call, arguments, lambda value: f"{value & 0xFFFF_FFFF_FFFF_FFFF:b}")


def _sign(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """1, -1, or the number itself if it is zero or none."""
    values = numbers(arguments[0])
    with np.errstate(all="ignore"):
        signs = np.where((values == 0) | np.isnan(values), values, np.copysign(1.0, values))
    return fixed_array(signs, all_valid(*arguments), call.type)


def _floor(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = arguments
    down = call.function == "Floor"
    if pt.is_decimal(values.type):
        return bounded(rounded(values, 0, "down" if down else "up"), call.type, fails(call))
    if pt.is_integer(values.type):
        return values
    raw = numbers(values)
    with np.errstate(all="ignore"):
        integral = np.floor(raw) if down else np.ceil(raw)
    validity = all_valid(values)
    if fails(call):
        validity = checked(
            (integral >= 2.0**63) | (integral < -(2.0**63)), validity, True, "ARITHMETIC_OVERFLOW", "overflow"
        )
    return fixed_array(saturated(integral, np.dtype("<i8")), validity, call.type)


def _round(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values, scale = arguments[0], int(str(constant(call.arguments[1])))
    if pt.is_decimal(values.type):
        return bounded(rounded(values, scale, _MODES[call.function]), call.type, fails(call))
    raw = numbers(values)
    if pt.is_floating(values.type):
        return fixed_array(_nearest_integer(raw, call.function == "BRound"), all_valid(values), call.type)
    return values if scale >= 0 else _to_tens(call, values, 10**-scale)


def _nearest_integer(values: Numbers, even: bool) -> Numbers:
    """The nearest whole number; zero without a sign, since Java's decimals have none."""
    with np.errstate(all="ignore"):
        cut = np.trunc(values)
        nearest = np.rint(values) if even else cut + np.where(np.abs(values - cut) >= 0.5, np.copysign(1.0, values), 0)
        return np.where(np.isfinite(values), nearest + 0.0, values).astype(values.dtype)


def _to_tens(call: Call, values: pa.Array, unit: int) -> pa.Array:
    """Integers to a multiple of a power of ten."""
    raw = numbers(values)
    wide = values.cast(pa.int64()).cast(pa.decimal128(19, 0))
    digits = len(str(unit)) - 1
    exact = pc.round(wide.cast(pa.decimal256(76, 0)), -digits, round_mode=_MODES[call.function])
    limits = np.iinfo(raw.dtype)
    bad = _beyond(exact, limits.min, limits.max)
    validity = (
        checked(bad, all_valid(values), True, "ARITHMETIC_OVERFLOW", "Overflow in rounding.") if fails(call) else None
    )
    low = np.frombuffer(exact.buffers()[1], "<i8", 4 * len(exact), exact.offset * 32)[::4]
    return fixed_array(low.astype(raw.dtype), validity if fails(call) else all_valid(values), call.type)


def _beyond(values: pa.Array, least: int, most: int) -> Bools:
    kind = values.type
    bad = pc.or_(pc.less(values, pa.scalar(Decimal(least), kind)), pc.greater(values, pa.scalar(Decimal(most), kind)))
    return np.asarray(bad.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


ROUNDING_KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_OF_DOUBLES, _of_double),
    "Signum": _sign,
    "Factorial": _factorial,
    "Bin": _binary,
    **dict.fromkeys(("Floor", "Ceil"), _floor),
    **dict.fromkeys(_MODES, _round),
}
