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

from watersmeet._engine.arrays import Bools
from watersmeet._engine.expressions.functions.comparisons import comparable, equal, of_day
from watersmeet._engine.expressions.kernel import EvaluatedRows, Kernel, LazyKernel
from watersmeet._engine.expressions.modes import value_where
from watersmeet._engine.expressions.tree import Call, Expression, type_of
from watersmeet._engine.expressions.vectors import FLOATS, flags, made, numbers, shaped, where_null
from watersmeet._engine.rows.columns import valid


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
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
    settled = flags(pc.invert(left)) if call.function == "And" else flags(left)
    right = value_where(rows, ~settled, second)
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
    other = np.isnan(numbers(left)) & valid(left)
    right = value_where(rows, other, second)
    there = np.where(other, valid(right), valid(left))
    return made(np.where(other, numbers(right), numbers(left)), there, call.type)


def _coalesce(call: Call, rows: EvaluatedRows) -> pa.Array:
    found = rows.evaluate(call.arguments[0])
    for each in call.arguments[1:]:
        if not found.null_count:
            break
        lacking = np.asarray(found.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
        found = pc.if_else(
            pa.array(lacking), shaped(value_where(rows, lacking, each), call.type), shaped(found, call.type)
        )
    return shaped(found, call.type)


def _case_when(call: Call, rows: EvaluatedRows) -> pa.Array:
    """The value beside the first condition that is true; what is else stands last, if anything."""
    arguments = call.arguments
    left = np.ones(len(rows), dtype=np.bool_)
    branches: list[tuple[Bools, pa.Array]] = []
    for condition, value in zip(arguments[::2], arguments[1::2], strict=False):
        taken = left & flags(value_where(rows, left, condition))
        if taken.any():
            branches.append((taken, value_where(rows, taken, value)))
            left = left & ~taken
    found = (
        value_where(rows, left, arguments[-1]) if len(arguments) % 2 and left.any() else pa.nulls(len(rows), call.type)
    )
    for taken, value in reversed(branches):
        found = (
            value if taken.all() else pc.if_else(pa.array(taken), shaped(value, call.type), shaped(found, call.type))
        )
    return shaped(found, call.type)


def _in(call: Call, rows: EvaluatedRows) -> pa.Array:
    """Whether a value is among others: null where it is not, but one of them is null."""
    value, *others = call.arguments
    looked = rows.evaluate(value)
    found, unsure = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    there = valid(looked)
    for each in others:
        if (found | ~there).all():
            break
        same = equal(looked, value_where(rows, ~found & there, each))
        unsure |= np.asarray(same.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
        found |= flags(same)
    return pa.array(found, pa.bool_(), mask=~there | unsure & ~found)


def _with(call: Call, rows: EvaluatedRows) -> pa.Array:
    """An expression in which names stand for others."""
    return rows.evaluate(expanded(call))


def expanded(call: Call) -> Expression:
    """An expression with what its names stand for in their place."""
    whole, *named = call.arguments
    known = {str(each.option("id")): each.arguments[0] for each in named if isinstance(each, Call)}
    return _replaced(whole, known)


def _replaced(expression: Expression, known: Mapping[str, Expression]) -> Expression:
    if not isinstance(expression, Call):
        return expression
    if expression.function == "CommonExpressionRef":
        # what another `With` within names stays
        return known.get(str(expression.option("id")), expression)
    return replace(expression, arguments=tuple(_replaced(each, known) for each in expression.arguments))


def _null_if(call: Call, rows: EvaluatedRows) -> pa.Array:
    """The second argument where the first is not true."""
    condition, value = call.arguments
    return where_null(rows.evaluate(value), ~flags(rows.evaluate(condition)))


def _named(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """A variable that the surrounding `With` defines."""
    raise NotImplementedError(call.function)


KERNELS: Mapping[str, Kernel] = {
    "Not": _not,
    "IsNull": _is_null,
    "IsNotNull": _is_null,
    "IsNaN": _is_nan,
    **dict.fromkeys(("CommonExpressionRef", "CommonExpressionDef"), _named),
}
LAZY: Mapping[str, LazyKernel] = {
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
