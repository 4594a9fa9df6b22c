"""Casts: one function for each pair of kinds of types; a pair that is not in the table is Spark's.

Not in it: float and double to text and to decimal (Java's text of a float differs from version to version), and text to
timestamps, floats and decimals (which know names of zones, hexadecimal digits, and digits of all scripts).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.expressions.decimals import LONG, bounded, rounded
from watersmeet._engine.expressions.tree import (
    FLOATS,
    INTEGERS,
    LONG_OVERFLOW,
    MICROS_A_DAY,
    TIMESTAMPS,
    Call,
    Expression,
    Kernel,
    LazyKernel,
    Numbers,
    Operand,
    all_valid,
    checked,
    dtype_of,
    fails,
    fixed_array,
    flags,
    is_lenient,
    is_utc,
    numbers,
    tries,
    type_of,
    where_null,
)
from watersmeet._engine.rows import Bools, Int64s, valid

# Casts among numbers, decimals and booleans.

CAST_OVERFLOW = ("CAST_OVERFLOW", "A value is out of the range of the type that it is cast to.")


def _bounded(call: Call, bad: Bools, present: Bools | None) -> Bools | None:
    """Where there is a value, if a `bad` one is none: it is one where casts wrap."""
    return checked(bad, present, fails(call), *CAST_OVERFLOW) if fails(call) or tries(call) else present


def integer_to_integer(call: Call, values: pa.Array) -> pa.Array:
    """To another width."""
    source = numbers(values)
    result = source.astype(dtype_of(call.type))
    return fixed_array(result, _bounded(call, result != source, all_valid(values)), call.type)


def as_numpy_does(call: Call, values: pa.Array) -> pa.Array:
    """To the nearest float, infinity where it is too large."""
    with np.errstate(all="ignore"):
        return fixed_array(numbers(values).astype(dtype_of(call.type)), all_valid(values), call.type)


def float_to_integer(call: Call, values: pa.Array) -> pa.Array:
    """Cut off; out of range, to the least or greatest int or long, of which narrower types keep the lowest bits."""
    floats, dtype = numbers(values), dtype_of(call.type)
    present = all_valid(values)
    if fails(call) or tries(call):
        least, most = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
        with np.errstate(all="ignore"):
            exact = floats.astype(np.float64)
            present = _bounded(call, ~((np.floor(exact) <= most) & (np.ceil(exact) >= least)), present)
    return fixed_array(
        saturated(floats, np.dtype("<i8" if dtype.itemsize == 8 else "<i4")).astype(dtype), present, call.type
    )


def saturated(values: Numbers, dtype: np.dtype[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """Floats as Java casts them to int or long: cut off, at most its limits, NaN as 0."""
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        over, under = values >= float(limits.max), values <= float(limits.min)
        inside = np.where(over | under | np.isnan(values), 0, values).astype(dtype)
    return np.where(over, limits.max, np.where(under, limits.min, inside)).astype(dtype)


def of_boolean(call: Call, values: pa.Array) -> pa.Array:
    """1 or 0."""
    ones = values.cast(pa.int8())
    if pt.is_decimal(call.type):
        return to_decimal(call, ones)
    return ones.cast(call.type)


def to_boolean(call: Call, values: pa.Array) -> pa.Array:
    """False for zero alone."""
    return pa.array(numbers(values) != 0, mask=_null_mask(values))


def decimal_to_boolean(call: Call, values: pa.Array) -> pa.Array:
    """False for zero alone."""
    return pc.not_equal(values, pa.scalar(Decimal(0), values.type))


def to_decimal(call: Call, values: pa.Array) -> pa.Array:
    """Integers and decimals, rounded half up."""
    if not pt.is_decimal(values.type):
        values = values.cast(pa.int64()).cast(pa.decimal128(19, 0))
    return bounded(values, call.type, fails(call))


def decimal_to_integer(call: Call, values: pa.Array) -> pa.Array:
    """Cut off; where casts wrap, the lowest bits.

    Where they do not, Spark makes a double of a long decimal first, which may be the next integer.
    """
    if values.type.precision > LONG and call.type != pa.int64() and not is_lenient(call):
        return float_to_integer(call, decimal_to_float(Call("Cast", (), pa.float64()), values))
    low, high = _words(rounded(values, 0, "towards_zero").cast(pa.decimal128(38, 0)))
    result = low.astype(dtype_of(call.type))
    return fixed_array(result, _bounded(call, (result != low) | (high != low >> 63), all_valid(values)), call.type)


def _words(values: pa.Array) -> tuple[Int64s, Int64s]:
    """The lower and the higher half of decimals' integers."""
    data = values.buffers()[1]
    words = np.frombuffer(data, "<i8", 2 * len(values), values.offset * 16) if len(values) else np.zeros(0, "<i8")
    return words[::2], words[1::2]


