"""Chains of additions: each adds a record to what the one before it made, so that a chain is folded at once.

A chain begins with a stored state, with nothing, or with what other chains have made: those are of lower levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.fold import FoldKernel, Work
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import array_of, gather, joined, valid


@dataclass(frozen=True)
class Links:
    """Additions, in their order.

    Parameters
    ----------
    state : number of the state that each makes.
    record : what it adds.
    head : what is the same for all of its chain, and where the chain is asked what it begins with.
    level : of its chain.
    ts : timestamp of what it makes.
    """

    state: Int64s
    record: Int64s
    head: Int64s
    level: Int64s
    ts: Int64s


@dataclass
class States:
    """States by number, stored ones and those that additions make, as pointers into a pool (-1: null)."""

    pool: pa.Array | pa.ChunkedArray
    pointer: Int64s
    kind: pa.DataType = field(kw_only=True)

    @classmethod
    def of_stored(cls, fold: FoldKernel, stored: pa.Array, more: int) -> States:
        """The stored ones, and room for more."""
        pointer = np.where(valid(stored), np.arange(len(stored)), -1)
        return cls(stored, np.concatenate([pointer, np.full(more, -1, dtype=np.int64)]), kind=fold.state)

    def pointers(self, numbers: Int64s) -> Int64s:
        """Where these are in the pool; -1 for those that are null, and for the number -1."""
        return np.where(numbers >= 0, self.pointer[numbers], -1)

    def of(self, numbers: Int64s) -> pa.Array:
        """These states; null for the number -1."""
        return array_of(gather(self.pool, self.pointers(numbers)), self.kind)

    def add(self, numbers: Int64s, states: pa.Array | pa.ChunkedArray, at: Int64s) -> None:
        """Further states, `states[at]`; -1: null."""
        self.pointer[numbers] = np.where(at >= 0, at + len(self.pool), -1)
        self.pool = joined([self.pool, states], self.kind)


def fold_chains(
    fold: FoldKernel,
    links: Links,
    states: States,
    keys: pa.Array,
    values: pa.Array,
    begun: Callable[[Int64s], pa.Array],
    resumes: Bools | None = None,
    ends: Bools | None = None,
) -> dict[int, Exception]:
    """Fold all chains, level by level; the states that they make come to the others.

    Returns the records for which a function raises, where that is outlived, and what.

    Parameters
    ----------
    keys, values : of each record.
    begun : the states that chains begin with, by their heads.
    resumes : of each head, see `Work`.
    ends : of each record, see `Work`.
    """
    failed: dict[int, Exception] = {}
    for level in range(int(links.level.max(initial=-1)) + 1):
        mine = np.flatnonzero(links.level == level)
        mine = mine[np.argsort(links.head[mine], kind="stable")]
        starts = np.flatnonzero(np.diff(links.head[mine], prepend=-1))
        heads = links.head[mine[starts]]
        work = Work(
            keys=keys.take(pa.array(links.record[mine[starts]])),
            starts=np.append(starts, len(mine)),
            values=values.take(pa.array(links.record[mine])),
            ts=links.ts[mine],
            prior=begun(heads),
            prior_ts=links.ts[mine[starts]],
            resumes=None if resumes is None else resumes[heads],
            ends=None if ends is None else ends[links.record[mine]],
        )
        done = fold.outlived(work)
        states.add(links.state[mine], done.states, done.after)
        for at in sorted(done.failed):
            failed.setdefault(int(links.record[mine[at]]), done.failed[at])
    return failed
