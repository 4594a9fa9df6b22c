"""Plain Python functions of values, called for each row: what `wm.python` gives where a Column function may stand.

In the level and under Spark the same code calls them, over the same Arrow arrays. Spark evaluates a UDF also for rows
that do not ask for it, so there an error is a value; the level evaluates it for those alone that do, and raises.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.rows.python_values import python_values, stored_value_of
from watersmeet.errors import WatersmeetError

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
        values = [None if isinstance(each, EvaluationError) else each for each in outcomes]
        errors = [each.message if isinstance(each, EvaluationError) else None for each in outcomes]
        return self._made(values, errors)

    def values(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """The value of each row.

        Raises
        ------
        EvaluationError : the function raises for a row, or gives what is not of the type.
        """
        found = []
        for outcome in self._outcomes(arrays):
            if isinstance(outcome, EvaluationError):
                raise outcome
            found.append(outcome)
        return self._made(found, [None] * len(found))

    def _outcomes(self, arrays: Sequence[pa.Array]) -> Iterator[Any]:
        kept = stored_value_of(self.kind)
        for row in _rows([_in_utc(each) for each in arrays]):
            if isinstance(row, Exception):
                yield EvaluationError(CONDITION, f"{self.name} is given what Python has no value for: {row}.")
                continue
            if all(value is None for value in row):
                yield None
                continue
            try:
                given = self.function(*row)
            except Exception as error:  # a user's function may raise anything
                yield EvaluationError(CONDITION, f"{self.name} raises {type(error).__name__}: {error}.")
                continue
            try:
                yield kept(given)
            except WatersmeetError:
                said = f"{self.name} returns a value that is not of the type {self.kind}: {given!r:.200}."
                yield EvaluationError(CONDITION, said)

    def _made(self, values: list[Any], errors: list[str | None]) -> pa.Array:
        parts = [pa.array(values, self.kind), pa.array(errors, pa.string())]
        return pa.StructArray.from_arrays(parts, fields=list(self.type))


def _rows(arrays: Sequence[pa.Array]) -> Iterator[tuple[Any, ...] | Exception]:
    """The values of each row; an error for one that has a time before the year 1 or behind 9999."""
    try:
        yield from list(zip(*map(python_values, arrays), strict=True))
    except (OverflowError, ValueError) as error:
        if len(arrays[0]) == 1:
            yield error
            return
        for row in range(len(arrays[0])):
            yield from _rows([each.slice(row, 1) for each in arrays])


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
