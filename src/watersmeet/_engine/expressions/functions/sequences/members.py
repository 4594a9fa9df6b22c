"""Arrays: places of elements, parts of them, what is added to them, and texts that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.functions.sequences.sets import exact
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.plain_values import is_plain
from watersmeet._engine.expressions.rowwise import by_row, by_whole_row
from watersmeet._engine.expressions.tree import VARIABLE, Call, Expression, Literal, type_of
from watersmeet._engine.expressions.vectors import INTEGERS

Values = Sequence[Any]
_MOST = 1_000_000
"""Elements of a sequence that are made here, at most."""
_ORDERED = ("ArrayMax", "ArrayMin", "ArraySort")


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    of = kinds[0]
    if call.function == "Sequence":
        return len(kinds) == 2 and of in INTEGERS and of == kinds[1]
    if call.function == "ArrayRepeat":
        return is_plain(of) and kinds[1] == pa.int32()
    if call.function == "ArraysZip":
        return bool(kinds) and all(pt.is_list(kind) and is_plain(kind) for kind in kinds)
    if not (pt.is_list(of) and is_plain(of)):
        return False
    if call.function in _ORDERED:
        return exact(of.value_type) and (call.function != "ArraySort" or _is_plain_order(call.arguments[1]))
    if call.function in ("ArrayPosition", "ArrayRemove"):
        return exact(of.value_type) and kinds[1] == of.value_type
    if call.function in ("ArrayAppend", "ArrayPrepend"):
        return bool(kinds[1] == of.value_type)
    if call.function == "ArrayJoin":
        return of.value_type == pa.string() and all(kind == pa.string() for kind in kinds[1:])
    if call.function == "Flatten":
        return bool(pt.is_list(of.value_type))
    return all(kind == pa.int32() for kind in kinds[1:])


def _is_plain_order(function: Expression) -> bool:
    """Whether a comparison is the one that Spark takes if none is given: nulls last, else by `<` and `>`."""
    if not isinstance(function, Call) or len(function.arguments) != 3:
        return False
    body, left, right = function.arguments
    return _shape(body, {left: "l", right: "r"}) == _PLAIN_ORDER


_PLAIN_ORDER = (
    "If(And(IsNull(l),IsNull(r)),0,If(IsNull(l),1,If(IsNull(r),-1,If(LessThan(l,r),-1,If(GreaterThan(l,r),1,0)))))"
)


def _shape(expression: Expression, names: Mapping[Expression, str]) -> str:
    if isinstance(expression, Literal):
        return str(expression.value.as_py())
    if isinstance(expression, Call) and expression.function != VARIABLE:
        return f"{expression.function}({','.join(_shape(each, names) for each in expression.arguments)})"
    return names.get(expression, "?")


def _position(values: Values, value: Any) -> int:
    return values.index(value) + 1 if value in values else 0


def _joined(values: Values, between: str, absent: str | None = None) -> str:
    """Texts with another between them; null ones are left out, or stand as a text."""
    if absent is not None:
        values = [absent if each is None else each for each in values]
    return between.join(each for each in values if each is not None)


def _sliced(values: Values, start: int, length: int) -> Values:
    """So many elements from the one of a number on: from 1 forwards, or from -1, the last one, backwards."""
    if start == 0:
        raise EvaluationError("INVALID_PARAMETER_VALUE.START", "The first element of a slice has the number 1 or -1.")
    if length < 0:
        raise EvaluationError("INVALID_PARAMETER_VALUE.LENGTH", "The length of a slice is less than 0.")
    begin = start - 1 if start > 0 else len(values) + start
    return values[begin : begin + length] if begin >= 0 else ()


def _flat(values: Values) -> list[Any] | None:
    return None if None in values else [each for inner in values for each in inner]


def _extreme(of: Callable[[list[Any]], Any], values: Values) -> Any:
    there = [each for each in values if each is not None]
    return of(there) if there else None


def _ordered(values: Values) -> list[Any]:
    there = sorted(each for each in values if each is not None)
    return [*there, *[None] * (len(values) - len(there))]


def _sequence(start: int, stop: int) -> list[int]:
    if abs(stop - start) >= _MOST:
        raise EvaluationError("COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER", f"A sequence of more than {_MOST} elements.")
    return list(range(start, stop + 1) if stop >= start else range(start, stop - 1, -1))


_BY_ROW: Mapping[str, Callable[..., Any]] = {
    "ArrayPosition": _position,
    "ArrayRemove": lambda values, value: [each for each in values if each != value],
    "ArrayCompact": lambda values: [each for each in values if each is not None],
    "ArrayJoin": _joined,
    "Slice": _sliced,
    "Flatten": _flat,
    "ArrayMax": partial(_extreme, max),
    "ArrayMin": partial(_extreme, min),
    "Sequence": _sequence,
    "ArraysZip": lambda *lists: list(zip_longest(*lists)),
}
_BY_WHOLE_ROW: Mapping[str, Callable[..., Any]] = {
    "ArrayAppend": lambda values, value: None if values is None else [*values, value],
    "ArrayPrepend": lambda values, value: None if values is None else [value, *values],
    "ArrayRepeat": lambda value, times: None if times is None else [value] * times,
}


def _made(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_row(call, arguments, _BY_ROW[call.function])


def _made_of_nulls(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_whole_row(call, arguments, _BY_WHOLE_ROW[call.function])


def _sorted(call: Call, rows: Any) -> pa.Array:
    return by_row(call, [rows.evaluate(call.arguments[0])], _ordered)


KERNELS: Mapping[str, Kernel] = {**dict.fromkeys(_BY_ROW, _made), **dict.fromkeys(_BY_WHOLE_ROW, _made_of_nulls)}
LAZY: Mapping[str, LazyKernel] = {"ArraySort": _sorted}
