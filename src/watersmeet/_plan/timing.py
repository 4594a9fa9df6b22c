"""Stream time in the plan: which operators need it, how it comes to their shards, how late it runs.

Law 3: an operator's time is that of the sources, less what the operators above it can hold back; a source
partition has a time of its own where nothing above the operator mixes partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from watersmeet._plan.logical import Plan
from watersmeet._plan.operators.spec import SpecSite, TimeOfSpec
from watersmeet._plan.physical import Edge, Flow, Operator
from watersmeet._plan.tables import TableRules


def settle_timing(
    plan: Plan,
    rules: TableRules,
    flows: Sequence[Flow],
    edges: list[Edge],
    operators: dict[tuple[str, str], Operator],
) -> None:
    """Gives operators their time domains and lag, and edges what they tell of time; in place."""
    by_id = {op.id: op for op in operators.values()}
    in_place = _in_place(plan, flows, edges, by_id)
    all_together = _together(plan, rules, flows, edges, by_id.values())
    told_together = _together(plan, rules, flows, edges, [by_id[number] for number in sorted(in_place)])
    late = _late(plan, rules, flows, edges, by_id.values())
    lags: dict[int, int] = {}
    # In order of construction, so that those above are known.
    for key, operator in operators.items():
        mine = [edge for edge in edges if edge.target == operator.id]
        above = _above(flows, mine)
        lags[operator.id] = max((_lag_behind(plan, rules, by_id[o], lags) for o in above), default=0)
        timed = _timed(plan, rules, operator)
        if operator.time is None or timed is None:
            continue
        domains = operator.id in in_place
        together = all_together[operator.id]
        told_by = told_together[operator.id] if domains else together
        time = replace(
            operator.time,
            hold_back=lags[operator.id],
            domains=domains,
            told_by=_sources_of(plan, [by_id[number].node for number in told_by]),
            together=_sources_of(plan, [by_id[number].node for number in together]),
            every=operator.id in late or (domains and timed.elsewhere),
        )
        operators[key] = replace(operator, time=time)
        for edge in mine:
            edges[edge.id] = replace(
                edge, keeps_time=timed.dropped_move, broadcasts_bounds=timed.broadcasts_bounds(edge.side)
            )


def _above(flows: Sequence[Flow], edges: Sequence[Edge]) -> set[int]:
    """Operators that these edges come from."""
    roots = (flows[flows[edge.flow].root].operator for edge in edges)
    return {operator for operator in roots if operator is not None}


def _together(
    plan: Plan, rules: TableRules, flows: Sequence[Flow], edges: Sequence[Edge], operators: Collection[Operator]
) -> dict[int, frozenset[int]]:
    """For each of these operators, those that it has one time with.

    A join that holds results back has one time with all that is behind it. Rows that it lets go must come before the
    records of a later time that they meet there, also where these come in an earlier batch than the record that moves
    the join's own sources on.
    """
    groups = {operator.id: frozenset({operator.id}) for operator in operators}
    for operator in operators:
        if _hold(plan, rules, operator) is None:
            continue
        whole = frozenset().union(*(groups[o] for o in _behind(flows, edges, operator.id) if o in groups))
        groups |= dict.fromkeys(whole, whole)
    return groups


def _late(
    plan: Plan, rules: TableRules, flows: Sequence[Flow], edges: Sequence[Edge], operators: Collection[Operator]
) -> frozenset[int]:
    """Operators that hold results back, and those that get such results.

    They must know before which record these stand, and what time it is there.
    """
    holding = (operator.id for operator in operators if _hold(plan, rules, operator) is not None)
    return frozenset().union(*(_behind(flows, edges, number) for number in holding))


def _behind(flows: Sequence[Flow], edges: Sequence[Edge], operator: int) -> set[int]:
    """This operator, and all that its results reach."""
    reached = {operator}
    # Operators stand in order of construction, so one pass reaches all.
    for edge in sorted(edges, key=lambda edge: edge.target):
        if flows[flows[edge.flow].root].operator in reached:
            reached.add(edge.target)
    return reached


def _sources_of(plan: Plan, nodes: Sequence[str]) -> tuple[str, ...]:
    """The sources that move these nodes' time; global tables move none."""
    names = frozenset[str]().union(*(plan.time_sources[node] for node in nodes))
    return tuple(s.name for s in plan.sources if s.name in names and s.shape.kind != "global")


def _lag_behind(plan: Plan, rules: TableRules, operator: Operator, lags: dict[int, int]) -> int:
    """How late what leaves the operator may be: unmatched records wait until window and grace have passed.

    They come behind the last moment of that wait. An operator below waits one moment longer, so that none of its own
    rows is let go, for want of a partner, in the moment in which one comes.
    """
    hold = _hold(plan, rules, operator)
    return lags[operator.id] + (0 if hold is None else hold + 1)


def _hold(plan: Plan, rules: TableRules, operator: Operator) -> int | None:
    """How long the operator can hold a result back, in ms; None: it never does."""
    timed = _timed(plan, rules, operator)
    return None if timed is None else timed.hold


def _timed(plan: Plan, rules: TableRules, operator: Operator) -> TimeOfSpec | None:
    return operator.spec.timed(SpecSite(plan, rules, plan.by_name[operator.node]))


def _in_place(
    plan: Plan, flows: Sequence[Flow], edges: Sequence[Edge], operators: Mapping[int, Operator]
) -> frozenset[int]:
    """Operators with all rows in the partition of their source, under the key they have there."""
    found: set[int] = set()
    # In order of construction, so that those above are known.
    for number, operator in operators.items():
        mine = [edge for edge in edges if edge.target == number]
        single = operator.time is None or _one_source_a_side(flows, mine)
        if operator.spec.keeps_partition and single and all(_keeps_partition(plan, flows, e, found) for e in mine):
            found.add(number)
    return frozenset(found)


def _keeps_partition(plan: Plan, flows: Sequence[Flow], edge: Edge, in_place: Collection[int]) -> bool:
    """True where the edge's rows stand in the partition of their source under the key they have there."""
    flow = flows[edge.flow]
    while flow.parent is not None:
        if not plan.by_name[flow.node].keeps_partition:
            return False
        flow = flows[flow.parent]
    return flow.operator is None or flow.operator in in_place


def _one_source_a_side(flows: Sequence[Flow], edges: Sequence[Edge]) -> bool:
    return len({(edge.side, flows[edge.flow].root) for edge in edges}) == len({edge.side for edge in edges})
