"""JSON read into Arrow columns, and written from them: byte for byte as `encode_json` has Spark write it.

A struct's text is its fields' texts put together by Arrow's kernels; nothing looks at a row. Numbers have Java's text:
of a floating number the fewest digits that say which it is, as every Java from 19 on
writes it. Older ones write some with a digit more, beyond 2^53 (2.0E23 as 1.9999999999999998E23), and so Spark there:
another text of the same number.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from itertools import accumulate, chain
from operator import attrgetter
from typing import Annotated, Any, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from watersmeet._engine import keys
from watersmeet._engine.rows import Bools, Int64s
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.limits import JSON_LEVELS, nests_beyond

# What JSON has for values of Spark's simple types, as Arrow columns: strictly, and to the last digit.
#
# Dates and timestamps are ISO 8601; a timestamp without a zone is in UTC, digits behind the microseconds are cut off,
# as Spark does. NaN and infinities are words in quotes. A decimal may be a number or a string of digits.

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
_FAR = re.compile(r"(\+[1-9][0-9]{4,6}|-(?:0[0-9]{3}|[1-9][0-9]{3,6}))(-.*)", re.ASCII | re.DOTALL)
"""A year before 0 or beyond 9999, which has a sign (ISO 8601), and the rest."""
_LENGTH_TO_MICROS = len("2020-01-01T00:00:00.123456")
ERA_YEARS, ERA_DAYS = 400, 146_097
"""After which the calendar begins anew."""
DAY_MICROS = 86_400_000_000
"""In a day."""
_WIDE = Context(prec=80, Emax=999_999, Emin=-999_999)


def leaf_column(kind: DataType, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    """The values as a column, null where they are not of the type, and what is wrong with those."""
    types = set(map(type, values))
    if isinstance(kind, _INTEGERS):
        return _typed(values, types, {int}, kind, lambda items: _integers(items, kind))
    if isinstance(kind, BooleanType):
        return _typed(values, types, {bool}, kind, lambda items: (pa.array(items, pa.bool_()), []))
    if isinstance(kind, FloatType | DoubleType):
        return _typed(values, types, {int, float, Decimal, str}, kind, lambda items: _json_leaves_floats(items, kind))
    if isinstance(kind, DecimalType):
        return _typed(values, types, {int, Decimal, str}, kind, lambda items: _decimals(items, kind))
    make: Callable[[list[str | None], DataType], tuple[pa.Array, Bad]] = _json_leaves_texts
    if isinstance(kind, BinaryType):
        make = _bytes
    elif isinstance(kind, TIMES):
        make = _times
    return _typed(values, types, {str}, kind, lambda items: make(items, kind))


def _typed(
    values: Sequence[Any],
    types: set[type],
    expected: set[type],
    kind: DataType,
    make: Callable[[list[Any]], tuple[pa.Array, Bad]],
) -> tuple[pa.Array, Bad]:
    """The column of those values that are of the wanted Python types."""
    if types <= expected | {_NONE}:
        return make(list(values))
    reason = f"{_article(kind)} is wanted where there is"
    bad = [
        (place, f"{reason} {_NAMES.get(type(value), 'a number')}")
        for place, value in enumerate(values)
        if value is not None and type(value) not in expected
    ]
    column, flaws = make([value if type(value) in expected else None for value in values])
    return column, [*bad, *flaws]


def _article(kind: DataType) -> str:
    name = "timestamp" if isinstance(kind, TimestampNTZType) else kind.simpleString()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _map_values(values: Sequence[Any], make: Callable[[Any], Any], reason: str) -> tuple[list[Any], Bad]:
    """What `make` gives for each value that is there; a ValueError is a flaw."""
    results: list[Any] = []
    bad: Bad = []
    for place, value in enumerate(values):
        try:
            results.append(None if value is None else make(value))
        except (ValueError, ArithmeticError):
            results.append(None)
            bad.append((place, reason))
    return results, bad


def _integers(values: list[Any], kind: DataType) -> tuple[pa.Array, Bad]:
    target = arrow_type(kind)
    try:
        return pa.array(values, target), []
    except (pa.ArrowInvalid, OverflowError):
        limit = 1 << (target.bit_width - 1)
        fits = [value if value is None or -limit <= value < limit else None for value in values]
        reason = f"a number does not fit into {_article(kind)}"
        return pa.array(fits, target), [(n, reason) for n, v in enumerate(values) if v is not None and fits[n] is None]


def _json_leaves_floats(values: list[Any], kind: DataType) -> tuple[pa.Array, Bad]:
    if set(map(type, values)) <= {float, _NONE}:
        plain = pa.array(values, pa.float64()).cast(arrow_type(kind), safe=False)
        if not pc.any(pc.is_inf(plain)).as_py():
            return plain, []
    parsed, bad = _map_values(values, _float, "a number is beyond the range of its type, or no number")
    numbers = np.array([math.nan if value is None else value for value in parsed], dtype=np.float64)
    if isinstance(kind, FloatType):
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32)
    beyond = np.isinf(numbers)
    words = [place for place in np.flatnonzero(beyond).tolist() if type(values[place]) is not str]
    invalid = {place for place, _ in bad} | set(words)
    nulls = np.array([value is None or place in invalid for place, value in enumerate(parsed)], dtype=np.bool_)
    overflows = [(place, "a number is beyond the range of its type") for place in words]
    return pa.array(numbers, arrow_type(kind), mask=nulls), [*bad, *overflows]


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

    numbers, bad = _map_values(values, exact, "a number does not fit its decimal type exactly")
    return pa.array(numbers, arrow_type(kind)), bad


def _json_leaves_texts(values: list[str | None], kind: DataType) -> tuple[pa.Array, Bad]:
    try:
        return pa.array(values, pa.string()), []
    except UnicodeEncodeError:
        texts, bad = _map_values(
            values, lambda value: value.encode().decode(), "half of a character (a surrogate) in a string"
        )
        return pa.array(texts, pa.string()), bad


def _bytes(values: list[str | None], kind: DataType) -> tuple[pa.Array, Bad]:
    def read(value: str) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueError(value) from error

    contents, bad = _map_values(values, read, "bytes are a string in base64")
    return pa.array(contents, pa.binary()), bad


def _times(values: list[str | None], kind: DataType) -> tuple[pa.Array, Bad]:
    texts, bad = _json_leaves_texts(values, kind)
    array, lost = times(texts, kind)
    reason = f"a {'date' if isinstance(kind, DateType) else 'timestamp'} is a string of ISO 8601"
    return array, [*bad, *((place, reason) for place in lost)]


def times(texts: pa.Array, kind: DataType) -> tuple[pa.Array, list[int]]:
    """Dates and timestamps of texts, and the places of those that are none, which have null."""
    array, lost = _near_times(texts, kind)
    far = {at: match for at in lost if (match := _FAR.fullmatch(texts[at].as_py())) and int(match[1])}
    if not far:
        return array, lost
    years = [int(match[1]) for match in far.values()]
    # the same day and time 400 years away, as often as it takes
    near = [ERA_YEARS * 5 + year % ERA_YEARS for year in years]
    moved, _ = _near_times(pa.array([f"{n}{match[2]}" for n, match in zip(near, far.values(), strict=True)]), kind)
    integer_type, step = (pa.int32(), ERA_DAYS) if isinstance(kind, DateType) else (pa.int64(), ERA_DAYS * DAY_MICROS)
    counts, limit = array.view(integer_type).to_pylist(), 1 << (integer_type.bit_width - 1)
    for at, year, close, count in zip(far, years, near, moved.view(integer_type).to_pylist(), strict=True):
        shifted = None if count is None else count + (year - close) // ERA_YEARS * step
        counts[at] = shifted if shifted is not None and -limit <= shifted < limit else None
    return pa.array(counts, integer_type).view(array.type), [at for at in lost if counts[at] is None]


def _near_times(texts: pa.Array, kind: DataType) -> tuple[pa.Array, list[int]]:
    """The same of years with four digits."""
    pattern = _DATE if isinstance(kind, DateType) else _INSTANT if isinstance(kind, TimestampType) else _LOCAL
    shaped = pc.if_else(pc.match_substring_regex(texts, pattern), texts, None)
    # texts of the usual length have no digits behind the microseconds
    if not isinstance(kind, DateType) and (pc.max(pc.binary_length(shaped)).as_py() or 0) > _LENGTH_TO_MICROS:
        shaped = pc.replace_substring_regex(shaped, r"(\.[0-9]{6})[0-9]+", r"\1")
    if isinstance(kind, TimestampType):
        shaped = _zoned(shaped)
    array, target = shaped, arrow_type(kind)
    try:
        array = shaped.cast(target)
    except pa.ArrowInvalid:
        # no such day, no such hour
        array = pa.chunked_array([_cast(shaped[n : n + 1], target) for n in range(len(shaped))]).combine_chunks()
    lost = np.flatnonzero((array.is_null().to_numpy(False)) & ~texts.is_null().to_numpy(False))
    return array, lost.tolist()


def _zoned(texts: pa.Array) -> pa.Array:
    """Each with a zone and a time of day, as Arrow wants them."""
    timed = pc.if_else(pc.equal(pc.utf8_length(texts), 10), pc.binary_join_element_wise(texts, "T00:00", ""), texts)
    bare = pc.match_substring_regex(timed, rf"[T ]{_TIME}$")
    return pc.if_else(bare, pc.binary_join_element_wise(timed, "Z", ""), timed)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        return pa.nulls(1, target)


_NULL, _QUOTE = "null", '"'
_NAMED = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_FIRST_PLAIN = 0x20
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Of floating numbers: those that Java writes without an exponent."""
_PARTS = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<fraction>\d+))?(?:e(?P<exponent>[+-]?\d+))?$"
_LEAST = {pa.float64(): (5e-324, "4.9E-324"), pa.float32(): (1e-45, "1.4E-45")}
"""The smallest numbers, of which Java writes one digit more than it takes."""
_FOUR_DIGITS = (-719_528, 2_932_897)
"""From the first day of year 0 to the first one of year 10000, in days since 1970."""
LEFT_OUT = "watersmeet.left_out"
"""In the metadata of a struct's field: it is left out where it is null."""


