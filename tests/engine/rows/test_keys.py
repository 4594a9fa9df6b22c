"""Key kernels: equality is that of Kafka's bytes, the hash never changes, grouping is exact."""

from __future__ import annotations

import math
import random
import struct
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._engine.keys import NULL_HASH, combine_hashes, encode_keys, equal_keys, group_keys, hash_keys
from watersmeet.errors import WatersmeetError

DEEP = pa.struct([("a", pa.struct([("b", pa.string()), ("c", pa.int32())])), ("d", pa.list_(pa.float64()))])
DISTINCT: dict[str, pa.Array] = {
    "null": pa.array([None], pa.null()),
    "bool": pa.array([True, False, None]),
    "int8": pa.array([0, 1, -1, 127, -128, None], pa.int8()),
    "int32": pa.array([0, 1, -1, 2**31 - 1, -(2**31), None], pa.int32()),
    "int64": pa.array([0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), None]),
    "uint64": pa.array([0, 2**63, 2**64 - 1, None], pa.uint64()),
    "half": pa.array([np.float16(x) for x in (0.0, -0.0, 1.5, math.nan)], pa.float16()),
    "float": pa.array([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, None], pa.float32()),
    "double": pa.array([0.0, -0.0, 1.5, 5e-324, math.inf, -math.inf, math.nan, None]),
    "string": pa.array(["", "\0", "\0\0", "a", "a\0", "ä", "x" * 7, "x" * 8, "x" * 9, "y" * 100, None]),
    "large": pa.array(["", "\0", "a", "x" * 17, None], pa.large_string()),
    "binary": pa.array([b"", b"\0", b"\xff" * 8, b"\xff" * 9, None]),
    "fixed": pa.array([b"\0\0\0", b"abc", None], pa.binary(3)),
    "date": pa.array([date(1970, 1, 1), date(1969, 12, 31), None]),
    "time": pa.array([time(0, 0), time(1, 2, 3), None]),
    "timestamp": pa.array([datetime(2024, 1, 1), datetime(1960, 1, 1), None], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal("0.00"), Decimal("-0.01"), Decimal("9" * 20), None], pa.decimal128(30, 2)),
    "wide": pa.array([Decimal(0), Decimal(-1), Decimal("9" * 60), None], pa.decimal256(70, 0)),
    "list": pa.array([[], [None], [0], [0, 0], [0, None], [1, 0], [0, 1], None], pa.list_(pa.int64())),
    "lists": pa.array([[], [[]], [[], []], [["a"]], [["a"], []], [["", "a"]], None], pa.list_(pa.list_(pa.utf8()))),
    "square": pa.array([[1, 2], [2, 1], [1, None], None], pa.list_(pa.int8(), 2)),
    "struct": pa.array(
        [
            *({"x": x, "y": y} for x, y in (("a", "bc"), ("ab", "c"), (None, "c"), ("c", None), ("", ""))),
            *({"x": None, "y": None}, None),
        ]
    ),
    "deep": pa.array(
        [
            *({"a": {"b": "", "c": 1}, "d": d} for d in (None, [], [math.nan], [0.0], [-0.0], [0.0, 0.0])),
            *({"a": None, "d": None}, {"a": {"b": None, "c": None}, "d": None}, None),
        ],
        DEEP,
    ),
    "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
}
EVERY_TYPE = pytest.mark.parametrize("distinct", DISTINCT.values(), ids=DISTINCT.keys())


def plain(keys: pa.Array) -> list[int]:
    return hash_keys(keys).tolist()


def shuffled(keys: pa.Array, count: int = 300) -> tuple[pa.Array, np.ndarray]:
    picked = np.random.default_rng(7).integers(0, len(keys), count)
    return keys.take(pa.array(picked)), picked


