"""JSON text of Arrow columns, in the workers: byte for byte what `encode_json` has Spark write, a column at a time.

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
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Context, Decimal, InvalidOperation
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
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
from watersmeet._engine.rows import Bools
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
    if not isinstance(kind, DateType):
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


# Fields of JSON objects that a type does not name, for Arrow's parser: from a few of the texts, bounded.
#
# The parser could find out by itself; then each name that one text of thousands has becomes a column of thousands of
# rows, and the writers of the texts choose the names. So they are taken from the first texts, as long as they are few.

_TEXTS = 8
"""So many are looked at."""
_MOST_NAMES = 128
"""With more of them, or of arrays in them, the texts are read one by one."""
_MOST_BYTES = 1 << 16
"""Of one of the texts that are looked at."""


class _Unlike(Exception):
    """The texts are too different, or have too many names."""


def widened(schema: pa.Schema, texts: pa.Array) -> pa.Schema | None:
    """A schema with the names that the first texts have and it has not, behind its own; None if it is unknown.

    Parameters
    ----------
    texts : UTF-8, none null.
    """
    sample = texts[:_TEXTS].to_pylist()
    if any(len(text) > _MOST_BYTES for text in sample):
        return None
    try:
        objects = [json.loads(text) for text in sample]
        struct = _Names().struct(pa.struct(list(schema)), objects)
    except (_Unlike, ValueError, RecursionError):
        return None
    return pa.schema(list(struct))


class _Names:
    """Types of what is there, as long as the names are few."""

    def __init__(self) -> None:
        self._left = _MOST_NAMES

    def struct(self, base: pa.StructType, objects: list[Any]) -> pa.StructType:
        """A type of objects, wider by what they have."""
        fields = []
        for member in base:
            samples = [obj[member.name] for obj in objects if obj.get(member.name) is not None]
            fields.append(pa.field(member.name, self._widen(member.type, samples), member.nullable))
        extra = dict.fromkeys(name for obj in objects for name in obj if base.get_field_index(name) < 0)
        self._count(len(extra))
        return pa.struct([*fields, *(pa.field(n, self._type([e[n] for e in objects if n in e])) for n in extra)])

    def _widen(self, kind: pa.DataType, samples: list[Any]) -> pa.DataType:
        """A type that the schema has, where it is one of objects wider by what they have."""
        if pa.types.is_struct(kind):
            return self.struct(kind, self._all(dict, samples))
        if pa.types.is_list(kind):
            return pa.list_(self._widen(kind.value_type, self._elements(samples)))
        return kind

    def _type(self, samples: list[Any]) -> pa.DataType:
        """A type of values that no schema names; a number is any, since nothing but its being one is looked at."""
        values = [sample for sample in samples if sample is not None]
        if not values:
            return pa.null()
        if isinstance(values[0], dict):
            return self.struct(pa.struct([]), self._all(dict, values))
        if isinstance(values[0], list):
            self._count(1)
            return pa.list_(self._type(self._elements(values)))
        if isinstance(values[0], bool):
            return pa.bool_()
        return pa.string() if isinstance(values[0], str) else pa.float64()

    def _count(self, types: int) -> None:
        self._left -= types
        if self._left < 0:
            raise _Unlike

    def _elements(self, samples: list[Any]) -> list[Any]:
        return [element for value in self._all(list, samples) for element in value if element is not None]

    def _all(self, expected: type, samples: list[Any]) -> list[Any]:
        if any(type(sample) is not expected for sample in samples):
            raise _Unlike
        return samples


# Many JSON objects at once, by Arrow's parser: their columns, or nothing where a text could be anything else.
#
# Who gets nothing reads the texts one by one (`one_by_one`), which also says what is wrong with which; so this may
# refuse what is fine, and must never accept what is not (law 6). Names outside of the type are checked, too, as long as
# the first texts have the same names: Arrow gets them, and never finds out by itself, which would take a column for
# each name that any text has. Texts are put together with line ends. Since each begins with `{` and ends with `}`, one
# that is broken cannot be mended by its neighbour: behind a `}` outside of a string no `{` may come, and within a
# string no line end. As many rows as texts then means that each is one object.

_AS_THEY_ARE = (BooleanType, ByteType, ShortType, IntegerType, LongType, DoubleType, StringType)
_OPEN, _CLOSE = ord("{"), ord("}")


def read(kind: DataType, texts: pa.Array) -> pa.Array | None:
    """The values of JSON objects; null for null. Those that name fields that the type has not take longer.

    Parameters
    ----------
    texts : UTF-8, a few MB at most.

    Returns
    -------
    None where one of the texts is something else, or may be, and where the type has no such way.
    """
    schema = _schema(kind)
    present = texts.drop_null() if texts.null_count else texts
    if schema is None or not len(present):
        return None
    starts, lengths, content = keys.spans(present)
    if not _are_objects(starts, lengths, content):
        return None
    (block,) = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(present)], pa.int32()), present), "\n")
    rows, has_extras = _json_blocks_parsed(block.as_buffer(), schema), False
    if rows is None:
        wider = widened(schema, present)
        if wider is not None:
            rows, has_extras = _json_blocks_parsed(block.as_buffer(), wider), True
    if rows is None or len(rows) != len(present):
        return None
    try:
        if has_extras:
            wide_columns = [_single_chunk(rows.column(number)) for number in range(rows.num_columns)]
            _check_others(kind, pa.StructArray.from_arrays(wide_columns, rows.column_names))
        columns = [_single_chunk(rows.column(number)) for number in range(len(schema))]
        values = _json_blocks_column(kind, pa.StructArray.from_arrays(columns, schema.names))
    except _Doubtful:
        return None
    if not texts.null_count:
        return values
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    places = pa.array(np.where(valid, np.cumsum(valid) - 1, 0), mask=~valid)
    return values.take(places)


class _Doubtful(Exception):
    """A value that only the other way can judge."""


def _single_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _are_objects(starts: np.ndarray, lengths: np.ndarray, content: np.ndarray) -> bool:
    if (lengths < 2).any():
        return False
    ends = starts + lengths - 1
    begin_and_end = (content[starts] == _OPEN).all() and (content[ends] == _CLOSE).all()
    # behind a zero byte the parser sees nothing
    return bool(begin_and_end and content[starts[0] : ends[-1]].all())


def _json_blocks_parsed(block: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """The rows; None where a text has a name that the schema has not, or is none."""
    read = pj.ReadOptions(use_threads=False, block_size=block.size + 1)
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    try:
        return pj.read_json(pa.BufferReader(block), read_options=read, parse_options=parse)
    except pa.ArrowInvalid:
        return None


def _check_others(kind: DataType, read: pa.Array) -> None:
    """Look at what was read that the type does not name."""
    if isinstance(kind, ArrayType):
        _check_others(kind.elementType, read.values)
    elif isinstance(kind, StructType):
        names, count, lower_names = (
            [member.name for member in read.type],
            len(kind.names),
            {name.lower() for name in kind.names},
        )
        if names[:count] != kind.names or any(name.lower() in lower_names for name in names[count:]):
            raise _Doubtful
        for number, member in enumerate(kind.fields):
            _check_others(member.dataType, read.field(number))
        for number in range(count, len(names)):
            _check_finite(read.field(number))


def _check_finite(read: pa.Array) -> None:
    """The parser takes NaN and Infinity without quotes, which are no JSON."""
    if pa.types.is_floating(read.type):
        if pc.any(pc.invert(pc.is_finite(read))).as_py():
            raise _Doubtful
    elif pa.types.is_list(read.type):
        _check_finite(read.values)
    elif pa.types.is_struct(read.type):
        for number in range(read.type.num_fields):
            _check_finite(read.field(number))


# -- types -------------------------------------------------------------------------------------------------


def _schema(kind: DataType) -> pa.Schema | None:
    """What Arrow's parser is to read objects of a type as; None where it cannot."""
    if not isinstance(kind, StructType) or not kind.fields or len(set(kind.names)) < len(kind.names):
        return None
    types = [_read_as(member.dataType) for member in kind.fields]
    if any(column_type is None for column_type in types):
        return None
    return pa.schema(list(zip(kind.names, types, strict=True)))


