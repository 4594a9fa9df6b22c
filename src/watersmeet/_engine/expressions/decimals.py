"""Decimals: what arithmetic gives, exact and then rounded half up to the scale of the result, as Spark does it.

Spark rounds quotients twice, first at 39 digits behind the point.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.expressions.tree import (
    Call,
    EvaluationError,
    Kernel,
    all_valid,
    checked,
    fails,
    fixed_array,
    flags,
    type_of,
    where_null,
)
from watersmeet._engine.keys import fixed_bytes
from watersmeet._engine.rows import Bools, Int64s

_MOST = 76
"""Digits of Arrow's longest decimals."""
_NEGATED = 34
_SHORT = 38
_WORD = 9
HALF_UP = "half_towards_infinity"
_QUOTIENT = 39
"""Digits behind the point to which Spark first rounds a quotient."""
LONG = 18
"""Digits of decimals that are a long."""


def fits(call: Call) -> bool:
    """Whether the exact result of the call has no more digits than Arrow can hold."""
    kinds = [type_of(argument) for argument in call.arguments]
    if call.function not in KERNELS or not all(map(pt.is_decimal, kinds)):
        return False
    if len(kinds) == 1:
        # Spark rounds what it negates to 34 digits
        return bool(kinds[0] == call.type and (call.type.precision <= _NEGATED or call.function == "UnaryPositive"))
    left, right = kinds
    if call.function == "Multiply":
        return bool(left.precision + right.precision < _MOST)
    if call.function == "Divide":
        drawn, scale = _drawn(left, right)
        return bool(right.precision <= _WORD and left.precision + drawn <= _MOST and scale <= _MOST)
    if call.function in _WHOLE:
        scale = max(left.scale, right.scale)
        return all(kind.precision - kind.scale + scale <= LONG for kind in kinds)
    digits = max(left.precision - left.scale, right.precision - right.scale) + max(left.scale, right.scale)
    return bool(digits < _MOST)


def _wide(values: pa.Array, precision: int = _MOST) -> pa.Array:
    return values.cast(pa.decimal256(precision, values.type.scale))


def rounded(values: pa.Array, scale: int, mode: str = HALF_UP) -> pa.Array:
    """Decimals with so many digits behind the point at most: half up, which for Java is away from zero.

    Arrow errs in quotients of its longest decimals, of 99...9 by a power of ten for one, where the divisor is more than
    a word of 32 bits. So they lose nine digits at a time, cut off but for the last ones.
    """
    left = values.type.scale
    if left <= scale:
        return values
    if pt.is_decimal128(values.type) and values.type.precision < _SHORT:
        # what is rounded up may need a digit more than its type has
        return pc.round(values.cast(pa.decimal128(_SHORT, left)), scale, round_mode=mode).cast(
            pa.decimal128(_SHORT, scale)
        )
    values = _wide(values)
    while left > scale:
        last = left - scale <= _WORD
        left = scale if last else left - _WORD
        rounding = "towards_zero" if mode == HALF_UP and not last else mode
        values = pc.round(values, left, round_mode=rounding).cast(pa.decimal256(_MOST, left))
    return values


def bounded(values: pa.Array, kind: pa.DataType, fails: bool) -> pa.Array:
    """Decimals of any width as those of a type, rounded half up; null where they are too large."""
    values = rounded(values, kind.scale)
    digits = kind.precision - kind.scale
    if values.type.precision - values.type.scale > digits:
        limit = pa.scalar(Decimal(10) ** digits, pa.decimal256(digits + 1, 0))
        bad = pc.greater_equal(pc.abs(_wide(values)), limit.cast(pa.decimal256(_MOST, values.type.scale)))
        if pc.any(bad).as_py():
            if fails:
                text = f"A number cannot be represented as Decimal({kind.precision}, {kind.scale})."
                raise EvaluationError("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", text)
            values = pc.if_else(bad, pa.scalar(None, values.type), values)
    return values.cast(kind)


