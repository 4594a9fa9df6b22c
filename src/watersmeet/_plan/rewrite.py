"""The rewrite of a plan into levels: which operators there are, where rows are shuffled, how paths number.

Keeps law 2: preorder numbers of the unrolled tree are depth-first order, also where one record reaches an
operator by two paths. Called when a topology is built, so that a plan that cannot run fails there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.operators import fans_out, keeper_of, operators_of
from watersmeet._plan.operators.lending import with_lent_tables
from watersmeet._plan.operators.spec import Spec, SpecSide, SpecSite
from watersmeet._plan.operators.views import lookups_of
from watersmeet._plan.physical import Edge, Flow, Operator, Physical, Time
from watersmeet._plan.tables import TableRules, table_rules
from watersmeet._plan.timing import settle_timing


def rewrite(plan: Plan) -> Physical:
    """The plan in levels."""
    return with_lent_tables(_Rewrite(plan).run())


class _Rewrite:
    """One run over one plan; the lists grow in depth-first order."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rules: TableRules = table_rules(plan)
        self._flows: list[Flow] = []
        self._edges: list[Edge] = []
        self._sink_edges: list[tuple[int, str]] = []
        self._operators: dict[tuple[str, str], Operator] = {}
        self._size = cache(self._subtree_size)
        self._reach = cache(self._stages_of)

    def run(self) -> Physical:
        for node in self._plan.nodes:
            specs = self._specs(node)
            for number, spec in enumerate(specs, start=1):
                self._add_operator(node, spec, last=number == len(specs))
        for source in self._plan.sources:
            self._root(source, operator=None, stage=0)
        for key in list(self._operators):
            self._settle_slot(key)
        self._settle_visibility()
        self._settle_stored_ts()
        settle_timing(self._plan, self._rules, self._flows, self._edges, self._operators)
        levels = max((op.level for op in self._operators.values()), default=0)
        return Physical(
            plan=self._plan,
            rules=self._rules,
            flows=tuple(self._flows),
            edges=tuple(self._edges),
            operators=tuple(self._operators.values()),
            sink_edges=tuple(self._sink_edges),
            levels=levels,
            slots=1 + max((f.slot for f in self._flows), default=0),
            ordered_exit=self._needs_order(levels),
            store_of=self._store_names(),
        )

    # -- operators ---------------------------------------------------------------------------------------

    def _specs(self, node: Node) -> tuple[Spec[Any], ...]:
        """The operators of a node, first to last."""
        return (*operators_of(node), keeper_of(node)) if node.name in self._rules.kept else operators_of(node)

    def _site(self, node: Node) -> SpecSite[Any]:
        return SpecSite(self._plan, self._rules, node)

    def _stages_of(self, name: str) -> frozenset[int]:
        """Stages in which the node's rows stand, behind all its operators."""
        node = self._plan.by_name[name]
        specs = self._specs(node)
        if specs:
            return frozenset({self._operators[(name, specs[-1].stem)].level})
        return frozenset(s for above in node.inputs for s in self._reach(above)) or frozenset({0})

    def _level_of(self, node: Node, spec: Spec[Any]) -> int:
        """One above the inputs that come in here and the operators of the node before it."""
        sides = [side for side in range(len(node.inputs)) if spec.side_of(node, side) is not None]
        above = [s for side in sides for s in self._reach(node.inputs[side])]
        before = [op.level for (name, _), op in self._operators.items() if name == node.name]
        return 1 + max(above + before, default=0)

    def _add_operator(self, node: Node, spec: Spec[Any], *, last: bool) -> None:
        site, name = self._site(node), node.name
        taken = frozenset(store for op in self._operators.values() for store in op.stores)
        timed = spec.timed(site)
        self._operators[(name, spec.stem)] = Operator(
            id=len(self._operators),
            node=name,
            spec=spec,
            params=spec.params(site),
            level=self._level_of(node, spec),
            # the last one knows old values; where they are not what was sent before, all send them
            emits_old=name in self._rules.carries_old and (last or name in self._rules.loose),
            emits_views=name in self._rules.split,
            shared_root=spec.meets(site),
            fan=1 + self._below(name) if spec.fans_out else 0,
            time=None if timed is None else Time(by_wall=timed.by_wall),
            keeps=spec.keeps(site, taken),
        )

    def _store_names(self) -> dict[str, tuple[int, str]]:
        pairs = ((store, op.id) for op in self._operators.values() for store in op.stores)
        return {store: (operator, store) for store, operator in pairs}

    # -- flows -------------------------------------------------------------------------------------------

    def _subtree_size(self, name: str) -> int:
        """Preorder numbers that the node and all below it take in their slot."""
        return 1 if fans_out(self._plan.by_name[name]) else 1 + self._below(name)

    def _below(self, name: str) -> int:
        return sum(self._size(child.name) for child, _ in self._plan.children[name])

    def _root(self, node: Node, *, operator: Operator | None, stage: int) -> None:
        stored = operator is None or operator.spec.lookups_see_results(self._site(node))
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
            store_path=0 if stored else None,
            store_slot=0,
            carries_old=operator is not None and operator.emits_old,
            suppress=False,
            drops_null_key=operator is None and node.shape.kind != "stream",
            silent=operator is not None and operator.emits_views,
            late=operator is not None and operator.emits_late,
        )
        self._flows.append(flow)
        specs = self._specs(node)
        pending = specs if operator is None else specs[specs.index(operator.spec) + 1 :]
        if pending:
            self._enter(flow, flow.path, self._operators[(node.name, pending[0].stem)], side=0)
        else:
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
                spec, *_ = operators_of(join)
                self._enter(parent, number, self._operators[(join.name, spec.stem)], place)
            return
        for spec in operators_of(child):
            own_side = spec.side_of(child, side)
            if own_side is not None:
                self._enter(parent, number, self._operators[(child.name, spec.stem)], own_side)
                return
        flow = self._step(parent, child, number)
        if child.is_sink:
            self._sink_edges.append((flow.id, child.name))
        elif child.name in self._rules.kept:
            self._enter(flow, flow.path, self._operators[(child.name, keeper_of(child).stem)], side=0)
        else:
            self._descend(flow)

    def _step(self, parent: Flow, node: Node, number: int) -> Flow:
        rules = self._rules
        opens, begins = node.fans_out, node.begins_table
        ends_views = node.shape.kind == "stream" or node.name in rules.kept
        suppress = node.store is None and node.name in rules.suppressing - rules.fused
        slot = parent.slot + 1 if opens else parent.slot
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
            carries_old=parent.carries_old and node.name in rules.carries_old,
            suppress=suppress,
            drops_null_key=begins or (node.drops_null_key and not self._relaxed(node)),
            silent=(parent.silent and not ends_views) or (suppress and node.name in rules.split),
            drops_silent=parent.silent and ends_views,
            late=parent.late and (node.passes_changes or node.takes_old),
        )
        self._flows.append(flow)
        return flow

    def _relaxed(self, node: Node) -> bool:
        """True when a join that takes null keys stands somewhere below (docs/semantics, section 16)."""
        below = [child for child, _ in self._plan.children[node.name]]
        return any(child.takes_null_keys or self._relaxed(child) for child in below)

    def _enter(self, flow: Flow, path: int, operator: Operator, side: int) -> None:
        node = self._plan.by_name[operator.node]
        fresh = not any(e.target == operator.id for e in self._edges)
        reads = operator.spec.reads(self._site(node)).sides[side]
        edge = Edge(
            len(self._edges),
            flow.id,
            path,
            operator.id,
            side,
            reads,
            old=flow.carries_old and self._brings_old(flow, reads),
            silent=flow.silent and reads.silent != "any",
            drops_silent=flow.silent and reads.silent == "dropped",
            drops_late=flow.late and reads.drops_late,
        )
        self._edges.append(edge)
        if fresh:
            self._root(node, operator=operator, stage=operator.level)

    def _brings_old(self, flow: Flow, side: SpecSide) -> bool:
        return side.old == "always" or (side.old == "inexact" and flow.node in self._rules.loose)

    # -- what is known only when all flows are there -----------------------------------------------------

    def _settle_slot(self, key: tuple[str, str]) -> None:
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
        timed = [spec.timed(self._site(node)) for spec in self._specs(node)]
        if not any(each is not None and each.hold is not None for each in timed):
            return False
        below = self._plan.below(node.name)
        return any(spec.timed(self._site(node)) is not None for node in below for spec in self._specs(node))

    def _settle_visibility(self) -> None:
        """Marks the edges with rows that must say from where lookups see them, last operators first."""
        for key in reversed(list(self._operators)):
            operator = self._operators[key]
            if not (operator.shared_root or operator.emits_visible):
                continue
            for edge in [e for e in self._edges if e.target == operator.id]:
                if not edge.reads.looked_up:
                    continue
                self._edges[edge.id] = replace(edge, visible=True)
                if self._is_computed(self._flows[edge.flow]):
                    self._ask_root(self._flows[edge.flow], emits_visible=True)

    def _settle_stored_ts(self) -> None:
        """A join that looks up the result of another join computes its timestamp as if at that moment."""
        for edge in [e for e in self._edges if e.reads.stored_ts]:
            if self._is_joined(self._flows[edge.flow]):
                self._edges[edge.id] = replace(edge, stored_ts=True)
                self._ask_root(self._flows[edge.flow], emits_stored_ts=True)

    def _is_computed(self, flow: Flow) -> bool:
        """True for a table that no store keeps: a join's result, looked up through its inputs' stores."""
        return flow.store_path is None and self._flows[flow.root].operator is not None

    def _is_joined(self, flow: Flow) -> bool:
        """True for a table that is looked up through the inputs of a join."""
        root = self._flows[flow.root]
        joins = {op.id for op in self._operators.values() if op.spec.computed}
        return root.operator in joins and flow.store_path == root.store_path

    def _ask_root(self, flow: Flow, **emits: bool) -> None:
        number = self._flows[flow.root].operator
        key = next(k for k, op in self._operators.items() if op.id == number)
        self._operators[key] = replace(self._operators[key], **emits)  # type: ignore[arg-type]

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
        operators = self._operators.values()
        return any(op.id == flow.operator and op.spec.rekeys for op in operators)
