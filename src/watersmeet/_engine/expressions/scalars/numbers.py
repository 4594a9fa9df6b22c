"""Arithmetic and casts of numbers, a row at a time, as `functions.arithmetic` and `functions.casts` do of arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.expressions.functions.arithmetic import overflow
from watersmeet._engine.expressions.functions.casts.numbers import CAST_OVERFLOW
from watersmeet._engine.expressions.modes import fails, tries
from watersmeet._engine.expressions.scalars.writer import Form, FunctionWriter, NoForm, kinds_of
from watersmeet._engine.expressions.tree import Call
from watersmeet._engine.expressions.vectors import INTEGERS

_SIGNS = {"Add": "+", "Subtract": "-", "Multiply": "*", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}
_BY_ZERO = "Division by zero."


def limits(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    half = 1 << (kind.bit_width - 1)
    return -half, half - 1


def quotient(one: int, other: int) -> int:
    """Cut off, as Java does it; Python goes down."""
    down = abs(one) // abs(other)
    return down if (one < 0) == (other < 0) else -down


def remainder(one: int, other: int) -> int:
    """That of `quotient`: it has the sign of what is divided."""
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def float_remainder(one: float, other: float) -> float:
    """Java's, which knows one of everything."""
    return math.nan if math.isinf(one) or math.isnan(one) or math.isnan(other) or other == 0 else math.fmod(one, other)


def _one_kind(call: Call, *kinds: pa.DataType) -> pa.DataType:
    found = set(kinds_of(call))
    if len(found) != 1 or not found <= set(kinds) or call.type not in found:
        raise NoForm(call.function)
    return found.pop()


def _checked(call: Call, writer: FunctionWriter, exact: str, condition: tuple[str, str]) -> str:
    """An exact integer, where it is one of the call's type; else an error, null, or its lowest bits."""
    least, most = limits(call.type)
    found = writer.set(exact)
    with writer.under(f"if not {least} <= {found} <= {most}"):
        if fails(call):
            writer.fail(*condition)
        elif tries(call):
            writer.line(f"{found} = None")
        else:
            writer.line(f"{found} = ({found} - {least} & {most - least}) + {least}")
    return found


def _arithmetic(call: Call, writer: FunctionWriter) -> str:
    kind = _one_kind(call, *INTEGERS, pa.float64())
    sign = _SIGNS[call.function]

    def then(arguments: Sequence[str]) -> str:
        exact = f" {sign} ".join(arguments)
        named = "*" if call.function == "Multiply" else "+"
        return exact if kind == pa.float64() else _checked(call, writer, exact, overflow(kind, named))

    return writer.where_there(call, then)


def _bits(call: Call, writer: FunctionWriter) -> str:
    _one_kind(call, *INTEGERS)
    return writer.where_there(call, lambda arguments: f" {_SIGNS[call.function]} ".join(arguments))


def _division(call: Call, writer: FunctionWriter) -> str:
    """Divide, IntegralDivide, Remainder."""
    kinds = {"Divide": (pa.float64(),), "IntegralDivide": (pa.int64(),), "Remainder": (*INTEGERS, pa.float64())}
    kind = _one_kind(call, *kinds[call.function])

    def then(arguments: Sequence[str]) -> str:
        one, other = arguments
        found = writer.set("None")
        if fails(call):
            with writer.under(f"if {other} == 0"):
                condition = "REMAINDER_BY_ZERO" if call.function == "Remainder" else "DIVIDE_BY_ZERO"
                writer.fail(condition, _BY_ZERO)
        with writer.under(f"if {other} != 0"):
            if call.function == "Divide":
                writer.line(f"{found} = {one} / {other}")
            elif call.function == "IntegralDivide":
                exact = f"{writer.held(quotient)}({one}, {other})"
                over = ("ARITHMETIC_OVERFLOW", "Overflow in integral divide.")
                writer.line(f"{found} = {_checked(call, writer, exact, over)}")
            else:
                rest = float_remainder if kind == pa.float64() else remainder
                writer.line(f"{found} = {writer.held(rest)}({one}, {other})")
        return found

    return writer.where_there(call, then)


def _minus(call: Call, writer: FunctionWriter) -> str:
    kind = _one_kind(call, *INTEGERS, pa.float64())

    def then(arguments: Sequence[str]) -> str:
        exact = f"-{arguments[0]}" if call.function == "UnaryMinus" else f"abs({arguments[0]})"
        return exact if kind == pa.float64() else _checked(call, writer, exact, overflow(kind))

    return writer.where_there(call, then)


def _cast(call: Call, writer: FunctionWriter) -> str:
    (of,), to = kinds_of(call), call.type
    if of == to:
        return writer.value(call.arguments[0])
    if of in INTEGERS and to in INTEGERS:
        wider = of.bit_width <= to.bit_width
        return writer.where_there(
            call, lambda values: values[0] if wider else _checked(call, writer, values[0], CAST_OVERFLOW)
        )
    if to == pa.float64() and (of in INTEGERS or of == pa.float32()):
        return writer.where_there(call, lambda values: f"float({values[0]})")
    if pt.is_boolean(of) and (to in INTEGERS or to == pa.float64()):
        ones = ("1", "0") if to in INTEGERS else ("1.0", "0.0")
        return writer.where_there(call, lambda values: f"{ones[0]} if {values[0]} else {ones[1]}")
    if of in INTEGERS and pt.is_string(to):
        return writer.where_there(call, lambda values: f"str({values[0]})")
    raise NoForm(f"Cast of {of} to {to}")


FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("Add", "Subtract", "Multiply"), _arithmetic),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _bits),
    **dict.fromkeys(("Divide", "IntegralDivide", "Remainder"), _division),
    **dict.fromkeys(("UnaryMinus", "Abs"), _minus),
    "Cast": _cast,
}
