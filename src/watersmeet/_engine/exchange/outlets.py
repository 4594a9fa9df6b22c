"""The outlets of a stage: its plan's edges, exits and counted ends, in terms of a frame's columns.

Called once per stage by the runners, which say how they name the columns of a flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from watersmeet._engine.exchange.routing import Ends, LookupOrigin, Move, Outlet, Route
from watersmeet._plan.operators.spec import FLAG
from watersmeet._plan.physical import Edge, Flow, Physical


@dataclass(frozen=True)
class FlowColumns:
    """Names of the columns that hold a flow's rows.

    `index` names the record index of a flat_map's flow, `silent` what marks rows that only say what lookups see, `late`
    what marks changes of a versioned table that are not the latest of their key, `headers` its own headers, in place of
    those of all rows (dead letters, and behind `map_headers`).
    """

    key: str
    value: str
    old: str | None = None
    active: str | None = None
    index: str | None = None
    silent: str | None = None
    late: str | None = None
    headers: str | None = None


Naming = Callable[[Flow], FlowColumns]


def edge_outlet(physical: Physical, edge: Edge, naming: Naming) -> Outlet:
    """The outlet of an edge into an operator."""
    flow = physical.flows[edge.flow]
    columns = naming(flow)
    side, computed = edge.reads, extra_column(edge)
    return Outlet(
        node=physical.operators[edge.target].node,
        port=edge.id,
        target=physical.host(edge.target),
        key=columns.key if side.key is None else computed,
        value=columns.value,
        old=columns.old if edge.old else None,
        active=columns.active,
        moves=_moves(physical, flow, edge.path, naming),
        seen=_lookup_origin(physical, flow, naming) if edge.visible else None,
        stored_ts=edge.stored_ts,
        silent=columns.silent if edge.silent else None,
        extras=(
            *((each.name, columns.key if each.function is None else computed) for each in side.carries),
            *_own_headers(columns),
        ),
        ends=Ends(
            null_key=edge.reads.drops_null_key,
            null_value=edge.reads.drops_null_value,
            silent=edge.drops_silent,
            late=columns.late if edge.drops_late else None,
            counts_null_key=side.key is not None or physical.node(flow).shape.kind == "stream",
            keeps_time=edge.keeps_time,
            counts_null=None if side.null_reason is None else (computed, side.null_reason),
        ),
        route=Route(
            shard_by=None if side.key is None else columns.key,
            by_window=side.windowed,
            broadcast=edge.reads.broadcast,
            bounds_port=physical.bounds_port(edge) if edge.broadcasts_bounds else None,
            nulls_reach=side.nulls_reach,
        ),
        flags=side.value == FLAG,
    )


def _own_headers(columns: FlowColumns) -> tuple[tuple[str, str], ...]:
    return (("headers", columns.headers),) if columns.headers else ()


def direct_outlet(physical: Physical, edge: Edge) -> Outlet:
    """The outlet of an edge between the operators of one node, in terms of the first one's result columns."""
    operator, side = physical.operators[edge.target], edge.reads
    names = [each.name for each in side.carries]
    return Outlet(
        node=operator.node,
        port=edge.id,
        target=edge.target,
        key="key",
        value="value",
        moves=(Move(physical.flows[edge.flow].slot, edge.path),),
        extras=tuple((name, name) for name in (*names, *side.marks)),
        route=Route(hash="hash"),
    )


def extra_column(edge: Edge) -> str:
    """Name of the column in which a stage's frame holds what the edge carries beside key and value."""
    return f"e{edge.id}_extra"


def exit_outlets(physical: Physical, stage: int, naming: Naming) -> list[Outlet]:
    """Outlets into the sinks, numbered behind the operators (used where sinks need an exchange)."""
    outlets = []
    for index, (flow_id, sink) in enumerate(physical.sink_edges):
        flow = physical.flows[flow_id]
        if flow.stage != stage:
            continue
        columns = naming(flow)
        outlets.append(
            Outlet(
                node=sink,
                port=physical.sink_port(index),
                target=exit_number(physical, sink),
                key=columns.key,
                value=columns.value,
                active=columns.active,
                moves=_moves(physical, flow, flow.path, naming),
                extras=_own_headers(columns),
            )
        )
    return outlets


def counted_outlets(physical: Physical, stage: int, naming: Naming) -> list[Outlet]:
    """Outlets that only count: flows in which records without a key end."""
    outlets = []
    for flow in physical.stage_flows(stage):
        if not flow.drops_null_key:
            continue
        # What arrives is the parent's rows; for a source, its own.
        arriving = naming(flow if flow.parent is None else physical.flows[flow.parent])
        outlets.append(
            Outlet(
                node=flow.node,
                port=-1,
                target=None,
                key=arriving.key,
                value=arriving.value,
                active=arriving.active,
                ends=Ends(null_key=True),
            )
        )
    return outlets


def exit_number(physical: Physical, sink: str) -> int:
    """The number under which rows travel to a sink through the last exchange; several sinks of a topic have one."""
    return len(physical.operators) + next(n for n, names in enumerate(physical.exits) if sink in names)


def _moves(physical: Physical, flow: Flow, path: int, naming: Naming) -> tuple[Move, ...]:
    return (*_fan_moves(physical, flow, naming), Move(flow.slot, path))


def _lookup_origin(physical: Physical, flow: Flow, naming: Naming) -> LookupOrigin:
    fans = _fan_moves(physical, flow, naming)
    if flow.store_path is None:
        return LookupOrigin(fans, from_root=True)
    return LookupOrigin((*fans, Move(flow.store_slot, flow.store_path)))


def _fan_moves(physical: Physical, flow: Flow, naming: Naming) -> tuple[Move, ...]:
    """The path slots that the flat_maps above a flow add: their number, and the record index times their size."""
    moves: list[Move] = []
    at: Flow | None = flow
    while at is not None:  # up the path to the root
        if at.fan:
            moves += [Move(at.slot - 1, at.entry), Move(at.slot, 0, naming(at).index, at.fan)]
        at = physical.flows[at.parent] if at.parent is not None else None
    return tuple(moves)
