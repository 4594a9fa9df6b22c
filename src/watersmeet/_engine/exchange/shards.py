"""Which shard a key belongs to: shards are contiguous ranges of the hash (law 10).

A range can be split, merged with its neighbour or read in slices without a look at any other shard's rows, which a
remainder of the hash would not allow. The rule is written into checkpoints, since a shard's state holds the keys of its
range and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from watersmeet._engine.arrays import Int64s
from watersmeet._plan.physical import Operator

_SIGN, _HALF = np.uint64(1 << 63), np.uint64(32)


@dataclass(frozen=True)
class ShardCounts:
    """How many shards each target of an exchange has, an operator or an exit.

    Parameters
    ----------
    usual : of all but a few targets; the shards of a further case are numbered behind so many.
    few : of those that have fewer, by their numbers.

    >>> ShardCounts(8, {1: 2}).of_case(1, 0), ShardCounts(8, {1: 2}).of_case(1, 3), ShardCounts(8).of_case(1, 0)
    (range(0, 2), range(24, 26), range(0, 8))
    """

    usual: int
    few: Mapping[int, int] = field(default_factory=dict)

    def of(self, target: int) -> int:
        """How many shards the target has."""
        return self.few.get(target, self.usual)

    def of_case(self, target: int, case: int) -> range:
        """The numbers of the target's shards in a case; a query has the case 0 alone."""
        return range(case * self.usual, case * self.usual + self.of(target))


def with_copies(operators: Iterable[Operator], shards: int, tasks: int) -> dict[int, int]:
    """The shards of operators that keep a global table: one in each task, since each shard has a copy of the table."""
    return {each.id: min(shards, tasks) for each in operators if any(table.everywhere for table in each.keeps)}


def shard_of(hashes: Int64s, shards: int) -> Int64s:
    """The shard of each hash: shard s of n holds the hashes from -2**63 + s * 2**64 / n on, in steps of 2**32.

    >>> shard_of(np.array([-(2**63), -1, 0, 2**63 - 1]), 2).tolist()
    [0, 0, 1, 1]
    """
    # the upper half of the bits alone, so that the product fits into 64
    upper = (hashes.view(np.uint64) ^ _SIGN) >> _HALF
    return ((upper * np.uint64(shards)) >> _HALF).view(np.int64)


def lowest_of(shard: int, shards: int) -> int:
    """The smallest hash of a shard; of the shard behind the last one the number behind the largest hash.

    >>> lowest_of(1, 2), lowest_of(0, 3) == -(2**63), lowest_of(3, 3) == 2**63
    (0, True, True)
    """
    return -(-(shard << 32) // shards << 32) - (1 << 63)


def in_shards(shard: Int64s, hashes: Int64s | None) -> Int64s:
    """The order of rows by their shards; by their hashes where these are given, which is the same in finer steps.

    Rows by hash are sliced without copies (`rows.slices`), but take ten times as long to put into order: 0.07 us each.
    """
    if hashes is not None:
        return np.argsort(hashes, kind="stable")
    # small numbers sort by radix
    small = shard.astype(np.uint16) if len(shard) and shard.max() < 65_536 else shard
    return np.argsort(small, kind="stable")
