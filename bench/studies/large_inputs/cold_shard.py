"""What a shard with gigabytes of state costs the first batch on a machine that has no cache of it.

Run by its path, no JVM needed: `python bench/studies/large_inputs/cold_shard.py [GB]` (default 2). A table of one shard
is filled with rows of 128 bytes that no compression makes smaller, a million at a time, through a store in memory. Then
batches of random updates come, few and many: with the cache as it was, with an empty one, and once more behind that.
Printed: seconds and CPU-seconds of lookup and commit, megabytes that were read from the store, and what the cache then
has on the disk. What to look for: whether a cold batch reads all of the shard, or what its keys need."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.measuring.measure import folder_bytes
from bench.studies.state import rows, update
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.runs import MemoryChunkStore

ROW_BYTES, FILL = 128, 1_000_000
UPDATES = (100, 50_000)
"""Random updates of a batch."""


def filled(keys: int, rng: np.random.Generator, folder: str) -> MemoryChunkStore:
    """A store with the state of so many keys, in random order of their hashes."""
    store, cache = MemoryChunkStore(), RunCache(folder)
    for begin in range(0, keys, FILL):
        update(store, cache, rows(np.arange(begin, min(begin + FILL, keys)), rng))
    return store


def batch(store: MemoryChunkStore, folder: str, keys: int, changed: int, rng: np.random.Generator) -> str:
    """One batch with the cache of a folder, of which no process knows anything yet; its line."""
    given = rows(rng.choice(keys, changed, replace=False), rng)
    before, begin, cpu = store.traffic.bytes_read, time.perf_counter(), time.process_time()
    took = update(store, RunCache(folder), given)
    whole, used = time.perf_counter() - begin, time.process_time() - cpu
    read, kept = (store.traffic.bytes_read - before) / 1e6, folder_bytes(Path(folder)) / 1e6
    return f"{changed:>9,}{took.lookup:>10.2f}{took.commit:>10.2f}{whole:>9.2f}{used:>8.2f}{read:>10,.0f}{kept:>11,.0f}"


def main(sizes: list[float]) -> None:
    """Print a table for each size."""
    pa.set_cpu_count(1)
    for size in sizes:
        rng, keys = np.random.default_rng(1), int(size * 1e9 / ROW_BYTES)
        with tempfile.TemporaryDirectory() as first:
            begin = time.perf_counter()
            store = filled(keys, rng, first)
            stored = sum(map(len, store.chunks.values())) / 1e6
            print(f"{keys:,} keys, {stored:,.0f} MB in the store, filled in {time.perf_counter() - begin:.0f} s")
            print(f"{'cache':12}{'updates':>9}{'lookup, s':>10}{'commit, s':>10}{'both, s':>9}{'CPU-s':>8}", end="")
            print(f"{'read, MB':>10}{'cache, MB':>11}", flush=True)
            for changed in UPDATES:
                print(f"{'warm':12}{batch(store, first, keys, changed, rng)}", flush=True)
        for changed in UPDATES:
            with tempfile.TemporaryDirectory() as lost:
                print(f"{'none':12}{batch(store, lost, keys, changed, rng)}", flush=True)
                print(f"{'behind that':12}{batch(store, lost, keys, changed, rng)}", flush=True)


if __name__ == "__main__":
    main([float(argument) for argument in sys.argv[1:]] or [2.0])
