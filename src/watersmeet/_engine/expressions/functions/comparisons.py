"""Comparisons as Spark makes them: NaN equals NaN and is greater than all else, -0.0 equals 0.0, texts go by bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.tree import Call, Expression, type_of
from watersmeet._engine.expressions.vectors import FIXED, FLOATS, flags, numbers

_EQUALITIES = ("EqualTo", "EqualNullSafe")
_OPPOSITE = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}
_ARROW = {"LessThan": pc.less, "LessThanOrEqual": pc.less_equal, "EqualTo": pc.equal}


def comparable(kind: pa.DataType) -> bool:
    """Whether values of a type are compared here."""
    plain = kind in FIXED or pt.is_boolean(kind) or pt.is_string(kind) or pt.is_binary(kind)
    return bool(plain or pt.is_decimal(kind) or pt.is_null(kind))


def equatable(kind: pa.DataType) -> bool:
    """Whether values of a type are told apart here: those that are compared, and structs of such."""
    if pt.is_struct(kind):
        return all(equatable(kind.field(number).type) for number in range(kind.num_fields))
    return comparable(kind)


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = {type_of(each) for each in call.arguments}
    if call.function in _EQUALITIES and len(kinds) == 1 and all(map(pt.is_struct, kinds)):
        return all(map(equatable, kinds))
    return len(kinds) == 1 and all(map(comparable, kinds)) and not any(map(of_day, call.arguments))


def of_day(expression: Expression) -> bool:
    """Whether it is a day as a timestamp: Spark compares days then, of which there are more than timestamps."""
    if not isinstance(expression, Call) or expression.function != "Cast" or not pt.is_timestamp(expression.type):
        return False
    (of,) = expression.arguments
    return bool(type_of(of) == pa.date32() or of_day(of))


def compared(function: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """What EqualTo, LessThan, LessThanOrEqual, GreaterThan or GreaterThanOrEqual says of two arrays of one type."""
    if function in _OPPOSITE:
        function, left, right = _OPPOSITE[function], right, left
    kind = left.type
    if pt.is_struct(kind):
        return pc.if_else(pc.and_(left.is_valid(), right.is_valid()), same(left, right), pa.scalar(None, pa.bool_()))
    if pt.is_null(kind):
        return pa.nulls(len(left), pa.bool_())
    if pt.is_boolean(kind):
        left, right = left.cast(pa.uint8()), right.cast(pa.uint8())
    found = _ARROW[function](left, right)
    return _with_nan(function, found, left, right) if kind in FLOATS else found


def _with_nan(function: str, found: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
    """The same where NaN may be: as large as itself, larger than all else."""
    one, other = np.isnan(numbers(left)), np.isnan(numbers(right))
    if not (one.any() or other.any()):
        return found
    here = {"LessThan": ~one & other, "LessThanOrEqual": other, "EqualTo": one & other}[function]
    return pc.if_else(pa.array(here), pc.if_else(found.is_valid(), True, found), found)


def equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Where values are the same; null where one of them is."""
    return compared("EqualTo", left, right)


def same(left: pa.Array, right: pa.Array) -> pa.Array:
    """Where values are the same, or both null; of structs, where all their fields are."""
    both = pc.and_(left.is_valid(), right.is_valid())
    if pt.is_struct(left.type):
        found = both
        for number in range(left.type.num_fields):
            found = pc.and_(found, same(left.field(number), right.field(number)))
    else:
        found = pc.fill_null(equal(left, right), False)
    return pc.if_else(both, found, pc.and_(left.is_null(), right.is_null()))


def _compare(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return compared(call.function, *arguments)


def _equal_null_safe(call: Call, arguments: list[pa.Array]) -> pa.Array:
    left, right = arguments
    if pt.is_struct(left.type):
        return same(left, right)
    if not (left.null_count or right.null_count):
        return equal(left, right)
    return pc.if_else(
        pc.and_(left.is_valid(), right.is_valid()), equal(left, right), pc.equal(left.is_valid(), right.is_valid())
    )


def _extreme(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The greatest or least of the values that are there; of equal ones the first."""
    further = "GreaterThan" if call.function == "Greatest" else "LessThan"
    found = arguments[0]
    for each in arguments[1:]:
        beyond = pc.or_kleene(found.is_null(), compared(further, each, found))
        found = pc.if_else(pa.array(flags(beyond) & flags(each.is_valid())), each, found)
    return found


_COMPARISONS = ("EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")
KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_COMPARISONS, _compare),
    "EqualNullSafe": _equal_null_safe,
    "Greatest": _extreme,
    "Least": _extreme,
}
LAZY: Mapping[str, LazyKernel] = {}
