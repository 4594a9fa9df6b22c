"""Arrow key arrays brought to a form that numpy can work on: flat, without extension types, as bits or bytes.

Everything the key kernels know about Arrow's memory layout is here; `keys` and `keybytes` only see
integers, offsets and byte buffers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet.errors import WatersmeetError

# Java's doubleToLongBits and floatToIntBits know one NaN: Kafka's serializers write this one.
_NAN_BITS = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}
_OFFSET_LIMIT = 2**31 - 1


def flat(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One plain array: chunks joined, dictionaries and extension types replaced by what they stand for."""
    if isinstance(keys, pa.ChunkedArray):
        keys = _joined(keys)
    if isinstance(keys, pa.ExtensionArray):
        keys = keys.storage
    kind = keys.type
    if pt.is_dictionary(kind):
        return flat(keys.dictionary_decode())
    if pt.is_fixed_size_list(kind) or pt.is_list_view(kind):
        return keys.cast(pa.list_(kind.value_type))
    if pt.is_large_list_view(kind):
        return keys.cast(pa.large_list(kind.value_type))
    if pt.is_string_view(kind):
        return keys.cast(pa.large_string())
    return keys.cast(pa.large_binary()) if pt.is_binary_view(kind) else keys


def _joined(keys: pa.ChunkedArray) -> pa.Array:
    if keys.num_chunks == 1:
        return keys.chunk(0)
    # 32 bit offsets cannot address the joined bytes of many chunks.
    if keys.nbytes > _OFFSET_LIMIT:
        if pt.is_string(keys.type):
            keys = keys.cast(pa.large_string())
        elif pt.is_binary(keys.type):
            keys = keys.cast(pa.large_binary())
    return pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], keys.type)


def nulls(keys: pa.Array) -> Bools | None:
    """Where the array is null; None when it is nowhere, which is the common case."""
    if keys.null_count == 0:
        return None
    return np.asarray(keys.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are byte strings of any length (text is its UTF-8)."""
    return bool(
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_fixed_size_binary(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists with offsets."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind))


def is_word(kind: pa.DataType) -> bool:
    """Whether a value is at most eight bytes of fixed width."""
    return bool(
        pt.is_boolean(kind)
        or pt.is_integer(kind)
        or pt.is_floating(kind)
        or (pt.is_temporal(kind) and not pt.is_interval(kind))
        or (pt.is_decimal(kind) and kind.bit_width <= 64)
    )


def is_wide(kind: pa.DataType) -> bool:
    """Whether a value is a decimal of 16 or 32 bytes."""
    return bool(pt.is_decimal(kind) and kind.bit_width > 64)


def bits(keys: pa.Array) -> npt.NDArray[np.signedinteger]:
    """The value bits as integers of the value's own width, NaN made one; null slots hold anything."""
    kind = keys.type
    if pt.is_boolean(kind):
        keys, kind = keys.cast(pa.uint8()), pa.uint8()
    width = kind.bit_width // 8
    raw = fixed_bytes(keys, width).view(f"<i{width}").reshape(-1)
    if not pt.is_floating(kind):
        return raw
    is_nan = np.isnan(raw.view(f"<f{width}"))
    return np.where(is_nan, raw.dtype.type(_NAN_BITS[width]), raw) if is_nan.any() else raw


def fixed_bytes(keys: pa.Array, width: int) -> npt.NDArray[np.uint8]:
    """The bytes of a fixed-width array as (rows, width), without a copy."""
    data = keys.buffers()[1]
    if data is None or len(keys) == 0:
        return np.zeros((len(keys), width), dtype=np.uint8)
    raw = np.frombuffer(data, dtype=np.uint8, count=len(keys) * width, offset=keys.offset * width)
    return raw.reshape(len(keys), width)


def spans(keys: pa.Array) -> tuple[Int64s, Int64s, npt.NDArray[np.uint8]]:
    """Start and length of every value of a byte array, and the bytes they point into."""
    if pt.is_fixed_size_binary(keys.type):
        width = keys.type.byte_width
        starts = np.arange(len(keys), dtype=np.int64) * width
        return starts, np.full(len(keys), width, dtype=np.int64), fixed_bytes(keys, width).reshape(-1)
    data = keys.buffers()[2]
    if len(keys) == 0 or data is None:
        empty = np.zeros(len(keys), dtype=np.int64)
        return empty, empty, np.zeros(0, dtype=np.uint8)
    offsets = byte_offsets(keys).astype(np.int64)
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return offsets[:-1] - offsets[0], np.diff(offsets), content[offsets[0] : offsets[-1]]


def byte_offsets(keys: pa.Array) -> npt.NDArray[np.signedinteger]:
    """Offsets of each value of a byte array of any length into its bytes, without a copy."""
    buffer = keys.buffers()[1]
    if buffer is None:
        return np.zeros(len(keys) + 1, dtype=np.int64)
    wide = pt.is_large_string(keys.type) or pt.is_large_binary(keys.type)
    dtype = np.dtype("<i8" if wide else "<i4")
    return np.frombuffer(buffer, dtype, len(keys) + 1, keys.offset * dtype.itemsize)


def list_offsets(keys: pa.Array) -> Int64s:
    """Offsets of each list into `keys.values`, a slice's own offset included."""
    return np.asarray(keys.offsets.to_numpy(zero_copy_only=False), dtype=np.int64)


def struct_fields(keys: pa.Array) -> list[pa.Array]:
    """The children of a struct array, cut to its slice."""
    return [flat(keys.field(i)) for i in range(keys.type.num_fields)]


def without_maps(values: pa.Array) -> pa.Array:
    """The same values with lists of pairs in place of maps, at any depth, and extension types as their storage."""
    kind = values.type
    if not _has_maps(kind):
        return values
    values = flat(values)
    if pt.is_map(kind):
        low, high = (values.offsets[0].as_py(), values.offsets[-1].as_py()) if len(values) else (0, 0)
        parts = [without_maps(each.slice(low, high - low)) for each in (values.keys, values.items)]
        pairs = pa.StructArray.from_arrays(parts, names=["key", "value"])
        return pa.ListArray.from_arrays(pc.subtract(values.offsets, low), pairs, mask=values.is_null())
    if pt.is_struct(kind):
        fields = [without_maps(values.field(n)) for n in range(kind.num_fields)]
        names = [kind.field(n).name for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, names=names, mask=values.is_null())
    made = pa.LargeListArray if pt.is_large_list(kind) else pa.ListArray
    offsets = list_offsets(values)
    low = int(offsets[0]) if len(values) else 0
    content = without_maps(values.values.slice(low, int(offsets[-1]) - low if len(values) else 0))
    return made.from_arrays(pc.subtract(values.offsets, low), content, mask=values.is_null())


def _has_maps(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_maps(kind.storage_type)
    return pt.is_map(kind) or any(_has_maps(kind.field(n).type) for n in range(kind.num_fields))


def unsupported(kind: pa.DataType) -> WatersmeetError:
    """The error for a type that has no key form."""
    return WatersmeetError(
        f"a value of type {kind} cannot be a key",
        given=str(kind),
        hint="use numbers, text, bytes, dates, decimals, or structs and lists of them",
    )
