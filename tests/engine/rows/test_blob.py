"""Blobs: whatever Arrow can hold comes back the same, and altered bytes are an error."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from watersmeet._engine import row_sizes
from watersmeet._engine.row_sizes import decode, encode
from watersmeet.errors import CorruptData

TABLE = pa.table(
    {
        "text": pa.array(["a", None, "", "ä\0b"]),
        "number": pa.array([2**53 + 1, None, -1, 0]),
        "nested": pa.array([{"x": [1, None]}, None, {"x": []}, {"x": None}]),
        "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.00"), Decimal("0.00")], pa.decimal128(10, 2)),
        "time": pa.array([datetime(2024, 1, 1), None, datetime(1969, 1, 1), None], pa.timestamp("us")),
    }
)


@pytest.mark.parametrize("compress", [True, False])
def test_a_table_comes_back_as_it_was(compress: bool) -> None:
    assert decode(encode(TABLE, compress=compress)).equals(TABLE)


def test_a_table_without_rows_keeps_its_schema() -> None:
    assert decode(encode(TABLE.slice(0, 0))).schema == TABLE.schema


def test_a_slice_is_written_without_the_rows_around_it() -> None:
    table = pa.table({"x": ["y" * 1000] * 1000})
    sliced = encode(table.slice(500, 1), compress=False)
    assert decode(sliced).num_rows == 1
    assert len(sliced) < 3000


def test_a_batch_is_as_good_as_a_table() -> None:
    batch = TABLE.to_batches()[0]
    assert decode(encode(batch)).equals(TABLE)


def test_a_blob_cut_anywhere_is_an_error() -> None:
    table = pa.Table.from_batches([batch for batch in TABLE.to_batches() for _ in range(3)])
    blob = encode(table)
    # Cut between two messages, Arrow alone would read a shorter table without a word.
    for end in range(len(blob)):
        with pytest.raises(CorruptData):
            decode(blob[:end])


def test_bytes_after_the_end_are_an_error() -> None:
    with pytest.raises(CorruptData, match="length"):
        decode(encode(TABLE) + b"\0")


def test_bytes_of_something_else_are_named() -> None:
    with pytest.raises(CorruptData, match="not a watersmeet blob"):
        decode(b"PAR1" + encode(TABLE)[4:])


def test_another_format_version_is_named() -> None:
    with pytest.raises(CorruptData, match="version 9"):
        decode(b"WMBL\x09\x00" + encode(TABLE)[6:])


def test_an_altered_arrow_schema_is_an_error() -> None:
    blob = bytearray(encode(TABLE))
    blob[16:80] = b"\xff" * 64
    with pytest.raises(CorruptData, match="cannot be read"):
        decode(bytes(blob))


def test_pieces_are_of_bounded_size_and_put_together_are_the_rows() -> None:
    rows = pa.table({"key": list(range(1_000)), "value": ["x" * 1_000] * 1_000})
    parts = list(row_sizes.pieces(rows, limit=100_000))
    assert pa.concat_tables(parts).equals(rows)
    assert max(part.nbytes for part in parts) <= 110_000
    assert [len(part) for part in row_sizes.pieces(rows.slice(0, 3), limit=1)] == [1, 1, 1]
    assert list(row_sizes.pieces(rows.slice(0, 0))) == []
