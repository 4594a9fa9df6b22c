"""Plain values with which aggregates begin: of the type that is said, or of the one that they show."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from watersmeet._engine.rows.python_values import stored_value_of
from watersmeet.errors import FunctionError


def of_type(given: Any, kind: pa.DataType) -> Any:
    """The value as it is read back from an array of this type.

    Raises
    ------
    FunctionError : it is not of the type.
    """
    try:
        return stored_value_of(kind)(given)
    except FunctionError as error:
        raise FunctionError(
            "The initializer's value is not of the aggregate's type.",
            given=error.given,
            hint="Return a value of that type; or name the type in the aggregator: wm.python(function, returns=...).",
        ) from None


def typed(given: Any) -> tuple[pa.DataType, Any]:
    """(type, value) of a plain value: a dictionary is a struct, a list an array, and ints are longs.

    Raises
    ------
    FunctionError : its type does not follow from it.
    """
    try:
        kind = pa.scalar(given).type
    except pa.ArrowException as error:
        raise unknown_type(f"{given!r}: {error}") from error
    if _is_empty(kind):
        raise unknown_type(repr(given))
    return kind, of_type(given, kind)


def is_known(kind: pa.DataType) -> bool:
    """Whether nothing in a type is of no type, as the items of an empty list."""
    if pa.types.is_map(kind):
        return is_known(kind.key_type) and is_known(kind.item_type)
    return not pa.types.is_null(kind) and all(is_known(kind.field(n).type) for n in range(kind.num_fields))


def unknown_type(given: str) -> FunctionError:
    """The error if nothing gives the type of an aggregate."""
    return FunctionError(
        "The initializer's value does not say the type of the aggregate.",
        given=given,
        hint="Name it in the aggregator: wm.python(function, returns='map<string, long>'), 'array<string>', "
        "'struct<n: long>'; or give a Column of the type: F.array().cast('array<string>').",
    )


def _is_empty(kind: pa.DataType) -> bool:
    """Whether there is a struct without fields in a type: an empty dictionary, which may be a map."""
    if pa.types.is_struct(kind) and not kind.num_fields:
        return True
    return any(_is_empty(kind.field(n).type) for n in range(kind.num_fields))
