"""A batch of a DataFrame is numbered in its order, whether it fits into memory or not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._worker import spill
from watersmeet._worker.spill import PACK_ROWS, in_order

ROWS = PACK_ROWS + 5_000
PARTS = 31


def batches(*, shuffled: bool) -> Iterator[pa.RecordBatch]:
    """Rows of two ordering columns, one of them with nulls, and a value that says where each belongs."""
    places = np.random.default_rng(7).permutation(ROWS) if shuffled else np.arange(ROWS)
    for part in np.array_split(places, PARTS):
        days = pa.array([None if place // 1_000 == ROWS // 1_000 else f"day {place // 1_000:03}" for place in part])
        names = ["order_0", "order_1", "offset", "value"]
        yield pa.RecordBatch.from_arrays(
            [days, pa.array(-part), pa.nulls(len(part), pa.int64()), pa.array(part)], names
        )


def expected() -> list[int]:
    """Days ascending, those without one last, and within a day the later ones first."""
    return sorted(range(ROWS), key=lambda place: (place // 1_000, -place))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("held_bytes", [1 << 40, 100_000, 0])
def test_rows_come_in_order_with_their_numbers_from_memory_and_from_a_file(held_bytes: int, shuffled: bool) -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    large: list[int] = []
    parts = list(in_order(batches(shuffled=shuffled), ("order_0", "order_1"), held_bytes, lambda: large.append(1)))
    assert len(parts) == (1 if held_bytes == 1 << 40 else 2)
    assert len(large) == len(parts) - 1
    rows = pa.concat_tables(parts)
    assert rows.column_names == ["offset", "value"]
    assert rows.column("value").to_pylist() == expected()
    assert rows.column("offset").to_pylist() == list(range(ROWS))
    left = set(os.listdir(tempfile.gettempdir())) - before
    assert not [name for name in left if name.startswith("watersmeet-") and name.endswith(".arrow")]


def test_a_batch_without_rows_gives_nothing() -> None:
    assert list(in_order(iter(()), ("order_0",))) == []


def test_large_rows_come_from_the_file_in_pieces_of_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "SORT_BYTES", 1 << 20)
    large = [b"x" * 400_000 if place < 7 else b"" for place in range(1_000)]
    batch = pa.RecordBatch.from_arrays([pa.array(range(1_000)), pa.array(large)], ["order_0", "value"])
    parts = list(in_order(iter([batch]), ("order_0",), 0))
    assert [len(part) for part in parts[:3]] == [2, 2, 2]
    assert max(part.nbytes for part in parts) < 1 << 20
    assert pa.concat_tables(parts).column("value").to_pylist() == large
