"""JSON text of Arrow columns, in the workers: byte for byte what `encode_json` has Spark write, a column at a time.

A struct's text is its fields' texts put together by Arrow's kernels; nothing looks at a row. Numbers have Java's text:
of a floating number the fewest digits that say which it is, as every Java from 19 on
writes it. Older ones write some with a digit more, beyond 2^53 (2.0E23 as 1.9999999999999998E23), and so Spark there:
another text of the same number.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from watersmeet._engine.arrays import Bools

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
_ERA_DAYS, _ERA_YEARS = 146_097, 400
"""After which the calendar begins anew."""
_DAY_MICROS = 86_400_000_000
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
    quote, texts = _texts(values, kind)
    return (_joined([quote, texts, quote]) if quote else texts).cast(pa.binary())


def _texts(values: pa.Array, kind: DataType) -> tuple[str, pa.Array]:
    """(what stands around each text, the texts): nulls have none, and no quotes are left to be put around them."""
    if isinstance(kind, StructType):
        return "", _with_nulls(_struct(values, kind), values)
    if isinstance(kind, ArrayType):
        return "", _with_nulls(_array(values, kind), values)
    if isinstance(kind, MapType):
        return "", _with_nulls(_map(values, kind), values)
    for is_kind, quoted, made in _LEAVES:
        if is_kind(values.type):
            texts = made(values)
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
    given = [pa.scalar(part) if isinstance(part, str) else part for part in merged]
    return pc.binary_join_element_wise(*given, "", null_handling="replace", null_replacement=_NULL)


def _with_nulls(texts: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, texts.type)) if values.null_count else texts


# -- what holds other values -------------------------------------------------------------------------------


def _struct(values: pa.StructArray, kind: StructType) -> pa.Array:
    if not kind.fields:
        return pa.array(["{}"] * len(values), pa.string())
    parts: list[str | pa.Array] = []
    some = any(LEFT_OUT in field.metadata for field in kind.fields)
    for number, field in enumerate(kind.fields):
        column = values.field(number)
        quote, texts = _texts(column, field.dataType)
        (name,) = _escaped(pa.array([field.name])).to_pylist()
        part = [f'{"," if number or some else ""}"{name}":', quote, texts, quote]
        if LEFT_OUT in field.metadata and column.null_count:
            part = [pc.if_else(column.is_valid(), _joined(part), "")]
        parts += part
    # which field is the first is known behind them
    return _joined(["{", pc.utf8_slice_codeunits(_joined(parts), 1) if some else _joined(parts), "}"])


def _array(values: pa.Array, kind: ArrayType) -> pa.Array:
    quote, texts = _texts(values.flatten(), kind.elementType)
    texts = _joined([quote, texts, quote]) if quote else texts.fill_null(_NULL)
    return _joined(["[", _lists(values, texts), "]"])


def _map(values: pa.MapArray, kind: MapType) -> pa.Array:
    entries = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
    flat = entries.flatten()
    quote, texts = _texts(flat.field(1), kind.valueType)
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
    there = {chr(code) for code in np.unique(content[content < _FIRST_PLAIN]).tolist()}
    there |= {mark for mark in '"\\' if (content == ord(mark)).any()}
    # what escapes begin with comes first
    for mark in sorted(there, reverse=True, key=lambda each: each == "\\"):
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
    given = values.to_pylist()
    return pa.array([None if each is None else base64.b64encode(each).decode() for each in given], pa.string())


def _floats(values: pa.Array) -> pa.Array:
    """Plain digits with a fraction between a thousandth and ten millions, else one digit, a fraction, an exponent."""
    texts, size = values.cast(pa.string()), np.abs(values.fill_null(0).to_numpy(zero_copy_only=False))
    plain = (size == 0) | ((size >= _PLAIN_FROM) & (size < _PLAIN_TO))
    whole = plain & (size == np.floor(size, where=plain, out=np.zeros_like(size)))
    if whole.any():
        texts = pc.if_else(pa.array(whole), pc.binary_join_element_wise(texts, ".0", ""), texts)
    if not plain.all():
        texts = _replaced(texts, ~plain, _exponents(texts.filter(pa.array(~plain)), size[~plain], values.type))
    return texts


def _exponents(texts: pa.Array, size: np.ndarray, kind: pa.DataType) -> pa.Array:
    parts = pc.extract_regex(texts, _PARTS)
    sign, whole, fraction, power = (pc.struct_field(parts, [number]) for number in range(4))
    digits = pc.binary_join_element_wise(whole, fraction, "")
    led = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(led))
    given = pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, "+")).cast(pa.int32())
    exponent = pc.subtract(pc.add(given, pc.utf8_length(whole)), pc.add(zeros, 1))
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(led, 1), "0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    first = pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(led, 0, 1), "")
    made = pc.binary_join_element_wise(first, ".", rest, "E", exponent.cast(pa.string()), "")
    least, text = _LEAST[kind]
    tiny = pa.array(size == size.dtype.type(least))
    made = pc.if_else(tiny, pc.binary_join_element_wise(sign, text, ""), made)
    # words in quotes are what is no number
    words = pc.if_else(
        pc.equal(texts, "nan"), '"NaN"', pc.if_else(pc.starts_with(texts, "-"), '"-Infinity"', '"Infinity"')
    )
    return pc.if_else(pa.array(np.isfinite(size)), made, words)


def _replaced(texts: pa.Array, where: Bools, others: pa.Array) -> pa.Array:
    return pc.replace_with_mask(texts, pa.array(where), others)


def _dates(values: pa.Array) -> pa.Array:
    days = values.view(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return _of_any_year(values.cast(pa.string()), days, None)


def _instants(values: pa.Array) -> pa.Array:
    """In UTC, whatever zone the column is shown in; without a zone where the type has none."""
    zone = None if values.type.tz is None else "UTC"
    count = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
    texts = pc.replace_substring(count.view(pa.timestamp("us", zone)).cast(pa.string()), " ", "T", max_replacements=1)
    days, within = np.divmod(count.fill_null(0).to_numpy(zero_copy_only=False), _DAY_MICROS)
    return _of_any_year(texts, days, pa.array(within).view(pa.timestamp("us", zone)))


def _of_any_year(texts: pa.Array, days: np.ndarray, within: pa.Array | None) -> pa.Array:
    """Texts of dates, put right where the year has not four digits; `within` is the time of day, if it is written."""
    far = (days < _FOUR_DIGITS[0]) | (days >= _FOUR_DIGITS[1])
    if not far.any():
        return texts
    made = pa.array([_date(day) for day in days[far].tolist()], pa.string())
    if within is not None:
        times = pc.utf8_slice_codeunits(within.filter(pa.array(far)).cast(pa.string()), len("1970-01-01 "))
        made = pc.binary_join_element_wise(made, times, "T")
    return pc.replace_with_mask(texts, pa.array(far), made)


def _date(day: int) -> str:
    """The date of a day since 1970, in the Gregorian calendar carried on both ways."""
    era, inside = divmod(day, _ERA_DAYS)
    near = np.datetime64("1970-01-01") + inside
    year = int(str(near)[:4]) + era * _ERA_YEARS
    return f"{'+' if year > 9999 else '-' if year < 0 else ''}{abs(year):04d}{str(near)[4:]}"


_LEAVES: tuple[tuple[Callable[[pa.DataType], bool], bool, Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_string, True, _strings),
    (pa.types.is_large_string, True, _strings),
    (pa.types.is_integer, False, _plain),
    (pa.types.is_boolean, False, _plain),
    (pa.types.is_floating, False, _floats),
    (pa.types.is_decimal, False, _plain),
    (pa.types.is_date, True, _dates),
    (pa.types.is_timestamp, True, _instants),
    (pa.types.is_binary, True, _base64),
    (pa.types.is_large_binary, True, _base64),
)
"""(which types, whether between quotes, how)."""
