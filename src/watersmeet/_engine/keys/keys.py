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

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools, Int64s, UInt64s, stable_order
from watersmeet._engine.keys import keyform as form
from watersmeet._engine.keys.keybytes import encode_keys
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

NULL_HASH = 0x6E756C6C6E756C6C
_G = np.uint64(0x9E3779B97F4A7C15)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
# Mixing is a chain of passes over the same words: blocks of this many stay in the second-level cache.
_BLOCK = 1 << 15
_TAIL_MASK = np.array([2**64 - 1] + [2 ** (8 * k) - 1 for k in range(1, 8)], dtype=np.uint64)


def hash_keys(keys: pa.Array | pa.ChunkedArray) -> Int64s:
    """Hash every key to 64 bits, the same on every machine and for ever (see the module's docstring)."""
    return _hash(form.flat(keys)).view(np.int64)


def combine_hashes(first: Int64s, second: Int64s) -> Int64s:
    """Hash pairs of hashes: the struct rule for two fields, for rows identified by more than their key."""
    return _fold([first.view(np.uint64), second.view(np.uint64)], len(first)).view(np.int64)


def equal_keys(a: pa.Array | pa.ChunkedArray, b: pa.Array | pa.ChunkedArray) -> Bools:
    """Compare two key columns of one type element by element; null equals null, NaN equals NaN."""
    a, b = form.flat(a), form.flat(b)
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
    return equal_keys(form.without_maps(form.flat(a)), form.without_maps(form.flat(b)))


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
        """How many distinct keys there are."""
        return len(self.starts) - 1

    @cached_property
    def first(self) -> Int64s:
        """The first row of each group: `keys.take(first)` are the distinct keys."""
        return self.order[self.starts[:-1]]

    @cached_property
    def last(self) -> Int64s:
        """The last row of each group."""
        return self.order[self.starts[1:] - 1]

    @cached_property
    def sizes(self) -> Int64s:
        """How many rows each group has."""
        return np.diff(self.starts)

    @cached_property
    def group_of_row(self) -> Int64s:
        """The group number of every row."""
        groups = np.empty(len(self.order), dtype=np.int64)
        groups[self.order] = np.repeat(np.arange(self.count, dtype=np.int64), self.sizes)
        return groups


def group_keys(hashes: npt.ArrayLike, keys: pa.Array | pa.ChunkedArray) -> KeyGroups:
    """Group rows by key exactly, also where different keys share a hash."""
    hashes, keys = np.asarray(hashes, dtype=np.int64), form.flat(keys)
    order = stable_order(hashes)
    ordered = hashes[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    again = np.flatnonzero(~fresh)
    if len(again):
        before, after = (keys.take(pa.array(rows)) for rows in (order[again - 1], order[again]))
        if not _equal(before, after).all():
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
    within = np.lexsort((codes, ordered[places]))
    order = order.copy()
    order[places] = rows[within]
    codes = codes[within]
    new_code = np.ones(len(codes), dtype=np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=new_code[1:])
    fresh = fresh.copy()
    fresh[places] |= new_code
    return order, fresh


def _hash(keys: pa.Array) -> UInt64s:
    kind = keys.type
    if pt.is_null(kind):
        return np.full(len(keys), NULL_HASH, dtype=np.uint64)
    if form.is_word(kind):
        hashes = form.bits(keys).astype(np.int64).view(np.uint64)
        hashes = _mix(np.add(hashes, _G, out=hashes))
    elif form.is_bytes(kind):
        hashes = _hash_bytes(*form.spans(keys))
    elif form.is_wide(kind):
        width = kind.bit_width // 8
        starts = np.arange(len(keys), dtype=np.int64) * width
        hashes = _hash_bytes(starts, np.full(len(keys), width), form.fixed_bytes(keys, width).reshape(-1))
    elif pt.is_struct(kind):
        hashes = _fold([_hash(field) for field in form.struct_fields(keys)], len(keys))
    elif form.is_list(kind):
        hashes = _hash_lists(keys)
    else:
        raise form.unsupported(kind)
    is_null = form.nulls(keys)
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
    offsets = form.list_offsets(keys)
    lengths = np.diff(offsets)
    low, high = (offsets[0], offsets[-1]) if len(lengths) else (0, 0)
    elements = _hash(form.flat(keys.values.slice(low, high - low)))
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
    taken = words_at[np.repeat(starts, words) + (place << 3)]
    filled = words > 0
    taken[ends[filled] - 1] &= _TAIL_MASK[lengths[filled] & 7]
    place += 1
    taken += place.view(np.uint64) * _G
    return _segment_sums(_mix(taken), begins, words)


def _segment_sums(values: UInt64s, starts: Int64s, lengths: Int64s) -> UInt64s:
    running: UInt64s = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values, out=running[1:])
    sums: UInt64s = running[starts + lengths] - running[starts]
    return sums


def _family(kind: pa.DataType) -> object:
    """Types with comparable keys: text and bytes of either offset width are one family."""
    if form.is_bytes(kind):
        return "text" if pt.is_string(kind) or pt.is_large_string(kind) else "bytes"
    if pt.is_struct(kind):
        return ("struct", *(_family(kind.field(i).type) for i in range(kind.num_fields)))
    return ("list", _family(kind.value_type)) if form.is_list(kind) else kind


def _equal(a: pa.Array, b: pa.Array) -> Bools:
    kind = a.type
    equal: Bools
    if form.is_word(kind):
        equal = np.equal(form.bits(a), form.bits(b))
    elif form.is_bytes(kind):
        wide = pa.large_binary()
        same = pc.equal(a, b) if kind == b.type else pc.equal(a.cast(wide), b.cast(wide))
        equal = same.fill_null(False).to_numpy(zero_copy_only=False)
    elif pt.is_struct(kind):
        pairs = zip(form.struct_fields(a), form.struct_fields(b), strict=True)
        equal = np.logical_and.reduce([_equal(x, y) for x, y in pairs] or [np.ones(len(a), dtype=np.bool_)])
    elif pt.is_null(kind):
        return np.ones(len(a), dtype=np.bool_)
    else:
        equal = pc.equal(encode_keys(a), encode_keys(b)).fill_null(False).to_numpy(zero_copy_only=False)
    a_null, b_null = form.nulls(a), form.nulls(b)
    if a_null is None and b_null is None:
        return equal
    a_null = np.zeros(len(a), dtype=np.bool_) if a_null is None else a_null
    b_null = np.zeros(len(b), dtype=np.bool_) if b_null is None else b_null
    return np.where(a_null | b_null, a_null & b_null, equal)
