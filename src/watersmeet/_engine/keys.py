"""Key kernels: hash, compare and group whole key columns, for every operator and for state (laws 1 and 5).

Equality is Kafka's: two keys are equal when their serialized bytes are, so every NaN is the same key and
0.0 is another key than -0.0; null equals null. Equal keys have equal hashes; unequal ones may share a hash,
and every use of a hash also compares the keys. No function loops over rows.

**The hash** is written into checkpoints (shards, sorted runs), so it can never change; all arithmetic is
modulo 2**64, words are little-endian, `G = 0x9E3779B97F4A7C15`, and `mix` is the finalizer of splitmix64:
`x ^= x >> 30; x *= 0xBF58476D1CE4E5B9; x ^= x >> 27; x *= 0x94D049BB133111EB; x ^= x >> 31`.

* up to 8 bytes of fixed width (booleans, integers, floats, dates, times): `mix(x + G)`, x sign-extended, a
  float as its IEEE bits with one NaN; so two integers never collide;
* byte strings (text as UTF-8, fixed-size too) and wide decimals (their little-endian bytes): the value is
  cut into words w1, w2, ... of 8 bytes, the last filled with zeros:
  `mix(sum over k of mix(w_k + k * G) + G * length + 1)`;
* list: the same sum over the hashes of its elements, length in elements, plus 2 instead of 1;
* struct: `h = 3`, then `h = mix(h * G + hash(field))` for each field in order;
* null, at any depth: `0x6E756C6C6E756C6C`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.rows import Bools, Int64s, UInt64s, stable_order
from watersmeet.errors import WatersmeetError

__all__ = [
    "NULL_HASH",
    "KeyGroups",
    "combine_hashes",
    "encode_keys",
    "equal_keys",
    "equal_values",
    "group_keys",
    "hash_keys",
]


# Arrow key arrays brought to a form that numpy can work on: flat, without extension types, as bits or bytes.
#
# Everything the key kernels know about Arrow's memory layout is here; those below only see integers, offsets and byte
# buffers.

# Java's doubleToLongBits and floatToIntBits know one NaN: Kafka's serializers write this one.
_NAN_BITS = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}
_OFFSET_LIMIT = 2**31 - 1


def flat_keys(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One plain array: chunks joined, dictionaries and extension types replaced by what they stand for."""
    if isinstance(keys, pa.ChunkedArray):
        keys = _joined(keys)
    if isinstance(keys, pa.ExtensionArray):
        keys = keys.storage
    kind = keys.type
    if pt.is_dictionary(kind):
        return flat_keys(keys.dictionary_decode())
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
    return [flat_keys(keys.field(i)) for i in range(keys.type.num_fields)]


def without_maps(values: pa.Array) -> pa.Array:
    """The same values with lists of pairs in place of maps, at any depth, and extension types as their storage."""
    kind = values.type
    if not _has_maps(kind):
        return values
    values = flat_keys(values)
    if pt.is_map(kind):
        low, high = (values.offsets[0].as_py(), values.offsets[-1].as_py()) if len(values) else (0, 0)
        parts = [without_maps(child.slice(low, high - low)) for child in (values.keys, values.items)]
        pairs = pa.StructArray.from_arrays(parts, names=["key", "value"])
        return pa.ListArray.from_arrays(pc.subtract(values.offsets, low), pairs, mask=values.is_null())
    if pt.is_struct(kind):
        fields = [without_maps(values.field(n)) for n in range(kind.num_fields)]
        names = [kind.field(n).name for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, names=names, mask=values.is_null())
    list_class = pa.LargeListArray if pt.is_large_list(kind) else pa.ListArray
    offsets = list_offsets(values)
    low = int(offsets[0]) if len(values) else 0
    content = without_maps(values.values.slice(low, int(offsets[-1]) - low if len(values) else 0))
    return list_class.from_arrays(pc.subtract(values.offsets, low), content, mask=values.is_null())


