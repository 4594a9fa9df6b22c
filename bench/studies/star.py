"""Tables joined on one key, as a chain of joins and as one operator that has all of them: CPU, state, exchanged bytes.

Run by its path, no JVM needed: `python bench/studies/star.py [keys] [tables]`. The engine's own operators, blobs and
state over one core; inner joins, values of 100 random characters. A chain keeps both sides of each join, so the result
of each join but the last is stored once more. The one operator is a prototype: each change looks the others up. First
all keys come in every table, then updates of single tables. Both give the same results for the last update of a key.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.workloads.datasets import values
from proof.arrow import arrow_builder
from proof.layout import setting_of
from proof.stages import run_root
from watersmeet._engine.exchange.outlets import FlowColumns, edge_outlet, exit_outlets
from watersmeet._engine.exchange.routing import Drops, Outlet, pack
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, OperatorContext, SideValues, store_last
from watersmeet._engine.operators.level import run_operator
from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import position_columns
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.store import MemoryChunkStore
from watersmeet._plan.operators.spec import TableSchema

SHARDS, BATCH = 4, 50_000
COLUMNS = (("key", pa.int64()), ("value", pa.string()), ("ts", pa.int64()))


class Runs:
    """A plan batch by batch: its operators, their state, and the bytes of the blobs that cross an exchange."""

    def __init__(self, tables: int) -> None:
        builder = arrow_builder("star")
        sides = [builder.table(f"t{number}", key="long", value="string") for number in range(tables)]
        joined = sides[0]
        for side in sides[1:]:
            joined = joined.join(side, lambda a, b: pc.binary_join_element_wise(a, b, ""))
        joined.to("out")
        self.physical = builder.build().physical
        self.tables = tables
        self.stores: dict[tuple[int, int], MemoryChunkStore] = defaultdict(MemoryChunkStore)
        self.sent = 0
        self.results: dict[int, str] = {}
        self._offset = 0

    def frame(self, keys: np.ndarray, contents: pa.Array) -> pa.Table:
        """Rows as a source gives them."""
        numbers = np.arange(self._offset, self._offset + len(keys))
        self._offset += len(keys)
        columns = {name: np.zeros(len(keys), dtype=np.int64) for name in position_columns(self.physical.slots)}
        columns |= {"order_ts": numbers // 10, "offset": numbers, "ts": numbers // 10, "key": keys}
        return pa.table({name: pa.array(column) for name, column in columns.items()} | {"value": contents})

    def packed(self, outlet: Outlet, frames: Iterable[pa.Table]) -> dict[int, list[pa.Table]]:
        """Rows by shard, through blobs."""
        mail: dict[int, list[pa.Table]] = defaultdict(list)
        for frame in frames:
            for routed in pack(frame, [outlet], SHARDS, self.physical.slots, Drops()):
                content = blob.encode(routed.rows)
                self.sent += len(content)
                mail[routed.shard].append(blob.decode(content))
        return mail

    def state_bytes(self) -> int:
        """What the stores hold."""
        return sum(len(content) for store in self.stores.values() for content in store.chunks.values())


class Chain(Runs):
    """A chain of joins."""

    def run(self, table: int, keys: np.ndarray, contents: pa.Array) -> None:
        """One batch of one table."""
        edge = next(e for e in self.physical.edges if self._source(e.flow) == f"t{table}")
        frames: list[pa.Table] = [self.frame(keys, contents)]
        while True:
            found = []
            context = setting_of(self.physical, self.physical.operators[edge.target])
            for shard, parts in self.packed(edge_outlet(self.physical, edge, _naming), frames).items():
                state = State(self.stores[(edge.target, shard)], None)
                found += list(run_operator(context, {edge.side: pa.concat_tables(parts)}, state))
            frames = [run_root(self.physical, self.physical.roots[edge.target], rows) for rows in found]
            onward = [e for e in self.physical.edges if self.physical.flows[e.flow].operator == edge.target]
            if not onward:
                break
            (edge,) = onward
        for rows in frames:
            self.packed(exit_outlets(self.physical, self.physical.levels, _naming)[0], [rows])
            self.results.update(zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True))

    def _source(self, flow: int) -> str:
        found = self.physical.flows[flow]
        return found.node if found.operator is None else ""


class Star(Runs):
    """One operator with all tables."""

    def run(self, table: int, keys: np.ndarray, contents: pa.Array) -> None:
        """One batch of one table."""
        edge = next(e for e in self.physical.edges if self.physical.flows[e.flow].node == f"t{table}")
        context = self._context()
        for shard, parts in self.packed(
            edge_outlet(self.physical, edge, _naming), [self.frame(keys, contents)]
        ).items():
            state = State(self.stores[(0, shard)], None)
            for rows in star(context, {table: pa.concat_tables(parts)}, state):
                sides = [rows.column(f"side{number}") for number in range(self.tables)]
                whole = rows.append_column("value", pc.binary_join_element_wise(*sides, ""))
                made = whole.drop_columns([f"side{number}" for number in range(self.tables)])
                self.packed(exit_outlets(self.physical, self.physical.levels, _naming)[0], [made])
                self.results.update(zip(made.column("key").to_pylist(), made.column("value").to_pylist(), strict=True))
            state.commit()

    def _context(self) -> OperatorContext:
        first = setting_of(self.physical, self.physical.operators[0])
        kept = tuple(TableSchema(f"t{number}", COLUMNS) for number in range(self.tables))
        return replace(first, values=(pa.string(),) * self.tables, kept=kept)


def star(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """The prototype: each change with the current values of all other tables; inner."""
    count = len(context.values)
    events = Events(context, inputs, sides=count)
    ordered = Ordered(events.groups)
    pointers, present = [], np.ones(len(events), dtype=np.bool_)
    values_of = []
    for side in range(count):
        table = state.table(context.kept[side])
        values_ = SideValues(events, side, table)
        mine = events.side == side
        last = ordered.last_before(mine, inclusive=True)
        prior = values_.prior[events.groups.group_of_row]
        found = np.where(last >= 0, np.where(events.present[last], events.own[last], -1), prior)
        present &= found >= 0
        pointers.append(found)
        values_of.append(values_)
        if side in inputs:
            store_last(events, side, ordered.last_of_each(mine), values_.prior, table)
    rows = np.flatnonzero(present)
    if len(rows):
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
        for side in range(count):
            out[f"side{side}"] = values_of[side].picked(pointers[side][rows])
        yield from in_pieces(out)


def _naming(_: object) -> FlowColumns:
    return FlowColumns("key", "value", "old", None)


def measured(runs: Chain | Star, keys: int) -> tuple[float, float, int, int]:
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
    both: dict[str, Chain | Star] = {"chain": Chain(tables), "star": Star(tables)}
    found = {name: measured(runs, keys) for name, runs in both.items()}
    assert both["chain"].results == both["star"].results
    print(f"{tables} tables, {keys:,} keys; {4 * tables * BATCH // 2:,} updates of single tables")
    for name, (load, updates, state, sent) in found.items():
        print(
            f"  {name:6}load {load:6.1f} CPU-s, updates {updates:6.1f} CPU-s, state {state / 1e6:7.1f} MB, "
            f"exchanged by the updates {sent / 1e6:7.1f} MB"
        )
    (a, b, c, d), (e, f, g, h) = found.values()
    print(f"  chain / star: load {a / e:.2f}, updates {b / f:.2f}, state {c / g:.2f}, exchanged {d / h:.2f}")


if __name__ == "__main__":
    pa.set_cpu_count(1)
    given = [int(each) for each in sys.argv[1:]]
    main(*given, *[100_000, 5][len(given) :])