@EVERY_TYPE
def test_different_keys_have_different_bytes_hashes_and_groups(distinct: pa.Array) -> None:
    assert len(set(encode_keys(distinct).to_pylist())) == len(distinct)
    assert len(set(plain(distinct))) == len(distinct)
    assert group_keys(hash_keys(distinct), distinct).count == len(distinct)


@EVERY_TYPE
def test_each_key_equals_itself_and_nothing_else(distinct: pa.Array) -> None:
    count = len(distinct)
    left = distinct.take(pa.array(np.repeat(np.arange(count), count)))
    right = distinct.take(pa.array(np.tile(np.arange(count), count)))
    assert (equal_keys(left, right).reshape(count, count) == np.eye(count, dtype=bool)).all()


@EVERY_TYPE
def test_slices_and_chunks_are_the_keys_they_show(distinct: pa.Array) -> None:
    keys, picked = shuffled(distinct)
    hashes, encoded = hash_keys(distinct)[picked], encode_keys(distinct).take(pa.array(picked))
    for begin, count in ((0, 300), (1, 8), (7, 290), (299, 1), (300, 0)):
        part = keys.slice(begin, count)
        assert (hash_keys(part) == hashes[begin : begin + count]).all()
        assert encode_keys(part).equals(encoded.slice(begin, count))
        assert equal_keys(part, keys.take(pa.array(np.arange(begin, begin + count)))).all()
    chunked = pa.chunked_array([keys.slice(0, 13), keys.slice(13, 0), keys.slice(13)], type=keys.type)
    assert (hash_keys(chunked) == hashes).all()
    assert encode_keys(chunked).equals(encoded)
    assert equal_keys(chunked, keys).all()


@EVERY_TYPE
def test_empty_columns_are_no_problem(distinct: pa.Array) -> None:
    for none in (distinct.slice(1, 0), pa.chunked_array([], distinct.type)):
        assert len(hash_keys(none)) == len(encode_keys(none)) == 0
        assert group_keys(hash_keys(none), none).count == 0


@EVERY_TYPE
@pytest.mark.parametrize("collide", [False, True])
def test_groups_are_exact_even_where_all_hashes_are_the_same(distinct: pa.Array, collide: bool) -> None:
    keys, picked = shuffled(distinct)
    hashes = np.zeros(300, dtype=np.int64) if collide else hash_keys(keys)
    groups = group_keys(hashes, keys)
    assert groups.count == len(set(picked.tolist()))
    by_key = [picked[groups.order[a:b]] for a, b in zip(groups.starts[:-1], groups.starts[1:], strict=True)]
    assert all(len(set(group.tolist())) == 1 for group in by_key)
    assert (groups.group_of_row[groups.first] == np.arange(groups.count)).all()
    assert (picked[groups.first[groups.group_of_row]] == picked).all()


def test_rows_of_a_group_stay_in_row_order_and_groups_go_up_by_hash() -> None:
    rng = np.random.default_rng(3)
    keys = pa.array(rng.integers(0, 500, 5000))
    # Sixteen hashes for five hundred keys: duplicates and collisions at once.
    for hashes in (hash_keys(keys), hash_keys(keys) >> 60):
        groups = group_keys(hashes, keys)
        ordered = hashes[groups.order]
        assert (ordered[1:] >= ordered[:-1]).all()
        same = groups.group_of_row[groups.order][1:] == groups.group_of_row[groups.order][:-1]
        assert (groups.order[1:] > groups.order[:-1])[same].all()
        assert (groups.first == np.minimum.reduceat(groups.order, groups.starts[:-1])).all()
        assert (groups.last == np.maximum.reduceat(groups.order, groups.starts[:-1])).all()
        assert groups.sizes.sum() == 5000


def test_keys_that_share_a_hash_are_numbered_by_first_row() -> None:
    groups = group_keys(np.zeros(5, dtype=np.int64), pa.array(["b", "a", "b", None, "a"]))
    assert groups.group_of_row.tolist() == [0, 1, 0, 2, 1]


