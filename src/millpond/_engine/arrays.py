"""The numpy arrays that the engine reckons with, by the type of their elements, and how they are sorted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


def stable_order(numbers: Int64s) -> Int64s:
    """`argsort`, stable: numpy's stable sort merges sorted stretches fast, its unstable one all else."""
    count = len(numbers)
    if count < 1024 or np.count_nonzero(numbers[1:] < numbers[:-1]) <= 64:
        return np.argsort(numbers, kind="stable")
    order = np.argsort(numbers)
    ordered = numbers[order]
    fresh = np.ones(count, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    if fresh.all():
        return order
    rank = np.cumsum(fresh) * count + order
    rank.sort()
    return rank % count
