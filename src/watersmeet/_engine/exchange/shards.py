"""Which shard a key belongs to: shards are contiguous ranges of the hash (law 10).

A range can be split, merged with its neighbour or read in slices without a look at any other shard's rows, which a
remainder of the hash would not allow. The rule is written into checkpoints, since a shard's state holds the keys of its
range and no others.
"""

from __future__ import annotations

import numpy as np

from watersmeet._engine.arrays import Int64s

_SIGN, _HALF = np.uint64(1 << 63), np.uint64(32)


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
