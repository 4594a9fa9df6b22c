"""Numbers from the bytes that Kafka's serializers write, and back."""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._engine.keys import as_bytes, decimal_bytes, decimals, numbers

EDGES: dict[pa.DataType, list[float]] = {
    pa.int64(): [0, 1, -1, 255, -256, 2**53 + 1, 2**63 - 1, -(2**63)],
    pa.int32(): [0, 1, -1, 255, -256, 2**31 - 1, -(2**31)],
    pa.int16(): [0, 1, -1, 255, -256, 2**15 - 1, -(2**15)],
    pa.float64(): [0.0, -0.0, 1.5, -1e308, 5e-324, math.inf, -math.inf],
    pa.float32(): [0.0, -0.0, 1.5, 2.0**127, 2.0**-149, math.inf, -math.inf],
}


def written(values: list[float | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        code = ">d" if kind == pa.float64() else ">f"
        return pa.array([None if value is None else struct.pack(code, value) for value in values], pa.binary())
    width = kind.bit_width // 8
    raw = [None if value is None else int(value).to_bytes(width, "big", signed=True) for value in values]
    return pa.array(raw, pa.binary())


@pytest.mark.parametrize("kind", EDGES, ids=str)
def test_every_number_comes_back_and_null_stays_null_wherever_an_array_begins(kind: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        drawn = [None if rng.random() < 0.2 else EDGES[kind][int(i)] for i in rng.integers(0, len(EDGES[kind]), 9)]
        begin, end = sorted(int(i) for i in rng.integers(0, 10, 2))
        for raw in (written(drawn, kind), written(drawn, kind).cast(pa.large_binary())):
            found = numbers(raw.slice(begin, end - begin), kind)
            assert found.type == kind
            assert repr(found.to_pylist()) == repr(drawn[begin:end])
            assert as_bytes(found).cast(pa.binary()).to_pylist() == raw.to_pylist()[begin:end]
    values = [EDGES[kind][1], None, EDGES[kind][2]]
    chunks = pa.chunked_array([written(values[:2], kind), written([], kind), written(values[2:], kind)])
    assert numbers(chunks, kind).to_pylist() == values


def test_of_doubles_that_are_no_number_one_is_written_and_floats_keep_their_bits() -> None:
    other = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]
    assert as_bytes(pa.array([math.nan, other])).to_pylist() == [bytes.fromhex("7ff8000000000000")] * 2
    floats = numbers(pa.array([bytes.fromhex(each) for each in ("ffc00001", "7fc00000")]), pa.float32())
    assert [each.hex() for each in as_bytes(floats).to_pylist()] == ["ffc00001", "7fc00000"]


def test_a_null_that_has_bytes_is_null() -> None:
    offsets, content = np.array([0, 8, 11, 19], dtype=np.int32), (7).to_bytes(8) + b"any" + (9).to_bytes(8)
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(offsets), pa.py_buffer(content)]
    raw = pa.Array.from_buffers(pa.binary(), 3, buffers)
    assert numbers(raw, pa.int64()).to_pylist() == [7, None, 9]


@pytest.mark.parametrize("raw", [[b"1234567"], [b"12345678", b""], [b"123456789", b"1234567"], [None, b""]])
def test_bytes_of_another_width_are_refused(raw: list[bytes | None]) -> None:
    with pytest.raises(ValueError, match="int64 takes 8 bytes"):
        numbers(pa.array(raw, pa.binary()), pa.int64())


def as_java_writes(number: int) -> bytes:
    """What BigInteger.toByteArray gives: a byte more where the highest bit would be the sign."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def test_decimals_are_their_digits_in_as_few_bytes_as_each_takes_both_ways() -> None:
    rng, kind = np.random.default_rng(2), pa.decimal128(38, 4)
    edges = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**63, -(2**63) - 1, 2**64 - 1, 10**38 - 1, 1 - 10**38]
    for _ in range(200):
        sizes = rng.integers(0, 38, 6)
        drawn = [int(rng.integers(-9, 10)) * 10 ** int(size) + int(rng.integers(0, 1000)) for size in sizes]
        drawn.append(edges[int(rng.integers(0, len(edges)))])
        some = [None, *(each if abs(each) < 10**38 else None for each in drawn)]
        rng.shuffle(some)
        begin, end = sorted(int(i) for i in rng.integers(0, 9, 2))
        raw = [None if each is None else as_java_writes(each) for each in some]
        values = pa.array([None if each is None else Decimal(each).scaleb(-4, Context(prec=60)) for each in some], kind)
        found, bad = decimals(pa.array(raw, pa.binary()).slice(begin, end - begin), kind)
        found.validate(full=True)
        assert not bad.any()
        assert found.to_pylist() == values.to_pylist()[begin:end]
        assert decimal_bytes(values.slice(begin, end - begin)).to_pylist() == raw[begin:end]


def test_what_has_no_byte_or_too_many_digits_is_no_decimal() -> None:
    raw = [b"", as_java_writes(999), as_java_writes(1000), as_java_writes(-1000), as_java_writes(-999), None]
    raw += [bytes(17), as_java_writes(2**127 - 1), as_java_writes(-(2**127)), b"\0\0\x01"]
    found, bad = decimals(pa.array(raw, pa.binary()), pa.decimal128(3, 1))
    assert bad.tolist() == [True, False, True, True, False, False, True, True, True, False]
    kept = [found[number].as_py() for number in (1, 4, 5, 9)]
    assert kept == [Decimal("99.9"), Decimal("-99.9"), None, Decimal("0.1")]
    assert found.null_count == 7
