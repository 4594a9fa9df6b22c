"""Tables joined on one key, as a chain of joins and as one operator that has all of them: CPU, state, exchanged bytes.

Run by its path, no JVM needed: `python bench/studies/star.py [keys] [tables]`. The engine's own operators, blobs and
state over one core; inner joins, values of 100 random characters. A chain of `join` keeps both sides of each join, so
the result of each join but the last is stored once more; `multi_join` keeps each table once. First all keys come in
every table, then updates of single tables. Both give the same results for the last update of a key.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.workloads.datasets import values
from proof.arrow import arrow_builder
from proof.layout import setting_of
from proof.stages import run_root
from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import (
    DropCounts,
    FlowColumns,
    Outlet,
    ShardCounts,
    edge_outlet,
    exit_outlets,
    route_rows,
)
from watersmeet._engine.operators import run_operator
from watersmeet._engine.rows import position_columns
from watersmeet._engine.state.runs import MemoryChunkStore, State

SHARDS, BATCH = 4, 50_000


def chain(tables: list[Any]) -> Any:
    """A chain of joins of two."""
    joined = tables[0]
    for table in tables[1:]:
        joined = joined.join(table, lambda a, b: pc.binary_join_element_wise(a, b, ""))
    return joined


def multi_join(tables: list[Any]) -> Any:
    """One join of all."""
    return tables[0].multi_join(tables[1:], lambda *values: pc.binary_join_element_wise(*values, ""))


class Runs:
    """A plan batch by batch: its operators, their state, and the bytes of the blobs that cross an exchange."""

    def __init__(self, build: Callable[[list[Any]], Any], tables: int) -> None:
        builder = arrow_builder("star")
        build([builder.table(f"t{number}", key="long", value="string") for number in range(tables)]).to("out")
        self.physical = builder.build().physical
        self.tables = tables
        self.stores: dict[tuple[int, int], MemoryChunkStore] = defaultdict(MemoryChunkStore)
        self.sent = 0
        self.results: dict[int, str] = {}
        self._offset = 0

    def run(self, table: int, keys: np.ndarray, contents: pa.Array) -> None:
        """One batch of one table."""
        edge = next(e for e in self.physical.edges if self._source(e.flow) == f"t{table}")
        frames: list[pa.Table] = [self._frame(keys, contents)]
        while True:
            found = []
            context = setting_of(self.physical, self.physical.operators[edge.target])
            for shard, parts in self._packed(edge_outlet(self.physical, edge, _naming), frames).items():
                state = State(self.stores[(edge.target, shard)], None)
                found += list(run_operator(context, {edge.side: pa.concat_tables(parts)}, state))
            frames = [run_root(self.physical, self.physical.roots[edge.target], rows) for rows in found]
            onward = [e for e in self.physical.edges if self.physical.flows[e.flow].operator == edge.target]
            if not onward:
                break
            (edge,) = onward
        for rows in frames:
            self._packed(exit_outlets(self.physical, self.physical.levels, _naming)[0], [rows])
            self.results.update(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))

    def state_bytes(self) -> int:
        """What the stores hold."""
        return sum(len(content) for store in self.stores.values() for content in store.chunks.values())

    def _frame(self, keys: np.ndarray, contents: pa.Array) -> pa.Table:
        """Rows as a source gives them."""
        numbers = np.arange(self._offset, self._offset + len(keys))
        self._offset += len(keys)
        columns = {name: np.zeros(len(keys), dtype=np.int64) for name in position_columns(self.physical.slots)}
        columns |= {"order_ts": numbers // 10, "offset": numbers, "ts": numbers // 10, "key": keys}
        return pa.table({name: pa.array(column) for name, column in columns.items()} | {"value": contents})

    def _packed(self, outlet: Outlet, frames: Iterable[pa.Table]) -> dict[int, list[pa.Table]]:
        """Rows by shard, through blobs."""
        mail: dict[int, list[pa.Table]] = defaultdict(list)
        for frame in frames:
            for routed in route_rows(frame, [outlet], ShardCounts(SHARDS), self.physical.slots, DropCounts()):
                content = row_sizes.encode(routed.rows)
                self.sent += len(content)
                mail[routed.shard].append(row_sizes.decode(content))
        return mail

    def _source(self, flow: int) -> str:
        found = self.physical.flows[flow]
        return found.node if found.operator is None else ""


def _naming(_: object) -> FlowColumns:
    return FlowColumns("key", "value", "old", None)


def measured(runs: Runs, keys: int) -> tuple[float, float, int, int]:
    """CPU-seconds of the load and of the updates, bytes of state, bytes exchanged by the updates."""
    rng, began = np.random.default_rng(1), time.process_time()
    for table in range(runs.tables):
        for begin in range(0, keys, BATCH):
            picked = np.arange(begin, min(keys, begin + BATCH))
            runs.run(table, picked, values(len(picked), rng))
    loaded, runs.sent = time.process_time(), 0
    for turn in range(4):
        for table in range(runs.tables):
            picked = rng.integers(0, keys, BATCH // 2)
            runs.run((table + turn) % runs.tables, picked, values(len(picked), rng))
    return loaded - began, time.process_time() - loaded, runs.state_bytes(), runs.sent


def main(keys: int, tables: int) -> None:
    """Measure both, by turns in one process, and print them."""
    both = {"chain": Runs(chain, tables), "multi_join": Runs(multi_join, tables)}
    found = {name: measured(runs, keys) for name, runs in both.items()}
    assert both["chain"].results == both["multi_join"].results
    print(f"{tables} tables, {keys:,} keys; {4 * tables * BATCH // 2:,} updates of single tables")
    for name, (load, updates, state, sent) in found.items():
        print(
            f"  {name:11}load {load:6.1f} CPU-s, updates {updates:6.1f} CPU-s, state {state / 1e6:7.1f} MB, "
            f"exchanged by the updates {sent / 1e6:7.1f} MB"
        )
    (a, b, c, d), (e, f, g, h) = found.values()
    print(f"  chain / multi_join: load {a / e:.2f}, updates {b / f:.2f}, state {c / g:.2f}, exchanged {d / h:.2f}")


if __name__ == "__main__":
    pa.set_cpu_count(1)
    given = [int(each) for each in sys.argv[1:]]
    main(*given, *[100_000, 5][len(given) :])
