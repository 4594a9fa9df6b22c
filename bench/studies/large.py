"""Whether rows and histories of a few gigabytes pass: each case in a process of its own, with the memory it took.

Run by its path, no JVM needed: `python bench/studies/large.py [case ...]`. A case runs operators of one shard over one
batch, as a worker of Spark's does, and prints its results, their bytes, the seconds, and the largest resident memory of
the process: all of it, and without what is mapped from files and can be dropped at any time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from proof.arrow import arrow_builder
from proof.layout import setting_of
from watersmeet._engine import row_sizes
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.operator import OperatorContext, operator_table
from watersmeet._engine.operators import run_operator
from watersmeet._engine.rows import position_columns
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._worker.spill import LabelInputs

MEGABYTE = 1 << 20
BLOB_ROWS = 1_000
Frames = Mapping[int, pa.Table]


class Shard:
    """A shard of a topology's operators, with state."""

    def __init__(self, kind: str, folder: str) -> None:
        builder = arrow_builder("large")
        table = builder.table("right", key="string", value="string")
        if kind == "stream_table":
            builder.stream("left", key="string", value="string").join(table, _first).to("out")
        elif kind == "foreign_key":
            left = builder.table("left", key="string", value="string")
            left.join(table, _first, foreign_key=lambda value: value).to_stream().to("out")
        else:
            builder.table("left", key="string", value="string").join(table, _first).to_stream().to("out")
        self._physical = builder.build().physical
        self._stores: dict[int, MemoryChunkStore] = {}
        self._folder, self._offset = folder, 0

    def run(self, operator: int, inputs: Frames) -> Iterator[pa.Table]:
        """One batch of an operator."""
        store = self._stores.setdefault(operator, MemoryChunkStore())
        return run_operator(self.setting(operator), inputs, State(store, RunCache(self._folder)))

    def merge(self, operator: int) -> int:
        """Merges all of an operator's first table; how many rows it has then."""
        state = State(self._stores[operator], RunCache(self._folder))
        table = operator_table(self.setting(operator), state)
        state.commit(compact=True)
        return sum(map(len, table.scan()))

    def setting(self, operator: int) -> OperatorContext:
        """What the operator is told of the plan."""
        return setting_of(self._physical, self._physical.operators[operator])

    def frame(self, keys: pa.Array, values: list[Any] | pa.Array, **more: Any) -> pa.Table:
        """Rows of one side, in blobs as they come out of the exchange."""
        count, zeros = len(keys), np.zeros(len(keys), dtype=np.int64)
        names = position_columns(self._physical.slots)
        columns: dict[str, Any] = dict.fromkeys((*names, "ts"), pa.array(zeros))
        columns["offset"] = pa.array(self._offset + np.arange(count))
        self._offset += count
        columns |= {"hash": hash_keys(keys), "key": keys, "value": values}
        return pa.table(columns | more)


def _first(left: pa.Array, right: pa.Array) -> pa.Array:
    return left


def shared_value(kind: str, folder: str) -> Iterator[pa.Table]:
    """2,200 rows that meet one value of a megabyte."""
    shard, one = Shard(kind, folder), pa.array(["one"] * 2_200)
    table = shard.frame(one[:1], ["x" * MEGABYTE])
    if kind == "foreign_key":
        names = pa.array([f"k{number}" for number in range(2_200)])
        messages = shard.run(0, {0: shard.frame(names, one, foreign_key=one)})
        yield from shard.run(1, {0: pa.concat_tables(messages), 1: table})
    else:
        last = len(shard._physical.operators) - 1
        yield from shard.run(last, {0: shard.frame(one, pa.array(["v"] * 2_200)), 1: table})


def many_rows(_: str, folder: str) -> Iterator[pa.Table]:
    """250,000 rows of 8.6 kB in one shard and batch, all of them kept."""
    shard, value, inputs = Shard("table_table", folder), "x" * 8_600, LabelInputs({0: 0, 1: 1})
    for begin in range(0, 250_000, BLOB_ROWS):
        keys = pa.array([f"k{number}" for number in range(begin, begin + BLOB_ROWS)])
        inputs.add(1, row_sizes.encode(shard.frame(keys, pa.array([value] * BLOB_ROWS))))
    inputs.add(0, row_sizes.encode(shard.frame(pa.array(["k1", "k2"]), ["a", "b"])))
    yield from shard.run(len(shard._physical.operators) - 1, inputs.tables())


def subscribers(_: str, folder: str) -> Iterator[pa.Table]:
    """A million subscribers of one row with a value of 1 kB that changes three times in a batch."""
    shard, count = Shard("foreign_key", folder), 1_000_000
    names, one = pa.array([f"k{number}" for number in range(count)]), pa.array(["one"] * count)
    messages = pa.concat_tables(shard.run(0, {0: shard.frame(names, one, foreign_key=one)}))
    list(shard.run(1, {0: messages}))
    yield from shard.run(1, {1: shard.frame(one[:3], [f"{change}" * 1_000 for change in range(3)])})


def merge(_: str, folder: str) -> Iterator[pa.Table]:
    """A forced merge of 2,400 subscribers of one key, each with a value of a megabyte."""
    shard = Shard("foreign_key", folder)
    for begin in range(0, 2_400, 200):
        names, one = pa.array([f"k{number}" for number in range(begin, begin + 200)]), pa.array(["one"] * 200)
        values = pa.array([str(number % 10) * MEGABYTE for number in range(200)])
        messages = pa.concat_tables(shard.run(0, {0: shard.frame(names, values, foreign_key=one)}))
        list(shard.run(1, {0: messages}))
    assert shard.merge(1) == 2_400
    yield pa.table({"rows": [2_400]})


CASES = {
    "stream_table": shared_value,
    "table_table": shared_value,
    "foreign_key": shared_value,
    "many_rows": many_rows,
    "subscribers": subscribers,
    "merge": merge,
}


class Memory(threading.Thread):
    """Watches the resident memory of this process, in kB: all of it, and what is not mapped from files."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = self.own = 0

    def run(self) -> None:
        """Look twenty times a second."""
        while True:
            lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
            resident, own = (int(lines[name].split()[0]) for name in ("VmRSS", "RssAnon"))
            self.most, self.own = max(self.most, resident), max(self.own, own)
            time.sleep(0.05)


def measure(name: str) -> None:
    """Run one case and print its line."""
    memory, begin = Memory(), time.perf_counter()
    memory.start()
    rows = size = largest = 0
    with tempfile.TemporaryDirectory() as folder:
        for table in CASES[name](name, folder):
            rows, size, largest = rows + len(table), size + table.nbytes, max(largest, table.nbytes)
    took, giga = time.perf_counter() - begin, 1e6
    line = f"{name:14}{rows:>11,}{size / 1e9:>9.2f}{largest / 1e6:>10.0f}{took:>9.1f}"
    print(f"{line}{memory.most / giga:>9.2f}{memory.own / giga:>9.2f}", flush=True)


def main(names: list[str]) -> int:
    """Run the cases, each in a process of its own."""
    if len(names) == 2 and names[0] == "--here":
        measure(names[1])
        return 0
    print(f"{'case':14}{'results':>11}{'GB':>9}{'MB, most':>10}{'seconds':>9}{'RSS, GB':>9}{'own, GB':>9}", flush=True)
    return max(subprocess.call([sys.executable, __file__, "--here", name]) for name in names or CASES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
