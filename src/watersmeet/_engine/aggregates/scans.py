"""Running results of groups of rows, without a loop over rows: sums, latest members, extremes.

Rows stand group after group. The initial state of a group is one more row at its head (`Groups.headed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from watersmeet._engine.aggregates.fold import segmented_maximum
from watersmeet._engine.arrays import Bools, Int64s

Floats = npt.NDArray[np.float64]
ROUNDS = 32
"""Rows of a group that are taken with those of all others; what more a group has is summed by itself."""

SAFE = 2.0**62
"""Sums of integers whose terms together stay below this do not pass 64 bits."""


@dataclass(frozen=True)
class Groups:
    """Where groups of rows begin, and the number of rows as last entry."""

    starts: Int64s

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.starts[-1])

    @cached_property
    def sizes(self) -> Int64s:
        """Rows of each group."""
        return np.diff(self.starts)

    @cached_property
    def heads(self) -> Int64s:
        """Where the head of each group stands among headed rows."""
        return self.starts[:-1] + np.arange(len(self.sizes))

    @cached_property
    def row_index(self) -> Int64s:
        """Where each row stands among headed rows."""
        return np.arange(self.rows) + np.repeat(np.arange(len(self.sizes)) + 1, self.sizes)

    @cached_property
    def begins(self) -> Bools:
        """Which headed rows are heads."""
        flags = np.zeros(self.rows + len(self.sizes), dtype=np.bool_)
        flags[self.heads] = True
        return flags

    def headed(self, heads: npt.NDArray[np.generic], rows: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Rows with what each group begins with at its head."""
        whole = np.empty(len(heads) + len(rows), dtype=rows.dtype)
        whole[self.heads], whole[self.row_index] = heads, rows
        return whole

    def any_before(self, flags: Bools, *, inclusive: bool) -> Bools:
        """Whether the flag is set of a row before each one, in its group."""
        counts = self.running_counts(flags.astype(np.int64))
        return np.asarray(counts - (0 if inclusive else flags) > 0)

    def running_counts(self, deltas: Int64s) -> Int64s:
        """Running sums of integers, from 0 on."""
        sums = np.cumsum(deltas)
        before = np.append(0, sums)[self.starts[:-1]]
        return np.asarray(sums - np.repeat(before, self.sizes))

    def running_sums(self, heads: Floats, rows: Floats) -> Floats:
        """Running sums of floats, added one after the other: so they are the same however rows are cut into batches."""
        sums = np.empty(self.rows)
        largest_first = np.argsort(-self.sizes, kind="stable")
        sizes, starts = self.sizes[largest_first], self.starts[:-1][largest_first]
        now = heads[largest_first].astype(np.float64)
        # infinities of both signs are NaN, and what is too large is infinite
        with np.errstate(invalid="ignore", over="ignore"):
            for number in range(min(ROUNDS, int(sizes.max(initial=0)))):
                active = int(np.searchsorted(-sizes, -number, side="left"))
                at = starts[:active] + number
                now[:active] += rows[at]
                sums[at] = now[:active]
            for group in np.flatnonzero(sizes > ROUNDS):
                begin, end = starts[group] + ROUNDS, starts[group] + sizes[group]
                sums[begin:end] = np.add.accumulate(np.append(now[group], rows[begin:end]))[1:]
        return sums

    def first_of(self, member: Bools) -> Int64s:
        """Of headed rows, the first member up to each row, as a place among headed ones; -1 for none."""
        count = len(self.begins)
        scores = np.where(member, count - np.arange(count), 0)
        found = segmented_maximum(scores, self.begins)
        return np.where(found > 0, count - found, -1)[self.row_index]

    def last_of(self, member: Bools) -> Int64s:
        """Of headed rows, the last member up to each row, as a place among headed ones; -1 for none."""
        scores = np.where(member, np.arange(len(self.begins)), -1)
        return segmented_maximum(scores, self.begins)[self.row_index]

    def largest_of(self, member: Bools, scores: Int64s, *, last: bool = False) -> Int64s:
        """Of headed rows, the first member with the largest score up to each row, or the last one; -1 for none.

        Parameters
        ----------
        scores : not negative.
        """
        count = len(self.begins)
        place = np.arange(count)
        whole = np.where(member, (scores + 1) * count + (place if last else count - 1 - place), -1)
        found = segmented_maximum(whole, self.begins)
        place = found % count if last else count - 1 - found % count
        return np.where(found >= 0, place, -1)[self.row_index]
