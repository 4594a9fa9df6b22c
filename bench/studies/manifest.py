"""What a shard's manifest costs a batch, by the size of its table: bytes, and milliseconds to read and to write it.

Run by its path, no JVM needed: `python bench/studies/manifest.py [gigabytes ...]`. Segments and chunks are a thousand
times smaller than they are, so a table of 13 MB has the runs and chunks that one of 13 GB has. Each table is filled in
batches of a hundredth of it and then gets ten batches of updates of a thousandth."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.studies.state import LATEST, rows
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import CHUNK_BYTES, MemoryChunkStore, State

SMALLER = 1_000
ROW_BYTES = 128
UPDATES = 10


def filled(gigabytes: float) -> MemoryChunkStore:
    """The state of a table of this size."""
    rng, store = np.random.default_rng(1), MemoryChunkStore()
    keys = np.arange(int(gigabytes * 1e9 / ROW_BYTES / SMALLER), dtype=np.int64)
    for part in np.array_split(rng.permutation(keys), 100):
        _commit(store, part, rng)
    for _ in range(UPDATES):
        _commit(store, rng.choice(keys, max(1, len(keys) // 1_000), replace=False), rng)
    return store


def _commit(store: MemoryChunkStore, keys: np.ndarray, rng: np.random.Generator) -> None:
    whole = Policy()
    policy = Policy(segment=whole.segment // SMALLER, small=whole.small // SMALLER)
    state = State(store, policy=policy, chunk_bytes=CHUNK_BYTES // SMALLER)
    state.table(LATEST).put(rows(keys, rng))
    state.commit()


def milliseconds(work: Callable[[], object]) -> float:
    """The median of some calls."""
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return 1_000 * median(times)


def main(sizes: list[float]) -> None:
    """Print a line for each size."""
    print(f"{'GB':>8}{'runs':>8}{'chunks':>9}{'manifest, kB':>14}{'bytes per MB':>14}{'read, ms':>10}{'write, ms':>11}")
    for size in sizes:
        content = filled(size).get_manifest() or b""
        manifest = mf.read(content)
        runs = list(manifest.tables[LATEST.name].runs())
        stored = sum(run.size for run in runs) * SMALLER / 1e6
        line = f"{size:8g}{len(runs):8}{sum(run.chunks for run in runs):9,}{len(content) / 1e3:14.1f}"
        line += f"{len(content) / stored:14.1f}{milliseconds(partial(mf.read, content)):10.2f}"
        print(f"{line}{milliseconds(partial(mf.write, manifest)):11.2f}", flush=True)


if __name__ == "__main__":
    main([float(size) for size in sys.argv[1:]] or [1.3, 13.0, 130.0])
