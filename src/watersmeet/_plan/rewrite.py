"""The rewrite of a plan into levels: which operators there are, where rows are shuffled, how paths number.

Keeps law 2: preorder numbers of the unrolled tree are depth-first order, also where one record reaches an
operator by two paths. Called when a topology is built, so that a plan that cannot run fails there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache

from watersmeet._plan.declaration import OperatorDeclaration, RowColumn, TimeBehaviour, row_columns, row_ends
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.joins import lookups_of
from watersmeet._plan.operators.tables import keeper_of
from watersmeet._plan.physical import Edge, Flow, Operator, OperatorTime, Physical, declaration_of, with_stores

OperatorKey = tuple[str, type[OperatorDeclaration]]
"""Of an operator: its node, and the class of its declaration."""


# Stream time in the plan: which operators need it, how it comes to their shards, how late it runs.
#
# Law 3: an operator's time is that of the sources, less what the operators above it can hold back; a source
# partition has a time of its own where nothing above the operator mixes partitions.


def settle_timing(
    plan: Plan,
    flows: Sequence[Flow],
    edges: list[Edge],
    operators: dict[OperatorKey, Operator],
) -> None:
    """Gives operators their time domains and lag, and edges what they tell of time; in place."""
    by_id = {op.id: op for op in operators.values()}
    in_place = _in_place(plan, flows, edges, by_id)
    all_together = _time_groups(plan, flows, edges, by_id.values())
    told_together = _time_groups(plan, flows, edges, [by_id[number] for number in sorted(in_place)])
    delayed = _delayed(plan, flows, edges, by_id.values())
    lags: dict[int, int] = {}
    # In order of construction, so that those above are known.
    for key, operator in operators.items():
        incoming = [edge for edge in edges if edge.target == operator.id]
        above = _above(flows, incoming)
        lags[operator.id] = max((_lag_behind(plan, by_id[o], lags) for o in above), default=0)
        timed = _timed(plan, operator)
        if operator.time is None or timed is None:
            continue
        domains = operator.id in in_place
        group = all_together[operator.id]
        told_by = told_together[operator.id] if domains else group
        time = replace(
            operator.time,
            hold_back=lags[operator.id],
            domains=domains,
            told_by=_sources_of(plan, [by_id[number].node for number in told_by]),
            together=_sources_of(plan, [by_id[number].node for number in group]),
            every=operator.id in delayed or (domains and timed.elsewhere),
        )
        operators[key] = replace(operator, time=time)
        for edge in incoming:
            edges[edge.id] = replace(edge, timing=timed)


def _above(flows: Sequence[Flow], edges: Sequence[Edge]) -> set[int]:
    roots = (flows[flows[edge.flow].root].operator for edge in edges)
    return {operator for operator in roots if operator is not None}


def _time_groups(
    plan: Plan, flows: Sequence[Flow], edges: Sequence[Edge], operators: Collection[Operator]
) -> dict[int, frozenset[int]]:
    """For each of these operators, those that it has one time with.

    A join that holds results back has one time with all that is behind it. Rows that it lets go must come before the
    records of a later time that they meet there, also where these come in an earlier batch than the record that moves
    the join's own sources on.
    """
    groups = {operator.id: frozenset({operator.id}) for operator in operators}
    for operator in operators:
        if _hold(plan, operator) is None:
            continue
        group = frozenset().union(*(groups[o] for o in _downstream(flows, edges, operator.id) if o in groups))
        groups |= dict.fromkeys(group, group)
    return groups


def _delayed(
    plan: Plan, flows: Sequence[Flow], edges: Sequence[Edge], operators: Collection[Operator]
) -> frozenset[int]:
    """Operators that hold results back, and those that get such results.

    They must know before which record these stand, and what time it is there.
    """
    holding = (operator.id for operator in operators if _hold(plan, operator) is not None)
    return frozenset().union(*(_downstream(flows, edges, number) for number in holding))


def _downstream(flows: Sequence[Flow], edges: Sequence[Edge], operator: int) -> set[int]:
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


def _lag_behind(plan: Plan, operator: Operator, lags: dict[int, int]) -> int:
    """How late what leaves the operator may be: unmatched records wait until window and grace have passed.

    They come behind the last moment of that wait. An operator below waits one moment longer, so that none of its own
    rows is let go, for want of a partner, in the moment in which one comes.
    """
    hold = _hold(plan, operator)
    return lags[operator.id] + (0 if hold is None else hold + 1)


def _hold(plan: Plan, operator: Operator) -> int | None:
    """How long the operator can hold a result back, in ms; None: it never does."""
    timed = _timed(plan, operator)
    return None if timed is None else timed.hold


def _timed(plan: Plan, operator: Operator) -> TimeBehaviour | None:
    return declaration_of(plan, operator).timed(plan)


def _in_place(
    plan: Plan, flows: Sequence[Flow], edges: Sequence[Edge], operators: Mapping[int, Operator]
) -> frozenset[int]:
    """Operators with all rows in the partition of their source, under the key they have there."""
    ids: set[int] = set()
    # In order of construction, so that those above are known.
    for number, operator in operators.items():
        incoming = [edge for edge in edges if edge.target == number]
        single = operator.time is None or _one_source_a_side(flows, incoming)
        if operator.declaration.in_place and single and all(_keeps_partition(plan, flows, e, ids) for e in incoming):
            ids.add(number)
    return frozenset(ids)


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


def rewrite(plan: Plan) -> Physical:
    return with_stores(_Rewrite(plan).run())


class _Rewrite:
    """One run over one plan; the lists grow in depth-first order."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rules = plan.rules
        self._flows: list[Flow] = []
        self._edges: list[Edge] = []
        self._sink_edges: list[tuple[int, str]] = []
        self._operators: dict[OperatorKey, Operator] = {}
        self._size = cache(self._subtree_size)
        self._reach = cache(self._operators_of)

    def run(self) -> Physical:
        for node in self._plan.nodes:
            declarations = self._declarations(node)
            for number, declaration in enumerate(declarations, start=1):
                self._add_operator(node, declaration, last=number == len(declarations))
        for source in self._plan.sources:
            self._root(source, operator=None, stage=0)
        for key in list(self._operators):
            self._settle_slot(key)
        self._settle_visibility()
        self._settle_stored_ts()
        settle_timing(self._plan, self._flows, self._edges, self._operators)
        levels = max((op.level for op in self._operators.values()), default=0)
        return Physical(
            plan=self._plan,
            flows=tuple(self._flows),
            edges=tuple(self._edges),
            operators=tuple(self._operators.values()),
            sink_edges=tuple(self._sink_edges),
            levels=levels,
            slots=1 + max((f.slot for f in self._flows), default=0),
            ordered_exit=self._needs_order(levels),
        )

    # -- operators ---------------------------------------------------------------------------------------

    def _declarations(self, node: Node) -> tuple[OperatorDeclaration, ...]:
        return (*node.operators, keeper_of(node)) if node.name in self._rules.kept else node.operators

    def _operator(self, node: Node, declaration: OperatorDeclaration) -> Operator:
        return self._operators[node.name, type(declaration)]

    def _operators_of(self, name: str) -> frozenset[int | None]:
        """The ids of the operators with the results that become the node's rows, behind all its own; None: a source."""
        node = self._plan.by_name[name]
        declarations = self._declarations(node)
        if declarations:
            return frozenset({self._operator(node, declarations[-1]).id})
        return frozenset(number for above in node.inputs for number in self._reach(above)) or frozenset({None})

    def _operators_above(self, name: str) -> list[Operator]:
        """The operators among those that `_operators_of` names."""
        numbers = self._reach(name)
        return [operator for operator in self._operators.values() if operator.id in numbers]

    def _head_of(self, node: Node, declaration: OperatorDeclaration) -> Operator | None:
        """The first lookup of the chain that gives a lookup all its rows; None where it takes a level of its own."""
        if not declaration.chains or node.name in self._plan.separate_lookups:
            return None
        above = self._operators_above(node.inputs[0])
        heads = {operator.id if operator.head is None else operator.head for operator in above}
        chained = len(above) == len(self._reach(node.inputs[0])) and all(o.declaration.chains for o in above)
        return next(o for o in self._operators.values() if o.id in heads) if chained and len(heads) == 1 else None

    def _level_of(self, node: Node, declaration: OperatorDeclaration) -> int:
        """One above the inputs that come in here and the operators of the node before it."""
        sides = [side for side in range(len(node.inputs)) if declaration.side_of(side) is not None]
        above = [operator.level for side in sides for operator in self._operators_above(node.inputs[side])]
        is_last = declaration.messages != "sent"
        levels = [op.level for (name, _), op in self._operators.items() if name == node.name and is_last]
        return 1 + max(above + levels, default=0)

    def _add_operator(self, node: Node, declaration: OperatorDeclaration, *, last: bool) -> None:
        plan, name = self._plan, node.name
        timed, head = declaration.timed(plan), self._head_of(node, declaration)
        self._operators[name, type(declaration)] = Operator(
            id=len(self._operators),
            node=name,
            declaration=type(declaration),
            params=declaration.params(plan),
            level=self._level_of(node, declaration) if head is None else head.level,
            emits=row_columns(
                # the last one knows old values; where they are not what was sent before, all send them
                old=name in self._rules.carries_old and (last or name in self._rules.loose),
                silent=name in self._rules.split,
                late=declaration.emits_late,
            ),
            shared_root=declaration.meets(plan),
            fan=1 + self._below(name) if declaration.fans_out else 0,
            time=None if timed is None else OperatorTime(wall_ms=0 if timed.by_wall else None),
            tables=declaration.keeps(plan),
            head=None if head is None else head.id,
        )

    # -- flows -------------------------------------------------------------------------------------------

    def _subtree_size(self, name: str) -> int:
        """Preorder numbers that the node and all below it take in their slot."""
        return 1 if self._plan.by_name[name].fans_out else 1 + self._below(name)

    def _below(self, name: str) -> int:
        return sum(self._size(child.name) for child, _ in self._plan.children[name])

    def _root(self, node: Node, *, operator: Operator | None, stage: int) -> None:
        looked_up = operator is None or declaration_of(self._plan, operator).lookups_see_results(self._plan)
        flow = Flow(
            id=len(self._flows),
            node=node.name,
            stage=stage,
            parent=None,
            root=len(self._flows),
            operator=None if operator is None else operator.id,
            path=0,
            slot=0,
            fan=0,
            entry=0,
            store_path=0 if looked_up else None,
            store_slot=0,
            columns=frozenset() if operator is None else operator.emits,
            suppress=False,
            ends=row_ends(null_key=operator is None and node.shape.kind != "stream"),
        )
        self._flows.append(flow)
        operators = [self._operator(node, declaration) for declaration in self._declarations(node)]
        pending = [candidate for candidate in operators if operator is None or candidate.id > operator.id]
        if operator is not None and operator.declaration.messages == "sent":
            pending = [candidate for candidate in pending if candidate.declaration.messages != "sent"]
        if pending:
            side = 0 if operator is None else operator.declaration.target_side
            self._enter(flow, flow.path, pending[0], side)
        # the store of a global table stands beside what reads the table
        if operator is None if node.shape.kind == "global" else not pending:
            self._descend(flow)

    def _descend(self, flow: Flow) -> None:
        """Hands the flow to the children of its node, in order of construction."""
        number = flow.path + 1
        for child, side in self._plan.children[flow.node]:
            self._child(flow, child, side, number)
            number += self._size(child.name)

    def _child(self, parent: Flow, child: Node, side: int, number: int) -> None:
        if child.is_view:
            # A view keeps nothing: the tables behind it stand where it is looked up.
            for join, place in lookups_of(self._plan, child, side):
                self._enter(parent, number, self._operator(join, join.operators[0]), place)
            return
        for declaration in child.operators:
            own_side = declaration.side_of(side)
            if own_side is not None:
                self._enter(parent, number, self._operator(child, declaration), own_side)
                return
        flow = self._step(parent, child, number)
        if child.is_sink:
            self._sink_edges.append((flow.id, child.name))
        elif child.name in self._rules.kept:
            self._enter(flow, flow.path, self._operator(child, keeper_of(child)), side=0)
        else:
            self._descend(flow)

    def _step(self, parent: Flow, node: Node, number: int) -> Flow:
        rules = self._rules
        opens, begins = node.fans_out, node.begins_table
        ends_views = node.shape.kind == "stream" or node.name in rules.kept
        suppress = node.store is None and node.name in rules.suppressing - rules.fused
        slot = parent.slot + 1 if opens else parent.slot
        silent = "silent" in parent.columns
        flow = Flow(
            id=len(self._flows),
            node=node.name,
            stage=parent.stage,
            parent=parent.id,
            root=parent.root,
            operator=None,
            path=0 if opens else number,
            slot=slot,
            fan=1 + self._below(node.name) if opens else 0,
            entry=number if opens else 0,
            store_path=number if begins else parent.store_path,
            store_slot=slot if begins else parent.store_slot,
            columns=row_columns(
                old="old" in parent.columns and node.name in rules.carries_old,
                silent=(silent and not ends_views) or (suppress and node.name in rules.split),
                late="late" in parent.columns and (node.passes_changes or node.takes_old),
            ),
            suppress=suppress,
            ends=row_ends(
                null_key=begins or (node.drops_null_key and not self._relaxed(node)), silent=silent and ends_views
            ),
        )
        self._flows.append(flow)
        return flow

    def _relaxed(self, node: Node) -> bool:
        """True when a join that takes null keys stands below, not of a stream with this table (semantics/model.md)."""
        below = [
            child
            for child, side in self._plan.children[node.name]
            if child.shape.kind != "stream" or side not in (*child.looks_up, *child.goes_by_moment)
        ]
        return any(child.takes_null_keys or self._relaxed(child) for child in below)

    def _enter(self, flow: Flow, path: int, operator: Operator, side: int) -> None:
        node = self._plan.by_name[operator.node]
        fresh = not any(e.target == operator.id for e in self._edges)
        reads = declaration_of(self._plan, operator).reads(self._plan).sides[side]
        brings_old = reads.old == "always" or (reads.old == "inexact" and flow.node in self._rules.loose)
        edge = Edge(
            len(self._edges),
            flow.id,
            path,
            operator.id,
            side,
            reads,
            columns=flow.columns & row_columns(old=brings_old, silent=reads.marks_silent),
            ends=reads.ends - ({"silent", "late"} - flow.columns),
        )
        self._edges.append(edge)
        if fresh:
            self._root(node, operator=operator, stage=operator.level)

    # -- what is known only when all flows are there -----------------------------------------------------

    def _settle_slot(self, key: OperatorKey) -> None:
        """An operator's output continues the deepest slot among its inputs."""
        operator = self._operators[key]
        ins = [self._flows[e.flow].slot for e in self._edges if e.target == operator.id]
        opened = 1 if operator.fan else 0
        opened += self._lets_go_to_another(self._plan.by_name[operator.node])
        operator = self._operators[key] = replace(operator, slot=max(ins, default=0) + opened)
        root = next((f for f in self._flows if f.operator == operator.id), None)
        for f in [f for f in self._flows if root is not None and f.root == root.id]:
            self._flows[f.id] = replace(f, slot=f.slot + operator.slot, store_slot=f.store_slot + operator.slot)

    def _lets_go_to_another(self, node: Node) -> bool:
        """True where results are held back and something below goes by time, which asks for their partition."""
        timed = [declaration.timed(self._plan) for declaration in self._declarations(node)]
        if not any(timing is not None and timing.hold is not None for timing in timed):
            return False
        below = self._plan.below(node.name)
        readers = (declaration for node in below for declaration in self._declarations(node))
        return any(declaration.timed(self._plan) is not None for declaration in readers)

    def _settle_visibility(self) -> None:
        """Marks the edges with rows that must say from where lookups see them, last operators first."""
        for key in reversed(list(self._operators)):
            operator = self._operators[key]
            if not (operator.shared_root or "visible" in operator.emits):
                continue
            for edge in [e for e in self._edges if e.target == operator.id]:
                if not edge.reads.looked_up:
                    continue
                self._edges[edge.id] = replace(edge, columns=edge.columns | {"visible"})
                if self._is_computed(self._flows[edge.flow]):
                    self._ask_root(self._flows[edge.flow], "visible")

    def _settle_stored_ts(self) -> None:
        """A join that looks up the result of another join computes its timestamp as if at that moment."""
        for edge in [e for e in self._edges if e.reads.stored_ts]:
            if self._is_joined(self._flows[edge.flow]):
                self._edges[edge.id] = replace(edge, columns=edge.columns | {"stored_ts"})
                self._ask_root(self._flows[edge.flow], "stored_ts")

    def _is_computed(self, flow: Flow) -> bool:
        """True for a table that no store keeps: a join's result, looked up through its inputs' stores."""
        return flow.store_path is None and self._flows[flow.root].operator is not None

    def _is_joined(self, flow: Flow) -> bool:
        """True for a table that is looked up through the inputs of a join."""
        root = self._flows[flow.root]
        computed = self._plan.by_name[root.node].old_values == "computed" and root.node not in self._rules.kept
        return computed and flow.store_path == root.store_path

    def _ask_root(self, flow: Flow, column: RowColumn) -> None:
        number = self._flows[flow.root].operator
        key = next(k for k, op in self._operators.items() if op.id == number)
        operator = self._operators[key]
        self._operators[key] = replace(operator, emits=operator.emits | {column})

    def _needs_order(self, levels: int) -> bool:
        """True unless every sink, and topic, is fed by one flow, sharded by the key it writes, of the last stage."""
        fed = [sink for _, sink in self._sink_edges]
        topics = [sink.place.topic for sink in self._plan.sinks if sink.place.topic is not None]
        if levels == 0 or len(set(fed)) < len(fed) or len(set(topics)) < len(topics):
            return True
        if any(node.makes_headers for node in self._plan.nodes):
            return True  # which rows have which headers is said where they leave
        ends = [self._flows[f] for f, _ in self._sink_edges]
        return any(f.stage != levels or self._changes_key(f) for f in ends)

    def _changes_key(self, flow: Flow) -> bool:
        while flow.parent is not None:
            node = self._plan.by_name[flow.node]
            if not node.keyed_by or node.fans_out:
                return True
            flow = self._flows[flow.parent]
        operator = next((op for op in self._operators.values() if op.id == flow.operator), None)
        if operator is None or operator.head is None:
            return operator is not None and operator.declaration.messages == "received"
        # rows of a chain of lookups lie in the shards of the first one's
        driving = (edge for edge in self._edges if edge.target == operator.id and edge.side == 0)
        return any(self._changes_key(self._flows[edge.flow]) for edge in driving)
