"""The numpy arrays of the engine, by the type of their elements, and how they are sorted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
_MOST = 2**63


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


def order_of(columns: Sequence[Int64s]) -> Int64s:
    """Row numbers in ascending order of these columns, the most significant first; stable.

    One number is sorted faster than several columns are, and it mostly has room for all of them, if need be for ranks
    in place of the values that lie furthest apart: hashes, numbers of sources.
    """
    if len(columns) == 1 or not len(columns[0]):
        return stable_order(columns[0])
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    parts = list(columns)
    for at in sorted(range(len(columns)), key=lambda at: -spans[at]):
        if math.prod(spans) < _MOST:
            break
        parts[at], lows[at] = _ranks(columns[at]), 0
        spans[at] = int(parts[at].max()) + 1
    if math.prod(spans) >= _MOST:
        return np.lexsort(tuple(reversed(columns)))
    number = parts[0] - lows[0]
    for part, low, span in zip(parts[1:], lows[1:], spans[1:], strict=True):
        number = number * span + (part - low)
    return stable_order(number)


def _ranks(numbers: Int64s) -> Int64s:
    """The place of each number among the different ones."""
    order = stable_order(numbers)
    ranks = np.empty(len(numbers), dtype=np.int64)
    ranks[order] = np.cumsum(np.diff(numbers[order], prepend=numbers[order[:1]]) != 0)
    return ranks