def encoded(values: pa.Array, kind: DataType) -> pa.Array:
    """UTF-8 of the JSON text of each value; null for null. Timestamps are in UTC.

    Null fields are written, but for those that are marked (`LEFT_OUT`).

    Parameters
    ----------
    kind : of the values; JSON can be read as it (`json.readable`). It names the fields: in the column, those of a
        struct without names of its own are called as the columns were that it was made of.
    """
    quote, texts = _json_encode_texts(values, kind)
    return (_joined([quote, texts, quote]) if quote else texts).cast(pa.binary())


def _json_encode_texts(values: pa.Array, kind: DataType) -> tuple[str, pa.Array]:
    """(what stands around each text, the texts): nulls have none, and no quotes are left to be put around them."""
    if isinstance(kind, StructType):
        return "", _with_nulls(_json_encode_struct(values, kind), values)
    if isinstance(kind, ArrayType):
        return "", _with_nulls(_json_encode_array(values, kind), values)
    if isinstance(kind, MapType):
        return "", _with_nulls(_json_encode_map(values, kind), values)
    for is_kind, quoted, encode in _JSON_ENCODE_LEAVES:
        if is_kind(values.type):
            texts = encode(values)
            if quoted and values.null_count:
                return "", _with_nulls(_joined([_QUOTE, texts, _QUOTE]), values)
            return _QUOTE if quoted else "", texts
    raise TypeError(f"JSON has no text for {kind}")


