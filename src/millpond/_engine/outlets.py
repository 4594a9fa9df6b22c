"""The outlets of a stage: its plan's edges, exits and counted ends, in terms of a frame's columns.

Called once per stage by the runners, which say how they name the columns of a flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from millpond._engine.exchange import Move, Outlet
from millpond._plan.physical import Edge, Flow, Physical
from millpond._plan.sides import extra_reason, extras_of


@dataclass(frozen=True)
class FlowColumns:
    """Names of the columns that hold a flow's rows.

    `index` names the record index of a flat_map's flow, `silent` what marks rows that only say what lookups see.
    """

    key: str
    value: str
    old: str | None = None
    active: str | None = None
    index: str | None = None
    silent: str | None = None


Naming = Callable[[Flow], FlowColumns]


def edge_outlet(physical: Physical, edge: Edge, naming: Naming) -> Outlet:
    """The outlet of an edge into an operator."""
    flow = physical.flows[edge.flow]
    columns = naming(flow)
    plain = Outlet(
        node=physical.operators[edge.target].node,
        port=edge.id,
        target=edge.target,
        key=columns.key,
        value=columns.value,
        old=columns.old if edge.old else None,
        active=columns.active,
        moves=_moves(physical, flow, edge.path, naming),
        visible=_visible(physical, flow, naming) if edge.visible else None,
        visible_from_root=flow.store_path is None,
        stored_ts=edge.stored_ts,
        silent=columns.silent if edge.silent else None,
        drops_silent=edge.drops_silent,
        drops_null_key=edge.drops_null_key,
        counts_null_key=physical.node(flow).shape.kind == "stream",
        drops_null_value=edge.drops_null_value,
        keeps_time=edge.keeps_time,
        reach_port=physical.reach_port(edge) if edge.tells_reach else None,
    )
    return replace(plain, **_extras(physical, edge, columns))


def direct_outlet(physical: Physical, edge: Edge) -> Outlet:
    """The outlet of an edge between the operators of one node, in terms of the first one's result columns."""
    operator = physical.operators[edge.target]
    names = [name for name, _ in extras_of(physical, operator)]
    return Outlet(
        node=operator.node,
        port=edge.id,
        target=edge.target,
        key="key",
        value="value",
        moves=(Move(physical.flows[edge.flow].slot, edge.path),),
        extras=tuple((name, name) for name in (*names, "verb")),
        hash="hash",
    )


def extra_column(edge: Edge) -> str:
    """Name of the column in which a stage's frame holds what the edge carries beside key and value."""
    return f"e{edge.id}_extra"


def _extras(physical: Physical, edge: Edge, columns: FlowColumns) -> dict[str, Any]:
    """What differs from a plain edge where an operator needs more than key and value."""
    operator = physical.operators[edge.target]
    if edge.broadcast:
        # A row of a table before the last of a view carries the key of its row in the next.
        carried = extras_of(physical, operator)[edge.side : edge.side + 1] if edge.side else ()
        return {"broadcast": True, "extras": tuple((name, extra_column(edge)) for name, _ in carried)}
    if operator.stem in ("global_lookup", "global_table_lookup"):
        mapped, left = extra_column(edge), (("left_key", columns.key),)
        return {"key": mapped, "extras": left, "shard_by": columns.key, "counts_null_key": True}
    if operator.stem != "foreign_key_send":
        return {}
    reason = extra_reason(physical, edge)
    counted = (extra_column(edge), reason) if reason else None
    return {"extras": (("foreign_key", extra_column(edge)),), "counts_null": counted}


def exit_outlets(physical: Physical, stage: int, naming: Naming) -> list[Outlet]:
    """Outlets into the sinks, numbered behind the operators (used where sinks need an exchange)."""
    outlets = []
    for index, (flow_id, sink) in enumerate(physical.sink_edges):  # one turn per sink
        flow = physical.flows[flow_id]
        if flow.stage != stage:
            continue
        columns = naming(flow)
        outlets.append(
            Outlet(
                node=sink,
                port=len(physical.edges) + index,
                target=exit_number(physical, sink),
                key=columns.key,
                value=columns.value,
                active=columns.active,
                moves=_moves(physical, flow, flow.path, naming),
            )
        )
    return outlets


def counted_outlets(physical: Physical, stage: int, naming: Naming) -> list[Outlet]:
    """Outlets that only count: flows in which records without a key end."""
    outlets = []
    for flow in physical.stage_flows(stage):  # one turn per flow
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
                drops_null_key=True,
            )
        )
    return outlets


def exit_number(physical: Physical, sink: str) -> int:
    """The number under which rows travel to a sink through the last exchange."""
    return len(physical.operators) + physical.sinks.index(sink)


def _moves(physical: Physical, flow: Flow, path: int, naming: Naming) -> tuple[Move, ...]:
    return (*_fan_moves(physical, flow, naming), Move(flow.slot, path))


def _visible(physical: Physical, flow: Flow, naming: Naming) -> tuple[Move, ...]:
    fans = _fan_moves(physical, flow, naming)
    return fans if flow.store_path is None else (*fans, Move(flow.store_slot, flow.store_path))


def _fan_moves(physical: Physical, flow: Flow, naming: Naming) -> tuple[Move, ...]:
    """What the flat_maps above a flow add: their own number, and the record index times their size."""
    moves: list[Move] = []
    at: Flow | None = flow
    while at is not None:  # up the path to the root
        if at.fan:
            moves += [Move(at.slot - 1, at.entry), Move(at.slot, 0, naming(at).index, at.fan)]
        at = physical.flows[at.parent] if at.parent is not None else None
    return tuple(moves)
