"""The common part of all ways to find sliding windows: the present ones, and their changes by records.

Numbers alone: a state is the number of a stored one, then of the additions that make further ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from watersmeet._engine.arrays import Int64s

WHOLE = -1
"""Stands for all windows of a record that changes none, since a function raises for it; windows begin at 0 or later."""


@dataclass(frozen=True)
class StoredWindows:
    """Windows that stand, in order of (key, start): key group, start, timestamp, and number of the state."""

    key: Int64s
    start: Int64s
    ts: Int64s
    state: Int64s


@dataclass(frozen=True)
class SlidingOfSeveral:
    """Windows of keys that lie in several partitions (`partitions`).

    Parameters
    ----------
    standing : of those that stand, the time domain by key and start.
    replaced : those that had been let go and replaced by another one: key, start, timestamp, number of the
        state, time domain, and the record that changed it last (-1: none of these).
    """

    standing: Mapping[tuple[int, int], int]
    replaced: Sequence[tuple[int, int, int, int, int, int]]


@dataclass(frozen=True)
class Slid:
    """The changes of windows by a batch's records.

    Parameters
    ----------
    record, parent : of each addition, what is added to which state (-1: to none); addition n makes state known + n.
    head, level : the first addition of its chain, in which each adds to what the one before made; and the chain's
        level: it begins with what chains of lower levels have made.
    by, start, ts, state, before : of each change of a window, in order: the record, the window's start, its new
        timestamp and state, and the state before, -1 for none.
    late : records that came when a window of theirs was closed.
    standing : what stands behind the batch, of the records' keys.
    several : of keys that lie in several partitions.
    """

    record: Int64s
    parent: Int64s
    head: Int64s
    level: Int64s
    by: Int64s
    start: Int64s
    ts: Int64s
    state: Int64s
    before: Int64s
    late: Int64s
    standing: StoredWindows
    several: SlidingOfSeveral = field(default_factory=lambda: SlidingOfSeveral({}, ()))

    def with_more(self, other: Slid) -> Slid:
        """These, of keys of one partition, and those of other keys, with additions numbered after these."""
        if not any(map(len, (other.record, other.by, other.late, other.standing.key))):
            return self
        moved = replace(other, head=other.head + len(self.head))
        own = [f.name for f in fields(self) if f.name not in ("standing", "several")]
        both = {name: np.concatenate([getattr(self, name), getattr(moved, name)]) for name in own}
        left = [
            np.concatenate([getattr(each.standing, f.name) for each in (self, other)]) for f in fields(StoredWindows)
        ]
        return Slid(**both, standing=StoredWindows(*left), several=other.several)
