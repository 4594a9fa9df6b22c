"""Integers from the bytes that Kafka's serializers write."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millpond._engine.keys.big_endian import integers

EDGES = {
    pa.int64(): [0, 1, -1, 255, -256, 2**53 + 1, 2**63 - 1, -(2**63)],
    pa.int32(): [0, 1, -1, 255, -256, 2**31 - 1, -(2**31)],
}


def written(values: list[int | None], kind: pa.DataType) -> pa.Array:
    width = kind.bit_width // 8
    raw = [None if value is None else value.to_bytes(width, "big", signed=True) for value in values]
    return pa.array(raw, pa.binary())


@pytest.mark.parametrize("kind", EDGES, ids=str)
def test_every_number_comes_back_and_null_stays_null_wherever_an_array_begins(kind: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        drawn = [None if rng.random() < 0.2 else EDGES[kind][int(i)] for i in rng.integers(0, len(EDGES[kind]), 9)]
        begin, end = sorted(int(i) for i in rng.integers(0, 10, 2))
        for raw in (written(drawn, kind), written(drawn, kind).cast(pa.large_binary())):
            found = integers(raw.slice(begin, end - begin), kind)
            assert found.type == kind
            assert found.to_pylist() == drawn[begin:end]
    chunks = pa.chunked_array([written([1, None], kind), written([], kind), written([-2], kind)])
    assert integers(chunks, kind).to_pylist() == [1, None, -2]


def test_a_null_that_has_bytes_is_null() -> None:
    offsets, content = np.array([0, 8, 11, 19], dtype=np.int32), (7).to_bytes(8) + b"any" + (9).to_bytes(8)
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(offsets), pa.py_buffer(content)]
    raw = pa.Array.from_buffers(pa.binary(), 3, buffers)
    assert integers(raw, pa.int64()).to_pylist() == [7, None, 9]


@pytest.mark.parametrize("raw", [[b"1234567"], [b"12345678", b""], [b"123456789", b"1234567"], [None, b""]])
def test_bytes_of_another_width_are_refused(raw: list[bytes | None]) -> None:
    with pytest.raises(ValueError, match="int64 takes 8 bytes"):
        integers(pa.array(raw, pa.binary()), pa.int64())