def test_every_nan_is_the_same_key() -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64)
    keys = pa.array(bits.view(np.float64))
    assert len(set(plain(keys))) == len(set(encode_keys(keys).to_pylist())) == 1
    assert equal_keys(keys, keys[::-1]).all()
    assert group_keys(hash_keys(keys), keys).count == 1
    assert group_keys(np.zeros(4, dtype=np.int64), keys).count == 1


def test_a_null_is_one_key_whatever_its_slot_holds() -> None:
    mask = np.array([True, True, False])
    keys = pa.array(np.array([1, 2, 1]), mask=mask)
    assert plain(keys)[:2] == [NULL_HASH, NULL_HASH]
    assert group_keys(hash_keys(keys), keys).group_of_row.tolist() in ([0, 0, 1], [1, 1, 0])
    fields = [pa.array(["a", "b", "a"]), pa.array([1, 2, 1])]
    nested = pa.StructArray.from_arrays(fields, ["x", "y"], mask=pa.array(mask))
    assert plain(nested)[:2] == [NULL_HASH, NULL_HASH]
    assert equal_keys(nested, nested.take(pa.array([1, 0, 2]))).all()
    assert encode_keys(nested).null_count == 2


def test_bytes_are_those_of_kafkas_serializers() -> None:
    def encoded(values: list[Any], kind: pa.DataType) -> list[bytes]:
        return list(encode_keys(pa.array(values, kind)).to_pylist())

    assert encoded(["ä", ""], pa.string()) == ["ä".encode(), b""]
    assert encoded([1, -2], pa.int64()) == [struct.pack(">q", 1), struct.pack(">q", -2)]
    assert encoded([1, -2], pa.int32()) == [struct.pack(">i", 1), struct.pack(">i", -2)]
    assert encoded([1, -2], pa.int16()) == [struct.pack(">h", 1), struct.pack(">h", -2)]
    assert encoded([1, -2], pa.int8()) == [b"\x01", b"\xfe"]
    assert encoded([1.5, -0.0], pa.float64()) == [struct.pack(">d", 1.5), struct.pack(">d", -0.0)]
    assert encoded([1.5, math.nan], pa.float32()) == [struct.pack(">f", 1.5), b"\x7f\xc0\0\0"]
    assert encoded([True, False], pa.bool_()) == [b"\x01", b"\0"]
    assert encoded([b"\0x", None], pa.binary()) == [b"\0x", None]


def test_negative_integers_come_after_positive_ones_in_byte_order() -> None:
    keys = pa.array([-1, 5, 0, -(2**63), 2**63 - 1])
    order = sorted(range(5), key=encode_keys(keys).to_pylist().__getitem__)
    assert keys.take(pa.array(order)).to_pylist() == [0, 5, 2**63 - 1, -(2**63), -1]


def test_a_struct_is_flag_length_and_bytes_of_each_field() -> None:
    keys = pa.array([{"x": "ab", "y": None}], pa.struct([("x", pa.string()), ("y", pa.int64())]))
    assert encode_keys(keys).to_pylist() == [b"\x01\0\0\0\x02ab" + b"\0\0\0\0\0"]


def test_the_hash_is_the_one_that_checkpoints_were_written_with() -> None:
    # These numbers lie in checkpoints: a change of any of them loses state.
    assert plain(pa.array([0, 1, -1])) == HASHES["int64"]
    assert plain(pa.array([1, -1], pa.int32())) == HASHES["int64"][1:]
    assert plain(pa.array([1.5, math.nan])) == HASHES["double"]
    assert plain(pa.array(["", "a", "twelve bytes"])) == HASHES["string"]
    assert plain(pa.array([{"x": "a", "y": 1}])) == HASHES["struct"]
    assert plain(pa.array([[], [1, None]], pa.list_(pa.int64()))) == HASHES["list"]
    assert plain(pa.array([Decimal("1.50")], pa.decimal128(10, 2))) == HASHES["decimal"]


