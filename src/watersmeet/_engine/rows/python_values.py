"""Arrow's values as plain Python functions see them, and what they give as it is read back.

A fold meets an aggregate as it was given while a batch lasts, and as it was read back in the next one. So what a
function gives is at once what it would be read back as (law 1): structs and maps are dictionaries, arrays are lists,
numbers are those of their type, times are in UTC.

Compiled folds, which no user's function sees, have plainer values (`expressions.scalars.values`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from watersmeet._plan.folds import Step
from watersmeet.errors import FunctionError

Kept = Callable[[Any], Any]
_AS_THEY_ARE: tuple[tuple[Callable[[pa.DataType], bool], type], ...] = (
    (pa.types.is_float64, float),
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_large_binary, bytes),
    (pa.types.is_boolean, bool),
    (pa.types.is_date32, datetime.date),
)
"""Types of which each value of a Python type is read back as it is."""


def python_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values as Python has them: maps are dictionaries, nested ones, too."""
    # as Spark collects them: of a key that stands twice the last one
    found: list[Any] = values.to_pylist(maps_as_pydicts="lossy")
    return found


def keeping(step: Step | None, kind: pa.DataType) -> Step | None:
    """The step; if it is of a plain function, one that gives what would be read back of it.

    Parameters
    ----------
    kind : the aggregate's type.
    """
    if step is None or not step.plain:
        return step
    function, stored = step.function, stored_value_of(kind)
    return replace(step, function=lambda *arguments: stored(function(*arguments)))


def stored_value_of(kind: pa.DataType) -> Kept:
    """A function that returns a value as an array of this type would return it.

    Raises
    ------
    FunctionError : (when it is called) the value is not of the type.
    """
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list(kind)
    if pa.types.is_decimal(kind):
        return _decimal(kind)
    if pa.types.is_integer(kind):
        return _integer(kind)
    own = next((python for is_of, python in _AS_THEY_ARE if is_of(kind)), None)

    def stored(value: Any) -> Any:
        return value if value is None or type(value) is own else _converted(value, kind)

    return stored


def _struct(kind: pa.DataType) -> Kept:
    fields = [(field.name, stored_value_of(field.type)) for field in kind]
    names = {name for name, _ in fields}

    def stored(value: Any) -> Any:
        if value is None:
            return None
        given = value.asDict() if hasattr(value, "asDict") else value  # a Row of Spark's
        if isinstance(given, tuple) and len(given) == len(fields):
            return {name: of(each) for (name, of), each in zip(fields, given, strict=True)}
        if not isinstance(given, dict) or not names.issuperset(given):
            raise not_of(kind, repr(value))
        return {name: of(given.get(name)) for name, of in fields}

    return stored


def _map(kind: pa.DataType) -> Kept:
    of_key, of_item = stored_value_of(kind.key_type), stored_value_of(kind.item_type)

    def stored(value: Any) -> Any:
        if value is None:
            return None
        try:
            made = {of_key(key): of_item(item) for key, item in dict(value).items()}
        except (TypeError, ValueError):
            raise not_of(kind, repr(value)) from None
        if None in made:
            raise not_of(kind, repr(value))
        return made

    return stored


def _list(kind: pa.DataType) -> Kept:
    of_item = stored_value_of(kind.value_type)

    def stored(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
            raise not_of(kind, repr(value))
        return [of_item(item) for item in value]

    return stored


def _integer(kind: pa.DataType) -> Kept:
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width - signed
    least, most = -(2**bits) if signed else 0, 2**bits - 1

    def stored(value: Any) -> Any:
        if type(value) is int and least <= value <= most:
            return value
        return None if value is None else _converted(value, kind)

    return stored


def _decimal(kind: pa.DataType) -> Kept:
    def stored(value: Any) -> Any:
        if type(value) is Decimal and value.is_finite() and value.as_tuple().exponent == -kind.scale:
            return value
        return None if value is None else _converted(value, kind)

    return stored


def _converted(value: Any, kind: pa.DataType) -> Any:
    """The value through an array; a number that the type has no place for is refused, not cut off."""
    if pa.types.is_integer(kind) and isinstance(value, float) and not value.is_integer():
        raise not_of(kind, repr(value))
    try:
        return pa.array([value], kind).to_pylist()[0]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise not_of(kind, f"{error}; {value!r}") from error


def not_of(kind: pa.DataType, given: object) -> FunctionError:
    """The error if a plain function returns a value that is not of the aggregate's type."""
    return FunctionError(
        "A plain Python function returned a value that is not of the aggregate's type.",
        given=f"{given}; the type is {kind}",
        hint="wm.python(function, returns=...) declares the type of its result.",
    )
