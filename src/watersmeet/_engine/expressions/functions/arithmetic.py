"""Arithmetic on integers and floats as Java does it: integers wrap unless ANSI forbids it, division cuts off.

Add, Subtract, Multiply, Divide, IntegralDivide, Remainder, Pmod, UnaryMinus, UnaryPositive, Abs and the functions of
bits. `decimals` has those of decimals.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools
from watersmeet._engine.expressions.functions import decimals
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.modes import fails, is_constant, is_lenient, tries
from watersmeet._engine.expressions.tree import Call, Expression, type_of
from watersmeet._engine.expressions.vectors import (
    DURATION,
    INTEGERS,
    NUMBERS,
    Numbers,
    all_valid,
    checked,
    made,
    numbers,
)

_BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
_SHIFTS = ("ShiftLeft", "ShiftRight", "ShiftRightUnsigned")
_INT = (pa.int32(), pa.int64())
_INTERVAL = ("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", "long overflow")
_DIVISIONS = ("IntegralDivide", "Divide")


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
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
    found: list[Expression] = []
    for each in call.arguments:
        found += _chain(each) if isinstance(each, Call) and each.function == call.function else [each]
    return found


def overflow(kind: pa.DataType, sign: str = "") -> tuple[str, str]:
    """Condition and sentence of what Spark says of a number too large for its type."""
    name = {pa.int8(): "byte", pa.int16(): "short", pa.int32(): "integer"}.get(kind, "long")
    small = kind in (pa.int8(), pa.int16()) and sign
    return ("BINARY_ARITHMETIC_OVERFLOW" if small else "ARITHMETIC_OVERFLOW"), f"{name} overflow"


def _sum(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    minus = call.function == "Subtract"
    with np.errstate(all="ignore"):
        found = left - right if minus else left + right
    there = all_valid(*arguments)
    if call.type in INTEGERS and (fails(call) or tries(call)):
        signs = (left ^ right) & (left ^ found) if minus else (left ^ found) & (right ^ found)
        there = checked(signs < 0, there, fails(call), *overflow(call.type, "+"))
    return made(found, there, call.type)


def _product(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    with np.errstate(all="ignore"):
        found = left * right
    there = all_valid(*arguments)
    if call.type in INTEGERS and (fails(call) or tries(call)):
        there = checked(_too_large(left, right, found), there, fails(call), *overflow(call.type, "*"))
    return made(found, there, call.type)


def _too_large(left: Numbers, right: Numbers, product: Numbers) -> Bools:
    if product.itemsize < 8:
        exact: Bools = left.astype(np.int64) * right.astype(np.int64) != product
        return exact
    # products below 2^62 are surely right, and floats tell them from the rest
    near = np.abs(left.astype(np.float64) * right.astype(np.float64)) >= 2.0**62
    bad = np.zeros(len(product), dtype=np.bool_)
    rows = np.flatnonzero(near)
    factor, other, found = left[rows], right[rows], product[rows]
    least = np.iinfo(np.int64).min
    backwards = (factor == -1) & (other == least) | (other == -1) & (factor == least)
    safe = np.where(backwards | (other == 0), 1, other)
    bad[rows] = backwards | (found // safe != factor) & (other != 0) | (found % safe != 0)
    return bad


def _by_zero(call: Call, arguments: list[pa.Array], divisor: Numbers) -> Bools | None:
    condition = "DIVIDE_BY_ZERO" if call.function in _DIVISIONS else "REMAINDER_BY_ZERO"
    return checked(divisor == 0, all_valid(*arguments), fails(call), condition, "Division by zero.")


def _quotient(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    there = _by_zero(call, arguments, right)
    with np.errstate(all="ignore"):
        return made(left / right, there, call.type)


def _integral(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    there = _by_zero(call, arguments, right)
    least = np.iinfo(np.int64).min
    over = (left == least) & (right == -1)
    if fails(call) or tries(call):
        there = checked(over, there, fails(call), "ARITHMETIC_OVERFLOW", "Overflow in integral divide.")
    safe = np.where((right == 0) | over, 1, right)
    down = left // safe
    # numpy goes down, Java towards zero
    return made(down + ((down < 0) & (down * safe != left)), there, call.type)


def _remainder(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    there = _by_zero(call, arguments, right)
    return made(_rest(left, right), there, call.type)


def _rest(left: Numbers, right: Numbers) -> Numbers:
    """What Java's % gives; that by zero means nothing."""
    with np.errstate(all="ignore"):
        if left.dtype.kind == "f":
            return np.fmod(left, right)
        # the least number by -1 is a trap of the processor
        rest: Numbers = np.fmod(left, np.where((right == 0) | (right == -1), 1, right).astype(right.dtype))
        return rest


def _positive_rest(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = map(numbers, arguments)
    there = _by_zero(call, arguments, right)
    if left.dtype.kind == "i" and left.itemsize < 4:
        left, right = left.astype(np.int32), right.astype(np.int32)
    rest = _rest(left, right)
    with np.errstate(all="ignore"):
        found = np.where(rest < 0, _rest(rest + right, right), rest)
    return made(found, there, call.type)


def _minus(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = map(numbers, arguments)
    with np.errstate(all="ignore"):
        found = -values if call.function == "UnaryMinus" else np.abs(values)
    there = all_valid(*arguments)
    if call.type == DURATION:
        return made(found, checked(values == np.iinfo(np.int64).min, there, True, *_INTERVAL), call.type)
    if call.type in INTEGERS and fails(call):
        there = checked(values == np.iinfo(values.dtype).min, there, True, *overflow(call.type))
    return made(found, there, call.type)


def _same(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return arguments[0]


def _bits(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values = list(map(numbers, arguments))
    of = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}
    found = ~values[0] if call.function == "BitwiseNot" else of[call.function](*values)
    return made(found, all_valid(*arguments), call.type)


def _shift(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values, by = map(numbers, arguments)
    # Java looks at the lowest bits of the distance alone
    by = (by & (values.itemsize * 8 - 1)).astype(values.dtype)
    if call.function == "ShiftLeft":
        found = values << by
    elif call.function == "ShiftRight":
        found = values >> by
    else:
        unsigned = values.view(f"<u{values.itemsize}")
        found = (unsigned >> by.astype(unsigned.dtype)).view(values.dtype)
    return made(found, all_valid(*arguments), call.type)


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
    "Pmod": _positive_rest,
    "UnaryMinus": _minus,
    "UnaryPositive": _same,
    "Abs": _minus,
}
KERNELS: Mapping[str, Kernel] = {
    **{name: _for(kernel, decimals.KERNELS.get(name, kernel)) for name, kernel in _NUMERIC.items()},
    **dict.fromkeys(_BITS, _bits),
    **dict.fromkeys(_SHIFTS, _shift),
}
LAZY: Mapping[str, LazyKernel] = {}
