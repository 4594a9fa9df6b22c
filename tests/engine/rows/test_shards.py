"""Shards are contiguous ranges of the hash."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._engine.exchange import shard_of
from watersmeet._engine.keys import hash_keys

ENDS = np.array([-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1])


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 200, 65_536])
def test_shards_are_contiguous_ranges_of_the_hash_that_cover_all_of_it(shards):
    hashes = np.sort(np.concatenate([ENDS, np.random.default_rng(shards).integers(-(2**63), 2**63 - 1, 10_000)]))
    found = shard_of(hashes, shards)
    assert found[0] == 0
    assert found[-1] == shards - 1
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize(
    "keys", [pa.array(range(10_000)), pa.array(str(n) for n in range(10_000))], ids=["long", "text"]
)
def test_keys_that_follow_each_other_are_spread_over_all_shards_alike(keys):
    counts = np.bincount(shard_of(hash_keys(keys), 8), minlength=8)
    assert counts.min() > 1_000
    assert counts.max() < 1_500


@pytest.mark.parametrize("shards", [2, 5])
def test_twice_as_many_shards_split_each_range_in_two(shards):
    hashes = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 10_000)
    assert (shard_of(hashes, 2 * shards) // 2 == shard_of(hashes, shards)).all()
