"""What a foreign-key join sends over its exchanges, beside KIP-213's way, and what a hot right row costs.

Run by its path, no JVM needed: `python bench/studies/foreign_key.py [left rows]`. The engine's own operators and blobs
over one core: left rows on a hundredth as many right rows, values of 100 random characters; then a batch of left
updates, of which one in ten changes its foreign key, and a batch of right updates; then one right row that all
left rows refer to. KIP-213's messages are written as Arrow blobs with the same columns of position, so that
only what is sent differs: hash instead of the left value on the way out, the right value on the way back.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.workloads.datasets import values
from proof.arrow import arrow_builder
from proof.layout import setting_of
from proof.stages import run_root, with_extra
from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import (
    DropCounts,
    FlowColumns,
    Outlet,
    ShardCounts,
    direct_outlet,
    edge_outlet,
    exit_outlets,
    route_rows,
)
from watersmeet._engine.operators import run_operator
from watersmeet._engine.rows import position_columns
from watersmeet._engine.state.runs import MemoryChunkStore, State

SHARDS = 4
HASH = pa.binary(16)


class Join:
    """An inner foreign-key join, batch by batch; counts the bytes of the blobs that cross each exchange."""

    def __init__(self) -> None:
        builder = arrow_builder("bench")
        left, right = (builder.table(name, key="long", value="string") for name in ("left", "right"))
        reference = lambda value: pc.utf8_slice_codeunits(value, 0, 8).cast(pa.int64())  # noqa: E731 - one use
        concat = lambda a, b: pc.binary_join_element_wise(a, b, "")  # noqa: E731 - one use
        left.join(right, concat, foreign_key=reference).to("out")
        self.physical = builder.build().physical
        self.stores: dict[tuple[int, int], MemoryChunkStore] = defaultdict(MemoryChunkStore)
        self.sent: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self._offset = 0

    def run(self, side: int, keys: np.ndarray, contents: pa.Array, *, kip_213: bool = False) -> None:
        """One batch of one side: left 0, right 1."""
        send, receive = self.physical.operators
        edge = next(e for e in self.physical.edges if e.side == side and not e.reads.direct)
        frame = with_extra(self.physical, edge, self._frame(keys, contents))
        mail = self._packed("into the join", edge_outlet(self.physical, edge, _naming), [frame])
        if side == 0:
            (direct,) = self.physical.direct_edges(send)
            told = list(self._results(send.id, 0, mail))
            mail = self._packed("messages", direct_outlet(self.physical, direct), told)
            if kip_213:
                self._count("KIP-213: messages", [_without_values(rows) for rows in told])
        results = self._results(receive.id, side, mail)
        for rows in results:
            self._count("results to the joiner", [rows])
            joined = run_root(self.physical, self.physical.roots[receive.id], rows)
            self._packed("joined, to the left key", exit_outlets(self.physical, 2, _naming)[0], [joined])
            if kip_213:
                self._count("KIP-213: answers", [_answer(rows)])

    def _frame(self, keys: np.ndarray, contents: pa.Array) -> pa.Table:
        count = len(keys)
        numbers = np.arange(self._offset, self._offset + count)
        self._offset += count
        columns = {name: np.zeros(count, dtype=np.int64) for name in position_columns(self.physical.slots)}
        columns |= {"order_ts": numbers // 10, "offset": numbers, "ts": numbers // 10, "key": keys}
        return pa.table({name: pa.array(column) for name, column in columns.items()} | {"value": contents})

    def _packed(self, name: str, outlet: Outlet, frames: Iterable[pa.Table]) -> dict[int, list[pa.Table]]:
        mail: dict[int, list[pa.Table]] = defaultdict(list)
        for frame in frames:
            for routed_batch in route_rows(frame, [outlet], ShardCounts(SHARDS), self.physical.slots, DropCounts()):
                self._count(name, [routed_batch.rows])
                mail[routed_batch.shard].append(routed_batch.rows)
        return mail

    def _results(self, operator: int, side: int, mail: dict[int, list[pa.Table]]) -> Iterator[pa.Table]:
        context = setting_of(self.physical, self.physical.operators[operator])
        for shard, parts in mail.items():
            state = State(self.stores[(operator, shard)], None)
            yield from run_operator(context, {side: pa.concat_tables(parts)}, state)

    def _count(self, name: str, tables: Iterable[pa.Table]) -> None:
        for table in tables:
            self.sent[name] += len(row_sizes.encode(table))
            self.rows[name] += len(table)

    def report(self, title: str) -> None:
        """Print what was sent since the last report."""
        print(f"\n{title}")
        for name, count in self.sent.items():
            print(
                f"  {name:24}{count / 1e6:10.1f} MB{self.rows[name]:12,} rows{count / self.rows[name]:8.0f} bytes each"
            )
        self.sent.clear()
        self.rows.clear()


def _naming(_: object) -> FlowColumns:
    return FlowColumns("key", "value", "old", None)


def _hashes(rows: pa.Table) -> pa.Array:
    content = np.random.default_rng(1).bytes(16 * len(rows))
    return pa.Array.from_buffers(HASH, len(rows), [None, pa.py_buffer(content)])


def _without_values(rows: pa.Table) -> pa.Table:
    """A subscription as KIP-213 sends it: the hash of the left value, not the value."""
    return rows.drop_columns(["value", "hash"]).append_column("value_hash", _hashes(rows))


def _answer(rows: pa.Table) -> pa.Table:
    """What KIP-213's right side answers: the hash that it was told, and the right value."""
    return rows.drop_columns(["left", "joined"]).append_column("value_hash", _hashes(rows))