def _joined(parts: Iterable[str | pa.Array]) -> pa.Array:
    """Texts put together, row by row; null is written."""
    merged: list[str | pa.Array] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif not isinstance(part, str) or part:
            merged.append(part)
    pieces = [pa.scalar(part) if isinstance(part, str) else part for part in merged]
    return pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement=_NULL)


def _with_nulls(texts: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, texts.type)) if values.null_count else texts


# -- what holds other values -------------------------------------------------------------------------------


def _json_encode_struct(values: pa.StructArray, kind: StructType) -> pa.Array:
    if not kind.fields:
        return pa.array(["{}"] * len(values), pa.string())
    parts: list[str | pa.Array] = []
    has_optional = any(LEFT_OUT in member.metadata for member in kind.fields)
    for number, member in enumerate(kind.fields):
        column = values.field(number)
        quote, texts = _json_encode_texts(column, member.dataType)
        (name,) = _escaped(pa.array([member.name])).to_pylist()
        part = [f'{"," if number or has_optional else ""}"{name}":', quote, texts, quote]
        if LEFT_OUT in member.metadata and column.null_count:
            part = [pc.if_else(column.is_valid(), _joined(part), "")]
        parts += part
    # which field is the first is known behind them
    return _joined(["{", pc.utf8_slice_codeunits(_joined(parts), 1) if has_optional else _joined(parts), "}"])


def _json_encode_array(values: pa.Array, kind: ArrayType) -> pa.Array:
    quote, texts = _json_encode_texts(values.flatten(), kind.elementType)
    texts = _joined([quote, texts, quote]) if quote else texts.fill_null(_NULL)
    return _joined(["[", _lists(values, texts), "]"])


