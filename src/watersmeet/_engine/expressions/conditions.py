"""Conditions: three-valued logic, and the functions that evaluate an argument only where Spark would.

An argument that cannot fail is evaluated for all rows, since that is cheaper than to gather those that need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.expressions.tree import (
    FIXED,
    FLOATS,
    Call,
    EvaluatedRows,
    Expression,
    Kernel,
    LazyKernel,
    fixed_array,
    flags,
    numbers,
    shaped,
    type_of,
    value_where,
    where_null,
)
from watersmeet._engine.rows import Bools, valid

# Comparisons as Spark makes them: NaN equals NaN and is greater than all else, -0.0 equals 0.0, texts go by bytes.

_EQUALITIES = ("EqualTo", "EqualNullSafe")
_OPPOSITE = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}
_ARROW = {"LessThan": pc.less, "LessThanOrEqual": pc.less_equal, "EqualTo": pc.equal}


def comparable(kind: pa.DataType) -> bool:
    plain = kind in FIXED or pt.is_boolean(kind) or pt.is_string(kind) or pt.is_binary(kind)
    return bool(plain or pt.is_decimal(kind) or pt.is_null(kind))


def equatable(kind: pa.DataType) -> bool:
    """Whether values of a type are told apart here: those that are compared, and structs of such."""
    if pt.is_struct(kind):
        return all(equatable(kind.field(number).type) for number in range(kind.num_fields))
    return comparable(kind)


def fits_comparisons(call: Call) -> bool:
    """See `kernel`."""
    kinds = {type_of(argument) for argument in call.arguments}
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
    result = _ARROW[function](left, right)
    return _with_nan(function, result, left, right) if kind in FLOATS else result


def _with_nan(function: str, result: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
    """The same where NaN may be: as large as itself, larger than all else."""
    left_nan, right_nan = np.isnan(numbers(left)), np.isnan(numbers(right))
    if not (left_nan.any() or right_nan.any()):
        return result
    mask = {"LessThan": ~left_nan & right_nan, "LessThanOrEqual": right_nan, "EqualTo": left_nan & right_nan}[function]
    return pc.if_else(pa.array(mask), pc.if_else(result.is_valid(), True, result), result)


def equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Where values are the same; null where one of them is."""
    return compared("EqualTo", left, right)


def same(left: pa.Array, right: pa.Array) -> pa.Array:
    """Where values are the same, or both null; of structs, where all their fields are."""
    present = pc.and_(left.is_valid(), right.is_valid())
    if pt.is_struct(left.type):
        result = present
        for number in range(left.type.num_fields):
            result = pc.and_(result, same(left.field(number), right.field(number)))
    else:
        result = pc.fill_null(equal(left, right), False)
    return pc.if_else(present, result, pc.and_(left.is_null(), right.is_null()))


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
    best = arguments[0]
    for candidate in arguments[1:]:
        beyond = pc.or_kleene(best.is_null(), compared(further, candidate, best))
        best = pc.if_else(pa.array(flags(beyond) & flags(candidate.is_valid())), candidate, best)
    return best


_COMPARISONS = ("EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")
COMPARISONS_KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_COMPARISONS, _compare),
    "EqualNullSafe": _equal_null_safe,
    "Greatest": _extreme,
    "Least": _extreme,
}
COMPARISONS_LAZY: Mapping[str, LazyKernel] = {}