def _read_as(kind: DataType) -> pa.DataType | None:
    if isinstance(kind, StructType):
        schema = _schema(kind)
        return None if schema is None else pa.struct(list(schema))
    if isinstance(kind, ArrayType):
        element = _read_as(kind.elementType)
        return None if element is None else pa.list_(element)
    if isinstance(kind, FloatType):
        return pa.float64()
    if isinstance(kind, (*TIMES, BinaryType)):
        return pa.string()
    return arrow_type(kind) if type(kind) in _AS_THEY_ARE else None


def _json_blocks_column(kind: DataType, read: pa.Array) -> pa.Array:
    """The values read as the type's own column."""
    target, absent = arrow_type(kind), read.is_null() if read.null_count else None
    if isinstance(kind, StructType):
        columns = [_json_blocks_column(f.dataType, read.field(n)) for n, f in enumerate(kind.fields)]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=absent)
    if isinstance(kind, ArrayType):
        elements = _json_blocks_column(kind.elementType, read.values)
        return pa.ListArray.from_arrays(read.offsets, elements, mask=absent).cast(target)
    if isinstance(kind, FloatType | DoubleType):
        array = read.cast(target, safe=False)
        _check_finite(array)
        return array
    if isinstance(kind, TIMES):
        array, lost = times(read, kind)
        if lost:
            raise _Doubtful
        return array
    if isinstance(kind, BinaryType):
        array, bad = _bytes(read.to_pylist(), kind)
        if bad:
            raise _Doubtful
        return array
    return read


