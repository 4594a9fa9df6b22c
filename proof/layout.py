"""What the engine driver's batches need of a plan, worked out once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import (
    FlowColumns,
    Outlet,
    counted_outlets,
    direct_outlet,
    edge_outlet,
    exit_outlets,
    watermark_of,
)
from watersmeet._engine.matching import with_rows_of_owner
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.rows import stacked
from watersmeet._engine.state.manifest import arrow_type
from watersmeet._plan.declaration import TableSchema
from watersmeet._plan.physical import Flow, Operator, Physical, with_record_cache
from watersmeet.api.topology import Topology

Mail = dict[tuple[int, int], list[tuple[int, bytes]]]
"""Ports and blobs, by operator and shard."""


class PlanLayout:
    """What batches need of a plan.

    Attributes
    ----------
    physical : the plan.
    roots : the sources' flows.
    levels : operators of each level.
    flows, edges, exits : of each stage; an exit is (flow, sink, outlet, or None where no exchange comes last).
    counted : outlets that count records without a key, by flow.
    direct, settings : of each operator.
    beats : what the sources tell of time, by node.
    """

    def __init__(self, physical: Physical) -> None:
        self.physical = physical
        stages = range(physical.levels + 1)
        self.flows = {stage: physical.stage_flows(stage) for stage in stages}
        self.roots = [flow for flow in self.flows[0] if flow.parent is None]
        self.levels: dict[int, list[Operator]] = defaultdict(list)
        # readers of a store see it before its owner changes it
        for operator in sorted(physical.operators, key=lambda each: each.id not in physical.readers):
            self.levels[operator.level].append(operator)
        self.edges = {s: [(e, edge_outlet(physical, e, _naming)) for e in physical.stage_edges(s)] for s in stages}
        self.exits = {stage: self._exits_of(physical, stage) for stage in stages}
        self.counted: dict[int, Outlet] = {}
        for stage in stages:
            ending = [flow.id for flow in self.flows[stage] if "null_key" in flow.ends]
            self.counted |= zip(ending, counted_outlets(physical, stage, _naming), strict=True)
        operators = physical.operators
        self.direct = {o.id: [direct_outlet(physical, e) for e in physical.direct_edges(o)] for o in operators}
        self.settings = {operator.id: setting_of(physical, operator) for operator in operators}
        told = {root.node: [op for op, time in physical.timed if root.node in time.told_by] for root in self.roots}
        self.watermarks = {
            node: tuple(watermark_of(physical, operator) for operator in ops) for node, ops in told.items()
        }

    def tables_of(self, host: int) -> list[TableSchema]:
        """The tables in an operator's shards: its own, and those of the lookups that run there, too."""
        chained = [number for number, context in self.settings.items() if context.operator.head == host]
        return [table for number in (host, *chained) for table in self.settings[number].kept]

    def mail_of(self, operator: Operator, shard: int, mail: Mail) -> list[tuple[int, bytes]]:
        """What has come to an operator's shard; what is the owner's of its store stays."""
        place = self.physical.host(operator.id), shard
        if operator.id in self.physical.readers:
            return mail.get(place, [])
        own, rest = list[tuple[int, bytes]](), list[tuple[int, bytes]]()
        for port, content in mail.pop(place, []):
            # the lookups of a chain have one place
            (own if self.physical.ports[port][0] == operator.id else rest).append((port, content))
        mail[place] = rest
        return own

    def inputs(self, operator: Operator, mail: Sequence[tuple[int, bytes]]) -> dict[int, pa.Table]:
        """The rows of an operator's sides, among those that have come to its shard."""
        found = self._of_sides(operator.id, mail)
        reader = self.physical.readers.get(operator.id)
        if reader is None:
            return found
        return with_rows_of_owner(reader, found, self._of_sides(self.physical.host(operator.id), mail))

    def _of_sides(self, operator: int, mail: Sequence[tuple[int, bytes]]) -> dict[int, pa.Table]:
        sides: dict[int, list[pa.Table]] = defaultdict(list)
        for port, content in mail:
            target, side = self.physical.ports[port]
            if target == operator:
                sides[side].append(row_sizes.decode(content))
        return {side: stacked(tables) for side, tables in sides.items()}

    @staticmethod
    def _exits_of(physical: Physical, stage: int) -> list[tuple[int, str, Outlet | None]]:
        flows = ((physical.flows[number], sink) for number, sink in physical.sink_edges)
        sinks = [(flow, sink) for flow, sink in flows if flow.stage == stage]
        if not physical.ordered_exit:
            return [(flow.id, sink, None) for flow, sink in sinks]
        outlets = exit_outlets(physical, stage, _naming)
        return [(flow.id, sink, outlet) for (flow, sink), outlet in zip(sinks, outlets, strict=True)]


@lru_cache(maxsize=64)
def layout_of(topology: Topology, idle_after_ms: int, partitioned: bool, record_cache: bool) -> PlanLayout:
    """The layout of a topology, run with these options of the driver."""
    physical = topology.physical if partitioned else topology.physical.with_one_domain()
    physical = physical.with_idle_time(idle_after_ms)
    return PlanLayout(with_record_cache(physical) if record_cache else physical)


def setting_of(physical: Physical, operator: Operator) -> OperatorContext:
    """The operator's settings, with the Arrow types of its plan."""
    reads = physical.reads(operator)
    values, tolerates = tuple(map(arrow_type, reads.values)), physical.plan.within.tolerates_errors(operator.node)
    tables = tuple(store.schema for _, store in physical.stores_of(operator.id))
    given = (reads.key, values, physical.plan.headers, reads.extras, tables)
    return OperatorContext(
        operator, physical.slots, *given, tolerates_errors=tolerates, reader=physical.readers.get(operator.id)
    )


def _naming(flow: Flow) -> FlowColumns:
    return FlowColumns("key", "value", "old", None, f"index{flow.id}", "silent", "late")
