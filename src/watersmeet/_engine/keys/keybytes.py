"""Keys as bytes that name them exactly: the canonical form behind exact grouping and byte order.

Law 1 asks for Kafka's behaviour, and Kafka knows keys as serialized bytes. Where Kafka has a serializer,
the bytes here are its bytes, so their order is the order of Kafka's stores: text is UTF-8, integers are
big-endian two's complement (so -1 comes after 1), floats big-endian IEEE with one NaN, booleans one byte.
Dates and times are the integer they are stored as, decimals 16 or 32 bytes big-endian. In a struct or list
every element is a null flag (0 null, 1 value), its length as 4 bytes big-endian, and its bytes: so no two
keys of one type share an encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys import keyform as form


@cache
def _empty() -> pa.Scalar:
    """The separator of joined bytes. pyarrow imports pandas for its first scalar, so it is not made with the module."""
    return pa.scalar(b"", pa.large_binary())


def encode_keys(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Encode every key as bytes, a `large_binary` array; null stays null."""
    return _encode(form.flat(keys))


def windowed_bytes(keys: pa.Array, numbers: Sequence[pa.Array]) -> pa.Array:
    """Kafka's bytes of windowed keys: the key, and behind it each number as 8 bytes big-endian.

    >>> windowed_bytes(pa.array(["a"]), [pa.array([258])]).to_pylist()
    [b'a\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x02']
    """
    return pc.binary_join_element_wise(encode_keys(keys), *map(encode_keys, numbers), _empty())


def _encode(keys: pa.Array) -> pa.Array:
    kind = keys.type
    if pt.is_null(kind):
        return pa.nulls(len(keys), pa.large_binary())
    if form.is_bytes(kind):
        return keys.cast(pa.large_binary())
    if form.is_word(kind):
        raw = form.bits(keys)
        rows = raw.astype(raw.dtype.newbyteorder(">")).view(np.uint8).reshape(len(keys), raw.dtype.itemsize)
        return _fixed(rows, form.nulls(keys))
    if form.is_wide(kind):
        return _fixed(form.fixed_bytes(keys, kind.bit_width // 8)[:, ::-1], form.nulls(keys))
    if pt.is_struct(kind):
        return _encode_structs(keys)
    if form.is_list(kind):
        return _encode_lists(keys)
    raise form.unsupported(kind)


def _fixed(rows: npt.NDArray[np.uint8], is_null: Bools | None) -> pa.Array:
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
    return _binary(offsets, np.ascontiguousarray(rows).reshape(-1), is_null)


def _binary(offsets: Int64s, content: npt.ArrayLike | pa.Buffer, is_null: Bools | None) -> pa.Array:
    valid = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _framed(values: pa.Array) -> pa.Array:
    """Each value as flag, length, bytes; never null."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    heads = np.empty((len(values), 5), dtype=np.uint8)
    heads[:, 0] = valid
    heads[:, 1:] = lengths.astype(">u4").view(np.uint8).reshape(len(values), 4)
    return pc.binary_join_element_wise(
        _fixed(heads, None), values, _empty(), null_handling="replace", null_replacement=b""
    )


def _encode_structs(keys: pa.Array) -> pa.Array:
    fields = [_framed(_encode(field)) for field in form.struct_fields(keys)]
    is_null = form.nulls(keys)
    if not fields:
        return _binary(np.zeros(len(keys) + 1, dtype=np.int64), b"", is_null)
    joined = fields[0] if len(fields) == 1 else pc.binary_join_element_wise(*fields, _empty())
    return joined if is_null is None else pc.if_else(pa.array(~is_null), joined, pa.scalar(None, joined.type))


def _encode_lists(keys: pa.Array) -> pa.Array:
    offsets = form.list_offsets(keys)
    low, high = (offsets[0], offsets[-1]) if len(keys) else (0, 0)
    elements = _framed(_encode(form.flat(keys.values.slice(low, high - low))))
    starts, lengths, content = form.spans(elements)
    # The frames of one list lie side by side, so its bytes are a stretch of theirs: only offsets are new.
    edges = np.append(starts, starts[-1] + lengths[-1] if len(starts) else 0)
    ends = edges[offsets - low] if len(keys) else edges[:1]
    return _binary(ends, np.ascontiguousarray(content), form.nulls(keys))
