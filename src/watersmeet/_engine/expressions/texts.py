"""Texts: their length, parts of them, and what is put around or between them. A character is a code point."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.expressions.tree import (
    FIXED,
    INTEGERS,
    Call,
    Expression,
    Kernel,
    LazyKernel,
    Literal,
    all_valid,
    by_row,
    by_whole_row,
    fixed_array,
    flags,
    is_plain,
    numbers,
    type_of,
    where_null,
)
from watersmeet._engine.keys import bits, fixed_bytes, spans
from watersmeet._engine.rows import Bools, Int64s, valid

_LONGEST_PAD = 1000
_TRIMS = {"StringTrim": pc.utf8_trim, "StringTrimLeft": pc.utf8_ltrim, "StringTrimRight": pc.utf8_rtrim}


def constant(expression: Expression) -> object:
    """The value of a constant; None for null, and where there is none."""
    return expression.value.as_py() if isinstance(expression, Literal) else None


def fits_texts(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
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
        return by_row(call, arguments, lambda *lists: [element for part in lists for element in part])
    return pc.binary_join_element_wise(*arguments, pa.scalar("", call.type))


def _concat_ws(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The texts that are there, with another between them."""
    between, *parts = arguments
    if not parts:
        return where_null(pa.repeat("", len(between)), all_valid(between))
    # Arrow loses rows in which there is nothing to join
    nothing = pc.equal(reduce(pc.add, [part.is_valid().cast(pa.int32()) for part in parts]), 0)
    parts[0] = pc.if_else(nothing, "", parts[0])
    result = pc.binary_join_element_wise(*parts, between.fill_null(""), null_handling="skip")
    return where_null(result, all_valid(between))


