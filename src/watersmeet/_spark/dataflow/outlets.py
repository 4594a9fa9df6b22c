"""Where a stage's rows go: its outlets, the functions that are shown rows, and the columns that these read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from watersmeet._engine.exchange.outlets import FlowColumns, counted_outlets, edge_outlet, exit_outlets
from watersmeet._engine.exchange.routing import Outlet
from watersmeet._engine.rows.columns import HELD_KEY
from watersmeet._engine.rows.topic_slots import TOPIC
from watersmeet._plan.physical import Flow, Physical
from watersmeet._spark.dataflow.stage import Stage
from watersmeet._worker.packing.packing import wide_schema_names
from watersmeet._worker.wire.peeks import PeekCall


def outlets_of(physical: Physical, stage: Stage, number: int, *, exits: bool) -> tuple[Outlet, ...]:
    """Where the stage's rows go.

    Parameters
    ----------
    number : of the stage.
    exits : whether to the sinks, too.
    """
    edges = (edge for edge in physical.stage_edges(number) if physical.flows[edge.flow] in stage.flows)
    found = [edge_outlet(physical, edge, stage.naming) for edge in edges]
    if exits:
        found += [o for o in exit_outlets(physical, number, partial(_naming_if, stage)) if o.key]
    mine = {flow.node for flow in stage.flows}
    counted = counted_outlets(physical, number, partial(_naming_if, stage, arriving=True))
    return (*found, *(o for o in counted if o.key and o.node in mine))


def peeks_of(physical: Physical, stage: Stage) -> tuple[PeekCall, ...]:
    """The functions that are shown the stage's rows."""
    return tuple(_peek(physical, stage, flow) for flow, _ in stage.peeks)


def columns_of(outlets: Sequence[Outlet], peeks: Sequence[PeekCall]) -> list[str]:
    """The columns that hold what goes out, each once."""
    wanted: list[str | None] = []
    for outlet in outlets:
        wanted += [outlet.key, outlet.value, outlet.old, outlet.active, outlet.silent, outlet.ends.late]
        wanted += [outlet.route.shard_by]
        wanted += [column for _, column in outlet.extras]
        moves = (*outlet.moves, *(outlet.seen.moves if outlet.seen is not None else ()))
        wanted += [move.index for move in moves]
    for peek in peeks:
        wanted += [peek.key, peek.value, peek.active]
    return [name for name in dict.fromkeys(wanted) if name]


def value_columns(physical: Physical, roots: Collection[str]) -> list[str]:
    """The columns that hold keys and values of these sources."""
    numbers = [number for number, source in enumerate(physical.plan.sources) if source.name in roots]
    return [f"s{number}_{part}" for number in numbers for part in ("key", "value")]


def packed_columns(have: Collection[str], told: Sequence[str], slots: int, order: Sequence[str]) -> list[str]:
    """A frame's columns that packing reads, each once.

    Parameters
    ----------
    have : the frame's.
    told : those that `columns_of` gives.
    order : ordering columns, where one task is to number the rows.
    """
    wanted = ["root", "case", "partition", "offset", "reason", "ts", "order_ts", "srcpart", "headers", TOPIC, HELD_KEY]
    wanted += [*wide_schema_names(slots, visible=True), "stored_ts", *order, *told, "label", "port", "blob"]
    return [name for name in dict.fromkeys(wanted) if name in have]


def _peek(physical: Physical, stage: Stage, flow: Flow) -> PeekCall:
    columns = stage.naming(flow)
    action = physical.node(flow).action  # type: ignore[attr-defined]
    return PeekCall(action, columns.key, columns.value, columns.active)


def _naming_if(stage: Stage, flow: Flow, *, arriving: bool = False) -> FlowColumns:
    """Names of a flow's columns, empty ones for a flow of another frame of the stage."""
    if flow not in stage.flows:
        return FlowColumns("", "")
    return stage.arriving(flow) if arriving else stage.naming(flow)