def contents_of(foreign_keys: np.ndarray, rng: np.random.Generator) -> pa.Array:
    """Left values of 100 characters that begin with their foreign key."""
    digits = pc.utf8_lpad(pa.array(foreign_keys).cast(pa.string()), 8, "0")
    return pc.binary_join_element_wise(digits, pc.utf8_slice_codeunits(values(len(foreign_keys), rng), 8), "")


def spread(left: int) -> None:
    """A hundred left rows on each right row."""
    rng, right = np.random.default_rng(1), left // 100
    join, rows = Join(), np.arange(left)
    foreign_keys = rng.integers(0, right, left)
    join.run(1, np.arange(right), values(right, rng))
    for begin in range(0, left, 250_000):
        picked = rows[begin : begin + 250_000]
        join.run(0, picked, contents_of(foreign_keys[picked], rng))
    join.sent.clear()
    join.rows.clear()
    picked = rng.integers(0, left, left // 4)
    moved = rng.random(len(picked)) < 0.1
    foreign_keys[picked[moved]] = rng.integers(0, right, int(moved.sum()))
    join.run(0, picked, contents_of(foreign_keys[picked], rng), kip_213=True)
    join.report(f"{len(picked):,} left updates, one in ten to another of {right:,} right rows")
    told = rng.permutation(right)[: right // 4]
    join.run(1, told, values(len(told), rng), kip_213=True)
    join.report(f"{len(told):,} right updates")


def hot(left: int) -> None:
    """All left rows on one right row."""
    rng, join = np.random.default_rng(2), Join()
    for begin in range(0, left, 250_000):
        picked = np.arange(begin, min(left, begin + 250_000))
        join.run(0, picked, contents_of(np.zeros(len(picked), dtype=np.int64), rng))
    join.sent.clear()
    join.rows.clear()
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    join.run(1, np.zeros(1, dtype=np.int64), values(1, rng))
    took, after = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    join.report(
        f"one right update, {left:,} left rows on it: {took:.1f} CPU-s, peak memory +{(after - before) / 1e3:.0f} MB"
    )


if __name__ == "__main__":
    pa.set_cpu_count(1)
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    hot(size)
    spread(size)
