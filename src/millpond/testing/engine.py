"""EngineDriver: a topology run by the engine alone, without a JVM.

The same plan, exchange, blobs, operators and state as on Spark; only the users' functions are Arrow ones
(`arrow_builder`) and the state stores are in memory. All inputs form one source partition whose offset is
the piping sequence. Used by the semantics tests and by `millpond.testing.conformance`.

Example::

    builder = arrow_builder("test")
    left, right = (builder.table(n, key="string", value="string") for n in ("left", "right"))
    left.join(right, lambda l, r: pc.binary_join_element_wise(l, r, "+")).to("out")
    driver = EngineDriver(builder.build(), shards=2)
    driver.pipe("left", "k", "a", ts=0)
    driver.pipe("right", "k", "b", ts=1)
    driver.run_batch()
    driver.read("out")      # [Result(key='k', value='a+b', ts=1, ...)]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from millpond._engine import blob
from millpond._engine.columns import PARTITION_BITS, Int64s, ints, position_columns
from millpond._engine.exchange import Clock, Drops, Parcel, pack, stamp_sources
from millpond._engine.heartbeat import beat_of, times
from millpond._engine.level import run_operator, tables_of
from millpond._engine.operator import Setting
from millpond._engine.outlets import (
    FlowColumns,
    counted_outlets,
    direct_outlet,
    edge_outlet,
    exit_number,
    exit_outlets,
)
from millpond._engine.position import sort_by_position
from millpond._engine.runs import State
from millpond._engine.store import MemoryChunkStore
from millpond._engine.times import LET_GO
from millpond._plan.physical import Flow, Operator, Physical
from millpond._plan.sides import extras_of, key_of, values_of
from millpond.errors import TopologyError
from millpond.testing.stages import run_flow, run_root, with_extra
from millpond.topology import Topology


@dataclass(frozen=True)
class Result:
    """One record of an output.

    Parameters
    ----------
    key, value, ts : the record.
    step : piping sequence number of the record that caused it; where time did, of the record that moved it.
    position : its place in the order of all results, over all outputs.
    """

    key: Any
    value: Any
    ts: int
    step: int
    position: tuple[int, ...] = field(default=(), compare=False, repr=False)


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
    shards : how many shards each operator has.
    partitioned : whether inputs have partitions of their own, as topics have, and are merged by time.
    """

    def __init__(self, topology: Topology, *, shards: int = 2, partitioned: bool = False) -> None:
        self.partitioned = partitioned
        self.topology = topology
        self.shards = shards
        self.drops: Drops = Counter()
        self.stores: dict[tuple[int, int], MemoryChunkStore] = defaultdict(MemoryChunkStore)
        self._physical = topology.physical
        self._inputs = {source.input: i for i, source in enumerate(topology.plan.sources)}
        self._piped: list[_Piped] = []
        self._step = 0
        self._reached: list[int] = []
        self._results: dict[str, list[Result]] = defaultdict(list)

    def pipe(self, input: str, key: Any, value: Any, *, ts: int, partition: int = 0) -> None:
        """Put one record into the next batch."""
        if input not in self._inputs:
            raise TopologyError(
                "There is no such input.", given=repr(input), hint=f"Inputs: {', '.join(self._inputs)}."
            )
        self._piped.append(_Piped(self._inputs[input], key, value, ts, self._step, partition))
        self._reached.append(max(ts, self._reached[-1] if self._reached else ts))
        self._step += 1

    def read(self, output: str) -> list[Result]:
        """The records of an output since the last read, in order."""
        return self._results.pop(output, [])

    def rows_kept(self) -> int:
        """Live rows in all stores."""
        count = 0
        for operator, shard in self.stores:
            state = State(self.stores[(operator, shard)], None)
            setting = setting_of(self._physical, self._physical.operators[operator])
            for table in tables_of(setting, state):
                count += sum(len(rows) for rows in table.scan())
        return count

    def new_batch(self) -> Batch:
        """What the next micro-batch goes through; a driver that treats batches otherwise gives its own."""
        return Batch(self)

    def run_batch(self) -> None:
        """Process what was piped as one micro-batch."""
        piped, self._piped = self._piped, []
        batch = self.new_batch()
        batch.run_sources(piped)
        for level in range(1, self._physical.levels + 1):
            batch.run_level(level)
        for sink, rows in batch.finish():
            reached = np.array(self._reached, dtype=np.int64)
            self._results[sink] += _results(rows, position_columns(self._physical.slots), reached)


