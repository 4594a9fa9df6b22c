"""How fast the engine's state is on one core: key kernels, and batches of updates to states of several sizes.

Run by its path, no JVM needed: `python bench/studies/state.py [keys ...]`. Each state gets batches of 100,000 random
updates (8 byte keys, 100 byte values) through a store in memory and the machine's cache of runs; per state it
prints seconds per batch (median and worst) and the bytes that a state store would have got. What to look for:
the lookup grows with the logarithm of the state, and so do the bytes per batch. Then batches of a tenth of 200,000 keys
with rows of 1 kB and of 100 bytes, relocated as by default and merged only: CPU and stored bytes of a record, and how
often what lives lies there at most. Large rows cost less, small ones the same.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from watersmeet._engine.keys import encode_keys, equal_keys, group_keys, hash_keys
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._plan.declaration import TableSchema

BATCH = 100_000
BATCHES = 30
VALUE_BYTES = 100
MERGED = Policy(bulk=1 << 40)
"""Rows are never relocated."""
RELOCATION_KEYS, RELOCATION_ROUNDS = 200_000, 5
"""Keys of the states whose rows are moved, and how often each is updated."""
SCHEMA = pa.schema([("hash", pa.int64()), ("key", pa.int64()), ("value", pa.string())])
LATEST = TableSchema("latest", (("key", pa.int64()), ("value", pa.string())))


@dataclass(frozen=True)
class Batch:
    """What one batch took."""

    lookup: float
    commit: float
    written: int
    levels: int


def seconds(work: Callable[[], object], repeat: int = 5) -> float:
    """The best of some runs."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def kernels(rng: np.random.Generator) -> None:
    """Print what the key kernels need for a million keys."""
    count = 1_000_000
    numbers = pa.array(rng.integers(-(2**62), 2**62, count))
    texts = pa.array([f"key-{i:08d}" for i in rng.permutation(count)])
    print(f"{'1 million keys, ms':24}{'hash':>8}{'encode':>8}{'equal':>8}{'group':>8}")
    pairs = pa.StructArray.from_arrays([numbers, texts], ["number", "text"])
    for name, keys in (("int64", numbers), ("12 byte text", texts), ("struct of both", pairs)):
        hashes = hash_keys(keys)
        times = [
            seconds(partial(hash_keys, keys)),
            seconds(partial(encode_keys, keys)),
            seconds(partial(equal_keys, keys, keys)),
            seconds(partial(group_keys, hashes, keys)),
        ]
        print(f"{name:24}" + "".join(f"{1000 * took:8.1f}" for took in times))


def rows(keys: np.ndarray, rng: np.random.Generator, size: int = VALUE_BYTES) -> pa.Table:
    """Rows with values of random printable bytes, which lz4 cannot make smaller."""
    data = rng.integers(32, 127, len(keys) * size, dtype=np.uint8)
    offsets = np.arange(len(keys) + 1, dtype=np.int32) * size
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    values = pa.Array.from_buffers(pa.string(), len(keys), buffers)
    key = pa.array(keys)
    return pa.table({"hash": hash_keys(key), "key": key, "value": values}, schema=SCHEMA)


def update(store: MemoryChunkStore, cache: RunCache, changed: pa.Table, policy: Policy | None = None) -> Batch:
    """One batch as an operator does it: group, look up, put, commit."""
    written = store.traffic.bytes_written
    begin = time.perf_counter()
    state = State(store, cache, policy=policy)
    table = state.table(LATEST)
    hashes, keys = changed["hash"].to_numpy(), changed["key"].combine_chunks()
    first = group_keys(hashes, keys).first
    table.point(hashes[first], keys.take(pa.array(first)), columns=["value"])
    looked_up = time.perf_counter()
    table.put(changed)
    state.commit()
    end = time.perf_counter()
    levels = len(state.manifest.tables["latest"].levels)
    return Batch(looked_up - begin, end - looked_up, store.traffic.bytes_written - written, levels)


def history(keys: int, rng: np.random.Generator) -> list[Batch]:
    """A state of so many keys, and batches of updates to it."""
    with tempfile.TemporaryDirectory() as root:
        store, cache = MemoryChunkStore(), RunCache(root)
        universe = np.unique(rng.integers(-(2**62), 2**62, keys))
        for begin in range(0, len(universe), 1_000_000):
            update(store, cache, rows(universe[begin : begin + 1_000_000], rng))
        picks = (rng.choice(len(universe), min(BATCH, len(universe)), replace=False) for _ in range(BATCHES))
        return [update(store, cache, rows(universe[pick], rng)) for pick in picks]


def relocation(size: int, policy: Policy, rng: np.random.Generator) -> tuple[float, float, float]:
    """Microseconds of CPU and bytes that are stored for a record, and the most that lies there, as so many states."""
    with tempfile.TemporaryDirectory() as root:
        store, cache, most, cpu = MemoryChunkStore(), RunCache(root), 0, 0.0
        universe = np.unique(rng.integers(-(2**62), 2**62, RELOCATION_KEYS))
        for part in np.array_split(universe, 10):
            update(store, cache, rows(part, rng, size), policy)
        live, written, records = sum(map(len, store.chunks.values())), 0, 0
        for turn in range(10 * RELOCATION_ROUNDS):
            changed = rows(rng.choice(universe, RELOCATION_KEYS // 10, replace=False), rng, size)
            before = store.traffic.bytes_written
            begin = time.process_time()
            update(store, cache, changed, policy)
            # the first round is what begins to be replaced
            if turn >= 10:
                cpu += time.process_time() - begin
                written, records = written + store.traffic.bytes_written - before, records + len(changed)
                most = max(most, sum(map(len, store.chunks.values())))
    return 1e6 * cpu / records, written / records, most / live


def print_relocation(rng: np.random.Generator) -> None:
    """Print what it costs to relocate rows and to merge them."""
    print(f"\n{RELOCATION_KEYS:,} keys, {RELOCATION_KEYS // 10:,} updates a batch; CPU and stored bytes of a record")
    print(f"{'row':>8}{'':>12}{'CPU, us':>10}{'bytes':>10}{'most, of live':>16}")
    for size in (1_000, 100):
        for name, policy in (("merged", MERGED), ("relocated", Policy()), ("merged", MERGED)):
            cpu, written, most = relocation(size, policy, rng)
            print(f"{size:8,}{name:>12}{cpu:10.2f}{written:10,.0f}{most:16.2f}", flush=True)


def main(sizes: list[int]) -> None:
    """Print all tables."""
    pa.set_cpu_count(1)
    rng = np.random.default_rng(1)
    kernels(rng)
    print(f"\n{BATCH:,} updates a batch, {BATCHES} batches; seconds: median, worst")
    print(f"{'live keys':>12}{'lookup':>16}{'commit':>16}{'both':>16}{'MB: mean, worst':>26}{'levels':>8}")
    for size in sizes:
        batches = history(size, rng)
        line = f"{size:12,}"
        lookups, commits = ([getattr(batch, part) for batch in batches] for part in ("lookup", "commit"))
        for times in (lookups, commits, [sum(both) for both in zip(lookups, commits, strict=True)]):
            line += f"{np.median(times):9.3f}{max(times):7.3f}"
        megabytes = [batch.written / 1e6 for batch in batches]
        line += f"{np.mean(megabytes):18.1f}{max(megabytes):8.1f}{max(b.levels for b in batches):8}"
        print(line, flush=True)
    print_relocation(rng)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [100_000, 1_000_000, 4_000_000])