def _has_maps(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_maps(kind.storage_type)
    return pt.is_map(kind) or any(_has_maps(kind.field(n).type) for n in range(kind.num_fields))


def unsupported(kind: pa.DataType) -> WatersmeetError:
    """The error for a type that has no key form."""
    return WatersmeetError(
        f"a value of type {kind} cannot be a key",
        hint="use numbers, text, bytes, dates, decimals, or structs and lists of them",
    )


# Keys as bytes that name them exactly: the canonical form behind exact grouping and byte order.
#
# Law 1 asks for Kafka's behaviour, and Kafka knows keys as serialized bytes. Where Kafka has a serializer,
# the bytes here are its bytes, so their order is the order of Kafka's stores: text is UTF-8, integers are
# big-endian two's complement (so -1 comes after 1), floats big-endian IEEE with one NaN, booleans one byte.
# Dates and times are the integer they are stored as, decimals 16 or 32 bytes big-endian. In a struct or list
# every element is a null flag (0 null, 1 value), its length as 4 bytes big-endian, and its bytes: so no two
# keys of one type share an encoding.


@cache
def _empty() -> pa.Scalar:
    """The separator of joined bytes. pyarrow imports pandas for its first scalar, so it is not made with the module."""
    return pa.scalar(b"", pa.large_binary())


def encode_keys(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Encode every key as bytes, a `large_binary` array; null stays null."""
    return _encode(flat_keys(keys))


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
    if is_bytes(kind):
        return keys.cast(pa.large_binary())
    if is_word(kind):
        raw = bits(keys)
        rows = raw.astype(raw.dtype.newbyteorder(">")).view(np.uint8).reshape(len(keys), raw.dtype.itemsize)
        return _fixed(rows, nulls(keys))
    if is_wide(kind):
        return _fixed(fixed_bytes(keys, kind.bit_width // 8)[:, ::-1], nulls(keys))
    if pt.is_struct(kind):
        return _encode_structs(keys)
    if is_list(kind):
        return _encode_lists(keys)
    raise unsupported(kind)


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
    fields = [_framed(_encode(field)) for field in struct_fields(keys)]
    is_null = nulls(keys)
    if not fields:
        return _binary(np.zeros(len(keys) + 1, dtype=np.int64), b"", is_null)
    joined = fields[0] if len(fields) == 1 else pc.binary_join_element_wise(*fields, _empty())
    return joined if is_null is None else pc.if_else(pa.array(~is_null), joined, pa.scalar(None, joined.type))


def _encode_lists(keys: pa.Array) -> pa.Array:
    offsets = list_offsets(keys)
    low, high = (offsets[0], offsets[-1]) if len(keys) else (0, 0)
    elements = _framed(_encode(flat_keys(keys.values.slice(low, high - low))))
    starts, lengths, content = spans(elements)
    # The frames of one list lie side by side, so its bytes are a stretch of theirs: only offsets are new.
    edges = np.append(starts, starts[-1] + lengths[-1] if len(starts) else 0)
    ends = edges[offsets - low] if len(keys) else edges[:1]
    return _binary(ends, np.ascontiguousarray(content), nulls(keys))


NULL_HASH = 0x6E756C6C6E756C6C
_G = np.uint64(0x9E3779B97F4A7C15)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
# Mixing is a chain of passes over the same words: blocks of this many stay in the second-level cache.
_BLOCK = 1 << 15
_TAIL_MASK = np.array([2**64 - 1] + [2 ** (8 * k) - 1 for k in range(1, 8)], dtype=np.uint64)


def hash_keys(keys: pa.Array | pa.ChunkedArray) -> Int64s:
    """Hash every key to 64 bits, the same on every machine and for ever (see the module's docstring)."""
    return _hash(flat_keys(keys)).view(np.int64)


def combine_hashes(first: Int64s, second: Int64s) -> Int64s:
    """Hash pairs of hashes: the struct rule for two fields, for rows identified by more than their key."""
    return _fold([first.view(np.uint64), second.view(np.uint64)], len(first)).view(np.int64)


def equal_keys(a: pa.Array | pa.ChunkedArray, b: pa.Array | pa.ChunkedArray) -> Bools:
    """Compare two key columns of one type element by element; null equals null, NaN equals NaN."""
    a, b = flat_keys(a), flat_keys(b)
    if _family(a.type) != _family(b.type) or len(a) != len(b):
        raise WatersmeetError(
            "keys of two types or lengths cannot be compared",
            given=f"{len(a)} of {a.type} and {len(b)} of {b.type}",
            hint="cast one side, so that both tables are keyed by the same type",
        )
    return _equal(a, b)


def equal_values(a: pa.Array | pa.ChunkedArray, b: pa.Array | pa.ChunkedArray) -> Bools:
    """Compare two columns of values as `equal_keys` does keys; maps, which keys have none of, by their pairs in order.

    >>> equal_values(pa.array([{"n": 1}, None]), pa.array([{"n": 2}, None])).tolist()
    [False, True]
    """
    return equal_keys(without_maps(flat_keys(a)), without_maps(flat_keys(b)))


@dataclass(frozen=True)
class KeyGroups:
    """Rows grouped by key. Groups are in ascending order of hash, rows within a group in row order.

    order : row numbers, group after group.
    starts : where each group begins in `order`, and the number of rows as last entry: group g is
        `order[starts[g]:starts[g + 1]]`; `np.add.reduceat(x[order], starts[:-1])` folds per group.
    """

    order: Int64s
    starts: Int64s

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def first(self) -> Int64s:
        """The first row of each group: `keys.take(first)` are the distinct keys."""
        return self.order[self.starts[:-1]]

    @cached_property
    def last(self) -> Int64s:
        return self.order[self.starts[1:] - 1]

    @cached_property
    def sizes(self) -> Int64s:
        return np.diff(self.starts)

    @cached_property
    def group_of_row(self) -> Int64s:
        groups = np.empty(len(self.order), dtype=np.int64)
        groups[self.order] = np.repeat(np.arange(self.count, dtype=np.int64), self.sizes)
        return groups


def group_keys(hashes: npt.ArrayLike, keys: pa.Array | pa.ChunkedArray) -> KeyGroups:
    """Group rows by key exactly, also where different keys share a hash."""
    hashes, keys = np.asarray(hashes, dtype=np.int64), flat_keys(keys)
    order = stable_order(hashes)
    ordered = hashes[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    again = np.flatnonzero(~fresh)
    if len(again):
        previous, current = (keys.take(pa.array(rows)) for rows in (order[again - 1], order[again]))
        if not _equal(previous, current).all():
            order, fresh = _split_collisions(ordered, order, fresh, keys)
    return KeyGroups(order, np.append(np.flatnonzero(fresh), len(order)))


def _split_collisions(ordered: Int64s, order: Int64s, fresh: Bools, keys: pa.Array) -> tuple[Int64s, Bools]:
    """Tell apart the keys that share a hash: by codes of their bytes, only where a hash occurs twice."""
    shared = ~fresh
    shared[:-1] |= shared[1:]
    places = np.flatnonzero(shared)
    rows = order[places]
    encoded = encode_keys(keys.take(pa.array(rows)))
    codes = encoded.dictionary_encode(null_encoding="encode").indices.to_numpy()
    # lexsort is stable, so rows of one key stay in row order.
    permutation = np.lexsort((codes, ordered[places]))
    order = order.copy()
    order[places] = rows[permutation]
    codes = codes[permutation]
    new_code = np.ones(len(codes), dtype=np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=new_code[1:])
    fresh = fresh.copy()
    fresh[places] |= new_code
    return order, fresh


def _hash(keys: pa.Array) -> UInt64s:
    kind = keys.type
    if pt.is_null(kind):
        return np.full(len(keys), NULL_HASH, dtype=np.uint64)
    if is_word(kind):
        hashes = bits(keys).astype(np.int64).view(np.uint64)
        hashes = _mix(np.add(hashes, _G, out=hashes))
    elif is_bytes(kind):
        hashes = _hash_bytes(*spans(keys))
    elif is_wide(kind):
        width = kind.bit_width // 8
        starts = np.arange(len(keys), dtype=np.int64) * width
        hashes = _hash_bytes(starts, np.full(len(keys), width), fixed_bytes(keys, width).reshape(-1))
    elif pt.is_struct(kind):
        hashes = _fold([_hash(field) for field in struct_fields(keys)], len(keys))
    elif is_list(kind):
        hashes = _hash_lists(keys)
    else:
        raise unsupported(kind)
    is_null = nulls(keys)
    if is_null is not None:
        hashes[is_null] = NULL_HASH
    return hashes


def _mix(words: UInt64s) -> UInt64s:
    """The finalizer of splitmix64, in place."""
    scratch = np.empty(min(len(words), _BLOCK), dtype=np.uint64)
    for at in range(0, len(words), _BLOCK):
        block = words[at : at + _BLOCK]
        spare = scratch[: len(block)]
        np.bitwise_xor(block, np.right_shift(block, _S30, out=spare), out=block)
        np.multiply(block, _M1, out=block)
        np.bitwise_xor(block, np.right_shift(block, _S27, out=spare), out=block)
        np.multiply(block, _M2, out=block)
        np.bitwise_xor(block, np.right_shift(block, _S31, out=spare), out=block)
    return words


def _fold(parts: list[UInt64s], count: int) -> UInt64s:
    folded = np.full(count, 3, dtype=np.uint64)
    for part in parts:
        folded *= _G
        folded += part
        _mix(folded)
    return folded


def _hash_lists(keys: pa.Array) -> UInt64s:
    offsets = list_offsets(keys)
    lengths = np.diff(offsets)
    low, high = (offsets[0], offsets[-1]) if len(lengths) else (0, 0)
    elements = _hash(flat_keys(keys.values.slice(low, high - low)))
    starts = offsets[:-1] - low
    place = np.arange(len(elements), dtype=np.int64) - np.repeat(starts, lengths) + 1
    sums = _segment_sums(_mix(elements + place.view(np.uint64) * _G), starts, lengths)
    return _mix(sums + lengths.view(np.uint64) * _G + np.uint64(2))


def _hash_bytes(starts: Int64s, lengths: Int64s, content: npt.NDArray[np.uint8]) -> UInt64s:
    # A word may reach past the last byte: seven bytes more make that harmless, the mask makes it irrelevant.
    padded = np.zeros(len(content) + 8, dtype=np.uint8)
    padded[: len(content)] = content
    words_at = np.ndarray((len(content) + 1,), "<u8", buffer=padded, strides=(1,))
    words = (lengths + 7) >> 3
    total = np.cumsum(words)
    sums: UInt64s = np.zeros(len(starts), dtype=np.uint64)
    row = 0
    # One step per block of words, not per row: what is in work stays in the cache.
    while row < len(starts):
        done = total[row - 1] if row else 0
        end = max(row + 1, int(np.searchsorted(total, done + _BLOCK, side="right")))
        sums[row:end] = _sum_words(words_at, starts[row:end], lengths[row:end], words[row:end])
        row = end
    sums += lengths.view(np.uint64) * _G
    sums += np.uint64(1)
    return _mix(sums)


def _sum_words(words_at: UInt64s, starts: Int64s, lengths: Int64s, words: Int64s) -> UInt64s:
    ends = np.cumsum(words)
    begins = ends - words
    place = np.arange(ends[-1], dtype=np.int64)
    place -= np.repeat(begins, words)
    values = words_at[np.repeat(starts, words) + (place << 3)]
    filled = words > 0
    values[ends[filled] - 1] &= _TAIL_MASK[lengths[filled] & 7]
    place += 1
    values += place.view(np.uint64) * _G
    return _segment_sums(_mix(values), begins, words)


def _segment_sums(values: UInt64s, starts: Int64s, lengths: Int64s) -> UInt64s:
    running: UInt64s = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values, out=running[1:])
    sums: UInt64s = running[starts + lengths] - running[starts]
    return sums


def _family(kind: pa.DataType) -> object:
    """Types with comparable keys: text and bytes of either offset width are one family."""
    if is_bytes(kind):
        return "text" if pt.is_string(kind) or pt.is_large_string(kind) else "bytes"
    if pt.is_struct(kind):
        return ("struct", *(_family(kind.field(i).type) for i in range(kind.num_fields)))
    return ("list", _family(kind.value_type)) if is_list(kind) else kind


def _equal(a: pa.Array, b: pa.Array) -> Bools:
    kind = a.type
    equal: Bools
    if is_word(kind):
        equal = np.equal(bits(a), bits(b))
    elif is_bytes(kind):
        wide = pa.large_binary()
        same = pc.equal(a, b) if kind == b.type else pc.equal(a.cast(wide), b.cast(wide))
        equal = same.fill_null(False).to_numpy(zero_copy_only=False)
    elif pt.is_struct(kind):
        pairs = zip(struct_fields(a), struct_fields(b), strict=True)
        equal = np.logical_and.reduce([_equal(x, y) for x, y in pairs] or [np.ones(len(a), dtype=np.bool_)])
    elif pt.is_null(kind):
        return np.ones(len(a), dtype=np.bool_)
    else:
        equal = pc.equal(encode_keys(a), encode_keys(b)).fill_null(False).to_numpy(zero_copy_only=False)
    a_null, b_null = nulls(a), nulls(b)
    if a_null is None and b_null is None:
        return equal
    a_null = np.zeros(len(a), dtype=np.bool_) if a_null is None else a_null
    b_null = np.zeros(len(b), dtype=np.bool_) if b_null is None else b_null
    return np.where(a_null | b_null, a_null & b_null, equal)


# Numbers that are bytes, the highest first: as Kafka's serializers write them.
#
# Called where rows come into Python and where they leave it; Spark has no expression for the way in but by way of
# hexadecimal text.

_DECIMAL_BYTES = 16
_SIGN = np.uint8(0x80)


def numbers(raw: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """The numbers that byte strings of the type's own width are (two's complement, or IEEE); null for null."""
    flat, width = flat_keys(raw), kind.bit_width // 8
    missing = nulls(flat)
    # a null may have bytes, too
    _, lengths, content = spans(flat if missing is None else flat.drop_null())
    if (lengths != width).any():
        raise ValueError(f"{kind} takes {width} bytes")
    code = f"{'f' if pa.types.is_floating(kind) else 'i'}{width}"
    values = content.view(f">{code}").astype(f"<{code}")
    if missing is None:
        return pa.array(values, kind)
    spread = np.zeros(len(flat), dtype=values.dtype)
    spread[~missing] = values
    return pa.array(spread, kind, mask=missing)


def as_bytes(values: pa.Array) -> pa.Array:
    """Numbers and texts as Kafka's serializers write them, byte strings as they are; null for null.

    Of doubles that are no number (NaN) there is one, floats keep their bits: DoubleSerializer takes
    `doubleToLongBits`, FloatSerializer `floatToRawIntBits`.
    """
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return values if pa.types.is_binary(values.type) else values.cast(pa.binary())
    width = values.type.bit_width // 8
    filled = values.fill_null(0)
    raw = fixed_bytes(filled, width).view(f"<i{width}") if pa.types.is_float32(values.type) else bits(filled)
    content = raw.reshape(-1).astype(f">i{width}")
    encoded = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(content)])
    return (
        encoded if not values.null_count else pc.if_else(values.is_valid(), encoded, pa.scalar(None, pa.binary(width)))
    )


def decimals(raw: pa.Array, kind: pa.Decimal128Type) -> tuple[pa.Array, Bools]:
    """Decimals of their digits as whole numbers in two's complement, of 1 to 16 bytes each; and which are none.

    Those are empty, longer, or have more digits than the type; their value is null.
    """
    starts, lengths, content = spans(raw)
    missing = nulls(raw)
    absent = np.zeros(len(raw), np.bool_) if missing is None else missing
    bad: Bools = ~absent & ((lengths == 0) | (lengths > _DECIMAL_BYTES))
    usable = ~absent & ~bad
    rows, begins, sizes = np.zeros((len(raw), _DECIMAL_BYTES), np.uint8), starts[usable], lengths[usable]
    if len(begins):
        sign = np.where(content[begins] & _SIGN, np.uint8(0xFF), np.uint8(0))
        ends = begins + sizes - 1
        columns = [np.where(at < sizes, content[np.maximum(ends - at, begins)], sign) for at in range(_DECIMAL_BYTES)]
        rows[usable] = np.stack(columns, axis=1)
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
    top, bottom = np.uint64(limit >> 64), np.uint64(limit & (2**64 - 1))
    exceeds: Bools = (high > top) | ((high == top) & (low >= bottom))
    return exceeds


def decimal_bytes(values: pa.Array) -> pa.Array:
    """The digits of decimals as whole numbers in two's complement, in as few bytes as each takes; null for null."""
    rows = fixed_bytes(values, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(rows[:, 0] & _SIGN, np.uint8(0xFF), np.uint8(0))
    spare, lengths = np.ones(len(rows), np.bool_), np.full(len(rows), _DECIMAL_BYTES, dtype=np.int64)
    for at in range(_DECIMAL_BYTES - 1):
        # a byte says nothing where it and the highest bit behind it are the sign
        spare &= (rows[:, at] == sign) & ((rows[:, at + 1] & _SIGN) == (sign & _SIGN))
        lengths -= spare
    missing = nulls(values)
    lengths = lengths if missing is None else np.where(missing, 0, lengths)
    content = rows[np.arange(_DECIMAL_BYTES) >= (_DECIMAL_BYTES - lengths)[:, None]]
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(values), [valid, pa.py_buffer(offsets), pa.py_buffer(content)])


# murmur2 as Kafka's clients hash the bytes of keys: it decides the partition (docs/semantics/model.md).

UInt32s = npt.NDArray[np.uint32]
_SEED, _FACTOR = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)


def murmur2(contents: pa.Array | pa.ChunkedArray) -> Int64s:
    """The 32-bit hash of each byte string, from 0 on; that of a null means nothing."""
    starts, lengths, data = spans(flat_keys(contents))
    # a word may begin anywhere, and reach behind the last byte
    padded = np.append(data, np.zeros(4, np.uint8))
    words: UInt32s = np.ndarray((len(data) + 1,), "<u4", buffer=padded, strides=(1,))
    hashes = _SEED ^ lengths.astype(np.uint32)
    shortest = int(lengths.min()) if len(lengths) else 0
    for at in range(0, int(lengths.max(initial=0)) // 4 * 4, 4):
        rows = slice(None) if at + 4 <= shortest else np.flatnonzero(lengths >= at + 4)
        word = words[starts[rows] + at] * _FACTOR
        hashes[rows] = (hashes[rows] * _FACTOR) ^ (word ^ word >> np.uint32(24)) * _FACTOR
    left = lengths % 4
    rows = np.flatnonzero(left)
    mask = (np.uint32(1) << (8 * left[rows]).astype(np.uint32)) - np.uint32(1)
    tail = words[starts[rows] + lengths[rows] - left[rows]] & mask
    hashes[rows] = (hashes[rows] ^ tail) * _FACTOR
    mixed = (hashes ^ hashes >> np.uint32(13)) * _FACTOR
    return (mixed ^ mixed >> np.uint32(15)).astype(np.int64)
