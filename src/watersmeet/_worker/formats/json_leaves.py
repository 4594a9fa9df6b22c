"""What JSON has for values of Spark's simple types, as Arrow columns: strictly, and to the last digit.

Dates and timestamps are ISO 8601; a timestamp without a zone is in UTC, digits behind the microseconds are cut off, as
Spark does. NaN and infinities are words in quotes. A decimal may be a number or a string of digits.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
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
    ShortType,
    TimestampNTZType,
    TimestampType,
)

from watersmeet._worker.formats.arrow_types import arrow_type

Bad = list[tuple[int, str]]
TIMES = (DateType, TimestampType, TimestampNTZType)
_NONE = type(None)
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_WORDS = {
    "NaN": math.nan,
    **dict.fromkeys(("INF", "+INF", "Infinity", "+Infinity"), math.inf),
    **dict.fromkeys(("-INF", "-Infinity"), -math.inf),
}
_DIGITS = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_DATE = rf"^{_DAY}$"
_LOCAL = rf"^{_DAY}(?:[T ]{_TIME})?$"
_INSTANT = rf"^{_DAY}(?:[T ]{_TIME}{_ZONE}?)?$"
_WIDE = Context(prec=80, Emax=999_999, Emin=-999_999)


def column(kind: DataType, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    """The values as a column, null where they are not of the type, and what is wrong with those."""
    types = set(map(type, values))
    if isinstance(kind, _INTEGERS):
        return _typed(values, types, {int}, kind, lambda given: _integers(given, kind))
    if isinstance(kind, BooleanType):
        return _typed(values, types, {bool}, kind, lambda given: (pa.array(given, pa.bool_()), []))
    if isinstance(kind, FloatType | DoubleType):
        return _typed(values, types, {int, float, Decimal, str}, kind, lambda given: _floats(given, kind))
    if isinstance(kind, DecimalType):
        return _typed(values, types, {int, Decimal, str}, kind, lambda given: _decimals(given, kind))
    make: Callable[[list[str | None], DataType], tuple[pa.Array, Bad]] = _texts
    if isinstance(kind, BinaryType):
        make = _bytes
    elif isinstance(kind, TIMES):
        make = _times
    return _typed(values, types, {str}, kind, lambda given: make(given, kind))


def _typed(
    values: Sequence[Any],
    types: set[type],
    wanted: set[type],
    kind: DataType,
    make: Callable[[list[Any]], tuple[pa.Array, Bad]],
) -> tuple[pa.Array, Bad]:
    """The column of those values that are of the wanted Python types."""
    if types <= wanted | {_NONE}:
        return make(list(values))
    what = f"{_article(kind)} is wanted where there is something else"
    bad = [(place, what) for place, value in enumerate(values) if value is not None and type(value) not in wanted]
    made, more = make([value if type(value) in wanted else None for value in values])
    return made, [*bad, *more]


def _article(kind: DataType) -> str:
    name = "timestamp" if isinstance(kind, TimestampNTZType) else kind.simpleString()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _each(values: Sequence[Any], make: Callable[[Any], Any], what: str) -> tuple[list[Any], Bad]:
    """What `make` gives for each value that is there; a ValueError is a flaw."""
    made: list[Any] = []
    bad: Bad = []
    for place, value in enumerate(values):
        try:
            made.append(None if value is None else make(value))
        except (ValueError, ArithmeticError):
            made.append(None)
            bad.append((place, what))
    return made, bad


def _integers(values: list[Any], kind: DataType) -> tuple[pa.Array, Bad]:
    target = arrow_type(kind)
    try:
        return pa.array(values, target), []
    except (pa.ArrowInvalid, OverflowError):
        limit = 1 << (target.bit_width - 1)
        fits = [value if value is None or -limit <= value < limit else None for value in values]
        what = f"a number does not fit into {_article(kind)}"
        return pa.array(fits, target), [(n, what) for n, v in enumerate(values) if v is not None and fits[n] is None]


def _floats(values: list[Any], kind: DataType) -> tuple[pa.Array, Bad]:
    if set(map(type, values)) <= {float, _NONE}:
        plain = pa.array(values, pa.float64()).cast(arrow_type(kind), safe=False)
        if not pc.any(pc.is_inf(plain)).as_py():
            return plain, []
    made, bad = _each(values, _float, "a number is beyond the range of its type, or no number")
    numbers = np.array([math.nan if value is None else value for value in made], dtype=np.float64)
    if isinstance(kind, FloatType):
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32)
    beyond = np.isinf(numbers)
    words = [place for place in np.flatnonzero(beyond).tolist() if type(values[place]) is not str]
    gone = {place for place, _ in bad} | set(words)
    nulls = np.array([value is None or place in gone for place, value in enumerate(made)], dtype=np.bool_)
    more = [(place, "a number is beyond the range of its type") for place in words]
    return pa.array(numbers, arrow_type(kind), mask=nulls), [*bad, *more]


def _float(value: Any) -> float:
    if type(value) is not str:
        return float(value)
    if value not in _WORDS:
        raise ValueError(value)
    return _WORDS[value]


def _decimals(values: list[Any], kind: DecimalType) -> tuple[pa.Array, Bad]:
    step = Decimal(1).scaleb(-kind.scale)
    limit = Decimal(10) ** (kind.precision - kind.scale)

    def exact(value: Any) -> Decimal:
        if type(value) is str and not _DIGITS.fullmatch(value):
            raise ValueError(value)
        number = Decimal(value)
        fitted = number.quantize(step, context=_WIDE)
        # not abs, which rounds to the 28 digits of Python's own context
        if fitted != number or fitted.copy_abs() >= limit:
            raise InvalidOperation
        return fitted

    made, bad = _each(values, exact, "a number does not fit its decimal type exactly")
    return pa.array(made, arrow_type(kind)), bad


def _texts(values: list[str | None], kind: DataType) -> tuple[pa.Array, Bad]:
    try:
        return pa.array(values, pa.string()), []
    except UnicodeEncodeError:
        made, bad = _each(
            values, lambda value: value.encode().decode(), "half of a character (a surrogate) in a string"
        )
        return pa.array(made, pa.string()), bad


def _bytes(values: list[str | None], kind: DataType) -> tuple[pa.Array, Bad]:
    def read(value: str) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueError(value) from error

    made, bad = _each(values, read, "bytes are a string in base64")
    return pa.array(made, pa.binary()), bad


def _times(values: list[str | None], kind: DataType) -> tuple[pa.Array, Bad]:
    texts, bad = _texts(values, kind)
    made, lost = times(texts, kind)
    what = f"a {'date' if isinstance(kind, DateType) else 'timestamp'} is a string of ISO 8601"
    return made, [*bad, *((place, what) for place in lost)]


def times(texts: pa.Array, kind: DataType) -> tuple[pa.Array, list[int]]:
    """Dates and timestamps of texts, and the places of those that are none, which have null."""
    pattern = _DATE if isinstance(kind, DateType) else _INSTANT if isinstance(kind, TimestampType) else _LOCAL
    shaped = pc.if_else(pc.match_substring_regex(texts, pattern), texts, None)
    if not isinstance(kind, DateType):
        shaped = pc.replace_substring_regex(shaped, r"(\.[0-9]{6})[0-9]+", r"\1")
    if isinstance(kind, TimestampType):
        shaped = _zoned(shaped)
    made, target = shaped, arrow_type(kind)
    try:
        made = shaped.cast(target)
    except pa.ArrowInvalid:
        # no such day, no such hour
        made = pa.chunked_array([_cast(shaped[n : n + 1], target) for n in range(len(shaped))]).combine_chunks()
    lost = np.flatnonzero((made.is_null().to_numpy(False)) & ~texts.is_null().to_numpy(False))
    return made, lost.tolist()


def _zoned(texts: pa.Array) -> pa.Array:
    """Each with a zone and a time of day, as Arrow wants them."""
    timed = pc.if_else(pc.equal(pc.utf8_length(texts), 10), pc.binary_join_element_wise(texts, "T00:00", ""), texts)
    bare = pc.match_substring_regex(timed, rf"[T ]{_TIME}$")
    return pc.if_else(bare, pc.binary_join_element_wise(timed, "Z", ""), timed)


def _cast(one: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return one.cast(target)
    except pa.ArrowInvalid:
        return pa.nulls(1, target)