def _json_encode_map(values: pa.MapArray, kind: MapType) -> pa.Array:
    entries = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
    flat = entries.flatten()
    quote, texts = _json_encode_texts(flat.field(1), kind.valueType)
    texts = _joined([_QUOTE, _escaped(_plain(flat.field(0))), _QUOTE, ":", quote, texts, quote])
    return _joined(["{", _lists(entries, texts), "}"])


def _lists(values: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of all elements, those of a list with commas between them."""
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.append(0, np.cumsum(lengths, dtype=np.int64)), pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(ends, texts), ",")


# -- leaves ------------------------------------------------------------------------------------------------


def _plain(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _escaped(texts: pa.Array) -> pa.Array:
    """As they stand between quotes."""
    content = _content(texts)
    specials = {chr(code) for code in np.unique(content[content < _FIRST_PLAIN]).tolist()}
    specials |= {mark for mark in '"\\' if (content == ord(mark)).any()}
    # what escapes begin with comes first
    for mark in sorted(specials, reverse=True, key=lambda char: char == "\\"):
        texts = pc.replace_substring(texts, mark, _NAMED.get(mark, f"\\u{ord(mark):04X}"))
    return texts


def _content(texts: pa.Array) -> np.ndarray:
    """All bytes of texts, one behind the other."""
    _, offsets, content = texts.buffers()
    if content is None or not len(texts):
        return np.empty(0, dtype=np.uint8)
    ends = np.frombuffer(offsets, dtype=np.int32)[[texts.offset, texts.offset + len(texts)]]
    return np.frombuffer(content, dtype=np.uint8)[ends[0] : ends[1]]


def _strings(values: pa.Array) -> pa.Array:
    return _escaped(_plain(values))


def _base64(values: pa.Array) -> pa.Array:
    items = values.to_pylist()
    return pa.array([None if item is None else base64.b64encode(item).decode() for item in items], pa.string())


def _json_encode_floats(values: pa.Array) -> pa.Array:
    """Plain digits with a fraction between a thousandth and ten millions, else one digit, a fraction, an exponent."""
    texts, size = values.cast(pa.string()), np.abs(values.fill_null(0).to_numpy(zero_copy_only=False))
    plain = (size == 0) | ((size >= _PLAIN_FROM) & (size < _PLAIN_TO))
    integral = plain & (size == np.floor(size, where=plain, out=np.zeros_like(size)))
    if integral.any():
        texts = pc.if_else(pa.array(integral), pc.binary_join_element_wise(texts, ".0", ""), texts)
    if not plain.all():
        texts = _replaced(texts, ~plain, _exponents(texts.filter(pa.array(~plain)), size[~plain], values.type))
    return texts


def _exponents(texts: pa.Array, size: np.ndarray, kind: pa.DataType) -> pa.Array:
    parts = pc.extract_regex(texts, _PARTS)
    sign, integer, fraction, power = (pc.struct_field(parts, [number]) for number in range(4))
    digits = pc.binary_join_element_wise(integer, fraction, "")
    led = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(led))
    base_exponent = pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, "+")).cast(pa.int32())
    exponent = pc.subtract(pc.add(base_exponent, pc.utf8_length(integer)), pc.add(zeros, 1))
    tail = pc.utf8_rtrim(pc.utf8_slice_codeunits(led, 1), "0")
    tail = pc.if_else(pc.equal(tail, ""), "0", tail)
    first = pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(led, 0, 1), "")
    result = pc.binary_join_element_wise(first, ".", tail, "E", exponent.cast(pa.string()), "")
    least, text = _LEAST[kind]
    tiny = pa.array(size == size.dtype.type(least))
    result = pc.if_else(tiny, pc.binary_join_element_wise(sign, text, ""), result)
    # words in quotes are what is no number
    words = pc.if_else(
        pc.equal(texts, "nan"), '"NaN"', pc.if_else(pc.starts_with(texts, "-"), '"-Infinity"', '"Infinity"')
    )
    return pc.if_else(pa.array(np.isfinite(size)), result, words)


def _replaced(texts: pa.Array, where: Bools, replacements: pa.Array) -> pa.Array:
    return pc.replace_with_mask(texts, pa.array(where), replacements)


def _dates(values: pa.Array) -> pa.Array:
    days = values.view(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return _of_any_year(values.cast(pa.string()), days, None)


def _instants(values: pa.Array) -> pa.Array:
    """In UTC, whatever zone the column is shown in; without a zone where the type has none."""
    zone = None if values.type.tz is None else "UTC"
    count = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
    texts = pc.replace_substring(count.view(pa.timestamp("us", zone)).cast(pa.string()), " ", "T", max_replacements=1)
    days, micros = np.divmod(count.fill_null(0).to_numpy(zero_copy_only=False), DAY_MICROS)
    return _of_any_year(texts, days, pa.array(micros).view(pa.timestamp("us", zone)))


def _of_any_year(texts: pa.Array, days: np.ndarray, time_of_day: pa.Array | None) -> pa.Array:
    """Texts of dates, put right where the year has not four digits; `time_of_day`: if it is written."""
    far = (days < _FOUR_DIGITS[0]) | (days >= _FOUR_DIGITS[1])
    if not far.any():
        return texts
    dates = pa.array([_date(day) for day in days[far].tolist()], pa.string())
    if time_of_day is not None:
        times = pc.utf8_slice_codeunits(time_of_day.filter(pa.array(far)).cast(pa.string()), len("1970-01-01 "))
        dates = pc.binary_join_element_wise(dates, times, "T")
    return pc.replace_with_mask(texts, pa.array(far), dates)


def _date(day: int) -> str:
    """The date of a day since 1970, in the Gregorian calendar carried on both ways."""
    era, inside = divmod(day, ERA_DAYS)
    near = np.datetime64("1970-01-01") + inside
    year = int(str(near)[:4]) + era * ERA_YEARS
    return f"{'+' if year > 9999 else '-' if year < 0 else ''}{abs(year):04d}{str(near)[4:]}"


_JSON_ENCODE_LEAVES: tuple[tuple[Callable[[pa.DataType], bool], bool, Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_string, True, _strings),
    (pa.types.is_large_string, True, _strings),
    (pa.types.is_integer, False, _plain),
    (pa.types.is_boolean, False, _plain),
    (pa.types.is_floating, False, _json_encode_floats),
    (pa.types.is_decimal, False, _plain),
    (pa.types.is_date, True, _dates),
    (pa.types.is_timestamp, True, _instants),
    (pa.types.is_binary, True, _base64),
    (pa.types.is_large_binary, True, _base64),
)
"""(which types, whether between quotes, how)."""


# JSON text to Arrow columns, in the workers: one value and nothing else, or a reason.
#
# Law 6: what is not exactly a value of the type never becomes a value, nor a tombstone. msgspec reads each text whole
# as a class made of the type: it refuses other types, numbers beyond their range, and what is no JSON, and skips fields
# that the type has not. Of a name that stands twice the last value counts (docs/decisions/formats.md). The objects
# become columns a field at a time; a text that is refused costs its own time.

_SHOWN = 200
_BLOCK_ROWS = 4_096
"""Texts whose objects are in memory at once."""
NULL_TEXT = "the JSON text null (a tombstone has no bytes at all)"
"""The reason for a text that is null as a whole."""
_ACTUAL_TYPES = {"str": "a string", "bool": "a boolean", "array": "an array", "object": "an object", "null": "null"}
"""What is there, as msgspec calls it; all else is a number."""
_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
_REFUSAL = re.compile(r"Expected `[^`]*`( [<>]=)?(?:.*, got `(\w+)`)?.*?(?: - at `\$(.*)`)?", re.DOTALL)
_UNFIT_NAME = re.compile(r'["\\\x00-\x1f]')
"""What no name of a class of msgspec's may have; objects with such names are read as dictionaries."""
_AS_THEY_ARE = (BooleanType, ByteType, ShortType, IntegerType, LongType, DoubleType, StringType)
_DECIMAL_TEXTS = r'^(?:[^"]|"-?[0-9]+(?:\.[0-9]+)?"$)'
_SEARCHED_NAMES = 64
"""So many names are searched for by one pattern."""


@dataclass
class Flaws:
    """Why rows are not of the format, the first reason of each."""

    found: dict[int, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    # the rows of objects without some field, by its name
    missing: dict[str, list[Int64s]] = field(default_factory=dict)

    def add(self, row: int, reason: str) -> None:
        """A row's reason, if it has none yet, behind the names of the fields around it."""
        self.found.setdefault(int(row), f"{'.'.join(self.path)}: {reason}" if self.path else reason)

    @contextmanager
    def in_field(self, name: str) -> Iterator[None]:
        self.path.append(name)
        yield
        self.path.pop()


def decode(kind: DataType, texts: pa.Array, *, whole_numbers: bool = False) -> tuple[pa.Array, dict[int, str]]:
    """The values of JSON texts, and why some texts are none; those are null, and so are null texts.

    Parameters
    ----------
    kind : what the texts are to be, with all that lies within nullable.
    texts : each of a record.
    whole_numbers : whether 5.0 is an integer, as in JSON Schema; there are no decimals then.
    """
    reader = _json_reader(kind, whole_numbers)
    flaws: dict[int, str] = {}
    columns = []
    for start in range(0, max(1, len(texts)), _BLOCK_ROWS):
        values, reasons = reader.read(texts.slice(start, _BLOCK_ROWS))
        flaws |= {start + row: reason for row, reason in reasons.items()}
        columns.append(values)
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns), flaws


class _JsonReader:
    """Reads texts of one type."""

    def __init__(self, kind: DataType, whole_numbers: bool) -> None:
        self._kind, self._whole_numbers = kind, whole_numbers
        self._decode = msgspec.json.Decoder(self._type(kind)).decode

    def _type(self, kind: DataType) -> Any:
        """The type that msgspec reads a value as. A field that is not there has UNSET."""
        if isinstance(kind, StructType):
            names = dict.fromkeys(kind.names)
            types = {member.name: self._type(member.dataType) for member in kind.fields}
            if any(map(_UNFIT_NAME.search, names)):
                return TypedDict("Object", types, total=False) | None  # type: ignore[operator]
            labels = {f"f{number}": name for number, name in enumerate(names)}
            fields = [(label, types[name], msgspec.UNSET) for label, name in labels.items()]
            return msgspec.defstruct("Object", fields, rename=labels, gc=False) | None
        if isinstance(kind, ArrayType):
            return list[self._type(kind.elementType)] | None  # type: ignore[misc]
        if isinstance(kind, MapType):
            return dict[str, self._type(kind.valueType)] | None  # type: ignore[misc]
        if self._is_raw(kind):
            return msgspec.Raw
        if isinstance(kind, _INTEGERS):
            limit = 1 << (arrow_type(kind).bit_width - 1)
            return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)] | None
        if isinstance(kind, FloatType | DoubleType):
            return float | str | None
        return (bool if isinstance(kind, BooleanType) else str) | None

    def _is_raw(self, kind: DataType) -> bool:
        """Whether the digits are looked at here as they are written."""
        return isinstance(kind, DecimalType) or (self._whole_numbers and isinstance(kind, _INTEGERS))

    def read(self, texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The values, and the reasons of rows without one."""
        rows = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        raw = texts.cast(pa.binary()).drop_null().to_pylist()
        flaws = Flaws()
        values = self._column(self._kind, self._objects(raw, rows, flaws), rows, flaws)
        if flaws.missing:
            _find_other_case(self._kind, raw, rows, flaws)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        for row in rows[~valid].tolist():
            flaws.add(row, NULL_TEXT)
        if len(rows) == len(texts) and not flaws.found:
            return values, {}
        places = np.full(len(texts), -1)
        places[rows] = np.arange(len(rows))
        places[list(flaws.found)] = -1
        return values.take(pa.array(places, mask=places < 0)), flaws.found

    def _objects(self, texts: list[bytes], rows: Int64s, flaws: Flaws) -> list[Any]:
        """The object of each text; None of those that are refused."""
        for place, text in enumerate(texts):
            if len(text) > 2 * JSON_LEVELS and nests_beyond(text.decode(), JSON_LEVELS):
                flaws.add(rows[place], f"it has more than {JSON_LEVELS} levels")
                texts[place] = b"null"
        values: list[Any] = []
        remaining_texts = iter(texts)
        while True:
            try:
                # where one is refused, those before it are in the list, and those behind it are left
                values.extend(map(self._decode, remaining_texts))
                return values
            except msgspec.DecodeError as error:
                flaws.add(rows[len(values)], _refusal(self._kind, error))
                values.append(None)

    def _column(self, kind: DataType, values: Sequence[Any], rows: Int64s, flaws: Flaws) -> pa.Array:
        """Objects as an Arrow column; of those that are no value of the type, null, and a flaw of their row."""
        if isinstance(kind, StructType):
            return self._struct(kind, values, rows, flaws)
        if isinstance(kind, ArrayType):
            elements = chain.from_iterable(filter(None, values))
            inner = self._column(kind.elementType, list(elements), _owners(values, rows), flaws)
            return pa.ListArray.from_arrays(_offsets(values), inner).cast(arrow_type(kind))
        if isinstance(kind, MapType):
            names = pa.array(chain.from_iterable(filter(None, values)), pa.string())
            elements = chain.from_iterable(value.values() for value in values if value)
            inner = self._column(kind.valueType, list(elements), _owners(values, rows), flaws)
            return pa.MapArray.from_arrays(_offsets(values), names, inner).cast(arrow_type(kind))
        if self._is_raw(kind):
            return _raw_leaf(kind, values, rows, flaws)
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # a word in place of a number
            if isinstance(kind, _AS_THEY_ARE):
                return pa.array(values, arrow_type(kind))
        return _leaf(kind, values, rows, flaws)

    def _struct(self, kind: StructType, values: Sequence[Any], rows: Int64s, flaws: Flaws) -> pa.Array:
        present = [value for value in values if value is not None]
        valid = None
        if len(present) < len(values):
            valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
            rows = rows[valid]
        columns = []
        labels = {name: f"f{number}" for number, name in enumerate(dict.fromkeys(kind.names))}
        for member in kind.fields:
            if present and type(present[0]) is dict:
                column = [entry.get(member.name, msgspec.UNSET) for entry in present]
            else:
                column = list(map(attrgetter(labels[member.name]), present))
            with suppress(pa.ArrowException, TypeError):  # a field that is not there, or a word in place of a number
                if isinstance(member.dataType, _AS_THEY_ARE):
                    columns.append(pa.array(column, arrow_type(member.dataType)))
                    continue
            if msgspec.UnsetType in set(map(type, column)):
                unset = np.fromiter((value is msgspec.UNSET for value in column), np.bool_, len(column))
                flaws.missing.setdefault(member.name, []).append(rows[unset])
                column = [None if value is msgspec.UNSET else value for value in column]
            with flaws.in_field(member.name):
                columns.append(self._column(member.dataType, column, rows, flaws))
        if columns:
            array = pa.StructArray.from_arrays(columns, fields=list(arrow_type(kind)))
        else:
            array = pa.array([{}] * len(present), pa.struct([]))
        return array if valid is None else array.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


_json_reader = lru_cache(maxsize=256)(_JsonReader)


def _owners(values: Sequence[Any], rows: Int64s) -> Int64s:
    """The row of each element of lists, or of each entry of maps."""
    return np.repeat(rows, [len(value) if value else 0 for value in values])


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where each value's elements begin; null where there is no value."""
    ends = [0, *accumulate(len(value) if value else 0 for value in values)]
    return pa.array([None if v is None else at for v, at in zip(values, ends, strict=False)] + ends[-1:], pa.int32())


def _raw_leaf(kind: DataType, values: Sequence[Any], rows: Int64s, flaws: Flaws) -> pa.Array:
    """Numbers of their JSON texts, to the last digit."""
    texts = pa.array([b"null" if value is None else bytes(value) for value in values], pa.string())
    texts = pc.if_else(pc.equal(texts, _NULL), None, texts)
    with suppress(pa.ArrowInvalid):
        if not isinstance(kind, DecimalType):
            return texts.cast(arrow_type(kind))
        if pc.all(pc.match_substring_regex(texts, _DECIMAL_TEXTS)).as_py() is not False:
            return pc.utf8_trim(texts, _QUOTE).cast(arrow_type(kind))
    parse = Decimal if isinstance(kind, DecimalType) else _whole_or_float
    return _leaf(kind, [None if text is None else _number(text, parse) for text in texts.to_pylist()], rows, flaws)


def _number(text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return json.loads(text, parse_float=parse)
    except (ValueError, ArithmeticError):
        return math.inf  # more digits, or a larger exponent, than any type has


def _whole_or_float(text: str) -> int | float:
    number = float(text)
    # a zero may have a sign, and what is beyond a double any number of digits
    if not number.is_integer() or (not number and text.startswith("-")):
        return number
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else number


def _leaf(kind: DataType, values: Sequence[Any], rows: Int64s, flaws: Flaws) -> pa.Array:
    column, bad = leaf_column(kind, values)
    for place, reason in bad:
        flaws.add(rows[place], reason)
    return column


# -- reasons -----------------------------------------------------------------------------------------------


def _refusal(kind: DataType, error: msgspec.DecodeError) -> str:
    """Why msgspec refuses a text, in words of the type and with the names of the fields around it."""
    match = _REFUSAL.fullmatch(str(error)) if isinstance(error, msgspec.ValidationError) else None
    if match is None:
        if isinstance(error, msgspec.ValidationError):
            return "a number is beyond the range of its type"
        type_name = kind.simpleString()
        return f"not JSON of the type {type_name if len(type_name) <= _SHOWN else type_name[:_SHOWN] + '...'}"
    bound, actual, path = match.groups()
    names, kind = _at_path(kind, path or "")
    reason = f"{_expected_type(kind)} is wanted where there is {_ACTUAL_TYPES.get(actual, 'a number')}"
    if bound:
        reason = f"a number does not fit into {_article(kind)}"
    return f"{'.'.join(names)}: {reason}" if names else reason


def _at_path(kind: DataType, path: str) -> tuple[list[str], DataType]:
    """The names of fields on a path of msgspec's, as in `.a[0].b[...]`, and the type at its end."""
    names = []
    while path:
        if isinstance(kind, StructType):
            member = max((f for f in kind.fields if path.startswith(f".{f.name}")), key=lambda f: len(f.name))
            names.append(member.name)
            kind, path = member.dataType, path[len(member.name) + 1 :]
        else:
            kind = kind.elementType if isinstance(kind, ArrayType) else kind.valueType  # type: ignore[attr-defined]
            path = path[path.index("]") + 1 :]
    return names, kind


def _expected_type(kind: DataType) -> str:
    if isinstance(kind, ArrayType):
        return "an array"
    return "an object" if isinstance(kind, StructType | MapType) else _article(kind)


def _find_other_case(kind: DataType, texts: list[bytes], rows: Int64s, flaws: Flaws) -> None:
    """A name of another case than the schema's is that field misspelt: to leave it out would lose its value."""
    missing = np.unique(np.concatenate([part for parts in flaws.missing.values() for part in parts]))
    places = np.searchsorted(rows, missing).tolist()
    searched = pa.array([texts[place] for place in places], pa.binary())
    names = sorted(flaws.missing)
    suspects = np.zeros(len(places), dtype=np.bool_)
    _, _, content = keys.spans(searched)
    if (content == ord("\\")).any():  # a letter of a name may be written by its number
        numbers = r"\\u00[4-7]" if all(map(str.isascii, names)) else r"\\u"
        suspects |= pc.match_substring_regex(searched, numbers).to_numpy(zero_copy_only=False)
    for start in range(0, len(names), _SEARCHED_NAMES):
        pattern = f'"(?:{"|".join(map(re.escape, names[start : start + _SEARCHED_NAMES]))})"'
        likely = pc.indices_nonzero(pc.match_substring_regex(searched, pattern, ignore_case=True))
        exact = pc.count_substring_regex(searched.take(likely), pattern)
        either = pc.count_substring_regex(searched.take(likely), pattern, ignore_case=True)
        suspects[likely.to_numpy()] |= pc.greater(either, exact).to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(suspects).tolist():
        row = int(missing[place])
        if row not in flaws.found and (reason := _other_case(kind, json.loads(texts[places[place]]))):
            flaws.add(row, reason)


def _other_case(kind: DataType, value: Any) -> str | None:
    """Why a value has a field misspelt, if it has one."""
    if value is None:
        return None
    if isinstance(kind, ArrayType):
        reasons = (_other_case(kind.elementType, entry) for entry in value)
    elif isinstance(kind, MapType):
        reasons = (_other_case(kind.valueType, entry) for entry in value.values())
    elif isinstance(kind, StructType):
        names = {name.lower(): name for name in kind.names}
        for variant in value:
            meant = names.get(variant.lower(), variant)
            if variant not in kind.names and meant not in value:
                return f"there is no field {meant!r}, but one {variant!r}: names are case-sensitive"
        reasons = (_other_case(member.dataType, value.get(member.name)) for member in kind.fields)
    else:
        return None
    return next(filter(None, reasons), None)


def _inner_types(kind: DataType) -> list[DataType]:
    if isinstance(kind, StructType):
        return [f.dataType for f in kind.fields]
    if isinstance(kind, ArrayType):
        return [kind.elementType]
    return [kind.valueType] if isinstance(kind, MapType) else []


# Which types JSON has values of, and what of them a text can leave out.
#
# Reading is the workers' (`decode`): Spark's own reader swallows or changes much of what is not of the type (law
# 6).

_PLAIN = (BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType)
_JSON_TYPES_LEAVES = (*_PLAIN, StringType, BinaryType, DateType, TimestampType, TimestampNTZType)


def readable(kind: DataType) -> bool:
    """Whether JSON text can be read as this type: maps have string keys, and every leaf has a plain type."""
    if isinstance(kind, MapType) and not isinstance(kind.keyType, StringType):
        return False
    return isinstance(kind, _JSON_TYPES_LEAVES) or (
        bool(_inner_types(kind)) and all(readable(k) for k in _inner_types(kind))
    )


def nullable(kind: DataType) -> DataType:
    """The type with all its fields, elements and values nullable: what a text can leave out."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, nullable(f.dataType), True, f.metadata) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, nullable(kind.valueType))
    return kind
