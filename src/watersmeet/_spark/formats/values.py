"""Python values of Spark's types: what a test pipes becomes what Spark takes, or is refused with its place.

Spark itself looks at values when a frame is made, a whole run later, and takes no int for a double. Law 6: what is
of no use is an error; nothing becomes null, is rounded, or is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


@dataclass
class Unfit(Exception):
    """A value is not of its type.

    Parameters
    ----------
    place : of the value within the record, such as ``value.amount``.
    fault : what is wrong with it.
    """

    place: str
    fault: str


def fitted(value: Any, kind: DataType, place: str, *, nullable: bool = True) -> Any:
    """The value as Spark takes it for this type: whole numbers for floating ones, structs as Rows.

    Parameters
    ----------
    value : a Python value; a struct is a Row, a dict of fields (those left out are null), or a tuple of all of them.
    place : names the value.

    Raises
    ------
    Unfit : it is not of the type.
    """
    if value is None:
        if not nullable:
            raise Unfit(place, "it is null, and may not be")
        return None
    for types, fit in _FITS:
        if isinstance(kind, types):
            return fit(value, kind, place)
    return value


def _refuse(value: Any, kind: DataType, place: str) -> Unfit:
    return Unfit(place, f"{value!r:.80} is of the type {type(value).__name__}, not {kind.simpleString():.120}")


def _struct(value: Any, kind: Any, place: str) -> Row:
    names = kind.fieldNames()
    if isinstance(value, Row) and hasattr(value, "__fields__"):
        value = dict(zip(value.__fields__, value, strict=True))
    elif isinstance(value, tuple | list):
        if len(value) != len(names):
            raise Unfit(place, f"{len(value)} values are given for the {len(names)} fields {', '.join(names)}")
        value = dict(zip(names, value, strict=True))
    if not isinstance(value, Mapping):
        raise _refuse(value, kind, place)
    unknown = [str(name) for name in value if name not in names]
    if unknown:
        raise Unfit(place, f"there is no field {unknown[0]!r}; the fields are {', '.join(names)}")
    parts = [fitted(value.get(f.name), f.dataType, f"{place}.{f.name}", nullable=f.nullable) for f in kind.fields]
    made: Row = Row(*names)(*parts)
    return made


def _array(value: Any, kind: Any, place: str) -> list[Any]:
    if not isinstance(value, list | tuple) or isinstance(value, Row):
        raise _refuse(value, kind, place)
    inner, nullable = kind.elementType, kind.containsNull
    return [fitted(element, inner, f"{place}[{at}]", nullable=nullable) for at, element in enumerate(value)]


def _map(value: Any, kind: Any, place: str) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise _refuse(value, kind, place)
    nullable = kind.valueContainsNull
    return {
        fitted(key, kind.keyType, f"a key of {place}", nullable=False): fitted(
            inner, kind.valueType, f"{place}[{key!r}]", nullable=nullable
        )
        for key, inner in value.items()
    }


def _integer(value: Any, kind: DataType, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _refuse(value, kind, place)
    limit = 2 ** (_BITS[type(kind)] - 1)
    number = int(value)
    if not -limit <= number < limit:
        raise Unfit(place, f"{number} is beyond the limits of {kind.simpleString()}")
    return number


def _floating(value: Any, kind: DataType, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _refuse(value, kind, place)
    number = float(value)
    if isinstance(value, Integral) and int(number) != int(value):
        raise Unfit(place, f"{value} is no {kind.simpleString()}: the nearest one is {number!r}")
    return number


def _decimal(value: Any, kind: Any, place: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, Integral | Decimal):
        raise _refuse(value, kind, place)
    number = value if isinstance(value, Decimal) else Decimal(int(value))
    _, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not isinstance(exponent, int):
        raise Unfit(place, f"{number} is no {kind.simpleString()}")
    whole, zeros = len(text) + exponent, len(text) - len(text.rstrip("0"))
    if text and (whole > kind.precision - kind.scale or -exponent - zeros > kind.scale):
        raise Unfit(place, f"{number} has more digits than {kind.simpleString()}")
    return number


def _instance(*types: type, but: tuple[type, ...] = ()) -> Callable[[Any, DataType, str], Any]:
    def fit(value: Any, kind: DataType, place: str) -> Any:
        if not isinstance(value, types) or isinstance(value, but):
            raise _refuse(value, kind, place)
        return bytes(value) if isinstance(value, bytearray) else value

    return fit


_FITS: tuple[tuple[Any, Callable[[Any, Any, str], Any]], ...] = (
    (StructType, _struct),
    (ArrayType, _array),
    (MapType, _map),
    (tuple(_BITS), _integer),
    ((FloatType, DoubleType), _floating),
    (DecimalType, _decimal),
    (StringType, _instance(str)),
    (BinaryType, _instance(bytes, bytearray)),
    (BooleanType, _instance(bool)),
    ((TimestampType, TimestampNTZType), _instance(datetime)),
    (DateType, _instance(date, but=(datetime,))),
)