def decimal_to_float(call: Call, values: pa.Array) -> pa.Array:
    """The nearest float: that of the text, since Arrow's own cast rounds more than once."""
    return values.cast(pa.string()).cast(call.type)


def _null_mask(values: pa.Array) -> Bools | None:
    present = all_valid(values)
    return None if present is None else ~present


# Casts of texts: as strict and as lenient as Spark's.
#
# Spark leaves out whitespace and control characters of ASCII on both sides.

_AROUND = "".join(map(chr, [*range(0x21), 0x7F]))
_JAVA_AROUND = "".join(map(chr, range(0x21)))
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_DECIMAL = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?$"
_HEXADECIMAL = r"^[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?$"
_NAMES = {"^[+]?inf(?:inity)?$": np.inf, "^-inf(?:inity)?$": -np.inf, "^nan$": np.nan}
_JAVA_NAMES = r"^[+-]?NaN$"
_INVALID = "CAST_INVALID_INPUT"
_DATE = r"^(?P<sign>[+-]?)(?P<year>\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[ T](?s:.*))?)?)?$"


def _refused(call: Call, bad: Bools, present: Bools | None) -> Bools | None:
    return checked(bad, present, fails(call), _INVALID, f"A text cannot be cast to {call.type}, since it is malformed.")


def integer(call: Call, values: pa.Array) -> pa.Array:
    """Digits with a sign, and where casts are lenient a fraction, which is cut off."""
    text = pc.utf8_trim(values, _AROUND)
    pattern = r"^[+-]?\d+$" if fails(call) or tries(call) else r"^[+-]?(?:\d+(?:\.\d*)?|\.\d*)$"
    matches = flags(pc.match_substring_regex(text, pattern))
    digits = pc.replace_substring_regex(text, r"^[+-]?0*(\d*)(?:\.\d*)?$", r"\1")
    fitting = matches & flags(pc.less_equal(pc.binary_length(digits), 19))
    parsed = pc.if_else(pa.array(fitting), pc.if_else(pc.equal(digits, ""), "0", digits), "0").cast(pa.uint64())
    size = np.asarray(parsed.to_numpy(zero_copy_only=False), dtype=np.uint64)
    negative = flags(pc.starts_with(text, "-"))
    most = np.where(
        negative, np.uint64(np.iinfo(dtype_of(call.type)).max) + np.uint64(1), np.iinfo(dtype_of(call.type)).max
    )
    bad = ~fitting | (size > most.astype(np.uint64))
    signed = size.view(np.int64)
    with np.errstate(all="ignore"):
        result = np.where(negative, -signed, signed).astype(dtype_of(call.type))
    return fixed_array(result, _refused(call, bad, all_valid(values)), call.type)


def boolean(call: Call, values: pa.Array) -> pa.Array:
    """Some words and digits, in letters of any case."""
    text = pc.ascii_lower(pc.utf8_trim(values, _AROUND))
    true, false = (flags(pc.is_in(text, pa.array(words))) for words in (_TRUE, _FALSE))
    present = _refused(call, ~(true | false), all_valid(values))
    return pa.array(true, mask=None if present is None else ~present)


