"""Plain Python functions of values, called for each row: what `wm.python` gives where a Column function may stand.

In the level and under Spark the same code calls them, over the same Arrow arrays. Spark evaluates a UDF also for rows
that do not ask for it, so there an error is a value; the level evaluates it for those alone that do, and raises.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from watersmeet._engine.expressions.texts import constant
from watersmeet._engine.expressions.tree import Call, EvaluationError, Kernel, LazyKernel, plain, shaped
from watersmeet._engine.rows import NOT_OF, python_values, stored_value_of
from watersmeet.errors import FunctionError, user_traces

PLAIN = "PythonUDF"
"""The function of a call that is one: the name of Spark's class."""
CONDITION = "PYTHON_FUNCTION"
VALUE, ERROR = "value", "error"
_KNOWN: WeakValueDictionary[str, PlainCall] = WeakValueDictionary()


class PlainCall:
    """A plain Python function as one of Arrow arrays.

    Parameters
    ----------
    function : of plain values. It is not called where all of them are null: then its result is null. A tuple of it
        is a struct, its fields in their order.
    kind : type of its result.
    name : what it is called.
    """

    def __init__(self, function: Callable[..., Any], kind: pa.DataType, name: str) -> None:
        self.function, self.kind, self.name = function, kind, name
        self.__name__ = name
        self._token = secrets.token_hex(8)
        _KNOWN[self._token] = self

    @property
    def own(self) -> PlainCall:
        """This, or, of a copy that went through Spark's plan, what it is a copy of."""
        return _KNOWN.get(self._token, self)

    @property
    def type(self) -> pa.DataType:
        """Type of what a call gives: a struct of the value, and of the text of an error in place of one."""
        return pa.struct([(VALUE, self.kind), (ERROR, pa.string())])

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        """The value of each row, or the error."""
        outcomes = list(self._outcomes(arrays))
        values = [None if isinstance(outcome, EvaluationError) else outcome for outcome in outcomes]
        errors = [_with_place(outcome) if isinstance(outcome, EvaluationError) else None for outcome in outcomes]
        return self._pack(values, errors)

    def values(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """The value of each row."""
        results = []
        for outcome in self._outcomes(arrays):
            if isinstance(outcome, EvaluationError):
                raise outcome
            results.append(outcome)
        return self._pack(results, [None] * len(results))

    def _outcomes(self, arrays: Sequence[pa.Array]) -> Iterator[Any]:
        convert = stored_value_of(self.kind)
        for row in _rows([_in_utc(array) for array in arrays]):
            if isinstance(row, Exception):
                yield EvaluationError(CONDITION, f"{self.name} is given what Python has no value for: {row}.")
                continue
            if all(value is None for value in row):
                yield None
                continue
            try:
                yield convert(self.function(*row))
            except FunctionError as error:
                message = f"{self.name} returns a value that is not of the type {self.kind}: {error.given}."
                yield EvaluationError(CONDITION, message if error.message == NOT_OF else error.message)
            except Exception as error:  # a user's function may raise anything, also in what it gives
                failure = EvaluationError(CONDITION, f"{self.name} raises {type(error).__name__}: {error}.")
                failure.__cause__ = error  # it has the user's own line
                yield failure

    def _pack(self, values: list[Any], errors: list[str | None]) -> pa.Array:
        parts = [pa.array(values, self.kind), pa.array(errors, pa.string())]
        return pa.StructArray.from_arrays(parts, fields=list(self.type))


def _with_place(failure: EvaluationError) -> str:
    """The message, and the user's own line, which Spark would not tell."""
    traces = [] if failure.__cause__ is None else user_traces(failure.__cause__)
    place = f" (line {traces[-1].tb_lineno} of {traces[-1].tb_frame.f_code.co_filename})" if traces else ""
    return f"{failure.message}{place}"


def _rows(arrays: Sequence[pa.Array]) -> Iterator[tuple[Any, ...] | Exception]:
    """The values of each row; an error for one that has a time before the year 1 or behind 9999."""
    try:
        yield from list(zip(*map(python_values, arrays), strict=True))
    except (OverflowError, ValueError) as error:
        if len(arrays[0]) == 1:
            yield error
            return
        for row in range(len(arrays[0])):
            yield from _rows([array.slice(row, 1) for array in arrays])


def _in_utc(values: pa.Array) -> pa.Array:
    """The values with their times in UTC: Spark gives them in the session's zone."""
    kind = _utc(values.type)
    return values if kind == values.type else values.cast(kind)


def _utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_utc(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_utc(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_utc(kind.key_type), kind.item_field.with_type(_utc(kind.item_type)))
    return kind


# Calls that leave SQL: plain Python functions of values, and errors that somebody raises on purpose.

_RAISES = "RaiseError"


def fits(call: Call) -> bool:
    if call.function == _RAISES:
        return isinstance(constant(call.arguments[0]), str)
    return isinstance(call.called, PlainCall)


def _call_plain(call: Call, arguments: list[pa.Array]) -> pa.Array:
    assert isinstance(call.called, PlainCall), "the call fits"
    return shaped(call.called.values(arguments), call.type)


def _raised(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """It is evaluated for the rows alone that ask for it, and has a value for none."""
    if not len(arguments[0]):
        return pa.nulls(0, call.type)
    (parameters,) = plain(arguments[1].slice(0, 1))
    text = ", ".join(str(value) for _, value in parameters) if parameters is not None else "null"
    raise EvaluationError(str(constant(call.arguments[0])), text)


KERNELS: Mapping[str, Kernel] = {PLAIN: _call_plain, _RAISES: _raised}
LAZY: Mapping[str, LazyKernel] = {}
