"""Numbers of windows: equal where key and time are, in their order, whatever the numbers look like."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet._engine.rows import Int64s
from watersmeet._engine.windowing import group_ids

LIMITS = np.iinfo(np.int64)


@pytest.mark.parametrize(
    ("starts", "keys"),
    [
        ([], []),
        ([5], [7]),
        ([60_000, 0, 60_000, 120_000, 0], [1, 1, 0, 1, 1]),
        ([-60_000, 0, -60_000], [2, 2, 2]),
        ([1, 10**12, 5, 1, 10**12], [0, 3, 3, 0, 3]),
        ([LIMITS.max, LIMITS.min, 0, LIMITS.max], [0, 0, 1, 0]),
        ([0, 2**40, 1, 2**40], [2**40, 0, 1, 2**40]),
    ],
)
def test_rows_are_numbered_by_key_and_then_by_time(starts: list[int], keys: list[int]) -> None:
    columns: list[Int64s] = [np.array(column, dtype=np.int64) for column in (starts, keys)]
    pairs = list(zip(keys, starts, strict=True))
    wanted = {pair: number for number, pair in enumerate(sorted(set(pairs)))}
    assert group_ids(*columns).tolist() == [wanted[pair] for pair in pairs]