def _sum(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = (_wide(argument, argument.type.precision) for argument in arguments)
    result = pc.subtract(left, right) if call.function == "Subtract" else pc.add(left, right)
    return bounded(result, call.type, fails(call))


def _product(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = (_wide(argument, argument.type.precision) for argument in arguments)
    return bounded(pc.multiply(left, right), call.type, fails(call))


def _minus(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return pc.negate(arguments[0]) if call.function == "UnaryMinus" else pc.abs(arguments[0])


def _same(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return arguments[0]


def _drawn(dividend: pa.DataType, divisor: pa.DataType) -> tuple[int, int]:
    """How many digits a quotient is computed to beyond that of the integers, and how many stand behind the point."""
    drawn = max(_QUOTIENT + 1 + divisor.scale - dividend.scale, divisor.precision + 1)
    return drawn, drawn + dividend.scale - divisor.scale


def _with_scale(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same integers as decimals of another type of the same width."""
    return pa.Array.from_buffers(kind, len(values), values.buffers(), offset=values.offset)


def _not_zero(call: Call, arguments: list[pa.Array]) -> tuple[pa.Array, Bools | None]:
    """The divisor with 1 for 0, and where there is a result."""
    divisor = arguments[1]
    zero = pc.equal(divisor, pa.scalar(Decimal(0), divisor.type))
    condition = "DIVIDE_BY_ZERO" if call.function in ("Divide", "IntegralDivide") else "REMAINDER_BY_ZERO"
    present = checked(flags(zero), all_valid(*arguments), fails(call), condition, "Division by zero.")
    unit = _with_scale(pa.array([1], pa.decimal128(38, 0)), divisor.type)[0]
    return pc.if_else(zero, unit, divisor), present


def _quotient(call: Call, arguments: list[pa.Array]) -> pa.Array:
    dividend, (divisor, present) = arguments[0], _not_zero(call, arguments)
    drawn, scale = _drawn(dividend.type, divisor.type)
    # Arrow draws as many digits as the divisor may have, and one more
    upper = _with_scale(dividend, pa.decimal128(dividend.type.precision, 0)).cast(
        pa.decimal256(dividend.type.precision, 0)
    )
    lower = _with_scale(divisor, pa.decimal128(divisor.type.precision, 0)).cast(pa.decimal256(drawn - 1, 0))
    quotient = where_null(_with_scale(pc.divide(upper, lower), pa.decimal256(_MOST, scale)), present)
    return bounded(rounded(quotient, _QUOTIENT), call.type, fails(call))


def _divide_longs(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Remainders, and quotients as integers, of decimals that are longs."""
    divisor, present = _not_zero(call, arguments)
    scale = max(arguments[0].type.scale, divisor.type.scale)
    upper, lower = (_longs(operand, scale) for operand in (arguments[0], divisor))
    lower = np.where(lower == 0, 1, lower)
    if call.function == "IntegralDivide":
        down = upper // lower
        return fixed_array(down + ((down < 0) & (down * lower != upper)), present, call.type)
    remainder = np.fmod(upper, lower)
    if call.function == "Pmod":
        remainder = np.where(remainder < 0, np.fmod(remainder + lower, lower), remainder)
    words = np.stack([remainder, remainder >> 63], axis=1)
    of_long = pa.Array.from_buffers(pa.decimal128(38, scale), len(remainder), [None, pa.py_buffer(words)], 0)
    return bounded(where_null(of_long, present), call.type, fails(call))


def _longs(values: pa.Array, scale: int) -> Int64s:
    wide = values.cast(pa.decimal128(38, scale))
    return np.ascontiguousarray(fixed_bytes(wide, 16).view("<i8")[:, 0])


_WHOLE = ("Remainder", "Pmod", "IntegralDivide")
KERNELS: Mapping[str, Kernel] = {
    "Add": _sum,
    "Subtract": _sum,
    "Multiply": _product,
    "Divide": _quotient,
    **dict.fromkeys(_WHOLE, _divide_longs),
    "UnaryMinus": _minus,
    "UnaryPositive": _same,
    "Abs": _minus,
}
"""Kernels for calls whose first argument is a decimal, by name."""