class Batch:
    """One micro-batch on its way through the levels."""

    def __init__(self, driver: EngineDriver) -> None:
        self._driver = driver
        self._physical: Physical = driver._physical
        self._mail: dict[tuple[int, int], list[tuple[int, bytes]]] = defaultdict(list)
        self._direct: dict[str, list[pa.Table]] = defaultdict(list)

    def run_sources(self, piped: list[_Piped]) -> None:
        """Bring the piped records to the first level."""
        physical = self._physical
        roots = [f for f in physical.stage_flows(0) if f.parent is None]
        frames = {}
        clock = _piped_clock(piped)
        for number, root in enumerate(roots):
            rows = [p for p in piped if p.source == number]
            negative = sum(p.ts < 0 for p in rows)
            if negative:
                self._driver.drops[(root.node, "negative_timestamp")] += negative
            frames[root.id] = self._source_frame(root, [p for p in rows if p.ts >= 0], clock)
            self._tell_time(root, frames[root.id])
        self._run_stage(0, frames)

    def run_level(self, level: int) -> None:
        """Run the operators of a level and bring their results to the next."""
        outputs: dict[int, pa.Table] = {}
        for operator in self._physical.operators:
            if operator.level != level:
                continue
            parts = [
                rows
                for shard in range(self._driver.shards)
                for rows in self._run_operator(operator, shard, self._mail.pop((operator.id, shard), []))
            ]
            for edge in self._physical.direct_edges(operator):
                for rows in parts:
                    self._post(direct_outlet(self._physical, edge), rows)
            if parts:
                outputs[self._physical.roots[operator.id].id] = pa.concat_tables(parts)
        self._run_stage(level, outputs)

    def finish(self) -> Iterator[tuple[str, pa.Table]]:
        """(sink name, rows in order of position)."""
        names = position_columns(self._physical.slots)
        for sink in self._physical.plan.sinks:
            tables = self._direct.get(sink.name, [])
            number = exit_number(self._physical, sink.name)
            for shard in range(self._driver.shards):
                tables += [blob.decode(b) for _, b in self._mail.pop((number, shard), [])]
            if tables:
                yield sink.output, sort_by_position(pa.concat_tables(tables), names)

    # ------------------------------------------------------------------------------------------------------

    def _source_frame(self, root: Flow, rows: list[_Piped], clock: dict[int, int]) -> pa.Table:
        shape = self._physical.node(root).shape
        columns = {
            "root": pa.array([0] * len(rows), type=pa.int64()),
            "partition": pa.array([0] * len(rows), type=pa.int64()),
            "offset": pa.array([p.step for p in rows], type=pa.int64()),
            "ts": pa.array([p.ts for p in rows], type=pa.int64()),
            "key": pa.array([p.key for p in rows], type=shape.key),
            "value": pa.array([p.value for p in rows], type=shape.value),
        }
        frame = stamp_sources(pa.table(columns), [], Clock(), self._physical.slots)
        if self._driver.partitioned:
            return self._partitioned(frame, root, rows)
        # One partition for all inputs: its time is the running maximum over all of them.
        order_ts = pa.array([clock[p.step] for p in rows], type=pa.int64())
        return frame.set_column(frame.schema.get_field_index("order_ts"), "order_ts", order_ts)

    def _partitioned(self, frame: pa.Table, root: Flow, rows: list[_Piped]) -> pa.Table:
        number = self._physical.stage_flows(0).index(root)
        part = np.array([(number << PARTITION_BITS) | p.partition for p in rows], dtype=np.int64)
        ts = np.array([p.ts for p in rows], dtype=np.int64)
        order_ts = Clock().stamp(part, ts, np.ones(len(rows), dtype=np.bool_))
        # One turn per column.
        for name, column in (("srcpart", part), ("order_ts", order_ts)):
            frame = frame.set_column(frame.schema.get_field_index(name), name, pa.array(column))
        return frame

    def _tell_time(self, root: Flow, rows: pa.Table) -> None:
        physical = self._physical
        beats = tuple(beat_of(physical, op) for op in physical.operators if root.node in op.told_by)
        for parcel in times(rows, beats, self._driver.shards):
            self._mail[(parcel.target, parcel.shard)].append(_sealed(parcel))

    def _run_operator(self, operator: Operator, shard: int, mail: list[tuple[int, bytes]]) -> Iterator[pa.Table]:
        if not mail:
            return
        sides: dict[int, list[pa.Table]] = defaultdict(list)
        for port, content in mail:
            sides[self._physical.side_of[port]].append(blob.decode(content))
        inputs = {side: pa.concat_tables(tables) for side, tables in sides.items()}
        state = State(self._driver.stores[(operator.id, shard)], None)
        yield from run_operator(setting_of(self._physical, operator), inputs, state)

    def _run_stage(self, stage: int, frames: dict[int, pa.Table]) -> None:
        physical = self._physical
        rows: dict[int, pa.Table] = {}
        for flow in physical.stage_flows(stage):
            if flow.parent is None:
                if flow.id in frames:
                    rows[flow.id] = run_root(physical, flow, frames[flow.id])
                    self._count(flow, frames[flow.id])
            elif flow.parent in rows:
                self._count(flow, rows[flow.parent])
                rows[flow.id] = run_flow(physical, flow, rows[flow.parent])
        for edge in physical.stage_edges(stage):
            if edge.flow in rows:
                frame = with_extra(physical, edge, rows[edge.flow])
                self._post(edge_outlet(physical, edge, _naming), frame)
        self._leave(stage, rows)

    def _count(self, flow: Flow, arriving: pa.Table) -> None:
        if flow.drops_null_key:
            for outlet in counted_outlets(self._physical, flow.stage, _naming):
                if outlet.node == flow.node:
                    list(pack(arriving, [outlet], 1, self._physical.slots, self._driver.drops))

    def _leave(self, stage: int, rows: dict[int, pa.Table]) -> None:
        if self._physical.ordered_exit:
            outlets = exit_outlets(self._physical, stage, _naming)
            for outlet, (flow, _) in zip(outlets, self._physical.stage_sinks(stage), strict=True):
                if flow.id in rows:
                    self._post(outlet, rows[flow.id])
            return
        for flow, sink in self._physical.stage_sinks(stage):
            if flow.id in rows:
                self._direct[sink].append(rows[flow.id])

    def _post(self, outlet: Any, rows: pa.Table) -> None:
        driver = self._driver
        for parcel in pack(rows, [outlet], driver.shards, self._physical.slots, driver.drops):
            self._mail[(parcel.target, parcel.shard)].append(_sealed(parcel))


