"""Texts: their length, parts of them, and what is put around or between them. A character is a code point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.plain_values import is_plain
from watersmeet._engine.expressions.rowwise import by_row
from watersmeet._engine.expressions.tree import Call, Expression, Literal, type_of
from watersmeet._engine.expressions.vectors import all_valid, made, numbers, where_null
from watersmeet._engine.keys.keyform import spans
from watersmeet._engine.rows.columns import valid

_LONGEST_PAD = 1000
_TRIMS = {"StringTrim": pc.utf8_trim, "StringTrimLeft": pc.utf8_ltrim, "StringTrimRight": pc.utf8_rtrim}


def constant(expression: Expression) -> object:
    """The value of a constant; None for null, and where there is none."""
    return expression.value.as_py() if isinstance(expression, Literal) else None


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    first = kinds[0] if kinds else pa.null()
    if call.function in ("Length", "OctetLength", "BitLength"):
        return bool(pt.is_string(first) or pt.is_binary(first))
    if call.function in ("StringLPad", "StringRPad"):
        _, size, pad = call.arguments
        length = constant(size)
        return first == pa.string() and isinstance(length, int) and length <= _LONGEST_PAD and constant(pad) is not None
    if call.function in _TRIMS:
        return first == pa.string() and (len(kinds) == 1 or constant(call.arguments[1]) is not None)
    if call.function in ("Substring", "Left", "Right", "StringRepeat"):
        return first == pa.string() and all(kind == pa.int32() for kind in kinds[1:])
    if call.function == "Concat" and pt.is_binary(call.type):
        return all(map(pt.is_binary, kinds))
    if call.function in ("Concat", "Reverse") and pt.is_list(first):
        return is_plain(first) and all(kind == call.type for kind in kinds)
    return bool(kinds) and all(kind == pa.string() for kind in kinds)


def _length(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = arguments
    if call.function == "Length" and pt.is_string(values.type):
        return pc.utf8_length(values)
    length = pc.binary_length(values)
    return pc.multiply(length, pa.scalar(8, pa.int32())) if call.function == "BitLength" else length


def _concat(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Texts, or bytes, behind one another; null where one of them is."""
    if len(arguments) == 1:
        return arguments[0]
    if pt.is_list(call.type):
        return by_row(call, arguments, lambda *lists: [each for some in lists for each in some])
    return pc.binary_join_element_wise(*arguments, pa.scalar("", call.type))


