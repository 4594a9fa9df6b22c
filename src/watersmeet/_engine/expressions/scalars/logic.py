"""Conditions and comparisons, a row at a time: NaN equals NaN and is the greatest, and/or know three values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet._engine.expressions.functions.comparisons import comparable
from watersmeet._engine.expressions.functions.conditions import expanded
from watersmeet._engine.expressions.scalars.writer import Form, FunctionWriter, NoForm, kinds_of
from watersmeet._engine.expressions.tree import Call, Expression
from watersmeet._engine.expressions.vectors import FLOATS

_SIGNS = {
    "EqualTo": "==",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TURNED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}


def _kind(kinds: Sequence[pa.DataType], call: Call) -> pa.DataType:
    if len(set(kinds)) != 1 or not comparable(kinds[0]):
        raise NoForm(f"{call.function} of {kinds[0]}")
    return kinds[0]


def compared(function: str, kind: pa.DataType, one: str, other: str) -> str:
    """A comparison of two values that are there, as a text of Python."""
    if kind not in FLOATS:
        return f"({one} {_SIGNS[function]} {other})"
    if function in _TURNED:
        function, one, other = _TURNED[function], other, one
    with_nan = {
        "EqualTo": f"{one} != {one} and {other} != {other}",
        "LessThan": f"{other} != {other} and {one} == {one}",
        "LessThanOrEqual": f"{other} != {other}",
    }[function]
    return f"({one} {_SIGNS[function]} {other} or {with_nan})"


def _compare(call: Call, writer: FunctionWriter) -> str:
    kind = _kind(kinds_of(call), call)
    return writer.where_there(call, lambda values: compared(call.function, kind, values[0], values[1]))


def _null_safe(call: Call, writer: FunctionWriter) -> str:
    kind = _kind(kinds_of(call), call)
    one, other = map(writer.value, call.arguments)
    same = compared("EqualTo", kind, one, other)
    return writer.set(f"{one} is {other} if {one} is None or {other} is None else {same}")


def _extreme(call: Call, writer: FunctionWriter) -> str:
    """The greatest or least of the values that are there; of equal ones the first."""
    kind = _kind(kinds_of(call), call)
    further = "GreaterThan" if call.function == "Greatest" else "LessThan"
    values = [writer.value(each) for each in call.arguments]
    found = writer.set(values[0])
    for each in values[1:]:
        with writer.under(f"if {each} is not None and ({found} is None or {compared(further, kind, each, found)})"):
            writer.line(f"{found} = {each}")
    return found


def _and_or(call: Call, writer: FunctionWriter) -> str:
    one, other = call.arguments
    settled, else_ = ("False", "True") if call.function == "And" else ("True", "False")
    left = writer.value(one)
    found = writer.set(settled)
    with writer.under(f"if {left} is not {settled}"):
        right = writer.value(other)
        writer.line(
            f"{found} = {settled} if {right} is {settled} else None if {left} is None or {right} is None else {else_}"
        )
    return found


def _not(call: Call, writer: FunctionWriter) -> str:
    return writer.where_there(call, lambda values: f"not {values[0]}")


def _is_null(call: Call, writer: FunctionWriter) -> str:
    sign = "is" if call.function == "IsNull" else "is not"
    return writer.set(f"{writer.value(call.arguments[0])} {sign} None")


def _is_nan(call: Call, writer: FunctionWriter) -> str:
    value = writer.value(call.arguments[0])
    return writer.set(f"{value} is not None and {value} != {value}")


def _nanvl(call: Call, writer: FunctionWriter) -> str:
    found = writer.set(writer.value(call.arguments[0]))
    with writer.under(f"if {found} is not None and {found} != {found}"):
        writer.line(f"{found} = {writer.value(call.arguments[1])}")
    return found


def _coalesce(call: Call, writer: FunctionWriter) -> str:
    found = writer.set(writer.value(call.arguments[0]))
    for each in call.arguments[1:]:
        # what stands behind is not asked where a value is there
        with writer.under(f"if {found} is None"):
            writer.line(f"{found} = {writer.value(each)}")
    return found


def _case_when(call: Call, writer: FunctionWriter) -> str:
    found = writer.set("None")
    _cases(call.arguments, found, writer)
    return found


def _cases(left: Sequence[Expression], found: str, writer: FunctionWriter) -> None:
    if len(left) < 2:
        for each in left:
            writer.line(f"{found} = {writer.value(each)}")
        return
    condition = writer.value(left[0])
    with writer.under(f"if {condition}"):
        writer.line(f"{found} = {writer.value(left[1])}")
    if len(left) > 2:
        with writer.under("else"):
            _cases(left[2:], found, writer)


def _in(call: Call, writer: FunctionWriter) -> str:
    """Null where the value is not among the others, but one of them is null."""
    kind = _kind(kinds_of(call), call)
    value = writer.value(call.arguments[0])
    found = writer.set("None")
    with writer.under(f"if {value} is not None"):
        writer.line(f"{found} = False")
        for each in call.arguments[1:]:
            with writer.under(f"if {found} is not True"):
                other = writer.value(each)
                with writer.under(f"if {other} is None"):
                    writer.line(f"{found} = None")
                with writer.under(f"elif {compared('EqualTo', kind, value, other)}"):
                    writer.line(f"{found} = True")
    return found


def _with(call: Call, writer: FunctionWriter) -> str:
    return writer.value(expanded(call))


def _null_if(call: Call, writer: FunctionWriter) -> str:
    condition, value = map(writer.value, call.arguments)
    return writer.set(f"None if {condition} else {value}")


def _if(call: Call, writer: FunctionWriter) -> str:
    return _case_when(replace(call, function="CaseWhen"), writer)


FORMS: Mapping[str, Form] = {
    **dict.fromkeys(_SIGNS, _compare),
    "EqualNullSafe": _null_safe,
    **dict.fromkeys(("Greatest", "Least"), _extreme),
    **dict.fromkeys(("And", "Or"), _and_or),
    "Not": _not,
    **dict.fromkeys(("IsNull", "IsNotNull"), _is_null),
    "IsNaN": _is_nan,
    "NaNvl": _nanvl,
    "Coalesce": _coalesce,
    "CaseWhen": _case_when,
    "If": _if,
    "In": _in,
    "With": _with,
    "NullIfResult": _null_if,
}
