"""last_below: of each stretch of some numbers, the last place with a number below a limit.

A lookup in the past: versions are in order of time, their numbers give the order of arrival, and a record sees the last
version up to its time that came before it. Logarithmic in the stretch; nothing is looped over but the levels of a tree
of minima.
"""

from __future__ import annotations

import numpy as np

from watersmeet._engine.arrays import Int64s

_MOST = np.iinfo(np.int64).max


def last_below(numbers: Int64s, begin: Int64s, end: Int64s, limit: Int64s) -> Int64s:
    """For each stretch [begin, end) the last place with a number below its limit; -1 if there is none."""
    result = np.full(len(begin), -1, dtype=np.int64)
    asking = np.flatnonzero(begin < end)
    near = end[asking] - 1
    # as a rule nothing came out of order
    hit = numbers[near] < limit[asking]
    result[asking[hit]] = near[hit]
    asking = asking[~hit]
    if len(asking):
        result[asking] = _climbed(numbers, begin[asking], end[asking], limit[asking])
    return result


def _climbed(numbers: Int64s, begin: Int64s, end: Int64s, limit: Int64s) -> Int64s:
    minima = _tree(numbers)
    block, level, end = np.full(len(begin), -1, dtype=np.int64), np.zeros(len(begin), dtype=np.int64), end.copy()
    asking = np.arange(len(begin), dtype=np.int64)
    for height, least in enumerate(minima):
        odd = asking[(end[asking] >> height) & 1 == 1]
        left = (end[odd] >> height) - 1
        hit = least[left] < limit[odd]
        block[odd[hit]], level[odd[hit]] = left[hit], height
        end[odd[~hit]] = left[~hit] << height
        asking = asking[(block[asking] < 0) & (end[asking] > begin[asking])]
    for height in range(len(minima) - 1, 0, -1):
        down = np.flatnonzero((block >= 0) & (level >= height))
        right = 2 * block[down] + 1
        block[down] = np.where(minima[height - 1][right] < limit[down], right, right - 1)
    return np.where(block >= begin, block, -1)


def _tree(numbers: Int64s) -> list[Int64s]:
    """The numbers, and of each level of pairs the smaller ones, up to one."""
    levels = [np.append(numbers, _MOST) if len(numbers) % 2 and len(numbers) > 1 else numbers]
    while len(levels[-1]) > 1:
        least = np.minimum(levels[-1][0::2], levels[-1][1::2])
        levels.append(np.append(least, _MOST) if len(least) % 2 and len(least) > 1 else least)
    return levels
