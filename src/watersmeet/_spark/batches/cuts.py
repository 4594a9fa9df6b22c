"""Where a batch ends if inputs are kept together: at a time that all partitions have reached (KIP-353, KIP-695).

A record's place in the order of a batch is the latest timestamp that its partition has had so far, then its input and
partition (`order_ts` and the rest of a position). A cut is such a place. A batch takes the records up to it of every
partition, and the next batch all behind it, so batches one after the other have the order of a single one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from watersmeet._engine.arrays import Int64s

_EARLIEST: Final = -(1 << 63)
_LATEST: Final = (1 << 63) - 1


@dataclass(frozen=True, order=True)
class Cut:
    """A place in the order of all records.

    Parameters
    ----------
    ms : the latest timestamp so far, in ms since 1970.
    rank : of several partitions with this time, those up to this one.
    """

    ms: int
    rank: int = _LATEST


END: Final = Cut(_LATEST)
"""Behind all records."""


class PartitionTimes:
    """The times of a partition's records that have been looked at and are in no batch yet.

    Parameters
    ----------
    rank : the partition's place among records of one time.
    begin : offset of its first record.

    Attributes
    ----------
    end : offset behind what has been looked at.
    """

    def __init__(self, rank: int, begin: int) -> None:
        self.rank, self.end = rank, begin
        self._offsets = self._times = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def times(self) -> Int64s:
        """The latest timestamp up to each record, ascending."""
        return self._times

    @property
    def reached(self) -> Cut:
        """The place of the last record, before which nothing lies that comes later; before all if there is none."""
        return Cut(int(self._times[-1]) if len(self) else _EARLIEST, self.rank)

    def add(self, offsets: Int64s, times: Int64s, end: int) -> None:
        """Add records behind the others.

        Parameters
        ----------
        offsets, times : of each; times in ms since 1970.
        end : the offset behind the last one, or behind what follows it and is no record.
        """
        if len(offsets):
            so_far = np.maximum(np.maximum.accumulate(times), self.reached.ms)
            self._offsets = np.concatenate([self._offsets, offsets])
            self._times = np.concatenate([self._times, so_far])
        self.end = max(self.end, end)

    def count(self, cut: Cut) -> int:
        """How many of the records lie before a cut, or at it."""
        return int(np.searchsorted(self._times, cut.ms, "right" if self.rank <= cut.rank else "left"))

    def take(self, cut: Cut) -> int:
        """Take the records up to a cut away: the offset of the next one."""
        count = self.count(cut)
        self._offsets, self._times = self._offsets[count:], self._times[count:]
        return int(self._offsets[0]) if len(self) else self.end


def reached_by_all(awaited: Iterable[PartitionTimes]) -> Cut:
    """The place behind which nothing may be taken.

    Parameters
    ----------
    awaited : partitions that may have more records soon.
    """
    return min((each.reached for each in awaited), default=END)


def next_cut(partitions: Collection[PartitionTimes], most: Cut, limit: int) -> Cut | None:
    """Where the next batch ends.

    Parameters
    ----------
    partitions : all.
    most : behind it nothing may be taken.
    limit : records of a batch; more only if records that cannot be parted are more.

    Returns
    -------
    Cut or None : None: nothing can be taken yet.

    >>> one, other = PartitionTimes(0, 0), PartitionTimes(1, 0)
    >>> one.add(np.array([0, 1]), np.array([10, 30]), 2)
    >>> other.add(np.array([0, 1, 2]), np.array([5, 10, 20]), 3)
    >>> next_cut([one, other], reached_by_all([one, other]), 100)
    Cut(ms=20, rank=1)
    >>> next_cut([one, other], END, 2)
    Cut(ms=5, rank=9223372036854775807)
    """
    counts = [each.count(most) for each in partitions]
    if sum(counts) <= limit:
        return most if sum(counts) else None
    times = np.unique(np.concatenate([each.times[:count] for each, count in zip(partitions, counts, strict=True)]))
    low, high = 0, len(times)
    while low < high:
        middle = (low + high) // 2
        if sum(each.count(_at(times, middle, most)) for each in partitions) <= limit:
            low = middle + 1
        else:
            high = middle
    return _at(times, max(low - 1, 0), most)


def _at(times: Int64s, number: int, most: Cut) -> Cut:
    return min(Cut(int(times[number])), most)
