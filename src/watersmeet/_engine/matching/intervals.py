"""Integer kernels of windowed joins: which rows of a sorted side lie within an interval of time, and pairs.

Nothing here looks at keys or values: keys are group numbers, rows are places. Pairs are made a bounded
number at a time, so that a hot key costs no more memory than any other (law 9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from watersmeet._engine.arrays import Int64s

_LARGEST = 2**62


def interval_bounds(groups: Int64s, times: Int64s, group: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """For each query the places [begin, end) of the rows of its group with low <= time <= high.

    Parameters
    ----------
    groups, times : of the rows, which are in order of (group, time).
    group, low, high : of the queries.
    """
    if not len(times):
        return np.zeros(len(group), dtype=np.int64), np.zeros(len(group), dtype=np.int64)
    base, width = int(times.min()), int(times.max() - times.min()) + 2
    if (int(groups[-1]) + 1) * width < _LARGEST:
        place, first = times - base, np.clip(low, base, base + width - 1) - base
        behind = np.clip(high, base - 1, base + width - 2) - base + 1
    else:
        known = np.unique(times)
        width = len(known) + 1
        place, first = np.searchsorted(known, times), np.searchsorted(known, low)
        behind = np.searchsorted(known, high, side="right")
    rows = groups * width + place
    begin = np.searchsorted(rows, group * width + first)
    end = np.searchsorted(rows, group * width + np.maximum(behind, first))
    return begin, end


@dataclass(frozen=True)
class Pairs:
    """Some pairs, in order of query and place: all those of the queries from `first` to `last`."""

    query: Int64s
    place: Int64s
    first: int
    last: int


def pairs_of(begin: Int64s, end: Int64s, limit: int) -> Iterator[Pairs]:
    """Each query with each place of its interval, about `limit` at a time, never cutting a query."""
    counts = end - begin
    total = np.cumsum(counts)
    first = 0
    while first < len(begin):
        done = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, done + limit, side="right")))
        some = counts[first:last]
        query = np.repeat(np.arange(first, last, dtype=np.int64), some)
        start = np.repeat(begin[first:last] - (total[first:last] - some - done), some)
        yield Pairs(query, np.arange(len(query), dtype=np.int64) + start, first, last)
        first = last