HASHES: dict[str, list[int]] = {
    "int64": [-2152535657050944081, -7995527694508729151, -1956407806741107680],
    "double": [-2964862180898217846, -4095617212816704698],
    "string": [6238072747940578789, -3151713405177036271, 6104019577743015774],
    "struct": [3951119578311137351],
    "list": [-2606959012126976886, -8476766909315171745],
    "decimal": [5966259000551573959],
}


def reference(content: bytes) -> int:
    """The hash of a byte string as the documentation words it, one number at a time."""
    golden, wrap = 0x9E3779B97F4A7C15, 2**64 - 1

    def mix(x: int) -> int:
        x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & wrap
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) & wrap
        return x ^ x >> 31

    words = [content[at : at + 8].ljust(8, b"\0") for at in range(0, len(content), 8)]
    total = sum(mix(int.from_bytes(word, "little") + k * golden & wrap) for k, word in enumerate(words, 1))
    return mix(total + golden * len(content) + 1 & wrap)


def test_the_hash_of_bytes_is_the_documented_one() -> None:
    chance = random.Random(5)
    values = [chance.randbytes(length) for length in [*range(40), 1000, 300_000, 0, 3, 8]]
    assert [h & (2**64 - 1) for h in plain(pa.array(values))] == [reference(value) for value in values]


def test_text_and_its_bytes_have_one_hash_in_every_arrow_type() -> None:
    text = pa.array(["abc", "xyz", None])
    kinds = [pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(3)]
    assert all(plain(text.cast(pa.binary()).cast(kind)) == plain(text) for kind in kinds)


def test_one_changed_bit_changes_half_of_the_hash() -> None:
    rng = np.random.default_rng(11)
    base = rng.integers(0, 2**62, 2000)
    text = [b"%019d" % number for number in base]
    for bit in range(62):
        flipped = hash_keys(pa.array(base)) ^ hash_keys(pa.array(base ^ (1 << bit)))
        assert 30 < np.bitwise_count(flipped.view(np.uint64)).mean() < 34
    for byte in range(19):
        other = [value[:byte] + bytes([value[byte] ^ 1]) + value[byte + 1 :] for value in text]
        flipped = hash_keys(pa.array(text)) ^ hash_keys(pa.array(other))
        assert 30 < np.bitwise_count(flipped.view(np.uint64)).mean() < 34


def test_words_of_a_key_cannot_change_places_unnoticed() -> None:
    keys = pa.array(["aaaaaaaabbbbbbbb", "bbbbbbbbaaaaaaaa", "aaaaaaaa", "bbbbbbbb"])
    assert len(set(plain(keys))) == 4


def test_the_low_bits_that_choose_the_shard_are_even() -> None:
    shards = np.bincount(hash_keys(pa.array(np.arange(100_000))) % 8, minlength=8)
    assert shards.min() > 12_000
    shards = np.bincount(hash_keys(pa.array([f"customer-{i}" for i in range(100_000)])) % 8, minlength=8)
    assert shards.min() > 12_000


def test_pairs_of_hashes_combine_in_order() -> None:
    a, b = hash_keys(pa.array([1, 2])), hash_keys(pa.array([2, 1]))
    pairs = pa.array([{"x": 1, "y": 2}, {"x": 2, "y": 1}])
    assert combine_hashes(a, b).tolist() == plain(pairs)
    assert len(set(plain(pairs))) == 2


def test_types_that_cannot_be_keys_are_refused_by_name() -> None:
    entries = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    for function in (hash_keys, encode_keys):
        with pytest.raises(WatersmeetError, match="map<string, int64> cannot be a key"):
            function(entries)


def test_keys_of_two_types_are_not_compared() -> None:
    with pytest.raises(WatersmeetError, match="two types"):
        equal_keys(pa.array([1]), pa.array(["1"]))
    assert equal_keys(pa.array(["1"]), pa.array(["1"], pa.large_string())).all()
