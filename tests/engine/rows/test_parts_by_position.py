"""Rows handed out in order of position: from whatever batches they come, and without lying twice in memory."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._engine import rows as position
from watersmeet._engine.rows import order_of, parts_by_position

NAMES = ("order_ts", "srcpart")
MEASURED = """
import numpy as np, pyarrow as pa
from watersmeet._engine import rows as position

position.PART_ROWS = 1_000
at, value = np.random.default_rng(1).permutation(40_000), "x" * 1_000

def batch(rows):
    columns = {"order_ts": rows, "srcpart": rows, "value": pa.array([value] * len(rows))}
    return pa.RecordBatch.from_pydict(columns)

held = [pa.Table.from_batches([batch(rows) for rows in np.array_split(at, 20)])]
size = held[0].nbytes
parts = sum(len(part) for part in position.parts_by_position(held.pop(), ("order_ts", "srcpart"), {"value"}))
print(parts, pa.default_memory_pool().max_memory() / size)
"""


@pytest.mark.parametrize("chunk_bytes", [0, 3_000, 1 << 30])
@pytest.mark.parametrize("sorted_already", [True, False])
def test_rows_come_in_order_whatever_batches_they_lie_in(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, sorted_already: bool
) -> None:
    monkeypatch.setattr(position, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(position, "PART_ROWS", 70)
    rng = np.random.default_rng(2)
    at = np.arange(1_000) if sorted_already else rng.permutation(1_000)
    texts = [None if n % 7 == 0 else f"value {n}" for n in at]
    rows = pa.table({"order_ts": at // 10, "srcpart": at, "value": texts, "left out": at})
    edges = [0, *np.sort(rng.integers(0, 1_000, 30)), 1_000]
    cut = pa.concat_tables([rows.slice(begin, end - begin) for begin, end in pairwise(edges)])
    parts = list(parts_by_position(cut, NAMES, {"srcpart", "value"}))
    assert max(map(len, parts)) == 70
    found = pa.concat_tables(parts)
    assert found.column("srcpart").to_pylist() == list(range(1_000))
    assert found.column("value").to_pylist() == [None if n % 7 == 0 else f"value {n}" for n in range(1_000)]
    assert found.column_names == ["srcpart", "value"]
    assert list(parts_by_position(rows.slice(0, 0), NAMES, {"value"})) == []


def test_the_rows_of_a_sinks_shard_lie_in_memory_once() -> None:
    ended = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True)
    rows, most = ended.stdout.split()
    assert int(rows) == 40_000
    # the order, what it is made of and one part come on top
    assert float(most) < 1.5


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("rows", [3, 900, 5_000])
def test_the_order_is_that_of_all_columns_and_rows_of_one_position_keep_theirs(rows: int, far: bool) -> None:
    rng = np.random.default_rng(rows)
    for spread in (2, 60, 2**40):
        columns = [rng.integers(-spread, spread, rows) for _ in range(3)]
        if far:
            # together they have more than 63 bits
            columns[1] = rng.choice(np.array([-(2**63), -1, 0, 2**62, 2**63 - 1]), rows)
        assert position.order_by(columns).tolist() == np.lexsort(columns[::-1]).tolist()
        # hashes, of which some rows have the same, before a time
        hashes = rng.choice(rng.integers(-(2**63), 2**63 - 1, rows // 3 + 1), rows)
        assert order_of([hashes, columns[0]]).tolist() == np.lexsort((columns[0], hashes)).tolist()
        numbers = [columns[0], rng.choice(np.array([0, 1, 2**32, 2**62]), rows), columns[2]]
        assert order_of(numbers).tolist() == np.lexsort(numbers[::-1]).tolist()
        assert order_of([hashes]).tolist() == np.argsort(hashes, kind="stable").tolist()


def test_rows_of_one_shard_come_before_those_of_the_next_and_in_order_within() -> None:
    at = np.random.default_rng(3).permutation(300)
    rows = pa.table({"order_ts": at // 10, "srcpart": at, "shard": at % 3})
    found = pa.concat_tables(parts_by_position(rows, NAMES, {"srcpart"}))
    assert found.column("srcpart").to_pylist() == sorted(range(300), key=lambda number: (number % 3, number))
    assert found.column_names == ["srcpart"]