def fits_conditions(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    if call.function in ("And", "Or", "Not"):
        return all(map(pt.is_boolean, kinds))
    if call.function in ("IsNaN", "NaNvl"):
        return kinds[0] in FLOATS and len(set(kinds)) == 1
    if call.function == "In":
        return len(set(kinds)) == 1 and comparable(kinds[0]) and not any(map(of_day, call.arguments))
    if call.function == "If":
        return all(kind == call.type for kind in kinds[1:])
    if call.function == "CaseWhen":
        values = [*kinds[1::2], *kinds[len(kinds) - len(kinds) % 2 :]]
        return all(kind == call.type for kind in values)
    return call.function != "Coalesce" or all(kind == call.type for kind in kinds)


def _and_or(call: Call, rows: EvaluatedRows) -> pa.Array:
    first, second = call.arguments
    left = rows.evaluate(first)
    decided = flags(pc.invert(left)) if call.function == "And" else flags(left)
    right = value_where(rows, ~decided, second)
    return pc.and_kleene(left, right) if call.function == "And" else pc.or_kleene(left, right)


def _not(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return pc.invert(arguments[0])


def _is_null(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return arguments[0].is_null() if call.function == "IsNull" else arguments[0].is_valid()


def _is_nan(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = arguments
    return pa.array(np.isnan(numbers(values)) & valid(values))


def _nanvl(call: Call, rows: EvaluatedRows) -> pa.Array:
    first, second = call.arguments
    left = rows.evaluate(first)
    nan = np.isnan(numbers(left)) & valid(left)
    right = value_where(rows, nan, second)
    present = np.where(nan, valid(right), valid(left))
    return fixed_array(np.where(nan, numbers(right), numbers(left)), present, call.type)


def _coalesce(call: Call, rows: EvaluatedRows) -> pa.Array:
    result = rows.evaluate(call.arguments[0])
    for argument in call.arguments[1:]:
        if not result.null_count:
            break
        lacking = np.asarray(result.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
        result = pc.if_else(
            pa.array(lacking), shaped(value_where(rows, lacking, argument), call.type), shaped(result, call.type)
        )
    return shaped(result, call.type)


def _case_when(call: Call, rows: EvaluatedRows) -> pa.Array:
    """The value beside the first condition that is true; what is else stands last, if anything."""
    arguments = call.arguments
    left = np.ones(len(rows), dtype=np.bool_)
    branches: list[tuple[Bools, pa.Array]] = []
    for condition, value in zip(arguments[::2], arguments[1::2], strict=False):
        matches = left & flags(value_where(rows, left, condition))
        if matches.any():
            branches.append((matches, value_where(rows, matches, value)))
            left = left & ~matches
    result = (
        value_where(rows, left, arguments[-1]) if len(arguments) % 2 and left.any() else pa.nulls(len(rows), call.type)
    )
    for matches, value in reversed(branches):
        result = (
            value
            if matches.all()
            else pc.if_else(pa.array(matches), shaped(value, call.type), shaped(result, call.type))
        )
    return shaped(result, call.type)


def _in(call: Call, rows: EvaluatedRows) -> pa.Array:
    """Whether a value is among others: null where it is not, but one of them is null."""
    value, *candidates = call.arguments
    looked = rows.evaluate(value)
    matches, unsure = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    present = valid(looked)
    for candidate in candidates:
        if (matches | ~present).all():
            break
        same = equal(looked, value_where(rows, ~matches & present, candidate))
        unsure |= np.asarray(same.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
        matches |= flags(same)
    return pa.array(matches, pa.bool_(), mask=~present | unsure & ~matches)


def _with(call: Call, rows: EvaluatedRows) -> pa.Array:
    """An expression in which names stand for others."""
    return rows.evaluate(expanded(call))


def expanded(call: Call) -> Expression:
    """An expression with what its names stand for in their place."""
    body, *definitions = call.arguments
    bindings = {
        str(definition.option("id")): definition.arguments[0]
        for definition in definitions
        if isinstance(definition, Call)
    }
    return _replaced(body, bindings)


def _replaced(expression: Expression, bindings: Mapping[str, Expression]) -> Expression:
    if not isinstance(expression, Call):
        return expression
    if expression.function == "CommonExpressionRef":
        # what another `With` within names stays
        return bindings.get(str(expression.option("id")), expression)
    return replace(expression, arguments=tuple(_replaced(argument, bindings) for argument in expression.arguments))


def _null_if(call: Call, rows: EvaluatedRows) -> pa.Array:
    """The second argument where the first is not true."""
    condition, value = call.arguments
    return where_null(rows.evaluate(value), ~flags(rows.evaluate(condition)))


def _common_expression(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A variable that the surrounding `With` defines."""
    raise NotImplementedError(call.function)


CONDITIONS_KERNELS: Mapping[str, Kernel] = {
    "Not": _not,
    "IsNull": _is_null,
    "IsNotNull": _is_null,
    "IsNaN": _is_nan,
    **dict.fromkeys(("CommonExpressionRef", "CommonExpressionDef"), _common_expression),
}
CONDITIONS_LAZY: Mapping[str, LazyKernel] = {
    "With": _with,
    "NullIfResult": _null_if,
    "And": _and_or,
    "Or": _and_or,
    "NaNvl": _nanvl,
    "Coalesce": _coalesce,
    "If": _case_when,
    "CaseWhen": _case_when,
    "In": _in,
}
