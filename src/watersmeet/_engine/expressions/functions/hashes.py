"""Spark's hashes of rows: murmur3 (`hash`) and xxHash64 (`xxhash64`), each value's with the hash before as its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.tree import Call, type_of
from watersmeet._engine.expressions.vectors import FIXED, made
from watersmeet._engine.keys.keyform import bits, fixed_bytes, spans
from watersmeet._engine.rows.columns import valid

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


def fits(call: Call) -> bool:
    """See `kernel`."""
    return bool(call.arguments) and all(_hashed(type_of(each)) for each in call.arguments)


def _hashed(kind: pa.DataType) -> bool:
    compact = pt.is_decimal(kind) and kind.precision <= _COMPACT
    return bool(kind in FIXED or compact or pt.is_boolean(kind) or pt.is_string(kind) or pt.is_binary(kind))


def _turned(values: UInt64s, by: int) -> UInt64s:
    return values << np.uint64(by) | values >> np.uint64(64 - by)


def _turned32(values: UInt32s, by: int) -> UInt32s:
    return values << np.uint32(by) | values >> np.uint32(32 - by)


def _xx_end(found: UInt64s) -> UInt64s:
    found = (found ^ found >> np.uint64(33)) * _P2
    found = (found ^ found >> np.uint64(29)) * _P3
    return found ^ found >> np.uint64(32)


def _xx_four(found: UInt64s, word: UInt64s) -> UInt64s:
    return _turned(found ^ word * _P1, 23) * _P2 + _P3


def _xx_eight(found: UInt64s, word: UInt64s) -> UInt64s:
    return _turned(found ^ _turned(word * _P2, 31) * _P1, 27) * _P1 + _P4


def _xx_int(values: Int64s, seed: UInt64s) -> UInt64s:
    word = values.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    return _xx_end(_xx_four(seed + _P5 + np.uint64(4), word))


def _xx_long(values: Int64s, seed: UInt64s) -> UInt64s:
    return _xx_end(_xx_eight(seed + _P5 + np.uint64(8), values.view(np.uint64)))


def _xx_bytes(values: pa.Array, seed: UInt64s) -> UInt64s:
    starts, lengths, data = spans(values)
    octets = np.append(data, np.zeros(8, np.uint8))
    found = seed + _P5
    long = np.flatnonzero(lengths >= 32)
    found[long] = _xx_stripes(octets, starts[long], lengths[long], seed[long])
    found += lengths.astype(np.uint64)
    at = np.where(lengths >= 32, lengths // 32 * 32, 0)
    while (rows := np.flatnonzero(at + 8 <= lengths)).size:
        found[rows] = _xx_eight(found[rows], _word(octets, starts[rows] + at[rows], 8))
        at[rows] += 8
    rows = np.flatnonzero(at + 4 <= lengths)
    found[rows] = _xx_four(found[rows], _word(octets, starts[rows] + at[rows], 4))
    at[rows] += 4
    while (rows := np.flatnonzero(at < lengths)).size:
        octet = octets[starts[rows] + at[rows]].astype(np.uint64)
        found[rows] = _turned(found[rows] ^ octet * _P5, 11) * _P1
        at[rows] += 1
    return _xx_end(found)


def _xx_stripes(octets: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s, seed: UInt64s) -> UInt64s:
    """The hash of pieces of 32 bytes."""
    lanes = [seed + _P1 + _P2, seed + _P2, seed + np.uint64(0), seed - _P1]
    for at in range(0, int(lengths.max(initial=0)) - 31, 32):
        rows = np.flatnonzero(lengths >= at + 32)
        for number, lane in enumerate(lanes):
            word = _word(octets, starts[rows] + at + 8 * number, 8)
            lane[rows] = _turned(lane[rows] + word * _P2, 31) * _P1
    found = _turned(lanes[0], 1) + _turned(lanes[1], 7) + _turned(lanes[2], 12) + _turned(lanes[3], 18)
    for lane in lanes:
        found = (found ^ _turned(lane * _P2, 31) * _P1) * _P1 + _P4
    return found


def _word(octets: npt.NDArray[np.uint8], at: Int64s, width: int) -> UInt64s:
    """So many bytes each, little-endian."""
    found = np.zeros(len(at), np.uint64)
    for place in range(width):
        found |= octets[at + place].astype(np.uint64) << np.uint64(8 * place)
    return found


def _mixed(found: UInt32s, word: UInt32s) -> UInt32s:
    return _turned32(found ^ _turned32(word * _C1, 15) * _C2, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _murmur_end(found: UInt32s, length: int | UInt32s) -> UInt32s:
    found = found ^ np.uint32(length) if isinstance(length, int) else found ^ length
    found = (found ^ found >> np.uint32(16)) * _M1
    found = (found ^ found >> np.uint32(13)) * _M2
    return found ^ found >> np.uint32(16)


def _murmur_int(values: Int64s, seed: UInt32s) -> UInt32s:
    return _murmur_end(_mixed(seed, values.astype(np.uint32)), 4)


def _murmur_long(values: Int64s, seed: UInt32s) -> UInt32s:
    whole = values.view(np.uint64)
    low, high = whole.astype(np.uint32), (whole >> np.uint64(32)).astype(np.uint32)
    return _murmur_end(_mixed(_mixed(seed, low), high), 8)


def _murmur_bytes(values: pa.Array, seed: UInt32s) -> UInt32s:
    starts, lengths, data = spans(values)
    octets = np.append(data, np.zeros(8, np.uint8))
    found, at = seed.copy(), np.zeros(len(lengths), np.int64)
    while (rows := np.flatnonzero(at + 4 <= lengths)).size:
        found[rows] = _mixed(found[rows], _word(octets, starts[rows] + at[rows], 4).astype(np.uint32))
        at[rows] += 4
    while (rows := np.flatnonzero(at < lengths)).size:
        # bytes of Java's have a sign
        octet = octets[starts[rows] + at[rows]].view(np.int8).astype(np.int32).view(np.uint32)
        found[rows] = _mixed(found[rows], octet)
        at[rows] += 1
    return _murmur_end(found, lengths.astype(np.uint32))


_Way = Callable[[Any, Any], Any]
_WAYS: Mapping[str, tuple[_Way, _Way, _Way]] = {
    "XxHash64": (_xx_int, _xx_long, _xx_bytes),
    "Murmur3Hash": (_murmur_int, _murmur_long, _murmur_bytes),
}
"""How ints, longs and bytes are hashed: (values, seed of each) to hashes."""


def _hash(call: Call, arguments: list[pa.Array]) -> pa.Array:
    of_int, of_long, of_bytes = _WAYS[call.function]
    found = np.full(len(arguments[0]), _SEED, np.uint64 if call.function == "XxHash64" else np.uint32)
    with np.errstate(all="ignore"):
        for values in arguments:
            kind = values.type
            if pt.is_string(kind) or pt.is_binary(kind):
                hashed = of_bytes(values, found)
            else:
                whole, long = _whole(values)
                hashed = (of_long if long else of_int)(whole, found)
            # null leaves the hash as it is
            found = np.where(valid(values), hashed, found).astype(found.dtype)
    return made(found.view(found.dtype.str.replace("u", "i")), None, call.type)


def _whole(values: pa.Array) -> tuple[Int64s, bool]:
    """The numbers that are hashed, and whether as longs."""
    kind = values.type
    if pt.is_decimal(kind):
        return np.ascontiguousarray(fixed_bytes(values, 16).view("<i8")[:, 0]), True
    whole = bits(values)
    if pt.is_floating(kind):
        negative_zero = np.iinfo(whole.dtype).min
        whole = np.where(whole == negative_zero, 0, whole)
    return whole.astype(np.int64), kind.bit_width == 64


KERNELS: Mapping[str, Kernel] = {"XxHash64": _hash, "Murmur3Hash": _hash}
LAZY: Mapping[str, LazyKernel] = {}
