"""EngineDriver: a topology run by the engine alone, without a JVM.

The same plan, exchange, blobs, operators and state as on Spark; only the users' functions are Arrow ones
(`arrow_builder`) and the state stores are in memory. All inputs form one source partition whose offset is
the piping sequence.

>>> import pyarrow.compute as pc
>>> from proof.arrow import arrow_builder
>>> builder = arrow_builder("test")
>>> left, right = (builder.table(name, key="string", value="string") for name in ("left", "right"))
>>> _ = left.join(right, lambda l, r: pc.binary_join_element_wise(l, r, "+")).to("out")
>>> driver = EngineDriver(builder.build(), shards=2)
>>> driver.pipe("left", "k", "a", ts=0)
>>> driver.pipe("right", "k", "b", ts=1)
>>> driver.run_batch()
>>> [(result.key, result.value, result.ts) for result in driver.read("out")]
[('k', 'a+b', 1)]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from proof.layout import PlanLayout, layout_of
from proof.stages import run_flow, run_root, with_extra
from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import (
    Clock,
    DropCounts,
    Outlet,
    RoutedBatch,
    ShardCounts,
    clock_batches,
    route_rows,
    time_movers,
    watermark_batches,
    with_copies,
    with_time,
)
from watersmeet._engine.operators import run_operator
from watersmeet._engine.rows import (
    AT_FIRST,
    AT_LAST,
    HEADERS,
    PARTITION_BITS,
    held_keys,
    ints,
    path_columns,
    position_columns,
    position_tuples,
    sort_by_position,
    stacked,
)
from watersmeet._engine.state.carry import CarriedTables, divide, put_together
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._plan.physical import Flow, Operator, Physical
from watersmeet.api.topology import Topology
from watersmeet.errors import TopologyError


@dataclass(frozen=True)
class Result:
    """One record of an output.

    Parameters
    ----------
    key, value, ts : the record.
    step : piping sequence number of the record that caused it; where time let it go, of the record that moved time, or
        of the last one, where the wall clock did.
    position : its place in the order of all results, over all outputs.
    """

    key: Any
    value: Any
    ts: int
    step: int
    position: tuple[int | bytes, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class _Piped:
    source: int
    key: Any
    value: Any
    ts: int
    step: int
    partition: int = 0


class EngineDriver:
    """Runs a topology batch by batch.

    Parameters
    ----------
    topology : built with `arrow_builder`.
    shards : how many shards each operator has; two are in one task, of which each has one copy of a global table.
    partitioned : whether inputs have partitions of their own, as topics have, and are merged by time.
    idle_after_ms : as the option `idle_after` of a start; 0: time waits for records.
    record_cache : as the option of a start.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        shards: int = 2,
        partitioned: bool = False,
        idle_after_ms: int = 0,
        record_cache: bool = False,
    ) -> None:
        self.partitioned = partitioned
        self.topology = topology
        self.shards = shards
        self.drops = DropCounts()
        self.stores: dict[tuple[int, int], MemoryChunkStore] = defaultdict(MemoryChunkStore)
        self.layout = layout_of(topology, idle_after_ms, partitioned, record_cache)
        self._physical = self.layout.physical
        self._wall_clock: int | None = None
        self._inputs = {source.input: i for i, source in enumerate(topology.plan.sources)}
        self._piped: list[_Piped] = []
        self._step = self._begun = 0
        self._batches = 0
        self._results: dict[str, list[Result]] = defaultdict(list)

    def pipe(self, input: str, key: Any, value: Any, *, ts: int, partition: int = 0) -> None:
        """Put one record into the next batch."""
        if input not in self._inputs:
            raise TopologyError(
                f"Unknown input {input!r}.", given=repr(input), hint=f"Inputs: {', '.join(self._inputs)}."
            )
        self._piped.append(_Piped(self._inputs[input], key, value, ts, self._step, partition))
        self._step += 1

    def show_wall_clock(self, ms: int) -> None:
        """What the wall clock shows in the next batch."""
        self._wall_clock = ms

    def read(self, output: str) -> list[Result]:
        """The records of an output since the last read, in order."""
        return self._results.pop(output, [])

    def run_as(self, physical: Physical) -> None:
        """Run the topology as this plan has it; it has not run yet."""
        self.layout, self._physical = PlanLayout(physical), physical

    def follow(self, other: EngineDriver) -> None:
        """Number records behind those of another driver, which ran before."""
        self._step, self._begun, self._batches = other._step, other._begun, other._batches

    def rows_in_stores(self) -> int:
        """Live rows in all stores."""
        count = 0
        for operator, shard in self.stores:
            state = State(self.stores[(operator, shard)], None)
            for kept in self.layout.tables_of(operator):
                # rows that are only appended have no table
                if not kept.appended:
                    count += sum(len(rows) for rows in state.table(kept).scan())
        return count

    def rescale(self, shards: int) -> None:
        """Divide the state over another number of shards, as a start with `shards=` and `evolve=True` does."""
        parts: dict[tuple[int, int], list[MemoryChunkStore]] = defaultdict(list)
        for (operator, shard), store in sorted(self.stores.items()):
            if store.manifest is not None:
                tables = CarriedTables(tuple((t.name, t) for t in self.layout.tables_of(operator)), scalars=True)
                made: dict[int, MemoryChunkStore] = defaultdict(MemoryChunkStore)
                counts = self.counts.of(operator), self._counts(shards).of(operator)
                divide(store, tables, shard, counts, made.__getitem__)
                for number, part in sorted(made.items()):
                    parts[operator, number] += [part] if part.manifest is not None else []
        self.stores, self.shards = defaultdict(MemoryChunkStore), shards
        for place, found in parts.items():
            chunks = {name: chunk for part in found for name, chunk in part.chunks.items()}
            manifest = put_together([part.manifest for part in found if part.manifest is not None])
            self.stores[place] = MemoryChunkStore(manifest, chunks)

    @property
    def counts(self) -> ShardCounts:
        """How many shards each operator has."""
        return self._counts(self.shards)

    def _counts(self, shards: int) -> ShardCounts:
        return ShardCounts(shards, with_copies(self._physical.operators, shards, tasks=(shards + 1) // 2))

    def new_batch(self) -> EngineBatch:
        """What the next micro-batch goes through; a driver that treats batches otherwise gives its own."""
        return EngineBatch(self)

    def run_batch(self) -> None:
        """Process what was piped as one micro-batch."""
        piped, self._piped = self._piped, []
        batch = self.new_batch()
        batch.run_sources(piped)
        if self._wall_clock is not None:
            batch.tell_wall_clock(self._wall_clock)
            self._wall_clock = None
        for level in range(1, self._physical.levels + 1):
            batch.run_level(level)
        for sink, rows in batch.finish():
            self._results[sink] += self._made(rows)
        self._batches, self._begun = self._batches + 1, self._step

    def _made(self, rows: pa.Table) -> list[Result]:
        names = position_columns(self._physical.slots)
        # the wall clock's moments are before the first record, and behind the last one
        order_ts, offset = ints(rows, "order_ts"), ints(rows, "offset")
        said = np.select([order_ts == AT_LAST, order_ts == AT_FIRST], [self._step, self._begun], offset + 1)
        steps = (said - 1).tolist()
        columns = (rows.column(name).to_pylist() for name in ("key", "value", "ts"))
        places = position_tuples([ints(rows, name) for name in names], held_keys(rows))
        made = zip(zip(*columns, steps, strict=True), places, strict=True)
        return [Result(key, value, ts, step, (self._batches, *place)) for (key, value, ts, step), place in made]


class EngineBatch:
    """One micro-batch on its way through the levels."""

    def __init__(self, driver: EngineDriver) -> None:
        self._driver = driver
        self._physical: Physical = driver._physical
        self._layout = driver.layout
        self._mail: dict[tuple[int, int], list[tuple[int, bytes]]] = defaultdict(list)
        self._direct: dict[str, list[pa.Table]] = defaultdict(list)
        self._counted: set[int] = set()

    def run_sources(self, piped: list[_Piped]) -> None:
        """Bring the piped records to the first level."""
        frames = {}
        for number, root in enumerate(self._layout.roots):
            rows = self._with_extracted_times(root, [p for p in piped if p.source == number])
            negative = sum(p.ts < 0 for p in rows)
            if negative:
                self._driver.drops[(root.node, "negative_timestamp")] += negative
            if negative < len(rows):
                frames[root.id] = self._source_frame(root, [p for p in rows if p.ts >= 0])
        if self._driver.partitioned:
            frames = self._stamped(frames, piped)
        self._run_stage(0, frames)
        for root in self._layout.roots:
            if root.id in frames:
                self._tell_time(root, frames[root.id])

    def tell_wall_clock(self, ms: int) -> None:
        """Show every shard of the operators that keep time what the wall clock shows."""
        piped = not self._driver.partitioned
        for operator, _ in self._physical.timed:
            port = self._physical.time_port(operator)
            for routed_batch in clock_batches(operator.id, port, ms, self._driver.counts, piped=piped):
                self._mail[(routed_batch.target, routed_batch.shard)].append(_sealed(routed_batch))

    def run_level(self, level: int) -> None:
        """Run the operators of a level and bring their results to the next."""
        outputs: dict[int, pa.Table] = {}
        for operator in self._layout.levels.get(level, ()):
            if operator.head is not None:
                # it goes on behind the lookups before it
                self._run_stage(level, outputs)
                outputs = {}
            parts = [
                rows
                for shard in range(self._driver.shards)
                for rows in self._run_operator(operator, shard, self._layout.mail_of(operator, shard, self._mail))
            ]
            for outlet in self._layout.direct[operator.id]:
                for rows in parts:
                    self._post(outlet, rows)
            if parts:
                outputs[self._physical.roots[operator.id].id] = stacked(parts)
        self._run_stage(level, outputs)

    def finish(self) -> Iterator[tuple[str, pa.Table]]:
        """(output, rows in order of position)."""
        names = position_columns(self._physical.slots)
        physical = self._physical
        outputs_of = {sink.name: sink.output for sink in physical.plan.sinks}
        outputs: dict[str, list[pa.Table]] = defaultdict(list)
        for name, output in outputs_of.items():
            outputs[output] += self._direct.get(name, [])
        for number in range(len(physical.operators), len(physical.operators) + len(physical.exits)):
            for shard in range(self._driver.shards):
                for port, content in self._mail.pop((number, shard), []):
                    name = physical.sinks[physical.sink_of(port)]
                    outputs[outputs_of[name]].append(row_sizes.decode(content))
        for output, tables in outputs.items():
            if tables:
                yield output, sort_by_position(stacked(tables), names)

    # ------------------------------------------------------------------------------------------------------

    def _with_extracted_times(self, root: Flow, rows: list[_Piped]) -> list[_Piped]:
        """The records with the times that their input gives them, where a function does; below 0: they are left out."""
        node = self._physical.node(root)
        extractor = getattr(node, "timestamp", None)
        if extractor is None or not rows:
            return rows
        columns = zip(
            (node.shape.key, node.shape.value), zip(*((p.key, p.value) for p in rows), strict=True), strict=True
        )
        given = extractor(*(pa.array(values, type=kind) for kind, values in columns)).to_pylist()
        takes_own = node.place.policies.on_invalid_timestamp == "own"
        times = (
            told if told is not None and told >= 0 else p.ts if takes_own else -1
            for p, told in zip(rows, given, strict=True)
        )
        return [replace(p, ts=ts) for p, ts in zip(rows, times, strict=True)]

    def _source_frame(self, root: Flow, rows: list[_Piped]) -> pa.Table:
        shape = self._physical.node(root).shape
        # One partition for all inputs, in the order in which they were piped.
        steps = [p.step for p in rows]
        numbers = {"order_ts": steps, "srcpart": [0] * len(rows), "offset": steps, "ts": [p.ts for p in rows]}
        numbers |= {name: [0] * len(rows) for name in path_columns(self._physical.slots)}
        columns = {name: pa.array(column, type=pa.int64()) for name, column in numbers.items()}
        columns["key"] = pa.array([p.key for p in rows], type=shape.key)
        columns["value"] = pa.array([p.value for p in rows], type=shape.value)
        columns |= {"headers": pa.nulls(len(rows), HEADERS)} if self._physical.plan.headers else {}
        return pa.table(columns)

    def _stamped(self, frames: dict[int, pa.Table], piped: list[_Piped]) -> dict[int, pa.Table]:
        """The same in partitions and by time, as topics are read; only records that get somewhere move time."""
        rows = self._rows(0, frames)
        for outlet, _, frame in self._exits_of_stage(0, rows):
            self._note_moving(outlet, frame)
        partitions, moving = {p.step: p.partition for p in piped}, sorted(self._counted)
        stamped = {}
        for number, root in enumerate(self._layout.roots):
            if root.id not in frames:
                continue
            frame, steps = frames[root.id], ints(frames[root.id], "offset")
            part = np.array([(number << PARTITION_BITS) | partitions[step] for step in steps.tolist()], dtype=np.int64)
            order_ts = Clock().stamp(part, ints(frame, "ts"), np.isin(steps, moving))
            if self._physical.node(root).shape.kind == "global":
                order_ts[:] = np.iinfo(np.int64).min
            for name, column in (("srcpart", part), ("order_ts", order_ts)):
                frame = frame.set_column(frame.schema.get_field_index(name), name, pa.array(column))
            stamped[root.id] = frame
        return stamped

    def _tell_time(self, root: Flow, rows: pa.Table) -> None:
        if self._physical.node(root).shape.kind == "global":
            return
        if not self._driver.partitioned:
            rows = with_time(rows, np.isin(ints(rows, "offset"), sorted(self._counted)))
        for routed_batch in watermark_batches(rows, self._layout.watermarks[root.node], self._driver.counts):
            self._mail[(routed_batch.target, routed_batch.shard)].append(_sealed(routed_batch))

    def _run_operator(self, operator: Operator, shard: int, mail: list[tuple[int, bytes]]) -> Iterator[pa.Table]:
        inputs = self._layout.inputs(operator, mail)
        if not inputs:
            return
        state = State(self._driver.stores[(self._physical.host(operator.id), shard)], None)
        yield from run_operator(self._layout.settings[operator.id], inputs, state, self._driver.drops)

    def _run_stage(self, stage: int, frames: dict[int, pa.Table]) -> None:
        for outlet, sink, frame in self._exits_of_stage(stage, self._rows(stage, frames, self._count)):
            if outlet is None:
                self._direct[sink].append(frame)
                continue
            self._post(outlet, frame)
            if stage == 0:
                self._note_moving(outlet, frame)

    def _rows(
        self, stage: int, frames: dict[int, pa.Table], count: Callable[[Flow, pa.Table], None] | None = None
    ) -> dict[int, pa.Table]:
        """The rows of each flow; a flow without rows costs nothing, as on Spark."""
        rows: dict[int, pa.Table] = {}
        for flow in self._layout.flows[stage]:
            arriving = frames.get(flow.id) if flow.parent is None else rows.get(flow.parent)
            if arriving is not None and len(arriving):
                if count is not None:
                    count(flow, arriving)
                run = run_root if flow.parent is None else run_flow
                rows[flow.id] = run(self._physical, flow, arriving)
        return rows

    def _exits_of_stage(self, stage: int, rows: dict[int, pa.Table]) -> Iterator[tuple[Outlet | None, str, pa.Table]]:
        """What leaves a stage: by which outlet, or to which output where no exchange comes last."""
        for edge, outlet in self._layout.edges[stage]:
            if edge.flow in rows:
                yield outlet, "", with_extra(self._physical, edge, rows[edge.flow])
        for flow_id, sink, exit in self._layout.exits[stage]:
            if flow_id in rows:
                yield exit, sink, rows[flow_id]

    def _count(self, flow: Flow, arriving: pa.Table) -> None:
        if flow.id in self._layout.counted:
            driver, outlet = self._driver, self._layout.counted[flow.id]
            list(route_rows(arriving, [outlet], driver.counts, self._physical.slots, driver.drops))

    def _note_moving(self, outlet: Outlet | None, rows: pa.Table) -> None:
        """Note the records that get from the sources to somewhere, and so move time."""
        if outlet is not None:
            self._counted.update(ints(rows, "offset")[time_movers(rows, [outlet])].tolist())

    def _post(self, outlet: Outlet, rows: pa.Table) -> None:
        driver = self._driver
        for routed_batch in route_rows(rows, [outlet], driver.counts, self._physical.slots, driver.drops):
            self._mail[(routed_batch.target, routed_batch.shard)].append(_sealed(routed_batch))


def _sealed(routed_batch: RoutedBatch) -> tuple[int, bytes]:
    return routed_batch.port, row_sizes.encode(routed_batch.rows)
