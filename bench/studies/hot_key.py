"""What a batch costs that meets a key with a long history: a windowed join of streams, one shard, one hot key.

Run by its path, no JVM needed: `python bench/studies/hot_key.py [stored rows ...]`. For each size it stores so many
rows of one key, a millisecond apart, all still inside the join's retention, then gives batches of 100 late records of
the other side that meet a few stored rows each. It prints the milliseconds of a lookup in the log and of a whole batch
(median). What to look for: the lookup does not depend on the history."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from proof.arrow import arrow_builder
from proof.layout import setting_of
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.operator import operator_table
from watersmeet._engine.operators import run_operator
from watersmeet._engine.rows import PARTITION_BITS, position_columns
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.runs import MemoryChunkStore, State, Table
from watersmeet._plan.physical import TIME_SIDE
from watersmeet.windows import JoinWindows

COMMITS, RECORDS, TURNS = 20, 100, 15
LEFT, RIGHT = 0, 1


class Join:
    """An inner join of streams of one key, its state filled."""

    def __init__(self, rows: int, cache: RunCache) -> None:
        builder = arrow_builder("hot")
        left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
        left.join(right, lambda a, b: a, JoinWindows(2, 2, 10 * rows)).to("out")
        physical = builder.build().physical
        self._setting = setting_of(physical, physical.operators[0])
        self._store, self._cache = MemoryChunkStore(), cache
        self._offset = self._latest = 0
        for times in np.array_split(np.arange(rows), COMMITS):
            self.batch(LEFT, times)

    def batch(self, side: int, times: np.ndarray) -> int:
        """Records of a side at these times; how many results there are."""
        state = State(self._store, self._cache)
        frame = self._frame(side, times)
        told = pa.table({name: frame.column(name).slice(len(frame) - 1) for name in ("srcpart", "order_ts")})
        results = run_operator(self._setting, {side: frame, TIME_SIDE: told}, state)
        return sum(map(len, results))

    def log(self) -> Table:
        """What is stored of the left side; opening it reads the manifest, which grows with the state."""
        return operator_table(self._setting, State(self._store, self._cache), LEFT)

    def _frame(self, side: int, times: np.ndarray) -> pa.Table:
        count, key = len(times), pa.array(["k"] * len(times))
        zeros = np.zeros(count, dtype=np.int64)
        columns = dict.fromkeys(position_columns(self._setting.slots), pa.array(zeros))
        columns |= {"order_ts": pa.array(np.maximum(times, self._latest)), "ts": pa.array(times)}
        columns |= {"srcpart": pa.array(zeros + (side << PARTITION_BITS))}
        columns |= {"offset": pa.array(self._offset + np.arange(count))}
        self._offset, self._latest = self._offset + count, max(self._latest, int(times.max()))
        return pa.table(columns | {"hash": hash_keys(key), "key": key, "value": pa.array(["v" * 100] * count)})


def lookup(log: Table, low: int, high: int) -> int:
    """How many rows of the key there are in a stretch of time."""
    key = pa.array(["k"])
    return len(log.range(hash_keys(key), key, np.array([low]), np.array([high])).rows)


def median_ms(work: Callable[[], object]) -> float:
    """The median of some runs, in milliseconds."""
    times = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        work()
        times.append(1_000 * (time.perf_counter() - begin))
    return statistics.median(times)


def main(sizes: list[int]) -> None:
    """Print a line for each size."""
    print(f"{'rows of the key':>16}{'lookup, ms':>12}{'batch, ms':>12}")
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            join = Join(rows, RunCache(folder))
            late = np.random.default_rng(1).integers(0, rows // 100, RECORDS) + rows // 2
            log = join.log()
            assert lookup(log, rows // 2, rows // 2 + 9) == 10
            looked = median_ms(partial(lookup, log, rows // 2, rows // 2 + 9))
            batch = median_ms(partial(join.batch, RIGHT, late))
            print(f"{rows:16,}{looked:12.2f}{batch:12.2f}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [20_000, 200_000, 2_000_000])