def double(call: Call, values: pa.Array) -> pa.Array:
    """Java's literals, and names of infinity and of what is no number."""
    text = pc.utf8_trim(values, _JAVA_AROUND)
    matches = flags(pc.match_substring_regex(text, _DECIMAL))
    figures = pc.replace_substring_regex(text, "[fFdD]$", "")
    doubles = np.array(numbers(pc.if_else(pa.array(matches), figures, "0").cast(pa.float64())))
    if matches.all():
        return fixed_array(doubles, all_valid(values), call.type)
    lower = pc.ascii_lower(text)
    for pattern, value in _NAMES.items():
        hits = flags(pc.match_substring_regex(lower, pattern))
        doubles[hits] = value
        matches |= hits
    signed = flags(pc.match_substring_regex(text, _JAVA_NAMES))
    doubles[signed] = np.nan
    matches |= signed
    in_hexadecimal = np.flatnonzero(flags(pc.match_substring_regex(text, _HEXADECIMAL)))
    # hardly anybody writes numbers so, and no kernel reads them
    doubles[in_hexadecimal] = [_hexadecimal(literal) for literal in text.take(pa.array(in_hexadecimal)).to_pylist()]
    matches[in_hexadecimal] = True
    return fixed_array(doubles, _refused(call, ~matches, all_valid(values)), call.type)


def _hexadecimal(text: str) -> float:
    figures = re.sub("(?<=[0-9])[fFdD]$", "", text)
    try:
        return float.fromhex(figures)
    except OverflowError:
        return -np.inf if text.startswith("-") else np.inf


def date_parsing(call: Call, values: pa.Array) -> pa.Array:
    """A year, perhaps a month, perhaps a day, behind which after a T or a blank anything may stand."""
    parts = pc.extract_regex(pc.utf8_trim(values, _AROUND), _DATE)
    present = valid(parts)
    year, month, day = (_number(parts.field(at), default) for at, default in ((1, 0), (2, 1), (3, 1)))
    year = np.where(flags(pc.equal(parts.field(0), "-")), -year, year)
    first = (year - 1970).astype("<M8[Y]").astype("<M8[M]") + (month - 1).astype("<m8[M]")
    start = first.astype("<M8[D]").astype(np.int64)
    length = (first + np.timedelta64(1, "M")).astype("<M8[D]").astype(np.int64) - start
    days = start + day - 1
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
    exists &= (days >= np.iinfo(np.int32).min) & (days <= np.iinfo(np.int32).max)
    return fixed_array(days.astype(np.int32), _refused(call, ~(present & exists), all_valid(values)), call.type)


def _number(digits: pa.Array, default: int) -> Int64s:
    parsed = pc.if_else(pc.equal(pc.fill_null(digits, ""), ""), str(default), digits).cast(pa.int64())
    return np.asarray(parsed.to_numpy(zero_copy_only=False), dtype=np.int64)


# Casts to text: what Spark prints.

Octets = npt.NDArray[np.uint8]


def plain(call: Call, values: pa.Array) -> pa.Array:
    """What Arrow prints, too; of texts, the bytes."""
    return values.cast(call.type)


def decimal(call: Call, values: pa.Array) -> pa.Array:
    """With all digits of the scale; where a cast is lenient, small numbers with an exponent, as Java writes them."""
    scale = values.type.scale
    if not (call.ansi or tries(call)) or not scale:
        return values.cast(pa.string())
    buffers = values.buffers()
    unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), buffers, offset=values.offset)
    text = pc.utf8_lpad(pc.utf8_ltrim(unscaled.cast(pa.string()), "-"), scale + 1, "0")
    sign = pc.if_else(pc.less(unscaled, pa.scalar(Decimal(0), unscaled.type)), "-", "")
    integral = pc.binary_slice(text.cast(pa.binary()), 0, -scale).cast(pa.string())
    fraction = pc.binary_slice(text.cast(pa.binary()), -scale).cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, integral, ""), fraction, ".")


def date_printing(call: Call, values: pa.Array) -> pa.Array:
    year, month, day = calendar(numbers(values).astype(np.int64))
    suffix = np.concatenate([digits(month, 2, "-"), digits(day, 2, "-")], axis=1)
    return where_null(pc.binary_join_element_wise(year_text(year), joined_octets(suffix), ""), all_valid(values))