def _concat_ws(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The texts that are there, with another between them."""
    between, *parts = arguments
    if not parts:
        return where_null(pa.repeat("", len(between)), all_valid(between))
    # Arrow loses rows in which there is nothing to join
    nothing = pc.equal(reduce(pc.add, [each.is_valid().cast(pa.int32()) for each in parts]), 0)
    parts[0] = pc.if_else(nothing, "", parts[0])
    found = pc.binary_join_element_wise(*parts, between.fill_null(""), null_handling="skip")
    return where_null(found, all_valid(between))


def _trim(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Without blanks, or certain characters, at the ends."""
    characters = constant(call.arguments[1]) if len(arguments) > 1 else " "
    return _TRIMS[call.function](arguments[0], characters) if characters else arguments[0]


def _pad(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """As many characters as asked: cut off, or with copies of another text before or behind."""
    size, pad = (constant(each) for each in call.arguments[1:])
    length = max(int(str(size)), 0)
    cut = pc.utf8_slice_codeunits(arguments[0], 0, length) if length else _empty(arguments[0])
    if not pad or not length:
        return cut
    around = (str(pad) * length)[:length]
    pads = pa.array([around[:lacking] for lacking in range(length + 1)])
    lacking = pc.subtract(pa.scalar(length, pa.int32()), pc.utf8_length(cut))
    filling = pads.take(lacking)
    parts = (filling, cut) if call.function == "StringLPad" else (cut, filling)
    return pc.binary_join_element_wise(*parts, "")


def _empty(values: pa.Array) -> pa.Array:
    return where_null(pa.repeat("", len(values)), all_valid(values))


def _substring(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """So many characters from the one of a number on: from 1 forwards, or from -1, the last one, backwards."""
    values, begin, size = arguments
    from_, many = (constant(each) for each in call.arguments[1:])
    if isinstance(from_, int) and isinstance(many, int) and from_ >= 0 and many > 0:
        start = max(from_ - 1, 0)
        return pc.utf8_slice_codeunits(values, start, min(start + many, np.iinfo(np.int32).max))
    there = all_valid(*arguments)
    at, count = numbers(begin).astype(np.int64), numbers(size).astype(np.int64)
    length = numbers(pc.utf8_length(values)).astype(np.int64)
    first = np.where(at > 0, at - 1, np.where(at < 0, length + at, 0))
    end = np.clip(first + count, np.iinfo(np.int32).min, np.iinfo(np.int32).max)
    return where_null(characters(values, first, end), there)


def _left_right(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values, size = arguments
    length = numbers(pc.utf8_length(values)).astype(np.int64)
    count = np.maximum(numbers(size).astype(np.int64), 0)
    zero = np.zeros(len(values), np.int64)
    if call.function == "Left":
        found = characters(values, zero, count)
        return where_null(found, all_valid(*arguments))
    found = characters(values, length - count, np.where(count > 0, length, 0))
    # a null number of characters on the right is not greater than zero, and not less either
    return where_null(found, all_valid(values) if size.null_count == 0 else all_valid(values, size))


def characters(values: pa.Array, first: Int64s, end: Int64s) -> pa.Array:
    """The characters from `first` on, before `end`, of each text; nothing for null."""
    starts, lengths, data = spans(values)
    lengths = np.where(valid(values), lengths, 0)
    # a byte that does not go on with a character begins one
    begins = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    first_of = begins.searchsorted(starts)
    count = begins.searchsorted(starts + lengths) - first_of
    one = np.clip(first, 0, count)
    other = np.maximum(np.clip(end, 0, count), one)
    begin, stop = begins[first_of + one], begins[first_of + other]
    return sliced(data, begin, np.where(lengths > 0, stop - begin, 0))


def sliced(data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s) -> pa.Array:
    """The text at each place of some bytes."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    taken = data[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(taken)]
    return pa.Array.from_buffers(pa.string(), len(starts), buffers, 0)


def _repeat(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values, times = arguments
    return pc.binary_repeat(values, pc.max_element_wise(times, pa.scalar(0, pa.int32()), skip_nulls=False))


def _reverse(call: Call, arguments: list[pa.Array]) -> pa.Array:
    if pt.is_list(call.type):
        return by_row(call, arguments, lambda values: values[::-1])
    return pc.utf8_reverse(arguments[0])


def _ascii(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The code point of the first character, 0 where there is none."""
    (values,) = arguments
    starts, lengths, data = spans(values)
    octets = np.append(data, np.zeros(4, np.uint8)).astype(np.int32)
    first = octets[starts]
    wide = (octets[starts + at] & 0x3F for at in (1, 2, 3))
    second, third, fourth = wide
    two = (first & 0x1F) << 6 | second
    three = (first & 0x0F) << 12 | second << 6 | third
    four = (first & 0x07) << 18 | second << 12 | third << 6 | fourth
    point = np.where(first < 0x80, first, np.where(first < 0xE0, two, np.where(first < 0xF0, three, four)))
    return made(np.where(lengths > 0, point, 0), all_valid(values), call.type)


KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(("Length", "OctetLength", "BitLength"), _length),
    **dict.fromkeys(_TRIMS, _trim),
    **dict.fromkeys(("StringLPad", "StringRPad"), _pad),
    **dict.fromkeys(("Left", "Right"), _left_right),
    "Concat": _concat,
    "ConcatWs": _concat_ws,
    "Substring": _substring,
    "StringRepeat": _repeat,
    "Reverse": _reverse,
    "Ascii": _ascii,
}
LAZY: Mapping[str, LazyKernel] = {}
