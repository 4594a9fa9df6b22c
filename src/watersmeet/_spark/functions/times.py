"""Users' functions that give times, as functions of milliseconds since 1970."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, TimestampType

from watersmeet._spark.functions.source_positions import place_of_function
from watersmeet.errors import FunctionError
from watersmeet.functions import Function, belonging, names_of, own

_USUAL = "F.to_timestamp(value['field'])"
_MADE = {
    "integer": "value['seconds'].cast('long') * 1000",
    "double": "(value['seconds'] * 1000).cast('long')",
    "timestamp_ntz": "value['field'].cast('timestamp'), which goes by the session's time zone",
    "date": "value['field'].cast('timestamp'), which goes by the session's time zone",
}
"""How a time is made of what a function gives, by the name of its type."""


def in_milliseconds(function: Function, kind: DataType, role: str, count: int) -> Function:
    """A function that gives times of this type as one of milliseconds.

    Parameters
    ----------
    count : of its arguments.

    Raises
    ------
    FunctionError : the type is none of times.
    """
    if isinstance(kind, LongType):
        return function
    if not isinstance(kind, TimestampType):
        place = place_of_function(own(function))
        raise FunctionError(
            f"The {role} must return a time, not {kind.simpleString():.200}.",
            given=None if place is None else str(place),
            hint=f"A time is a timestamp, or a long of milliseconds since 1970: {_MADE.get(kind.typeName(), _USUAL)}.",
        )

    def converted(*columns: Column) -> Column:
        return F.unix_millis(function(*columns))

    return belonging(converted, function, names_of(function, count))