def timestamp(call: Call, values: pa.Array) -> pa.Array:
    """Date and time in UTC; of the fraction of a second what is not zero."""
    micros = numbers(values)
    days = micros // MICROS_A_DAY
    year, month, day = calendar(days)
    left = micros - days * MICROS_A_DAY
    seconds = left // 1_000_000
    parts = [(month, 2, "-"), (day, 2, "-"), (seconds // 3600, 2, " "), (seconds // 60 % 60, 2, ":")]
    parts += [(seconds % 60, 2, ":"), (left % 1_000_000, 6, ".")]
    suffix = joined_octets(np.concatenate([digits(*part) for part in parts], axis=1))
    fraction_cut = pc.utf8_rtrim(pc.utf8_rtrim(suffix, "0"), ".")
    return where_null(pc.binary_join_element_wise(year_text(year), fraction_cut, ""), all_valid(values))


def calendar(days: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Year, month and day of the month of days since 1970."""
    dates = days.astype("<M8[D]")
    months = dates.astype("<M8[M]")
    number = months.astype(np.int64)
    day = (dates - months.astype("<M8[D]")).astype(np.int64) + 1
    return number // 12 + 1970, number % 12 + 1, day


def year_text(year: Int64s) -> pa.Array:
    """Four digits; more of them, and those of years before 0, behind a sign."""
    figures = pc.utf8_lpad(pa.array(np.abs(year)).cast(pa.string()), 4, "0")
    sign = pc.if_else(pa.array(year < 0), "-", pc.if_else(pa.array(year > 9999), "+", ""))
    return pc.binary_join_element_wise(sign, figures, "")


def digits(values: Int64s, width: int, prefix: str = "") -> Octets:
    """So many digits of each, perhaps behind a character, as the bytes of each row."""
    octets = np.empty((len(values), len(prefix) + width), np.uint8)
    octets[:, : len(prefix)] = ord(prefix) if prefix else 0
    for at in range(len(prefix) + width - 1, len(prefix) - 1, -1):
        octets[:, at] = values % 10 + ord("0")
        values = values // 10
    return octets


def joined_octets(octets: Octets) -> pa.Array:
    """The text of each row of bytes."""
    rows, width = octets.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(octets)], 0)


# Casts among dates, timestamps and numbers, in UTC.

_SECOND = 1_000_000
_MOST_DAYS = np.iinfo(np.int64).max // MICROS_A_DAY
"""Days before and behind 1970 that a timestamp reaches."""


def same(call: Call, values: pa.Array) -> pa.Array:
    """Timestamps with a zone from those without, and the other way round."""
    return values.view(call.type)


def to_date(call: Call, values: pa.Array) -> pa.Array:
    return fixed_array((numbers(values) // MICROS_A_DAY).astype(np.int32), all_valid(values), call.type)


def of_date(call: Call, values: pa.Array) -> pa.Array:
    """The day's begin."""
    days = numbers(values).astype(np.int64)
    bad = (days > _MOST_DAYS) | (days < -_MOST_DAYS)
    present = checked(bad, all_valid(values), not tries(call), *LONG_OVERFLOW)
    with np.errstate(all="ignore"):
        return fixed_array(days * MICROS_A_DAY, present, TIMESTAMPS[1] if call.type == TIMESTAMPS[1] else TIMESTAMPS[0])


def to_seconds(call: Call, values: pa.Array) -> pa.Array:
    """Whole seconds since 1970, the ones before."""
    seconds = numbers(values) // _SECOND
    result = seconds.astype(dtype_of(call.type))
    present = checked(result != seconds, all_valid(values), fails(call), *CAST_OVERFLOW)
    return fixed_array(result, present, call.type)


def to_float(call: Call, values: pa.Array) -> pa.Array:
    return fixed_array((numbers(values) / float(_SECOND)).astype(dtype_of(call.type)), all_valid(values), call.type)


def of_seconds(call: Call, values: pa.Array) -> pa.Array:
    """Seconds since 1970, at most what a timestamp holds."""
    seconds = numbers(values).astype(np.int64)
    most = np.iinfo(np.int64).max // _SECOND
    inside = np.clip(seconds, -most - 1, most)
    with np.errstate(all="ignore"):
        micros = inside * _SECOND
    micros = np.where(seconds > most, np.iinfo(np.int64).max, np.where(seconds < -most, np.iinfo(np.int64).min, micros))
    return fixed_array(micros, all_valid(values), call.type)


DOUBLE = 16
"""Digits of decimals that a double tells from the next integer."""
Convert = Callable[[Call, pa.Array], pa.Array]


def fits(call: Call) -> bool:
    """See `kernel`."""
    (argument,) = call.arguments
    return _has_cast(type_of(argument), call.type, call) and not (
        _by_double(argument, call.type) and not is_lenient(call)
    )


def _by_double(argument: Expression, to: pa.DataType) -> bool:
    """Whether Spark may or may not make a double of a decimal on its way to an integer: by where it comes from.

    A decimal that is read of a row is a long where it fits; one that an expression makes of others may not be. The two
    are cut off otherwise where a double has fewer digits.
    """
    of = type_of(argument)
    between = pt.is_decimal(of) and DOUBLE < of.precision <= LONG
    return bool(between and to in INTEGERS and to != pa.int64() and not isinstance(argument, Operand))


def _has_cast(of: pa.DataType, to: pa.DataType, call: Call) -> bool:
    if of == to or pt.is_null(of):
        return True
    if pt.is_struct(of) and pt.is_struct(to):
        same = of.num_fields == to.num_fields
        return same and all(_has_cast(source.type, target.type, call) for source, target in zip(of, to, strict=True))
    if pt.is_list(of) and pt.is_list(to):
        return _has_cast(of.value_type, to.value_type, call)
    pair = (_kind(of), _kind(to))
    in_time = {"timestamp", "local"} & set(pair)
    return pair in _PAIRS and (not in_time or is_utc(call))


def _kind(of: pa.DataType) -> str:
    if of in INTEGERS:
        return "integer"
    if of in FLOATS:
        return "double" if of == pa.float64() else "float"
    if of in TIMESTAMPS:
        return "timestamp" if of.tz else "local"
    kinds = {pa.bool_(): "boolean", pa.string(): "text", pa.binary(): "bytes", pa.date32(): "date"}
    return kinds.get(of, "decimal" if pt.is_decimal(of) else "other")


def _cast(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return _converted(call, arguments[0], call.type)


def _converted(call: Call, values: pa.Array, to: pa.DataType) -> pa.Array:
    of = values.type
    if of == to:
        return values
    if pt.is_null(of):
        return pa.nulls(len(values), to)
    if pt.is_struct(of):
        parts = [_converted(call, part, field.type) for part, field in zip(values.flatten(), to, strict=True)]
        mask = pa.array(~valid(values)) if values.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(to), mask=mask)
    if pt.is_list(of):
        inner = _converted(call, values.flatten(), to.value_type)
        lists = pa.ListArray.from_arrays(_flat_offsets(values), inner, type=to)
        return where_null(lists, valid(values)) if values.null_count else lists
    single = Call(call.function, call.arguments, to, call.ansi, call.options)
    return _PAIRS[_kind(of), _kind(to)](single, values)


def _flat_offsets(values: pa.Array) -> pa.Array:
    """Offsets of lists into their flattened values, in which those of null lists are missing."""
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


_FLOATING = ("float", "double")
_PAIRS: Mapping[tuple[str, str], Convert] = {
    ("integer", "integer"): integer_to_integer,
    **{("integer", each): as_numpy_does for each in _FLOATING},
    **{(each, "integer"): float_to_integer for each in _FLOATING},
    **{(each, other): as_numpy_does for each in _FLOATING for other in _FLOATING},
    **{("boolean", each): of_boolean for each in ("integer", "decimal", *_FLOATING)},
    **{(each, "boolean"): to_boolean for each in ("integer", *_FLOATING)},
    ("decimal", "boolean"): decimal_to_boolean,
    ("integer", "decimal"): to_decimal,
    ("decimal", "decimal"): to_decimal,
    ("decimal", "integer"): decimal_to_integer,
    **{("decimal", each): decimal_to_float for each in _FLOATING},
    **{(each, "text"): plain for each in ("integer", "boolean")},
    ("decimal", "text"): decimal,
    ("date", "text"): date_printing,
    ("timestamp", "text"): timestamp,
    ("local", "text"): timestamp,
    ("text", "integer"): integer,
    ("text", "boolean"): boolean,
    ("text", "date"): date_parsing,
    ("text", "double"): double,
    ("text", "bytes"): plain,
    **{(one, other): same for one in ("timestamp", "local") for other in ("timestamp", "local")},
    **{(each, "date"): to_date for each in ("timestamp", "local")},
    **{("date", each): of_date for each in ("timestamp", "local")},
    ("timestamp", "integer"): to_seconds,
    **{("timestamp", each): to_float for each in _FLOATING},
    ("integer", "timestamp"): of_seconds,
}
KERNELS: Mapping[str, Kernel] = {"Cast": _cast}
LAZY: Mapping[str, LazyKernel] = {}