# JSON text to Arrow columns, in the workers: one value and nothing else, or a reason.
#
# Law 6: what is not exactly a value of the type never becomes a value, nor a tombstone. Arrow's parser reads many texts
# at once where all of them are plainly fine (`read`); else the standard library's reads each text whole, which
# is slower and says what is wrong (docs/decisions/formats.md has the measurement). Then columns are
# built type by type, and one with only values of the wanted Python type costs one look at the set of their types.

_SHOWN = 200
_BLOCK_ROWS = 4_096
"""Texts that are read at once: one that is not plainly fine sends all of them the other way."""
_BLOCK_BYTES = 1 << 28
NULL_TEXT = "the JSON text null (a tombstone has no bytes at all)"
"""The reason for a text that is null as a whole."""
_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


@dataclass
class Flaws:
    """Why rows are not of the format, the first reason of each."""

    found: dict[int, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)

    def add(self, row: int, reason: str) -> None:
        """A row's reason, if it has none yet, behind the names of the fields around it."""
        self.found.setdefault(row, f"{'.'.join(self.path)}: {reason}" if self.path else reason)

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
    flaws: dict[int, str] = {}
    columns = []
    for start in range(0, max(1, len(texts)), _BLOCK_ROWS):
        block = texts.slice(start, _BLOCK_ROWS)
        values = read(kind, block) if block.nbytes <= _BLOCK_BYTES else None
        if values is None and pc.any(absent := pc.equal(block, "null")).as_py():
            # the others may still be read at once
            values = read(kind, pc.if_else(absent, pa.scalar(None, block.type), block))
            nulls = np.flatnonzero(absent.fill_null(False).to_numpy(zero_copy_only=False))
            flaws |= {start + row: NULL_TEXT for row in nulls.tolist()}
        if values is None:
            values, block_flaws = one_by_one(kind, block.to_pylist(), whole_numbers=whole_numbers)
            flaws |= {start + row: reason for row, reason in block_flaws.items()}
        columns.append(values)
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns), flaws


def one_by_one(
    kind: DataType, texts: Sequence[str | None], *, whole_numbers: bool = False
) -> tuple[pa.Array, dict[int, str]]:
    """The same, a text after the other.

    Parameters
    ----------
    kind : what the texts are to be, with all that lies within nullable.
    texts : each of a record.
    whole_numbers : as of `decode`.
    """
    flaws = Flaws()
    decoder = _WHOLE if whole_numbers else _EXACT if has_decimals(kind) else _FAST
    values = _json_decode_parsed(kind, decoder, texts, flaws)
    column = _json_decode_column(kind, values, range(len(values)), flaws)
    if flaws.found:
        # what was found deep within a value takes all of it
        survivors = [None if row in flaws.found else value for row, value in enumerate(values)]
        column = _json_decode_column(kind, survivors, range(len(survivors)), Flaws())
    return column, flaws.found


def _json_decode_parsed(
    kind: DataType, decoder: json.JSONDecoder, texts: Sequence[str | None], flaws: Flaws
) -> list[Any]:
    raw, parse = decoder.raw_decode, decoder.decode
    values: list[Any] = []
    for row, text in enumerate(texts):
        value = None
        if text is not None:
            try:
                _check_levels(text)
                value, end = raw(text) if text[:1] in _BEGINS else (parse(text), len(text))
                if end < len(text):
                    # white space may follow, nothing else
                    value = parse(text)
                if value is None:
                    flaws.add(row, NULL_TEXT)
            except _RefusedJson as error:
                flaws.add(row, str(error))
            except (ValueError, ArithmeticError, RecursionError):
                type_name = kind.simpleString()
                flaws.add(
                    row, f"not JSON of the type {type_name if len(type_name) <= _SHOWN else type_name[:_SHOWN] + '...'}"
                )
        values.append(value)
    return values


# -- parsing -----------------------------------------------------------------------------------------------


class _RefusedJson(ValueError):
    """JSON texts with a value that has no type here."""


