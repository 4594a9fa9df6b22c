"""Numbers that are bytes, the highest first: as Kafka's serializers write them.

Called where rows come into Python and where they leave it; Spark has no expression for the way in but by way of
hexadecimal text.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools
from watersmeet._engine.keys import keyform as form

_DECIMAL_BYTES = 16
_SIGN = np.uint8(0x80)


def numbers(raw: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """The numbers that byte strings of the type's own width are (two's complement, or IEEE); null for null.

    Raises
    ------
    ValueError : one has another width.
    """
    flat, width = form.flat(raw), kind.bit_width // 8
    missing = form.nulls(flat)
    # a null may have bytes, too
    _, lengths, content = form.spans(flat if missing is None else flat.drop_null())
    if (lengths != width).any():
        raise ValueError(f"{kind} takes {width} bytes")
    code = f"{'f' if pa.types.is_floating(kind) else 'i'}{width}"
    found = content.view(f">{code}").astype(f"<{code}")
    if missing is None:
        return pa.array(found, kind)
    spread = np.zeros(len(flat), dtype=found.dtype)
    spread[~missing] = found
    return pa.array(spread, kind, mask=missing)


def as_bytes(values: pa.Array) -> pa.Array:
    """Numbers and texts as Kafka's serializers write them, byte strings as they are; null for null.

    Of doubles that are no number (NaN) there is one, floats keep their bits: DoubleSerializer takes
    `doubleToLongBits`, FloatSerializer `floatToRawIntBits`.
    """
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return values if pa.types.is_binary(values.type) else values.cast(pa.binary())
    width = values.type.bit_width // 8
    whole = values.fill_null(0)
    raw = form.fixed_bytes(whole, width).view(f"<i{width}") if pa.types.is_float32(values.type) else form.bits(whole)
    content = raw.reshape(-1).astype(f">i{width}")
    found = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(content)])
    return found if not values.null_count else pc.if_else(values.is_valid(), found, pa.scalar(None, pa.binary(width)))


def decimals(raw: pa.Array, kind: pa.Decimal128Type) -> tuple[pa.Array, Bools]:
    """Decimals of their digits as whole numbers in two's complement, of 1 to 16 bytes each; and which are none.

    Those are empty, longer, or have more digits than the type; their value is null.
    """
    starts, lengths, content = form.spans(raw)
    missing = form.nulls(raw)
    absent = np.zeros(len(raw), np.bool_) if missing is None else missing
    bad: Bools = ~absent & ((lengths == 0) | (lengths > _DECIMAL_BYTES))
    there = ~absent & ~bad
    rows, begins, sizes = np.zeros((len(raw), _DECIMAL_BYTES), np.uint8), starts[there], lengths[there]
    if len(begins):
        sign = np.where(content[begins] & _SIGN, np.uint8(0xFF), np.uint8(0))
        ends = begins + sizes - 1
        columns = [np.where(at < sizes, content[np.maximum(ends - at, begins)], sign) for at in range(_DECIMAL_BYTES)]
        rows[there] = np.stack(columns, axis=1)
    bad |= _beyond(rows, 10**kind.precision)
    valid = pa.py_buffer(np.packbits(~(absent | bad), bitorder="little"))
    return pa.Array.from_buffers(kind, len(raw), [valid, pa.py_buffer(rows.reshape(-1))]), bad


def _beyond(rows: np.ndarray, limit: int) -> Bools:
    """Of integers of 16 bytes, the lowest first, which are as large as the limit, or as small as its negative."""
    words = rows.view("<u8").reshape(len(rows), 2)
    low, high = words[:, 0], words[:, 1]
    negative = high >> np.uint64(63) == 1
    low, carried = np.where(negative, ~low + np.uint64(1), low), low == 0
    high = np.where(negative, ~high + carried, high)
    top, rest = np.uint64(limit >> 64), np.uint64(limit & (2**64 - 1))
    found: Bools = (high > top) | ((high == top) & (low >= rest))
    return found


def decimal_bytes(values: pa.Array) -> pa.Array:
    """The digits of decimals as whole numbers in two's complement, in as few bytes as each takes; null for null."""
    rows = form.fixed_bytes(values, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(rows[:, 0] & _SIGN, np.uint8(0xFF), np.uint8(0))
    spare, lengths = np.ones(len(rows), np.bool_), np.full(len(rows), _DECIMAL_BYTES, dtype=np.int64)
    for at in range(_DECIMAL_BYTES - 1):
        # a byte says nothing where it and the highest bit behind it are the sign
        spare &= (rows[:, at] == sign) & ((rows[:, at + 1] & _SIGN) == (sign & _SIGN))
        lengths -= spare
    missing = form.nulls(values)
    lengths = lengths if missing is None else np.where(missing, 0, lengths)
    content = rows[np.arange(_DECIMAL_BYTES) >= (_DECIMAL_BYTES - lengths)[:, None]]
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(values), [valid, pa.py_buffer(offsets), pa.py_buffer(content)])