def _trim(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Without blanks, or certain characters, at the ends."""
    characters = constant(call.arguments[1]) if len(arguments) > 1 else " "
    return _TRIMS[call.function](arguments[0], characters) if characters else arguments[0]


def _pad(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """As many characters as asked: cut off, or with copies of another text before or behind."""
    size, pad = (constant(argument) for argument in call.arguments[1:])
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
    values, position, size = arguments
    from_, many = (constant(argument) for argument in call.arguments[1:])
    if isinstance(from_, int) and isinstance(many, int) and from_ >= 0 and many > 0:
        start = max(from_ - 1, 0)
        return pc.utf8_slice_codeunits(values, start, min(start + many, np.iinfo(np.int32).max))
    validity = all_valid(*arguments)
    at, count = numbers(position).astype(np.int64), numbers(size).astype(np.int64)
    length = numbers(pc.utf8_length(values)).astype(np.int64)
    first = np.where(at > 0, at - 1, np.where(at < 0, length + at, 0))
    end = np.clip(first + count, np.iinfo(np.int32).min, np.iinfo(np.int32).max)
    return where_null(characters(values, first, end), validity)


def _left_right(call: Call, arguments: list[pa.Array]) -> pa.Array:
    values, size = arguments
    length = numbers(pc.utf8_length(values)).astype(np.int64)
    count = np.maximum(numbers(size).astype(np.int64), 0)
    zero = np.zeros(len(values), np.int64)
    if call.function == "Left":
        result = characters(values, zero, count)
        return where_null(result, all_valid(*arguments))
    result = characters(values, length - count, np.where(count > 0, length, 0))
    # a null number of characters on the right is not greater than zero, and not less either
    return where_null(result, all_valid(values) if size.null_count == 0 else all_valid(values, size))


def characters(values: pa.Array, first: Int64s, end: Int64s) -> pa.Array:
    """The characters from `first` on, before `end`, of each text; nothing for null."""
    starts, lengths, data = spans(values)
    lengths = np.where(valid(values), lengths, 0)
    # a byte that does not go on with a character begins one
    begins = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    first_of = begins.searchsorted(starts)
    count = begins.searchsorted(starts + lengths) - first_of
    low = np.clip(first, 0, count)
    high = np.maximum(np.clip(end, 0, count), low)
    start, stop = begins[first_of + low], begins[first_of + high]
    return sliced(data, start, np.where(lengths > 0, stop - start, 0))


def sliced(data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s) -> pa.Array:
    """The text at each place of some bytes."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    content = data[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
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
    return fixed_array(np.where(lengths > 0, point, 0), all_valid(values), call.type)


TEXTS_KERNELS: Mapping[str, Kernel] = {
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


# Spark's hashes of rows: murmur3 (`hash`) and xxHash64 (`xxhash64`), each value's with the hash before as its seed.

UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]
_SEED = 42
_P1, _P2, _P3, _P4, _P5 = map(
    np.uint64,
    (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)
_C1, _C2, _M1, _M2 = map(np.uint32, (0xCC9E2D51, 0x1B873593, 0x85EBCA6B, 0xC2B2AE35))
_COMPACT = 18
"""Digits of decimals that Spark hashes as a long."""


def fits_hashes(call: Call) -> bool:
    return bool(call.arguments) and all(_hashed(type_of(argument)) for argument in call.arguments)


def _hashed(kind: pa.DataType) -> bool:
    compact = pt.is_decimal(kind) and kind.precision <= _COMPACT
    return bool(kind in FIXED or compact or pt.is_boolean(kind) or pt.is_string(kind) or pt.is_binary(kind))


def _turned(values: UInt64s, by: int) -> UInt64s:
    return values << np.uint64(by) | values >> np.uint64(64 - by)


def _turned32(values: UInt32s, by: int) -> UInt32s:
    return values << np.uint32(by) | values >> np.uint32(32 - by)


def _xx_end(hashes: UInt64s) -> UInt64s:
    hashes = (hashes ^ hashes >> np.uint64(33)) * _P2
    hashes = (hashes ^ hashes >> np.uint64(29)) * _P3
    return hashes ^ hashes >> np.uint64(32)


def _xx_four(hashes: UInt64s, word: UInt64s) -> UInt64s:
    return _turned(hashes ^ word * _P1, 23) * _P2 + _P3


def _xx_eight(hashes: UInt64s, word: UInt64s) -> UInt64s:
    return _turned(hashes ^ _turned(word * _P2, 31) * _P1, 27) * _P1 + _P4


def _xx_int(values: Int64s, seed: UInt64s) -> UInt64s:
    word = values.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    return _xx_end(_xx_four(seed + _P5 + np.uint64(4), word))


def _xx_long(values: Int64s, seed: UInt64s) -> UInt64s:
    return _xx_end(_xx_eight(seed + _P5 + np.uint64(8), values.view(np.uint64)))


def _xx_bytes(values: pa.Array, seed: UInt64s) -> UInt64s:
    starts, lengths, data = spans(values)
    octets = np.append(data, np.zeros(8, np.uint8))
    hashes = seed + _P5
    long = np.flatnonzero(lengths >= 32)
    hashes[long] = _xx_stripes(octets, starts[long], lengths[long], seed[long])
    hashes += lengths.astype(np.uint64)
    at = np.where(lengths >= 32, lengths // 32 * 32, 0)
    while (rows := np.flatnonzero(at + 8 <= lengths)).size:
        hashes[rows] = _xx_eight(hashes[rows], _word(octets, starts[rows] + at[rows], 8))
        at[rows] += 8
    rows = np.flatnonzero(at + 4 <= lengths)
    hashes[rows] = _xx_four(hashes[rows], _word(octets, starts[rows] + at[rows], 4))
    at[rows] += 4
    while (rows := np.flatnonzero(at < lengths)).size:
        octet = octets[starts[rows] + at[rows]].astype(np.uint64)
        hashes[rows] = _turned(hashes[rows] ^ octet * _P5, 11) * _P1
        at[rows] += 1
    return _xx_end(hashes)


def _xx_stripes(octets: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s, seed: UInt64s) -> UInt64s:
    """The hash of pieces of 32 bytes."""
    lanes = [seed + _P1 + _P2, seed + _P2, seed + np.uint64(0), seed - _P1]
    for at in range(0, int(lengths.max(initial=0)) - 31, 32):
        rows = np.flatnonzero(lengths >= at + 32)
        for number, lane in enumerate(lanes):
            word = _word(octets, starts[rows] + at + 8 * number, 8)
            lane[rows] = _turned(lane[rows] + word * _P2, 31) * _P1
    hashes = _turned(lanes[0], 1) + _turned(lanes[1], 7) + _turned(lanes[2], 12) + _turned(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ _turned(lane * _P2, 31) * _P1) * _P1 + _P4
    return hashes


def _word(octets: npt.NDArray[np.uint8], at: Int64s, width: int) -> UInt64s:
    """So many bytes each, little-endian."""
    words = np.zeros(len(at), np.uint64)
    for place in range(width):
        words |= octets[at + place].astype(np.uint64) << np.uint64(8 * place)
    return words


def _mixed(hashes: UInt32s, word: UInt32s) -> UInt32s:
    return _turned32(hashes ^ _turned32(word * _C1, 15) * _C2, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _murmur_end(hashes: UInt32s, length: int | UInt32s) -> UInt32s:
    hashes = hashes ^ np.uint32(length) if isinstance(length, int) else hashes ^ length
    hashes = (hashes ^ hashes >> np.uint32(16)) * _M1
    hashes = (hashes ^ hashes >> np.uint32(13)) * _M2
    return hashes ^ hashes >> np.uint32(16)


def _murmur_int(values: Int64s, seed: UInt32s) -> UInt32s:
    return _murmur_end(_mixed(seed, values.astype(np.uint32)), 4)


def _murmur_long(values: Int64s, seed: UInt32s) -> UInt32s:
    words = values.view(np.uint64)
    low, high = words.astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32)
    return _murmur_end(_mixed(_mixed(seed, low), high), 8)


def _murmur_bytes(values: pa.Array, seed: UInt32s) -> UInt32s:
    starts, lengths, data = spans(values)
    octets = np.append(data, np.zeros(8, np.uint8))
    hashes, at = seed.copy(), np.zeros(len(lengths), np.int64)
    while (rows := np.flatnonzero(at + 4 <= lengths)).size:
        hashes[rows] = _mixed(hashes[rows], _word(octets, starts[rows] + at[rows], 4).astype(np.uint32))
        at[rows] += 4
    while (rows := np.flatnonzero(at < lengths)).size:
        # bytes of Java's have a sign
        octet = octets[starts[rows] + at[rows]].view(np.int8).astype(np.int32).view(np.uint32)
        hashes[rows] = _mixed(hashes[rows], octet)
        at[rows] += 1
    return _murmur_end(hashes, lengths.astype(np.uint32))


_Way = Callable[[Any, Any], Any]
_WAYS: Mapping[str, tuple[_Way, _Way, _Way]] = {
    "XxHash64": (_xx_int, _xx_long, _xx_bytes),
    "Murmur3Hash": (_murmur_int, _murmur_long, _murmur_bytes),
}
"""How ints, longs and bytes are hashed: (values, seed of each) to hashes."""


def _hash(call: Call, arguments: list[pa.Array]) -> pa.Array:
    of_int, of_long, of_bytes = _WAYS[call.function]
    hashes = np.full(len(arguments[0]), _SEED, np.uint64 if call.function == "XxHash64" else np.uint32)
    with np.errstate(all="ignore"):
        for values in arguments:
            kind = values.type
            if pt.is_string(kind) or pt.is_binary(kind):
                hashed = of_bytes(values, hashes)
            else:
                integers, long = _hash_input(values)
                hashed = (of_long if long else of_int)(integers, hashes)
            # null leaves the hash as it is
            hashes = np.where(valid(values), hashed, hashes).astype(hashes.dtype)
    return fixed_array(hashes.view(hashes.dtype.str.replace("u", "i")), None, call.type)


def _hash_input(values: pa.Array) -> tuple[Int64s, bool]:
    """The numbers that are hashed, and whether as longs."""
    kind = values.type
    if pt.is_decimal(kind):
        return np.ascontiguousarray(fixed_bytes(values, 16).view("<i8")[:, 0]), True
    integers = bits(values)
    if pt.is_floating(kind):
        negative_zero = np.iinfo(integers.dtype).min
        integers = np.where(integers == negative_zero, 0, integers)
    return integers.astype(np.int64), kind.bit_width == 64


HASHES_KERNELS: Mapping[str, Kernel] = {"XxHash64": _hash, "Murmur3Hash": _hash}


# Bytes as texts of digits or letters, and digests of them; and texts that are put together by a pattern.

_BITS = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
_LINE = 76
_TOKENS = re.compile(r"%[sd%]|[^%]+")


def fits_digests(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(argument) for argument in call.arguments]
    if call.function == "FormatString":
        return _formats(call, kinds[1:])
    if call.function in ("StringTranslate", "SubstringIndex"):
        constants = all(constant(argument) is not None for argument in call.arguments[1:])
        return kinds[0] == pa.string() and constants
    if call.function == "SplitPart":
        between, part = (constant(argument) for argument in call.arguments[1:])
        return kinds[0] == pa.string() and isinstance(between, str) and part not in (None, 0)
    if call.function == "Hex":
        return bool(pt.is_string(kinds[0]) or pt.is_binary(kinds[0]) or kinds[0] == pa.int64())
    if call.function == "Sha2" and constant(call.arguments[1]) not in _BITS:
        return False
    return bool(pt.is_binary(kinds[0]))


def _formats(call: Call, kinds: list[pa.DataType]) -> bool:
    """Whether a pattern has `%s` for texts and integers, and `%d` for integers, as many as there are."""
    pattern = constant(call.arguments[0])
    if not isinstance(pattern, str) or _TOKENS.sub("", pattern):
        return False
    placeholders = [placeholder for placeholder in _TOKENS.findall(pattern) if placeholder in ("%s", "%d")]
    accepted = {"%s": (*INTEGERS, pa.string()), "%d": INTEGERS}
    return len(placeholders) == len(kinds) and all(
        kind in accepted[placeholder] for placeholder, kind in zip(placeholders, kinds, strict=True)
    )


def _formatted(call: Call, arguments: list[pa.Array]) -> pa.Array:
    pattern = re.sub("%d", "%s", str(constant(call.arguments[0])))
    return (
        by_whole_row(
            call, arguments[1:], lambda *row: pattern % tuple("null" if value is None else value for value in row)
        )
        if len(arguments) > 1
        else pa.repeat(pattern % (), len(arguments[0]))
    )


def _digest(call: Call, arguments: list[pa.Array]) -> pa.Array:
    names = {"Md5": "md5", "Sha1": "sha1"}
    name = names.get(call.function) or _BITS[int(str(constant(call.arguments[1])))]
    return by_row(call, arguments[:1], lambda octets: hashlib.new(name, octets, usedforsecurity=False).hexdigest())


def _hex(value: Any) -> str:
    if isinstance(value, int):
        return f"{value & 0xFFFF_FFFF_FFFF_FFFF:X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _base64(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """In lines, if the session asks for it."""
    lines = call.option("chunkBase64") == "true"

    def encoded(octets: bytes) -> str:
        text = base64.b64encode(octets).decode()
        if not lines:
            return text
        return "\r\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))

    return by_row(call, arguments, encoded)


def _translated(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Each character of one text becomes the one at its place in another, or is left out."""
    those, by = (str(constant(argument)) for argument in call.arguments[1:])
    table: dict[int, str | None] = {}
    for place, character in enumerate(those):
        table.setdefault(ord(character), by[place] if place < len(by) else None)
    return by_row(call, arguments[:1], lambda text: text.translate(table))


def _substring_index(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The part of a text before the given place, or, counted from the end, behind it."""
    between, count = str(constant(call.arguments[1])), int(str(constant(call.arguments[2])))

    def part(text: str) -> str:
        if not between or not count:
            return ""
        at = -1 if count > 0 else len(text) - len(between) + 1
        for _ in range(abs(count)):
            at = text.find(between, at + 1) if count > 0 else text.rfind(between, 0, max(at - 1 + len(between), 0))
            if at < 0:
                return text
        return text[:at] if count > 0 else text[at + len(between) :]

    return by_row(call, arguments[:1], part)


def _part(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """One part of each text, between two of its separators; an empty separator parts nothing."""
    between, number = str(constant(call.arguments[1])), int(str(constant(call.arguments[2])))

    def part(text: str) -> str:
        parts = text.split(between) if between else [text]
        at = number - 1 if number > 0 else len(parts) + number
        return parts[at] if 0 <= at < len(parts) else ""

    return by_row(call, arguments[:1], part)


_BY_ROW: Mapping[str, Callable[[Any], Any]] = {"Hex": _hex, "Crc32": zlib.crc32}


def _row_kernel(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_row(call, arguments, _BY_ROW[call.function])


DIGESTS_KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_BY_ROW, _row_kernel),
    **dict.fromkeys(("Md5", "Sha1", "Sha2"), _digest),
    "Base64": _base64,
    "FormatString": _formatted,
    "StringTranslate": _translated,
    "SubstringIndex": _substring_index,
    "SplitPart": _part,
}


# Upper and lower case of all scripts: by the tables of the Spark that would do it, since those of Unicode grow.
#
# The tables are options of the call. Texts of ASCII need none.

CASES, CASED, IGNORED = "cases", "cased", "ignored"
"""Options of a call: characters and what becomes of them, as pairs in lines; and of `Lower` characters that have a
case, and others that do not come between such ones and the end of a word.
"""
_ALL = 0x110000
_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_MOST = 3
"""Characters that one becomes, at most."""
Points = npt.NDArray[np.uint32]


def fits_letter_case(call: Call) -> bool:
    """See `kernel`."""
    (text,) = call.arguments
    # of two such calls Spark leaves the inner one out
    twice = isinstance(text, Call) and text.function in LETTER_CASE_KERNELS
    return call.option(CASES) is not None and type_of(text) == pa.string() and not twice


@lru_cache(maxsize=4)
def _table(cases: str) -> tuple[Points, Int64s]:
    """The result of each character, and its length in characters."""
    to = np.zeros((_ALL, _MOST), np.uint32)
    to[:, 0] = np.arange(_ALL)
    many = np.ones(_ALL, np.int64)
    lines = cases.split("\n")
    for line in lines if cases else ():
        source, *targets = map(ord, line)
        to[source, : len(targets)] = targets
        many[source] = len(targets)
    return to, many


@lru_cache(maxsize=4)
def _set(characters: str) -> Bools:
    mask = np.zeros(_ALL, np.bool_)
    mask[[ord(character) for character in characters]] = True
    return mask


def _changed(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = arguments
    upper = call.function == "Upper"
    plain = pc.ascii_upper(values) if upper else pc.ascii_lower(values)
    non_ascii = ~flags(pc.fill_null(pc.string_is_ascii(values), True))
    if not non_ascii.any():
        return plain
    mask = pa.array(non_ascii)
    return pc.replace_with_mask(plain, mask, _by_table(call, values.filter(mask)))


def _by_table(call: Call, values: pa.Array) -> pa.Array:
    starts, lengths, data = spans(values)
    points = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
    begins = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    rows = np.repeat(np.arange(len(values)), begins.searchsorted(starts + lengths) - begins.searchsorted(starts))
    to, many = _table(str(call.option(CASES)))
    count = many[points]
    first = np.repeat(np.cumsum(count) - count, count)
    converted = to[np.repeat(points, count), np.arange(count.sum()) - first]
    if call.function == "Lower":
        ends = _ends_word(points, rows, call)
        converted[np.repeat(ends, count)] = _FINAL_SIGMA
    octets = np.frombuffer(converted.tobytes().decode("utf-32-le").encode("utf-8"), np.uint8)
    width = 1 + (converted >= 0x80).astype(np.int64) + (converted >= 0x800) + (converted >= 0x10000)
    sizes = np.bincount(np.repeat(rows, count), weights=width, minlength=len(values)).astype(np.int64)
    return sliced(octets, np.cumsum(sizes) - sizes, sizes)


def _ends_word(points: Points, rows: Int64s, call: Call) -> Bools:
    """Where a sigma stands behind a letter with a case, and before none."""
    cased, ignored = _set(str(call.option(CASED) or "")), _set(str(call.option(IGNORED) or ""))
    sigmas = np.flatnonzero(points == _SIGMA)
    ends = np.zeros(len(points), np.bool_)
    relevant = np.flatnonzero(~ignored[points])
    at = relevant.searchsorted(sigmas)
    # a sigma is a letter itself, so the one before it stands one place before, the one behind it one place behind
    previous, following = at - 1, at + 1
    for places, expected in ((previous, True), (following, False)):
        in_range = (places >= 0) & (places < len(relevant))
        place = relevant[np.clip(places, 0, max(len(relevant) - 1, 0))]
        lettered = in_range & (rows[place] == rows[sigmas]) & cased[points[place]]
        ends[sigmas] = lettered if expected else ends[sigmas] & ~lettered
    return ends


LETTER_CASE_KERNELS: Mapping[str, Kernel] = dict.fromkeys(("Upper", "Lower"), _changed)