def _check_levels(text: str) -> None:
    if nests_beyond(text, JSON_LEVELS):
        raise _RefusedJson(f"it has more than {JSON_LEVELS} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _RefusedJson("an object has a name twice")
    return members


def _no_constant(name: str) -> None:
    raise _RefusedJson(f"{name} is no JSON")


def _whole_or_float(text: str) -> int | float:
    number = float(text)
    # a zero may have a sign, and what is beyond a double any number of digits
    if not number.is_integer() or (not number and text.startswith("-")):
        return number
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else number


_BEGINS = frozenset('{["-0123456789tfn')
_FAST = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_EXACT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=Decimal)
_WHOLE = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_whole_or_float)


def has_decimals(kind: DataType) -> bool:
    """Whether a number that is not whole may have to be kept as it is written."""
    return isinstance(kind, DecimalType) or any(map(has_decimals, _inner_types(kind)))


def _inner_types(kind: DataType) -> list[DataType]:
    if isinstance(kind, StructType):
        return [f.dataType for f in kind.fields]
    if isinstance(kind, ArrayType):
        return [kind.elementType]
    return [kind.valueType] if isinstance(kind, MapType) else []


# -- columns -----------------------------------------------------------------------------------------------


def _json_decode_column(kind: DataType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    """The values as an Arrow column; of those that are not of the type, null, and a flaw of their row."""
    build: Callable[[Any, Sequence[Any], Sequence[int], Flaws], pa.Array] = _leaf
    if isinstance(kind, StructType):
        values, build = _only(dict, kind, values, rows, flaws), _json_decode_struct
    elif isinstance(kind, ArrayType):
        values, build = _only(list, kind, values, rows, flaws), _json_decode_array
    elif isinstance(kind, MapType):
        values, build = _only(dict, kind, values, rows, flaws), _json_decode_map
    return build(kind, values, rows, flaws)


def _only(expected: type, kind: DataType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> Sequence[Any]:
    if set(map(type, values)) <= {expected, type(None)}:
        return values
    result = []
    for row, value in zip(rows, values, strict=True):
        if value is not None and type(value) is not expected:
            flaws.add(row, f"{_NAMES[expected]} is wanted where there is {_NAMES.get(type(value), 'a number')}")
        result.append(value if type(value) is expected else None)
    return result


def _json_decode_struct(kind: StructType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    present = [value for value in values if value is not None]
    _find_other_case(kind, present, values, rows, flaws)
    empty: dict[str, Any] = {}
    objects = values if len(present) == len(values) else [empty if value is None else value for value in values]
    columns = []
    for inner in kind.fields:
        with flaws.in_field(inner.name):
            columns.append(_json_decode_column(inner.dataType, [o.get(inner.name) for o in objects], rows, flaws))
    mask = None if objects is values else pa.array([value is None for value in values], pa.bool_())
    fields = list(arrow_type(kind))
    if not fields:
        return pa.array([None if value is None else {} for value in values], pa.struct([]))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def _find_other_case(
    kind: StructType, present: Sequence[Any], values: Sequence[Any], rows: Sequence[int], flaws: Flaws
) -> None:
    """A name of another case than the schema's is that field misspelt: to leave it out would lose its value."""
    names = {name.lower(): name for name in kind.names}
    unknown = set().union(*present).difference(kind.names)
    for variant in sorted(name for name in unknown if name.lower() in names):
        meant = names[variant.lower()]
        for row, value in zip(rows, values, strict=True):
            if value is not None and variant in value and meant not in value:
                flaws.add(row, f"there is no field {meant!r}, but one {variant!r}: names are case-sensitive")


def _json_decode_array(kind: ArrayType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    flat = [element for value in values if value for element in value]
    owners = [row for row, value in zip(rows, values, strict=True) if value for _ in value]
    elements = _json_decode_column(kind.elementType, flat, owners, flaws)
    return pa.ListArray.from_arrays(_offsets(values), elements).cast(arrow_type(kind))


def _json_decode_map(kind: MapType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    names = [name for value in values if value for name in value]
    flat = [inner for value in values if value for inner in value.values()]
    owners = [row for row, value in zip(rows, values, strict=True) if value for _ in value]
    keys = [name or "" for name in _json_decode_column(StringType(), names, owners, flaws).to_pylist()]
    inner = _json_decode_column(kind.valueType, flat, owners, flaws)
    return pa.MapArray.from_arrays(_offsets(values), pa.array(keys, pa.string()), inner).cast(arrow_type(kind))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where each value's elements begin; null where there is no value."""
    ends = [0, *accumulate(len(value) if value else 0 for value in values)]
    return pa.array([None if v is None else at for v, at in zip(values, ends, strict=False)] + ends[-1:], pa.int32())


def _leaf(kind: DataType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    column, bad = leaf_column(kind, values)
    for place, reason in bad:
        flaws.add(rows[place], reason)
    return column


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