def setting_of(physical: Physical, operator: Operator) -> Setting:
    """The operator's settings, with the Arrow types of its plan."""
    return Setting(
        operator,
        physical.slots,
        key_of(physical, operator),
        values_of(physical, operator),
        headers=False,
        extras=extras_of(physical, operator),
    )


def _sealed(parcel: Parcel) -> tuple[int, bytes]:
    return parcel.port, blob.encode(parcel.rows)


def _naming(flow: Flow) -> FlowColumns:
    return FlowColumns("key", "value", "old", None, f"index{flow.id}", "silent")


def _piped_clock(piped: list[_Piped]) -> dict[int, int]:
    """order_ts of each step."""
    times: Any = np.maximum.accumulate([p.ts for p in piped]) if piped else []
    return {p.step: int(t) for p, t in zip(piped, times, strict=True)}


def _results(rows: pa.Table, position: tuple[str, ...], reached: Int64s) -> list[Result]:
    srcpart, order_ts = ints(rows, "srcpart"), ints(rows, "order_ts")
    moved = np.searchsorted(reached, order_ts, side="right")
    steps = np.where(srcpart >= LET_GO, moved, ints(rows, "offset")).tolist()
    columns = (rows.column(name).to_pylist() for name in ("key", "value", "ts"))
    places = zip(*(rows.column(name).to_pylist() for name in position), strict=True)
    rows_and_places = zip(zip(*columns, steps, strict=True), places, strict=True)
    return [Result(key, value, ts, step, place) for (key, value, ts, step), place in rows_and_places]
