"""Stream time in the plan: which operators need it, how it is told to their shards, how late it runs.

Law 3: an operator's time is that of the sources, less what the operators above it can hold back; a source
partition has a time of its own where nothing above the operator mixes partitions. Called by `rewrite`, when
all flows, edges and operators are there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from millpond._plan.logical import Plan
from millpond._plan.nodes import Branch, Filter, FlatMap, MapValues, Node, Peek, Source, StreamStream
from millpond._plan.physical import Edge, Flow, Operator


def stream_stream_settings(operator: Operator, node: StreamStream, *, fan: int) -> Operator:
    """The operator of a windowed join of streams."""
    windows = node.windows
    # Two kinds of entries that close at different distances from their timestamps are let go by one record
    # in order of timestamp: then it must be known which records there were between.
    mixed = node.how == "outer" and windows.before_ms != windows.after_ms and node.holds_back_ms
    sides = ("both",) if len(set(node.inputs)) == 1 else ("left", "right")
    return replace(
        operator,
        how=node.how,
        generation=node.generation.value,
        window=(windows.before_ms, windows.after_ms, windows.grace_ms),
        fan=fan,
        timing="every" if mixed else "latest",
        stores=tuple(f"{node.name}.{side}" for side in sides),
    )


def settle_timing(
    plan: Plan, flows: Sequence[Flow], edges: list[Edge], operators: dict[tuple[str, str], Operator]
) -> None:
    """Gives operators their time domains and lag, and edges what they tell of time; in place."""
    by_id = {op.id: op for op in operators.values()}
    in_place = _in_place(plan, flows, edges, by_id)
    lags: dict[int, int] = {}
    # In order of construction, so that those above are known.
    for key, operator in operators.items():
        mine = [edge for edge in edges if edge.target == operator.id]
        above = _above(flows, mine)
        lags[operator.id] = max((_lag_behind(plan, by_id[o], lags) for o in above), default=0)
        if operator.timing == "none":
            continue
        domains = operator.id in in_place
        told_by = _told_by(plan, flows, edges, operator, [o for o in by_id.values() if not domains or o.id in in_place])
        operators[key] = replace(operator, hold_back=lags[operator.id], domains=domains, told_by=told_by)
        for edge in mine:
            edges[edge.id] = replace(edge, keeps_time=True, tells_reach=True)


def _above(flows: Sequence[Flow], edges: Sequence[Edge]) -> set[int]:
    """Operators that these edges come from."""
    roots = (flows[flows[edge.flow].root].operator for edge in edges)
    return {operator for operator in roots if operator is not None}


def _told_by(
    plan: Plan, flows: Sequence[Flow], edges: Sequence[Edge], operator: Operator, others: Sequence[Operator]
) -> tuple[str, ...]:
    """Its own sources, and those of the operators below it, as far as these are among `others`.

    What it lets go must stand before the records of a later time that meet it there, also where these come in
    an earlier batch than the record that moves the operator's own sources on.
    """
    below = {operator.id}
    # Operators stand in order of construction, so one pass reaches all that are below.
    for edge in sorted(edges, key=lambda edge: edge.target):
        if flows[flows[edge.flow].root].operator in below:
            below.add(edge.target)
    nodes = [operator.node, *(other.node for other in others if other.id in below)]
    sources = frozenset[str]().union(*(plan.ancestors[node] for node in nodes))
    return tuple(source.name for source in plan.sources if source.name in sources)


def _lag_behind(plan: Plan, operator: Operator, lags: dict[int, int]) -> int:
    node = plan.by_name[operator.node]
    holds = node.holds_back_ms if isinstance(node, StreamStream) and operator.stem == node.stem else 0
    return lags[operator.id] + holds


def _in_place(
    plan: Plan, flows: Sequence[Flow], edges: Sequence[Edge], operators: Mapping[int, Operator]
) -> frozenset[int]:
    """Operators whose rows all stand in the partition of their source, under the key they have there."""
    found: set[int] = set()
    # In order of construction, so that those above are known.
    for number, operator in operators.items():
        mine = [edge for edge in edges if edge.target == number]
        single = operator.timing == "none" or _one_source_a_side(flows, mine)
        if operator.stem in _KEEP_KEY and single and all(_keeps_partition(plan, flows, e, found) for e in mine):
            found.add(number)
    return frozenset(found)


def _keeps_partition(plan: Plan, flows: Sequence[Flow], edge: Edge, in_place: Collection[int]) -> bool:
    """True where the edge's rows stand in the partition of their source under the key they have there."""
    flow = flows[edge.flow]
    while flow.parent is not None:
        if not _keeps_key(plan.by_name[flow.node]):
            return False
        flow = flows[flow.parent]
    return flow.operator is None or flow.operator in in_place


_KEEP_KEY = ("table", "table_table", "stream_table", "stream_stream")
"""Stems of operators whose results have the key of the rows that trigger them."""


def _keeps_key(node: Node) -> bool:
    return isinstance(node, Source | Filter | MapValues | Branch | Peek) or (
        isinstance(node, FlatMap) and node.values_only
    )


def _one_source_a_side(flows: Sequence[Flow], edges: Sequence[Edge]) -> bool:
    return len({(edge.side, flows[edge.flow].root) for edge in edges}) == len({edge.side for edge in edges})
