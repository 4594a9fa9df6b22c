"""Values of processors, converted at once as state would return them, so that batches make no difference (law 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from watersmeet._engine.rows.python_values import python_values, stored_value_of
from watersmeet.errors import FunctionError

Checked = Callable[[Any], Any]
_ALONE: tuple[tuple[Callable[[pa.DataType], bool], type], ...] = (
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_large_binary, bytes),
    (pa.types.is_boolean, bool),
    (pa.types.is_float64, float),
)
"""Types of which each value of a Python type is one as it is."""
_ORDERED = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def checked(kind: pa.DataType, what: str) -> Checked:
    """A function that returns a value as an array of this type would return it.

    Parameters
    ----------
    what : says in an error what is of another type, such as "The processor Dedup sends a value".

    Raises
    ------
    FunctionError : (when it is called) the value is not of the type.
    """
    own, slow = own_type(kind), stored_value_of(kind)

    def fitted(value: Any) -> Any:
        if type(value) is own or value is None:
            return value
        try:
            return slow(value)
        except FunctionError as error:
            raise FunctionError(
                f"{what} that is not of its type, {kind}: {value!r:.120}.",
                given=None if error.given is None else str(error.given).removesuffix(f"; the type is {kind}")[:400],
                hint="Declare the right type, or convert the value to it.",
            ) from None

    return fitted


def plain_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values as Python has them; those of plain types some times faster than one by one."""
    kind, whole = values.type, values.null_count == 0
    if own_type(kind) in (str, bytes) or (whole and (pa.types.is_integer(kind) or pa.types.is_floating(kind))):
        found: list[Any] = (
            values.to_numpy(zero_copy_only=False).tolist()
            if isinstance(values, pa.Array)
            else values.to_numpy().tolist()
        )
        return found
    return python_values(values)


def own_type(kind: pa.DataType) -> type | None:
    """The type in Python of which each value is one of this type as it is; None where there is none."""
    return next((python for is_of, python in _ALONE if is_of(kind)), None)


def is_mutable(kind: pa.DataType) -> bool:
    """Whether values of the type can be changed in place in Python."""
    return bool(pa.types.is_nested(kind))


def has_order(kind: pa.DataType) -> bool:
    """Whether values of the type have an order in Python, and are equal there when they are here."""
    return any(is_of(kind) for is_of in _ORDERED)


def are_one_key(one: Any, other: Any) -> bool:
    """Whether two keys are one, in which not-a-number is one number, as within structs and arrays."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_one_key(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_one_key, one, other))
    return bool(one == other or (one != one and other != other))
