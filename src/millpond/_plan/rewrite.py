"""The rewrite of a plan into levels: which operators there are, where rows are shuffled, how paths number.

Keeps law 2: preorder numbers of the unrolled tree are depth-first order, also where one record reaches an
operator by two paths. Called when a topology is built, so that a plan that cannot run fails there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from millpond._plan.logical import Plan
from millpond._plan.nodes import (
    FAN_OUT,
    OPERATORS,
    STATEFUL,
    FlatMap,
    GlobalLookup,
    Node,
    OneToMany,
    Reference,
    Repartition,
    Sink,
    StreamStream,
    StreamTable,
    TableTable,
    begins_table,
    entry,
)
from millpond._plan.physical import Edge, Flow, Operator, Physical
from millpond._plan.tables import TableRules, table_rules
from millpond._plan.timing import settle_timing, stream_stream_settings
from millpond._plan.views import GlobalView, lookups_of, tables_of, views_of
from millpond.generation import Generation


def rewrite(plan: Plan) -> Physical:
    """The plan in levels."""
    return _Rewrite(plan).run()


class _Rewrite:
    """One run over one plan; the lists grow in depth-first order."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rules: TableRules = table_rules(plan)
        self._flows: list[Flow] = []
        self._edges: list[Edge] = []
        self._sink_edges: list[tuple[int, str]] = []
        self._operators: dict[tuple[str, str], Operator] = {}
        self._taken: set[str | None] = {None}
        self._size = cache(self._subtree_size)
        self._reach = cache(self._stages_of)

    def run(self) -> Physical:
        for node in self._plan.nodes:
            for stem in self._stems(node):
                self._add_operator(node, stem)
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

    def _stems(self, node: Node) -> tuple[str, ...]:
        join = OPERATORS.get(type(node), (node.stem,)) if isinstance(node, STATEFUL) else ()
        return (*join, "table") if node.name in self._rules.kept else join

    def _stages_of(self, name: str) -> frozenset[int]:
        """Stages in which the node's rows stand, behind all its operators."""
        node = self._plan.by_name[name]
        stems = self._stems(node)
        if stems:
            return frozenset({self._operators[(name, stems[-1])].level})
        return frozenset(s for above in node.inputs for s in self._reach(above)) or frozenset({0})

    def _level_of(self, node: Node, stem: str) -> int:
        """One above the inputs that come in here and the operators of the node before it."""
        sides = [i for i in range(len(node.inputs)) if stem == "table" or entry(node, i)[0] == stem]
        above = [s for i in sides for s in self._reach(node.inputs[i])]
        before = [op.level for (name, _), op in self._operators.items() if name == node.name]
        return 1 + max(above + before, default=0)

    def _add_operator(self, node: Node, stem: str) -> None:
        level = self._level_of(node, stem)
        kept = node.name in self._rules.kept
        operator = Operator(
            id=len(self._operators),
            node=node.name,
            stem=stem,
            level=level,
            emits_old=node.name in self._rules.carries_old
            and (stem == "table" or not kept or node.name in self._rules.loose),
            emits_views=node.name in self._rules.split,
        )
        if stem == "table":
            suppress = node.name in self._rules.suppressing
            operator = replace(operator, suppress=(suppress,), stores=(node.store or node.name,))
        elif isinstance(node, TableTable | StreamTable):
            operator = self._with_join_settings(operator, node)
        elif isinstance(node, StreamStream):
            operator = stream_stream_settings(operator, node, fan=1 + self._below(node.name))
        elif isinstance(node, Reference):
            operator = self._with_reference_settings(operator, node)
        elif isinstance(node, GlobalLookup):
            operator = self._with_global_settings(operator, node)
        self._operators[(node.name, stem)] = operator

    def _with_join_settings(self, operator: Operator, node: TableTable | StreamTable) -> Operator:
        left, right = node.inputs
        names = {side: store for store, (join, side) in self._rules.aliases.items() if join == node.name}
        sides = (0, 1) if isinstance(node, TableTable) else (1,)
        return replace(
            operator,
            how=node.how,
            generation=node.generation.value,
            suppress=tuple(name in self._rules.fused for name in (left, right)),
            shared_root=self._plan.meet_in_step(left, right),
            stores=tuple(names.get(s, f"{node.name}.{('left', 'right')[s]}") for s in sides),
        )

    def _with_reference_settings(self, operator: Operator, node: Reference) -> Operator:
        operator = replace(operator, how=node.how, generation=node.generation.value)
        if operator.stem == "foreign_key_send":
            return replace(operator, stores=(f"{node.name}.foreign_keys",))
        names = [store for store, (join, _) in self._rules.aliases.items() if join == node.name]
        return replace(
            operator,
            suppress=(False, node.referred in self._rules.fused),
            # One-to-many goes by what has arrived: so a row that loses both sides at once loses its result once.
            shared_root=operator.stem != "one_to_many" and self._plan.meet_in_step(node.referring, node.referred),
            fan=1 + self._below(node.name),
            stores=(f"{node.name}.subscriptions", *(names or [f"{node.name}.referred"])),
        )

    def _with_global_settings(self, operator: Operator, node: GlobalLookup) -> Operator:
        stores = []
        for number, table in enumerate(tables_of(self._plan, node.inputs[1])):
            replica = table.store if table.store not in self._taken else None
            self._taken.add(replica)
            stores.append(replica or f"{node.name}.replica{number or ''}")
        if node.shape.kind == "table":
            stores.append(f"{node.name}.standing")
        views = tuple(view.how for view in views_of(self._plan, node.inputs[1]))
        return replace(operator, how=node.how, generation=node.generation.value, views=views, stores=tuple(stores))

    def _store_names(self) -> dict[str, tuple[int, str]]:
        pairs = ((store, op.id) for op in self._operators.values() for store in op.stores)
        return {store: (operator, store) for store, operator in pairs}

    # -- flows -------------------------------------------------------------------------------------------

    def _subtree_size(self, name: str) -> int:
        """Preorder numbers that the node and all below it take in their slot."""
        opens_slot = isinstance(self._plan.by_name[name], FlatMap | StreamStream | Reference)
        return 1 if opens_slot else 1 + self._below(name)

    def _below(self, name: str) -> int:
        return sum(self._size(child.name) for child, _ in self._plan.children[name])

    def _root(self, node: Node, *, operator: Operator | None, stage: int) -> None:
        stored = operator is None or self._shows_when_sent(node, operator)
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
        )
        self._flows.append(flow)
        passed = () if operator is None else (operator.stem,)
        stems = self._stems(node)
        pending = stems[stems.index(passed[0]) + 1 :] if passed else stems
        if pending:
            self._enter(flow, flow.path, self._operators[(node.name, pending[0])], side=0)
        else:
            self._descend(flow)

    def _shows_when_sent(self, node: Node, operator: Operator) -> bool:
        """True where lookups see a result when it is sent: from a store, or where nothing else would be in order.

        Two tables of one source of which one came by a foreign key do not change at once: their join is seen as
        it goes from one result to the next.
        """
        if operator.stem in ("table", *FAN_OUT, "global_table_lookup"):
            return True
        if operator.stem != "table_table" or operator.shared_root:
            return False
        left, right = node.inputs
        return bool(self._plan.ancestors[left] & self._plan.ancestors[right])

    def _descend(self, flow: Flow) -> None:
        """Hands the flow to the children of its node, in order of construction."""
        number = flow.path + 1
        for child, side in self._plan.children[flow.node]:
            self._child(flow, child, side, number)
            number += self._size(child.name)

    def _child(self, parent: Flow, child: Node, side: int, number: int) -> None:
        if isinstance(child, GlobalView):
            # A view keeps nothing: the tables behind it stand where it is looked up.
            for join, place in lookups_of(self._plan, child, side):
                self._enter(parent, number, self._operators[(join.name, join.stem)], place)
            return
        if isinstance(child, STATEFUL):
            stem, side = entry(child, side)
            self._enter(parent, number, self._operators[(child.name, stem)], side)
            return
        flow = self._step(parent, child, number)
        if isinstance(child, Sink):
            self._sink_edges.append((flow.id, child.name))
        elif child.name in self._rules.kept:
            self._enter(flow, flow.path, self._operators[(child.name, "table")], side=0)
        else:
            self._descend(flow)

    def _step(self, parent: Flow, node: Node, number: int) -> Flow:
        rules = self._rules
        opens = isinstance(node, FlatMap)
        begins = begins_table(node)
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
            drops_null_key=begins or (isinstance(node, Repartition) and not self._relaxed(node)),
            silent=(parent.silent and not ends_views) or (suppress and node.name in rules.split),
            drops_silent=parent.silent and ends_views,
        )
        self._flows.append(flow)
        return flow

    def _relaxed(self, node: Node) -> bool:
        """True when a join that takes null keys stands somewhere below (docs/semantics, section 16)."""
        below = [child for child, _ in self._plan.children[node.name]]
        return any(_takes_null_keys(child) or self._relaxed(child) for child in below)

    def _enter(self, flow: Flow, path: int, operator: Operator, side: int) -> None:
        node = self._plan.by_name[operator.node]
        fresh = not any(e.target == operator.id for e in self._edges)
        drops_key, drops_value = _null_rules(node, operator, side)
        edge = Edge(
            len(self._edges),
            flow.id,
            path,
            operator.id,
            side,
            drops_key,
            drops_value,
            old=flow.carries_old and flow.node in self._rules.loose and operator.stem in ("table", "table_table"),
            silent=flow.silent and operator.stem != "stream_table",
            drops_silent=flow.silent and isinstance(node, OneToMany | GlobalLookup),
        )
        sender = self._plan.by_name[flow.node] is node and flow.operator is not None
        if sender and operator.stem != "table":
            edge = replace(edge, direct=True, drops_null_key=False)
        if self._plan.by_name[flow.node].shape.kind == "global":
            edge = replace(edge, broadcast=True)
        self._edges.append(edge)
        if fresh:
            self._root(node, operator=operator, stage=operator.level)

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
        """True for a windowed join that holds results back and stands above another, which asks for their partition."""
        held = isinstance(node, StreamStream) and node.waits
        return held and any(isinstance(below, StreamStream) for below in self._plan.below(node.name))

    def _settle_visibility(self) -> None:
        """Marks the edges whose rows must say from where lookups see them, last operators first."""
        for key in reversed(list(self._operators)):
            operator = self._operators[key]
            if not (operator.shared_root or operator.emits_visible):
                continue
            for edge in [e for e in self._edges if e.target == operator.id]:
                if operator.stem in ("stream_table", *FAN_OUT) and edge.side == 0:
                    continue
                self._edges[edge.id] = replace(edge, visible=True)
                if self._is_computed(self._flows[edge.flow]):
                    self._ask_root(self._flows[edge.flow], emits_visible=True)

    def _settle_stored_ts(self) -> None:
        """A join that looks up the result of another join computes its timestamp as if at that moment."""
        joins = {op.id for op in self._operators.values() if op.stem in ("table_table", *FAN_OUT)}
        for edge in [e for e in self._edges if e.target in joins and not e.direct]:
            if self._is_joined(self._flows[edge.flow]):
                self._edges[edge.id] = replace(edge, stored_ts=True)
                self._ask_root(self._flows[edge.flow], emits_stored_ts=True)

    def _is_computed(self, flow: Flow) -> bool:
        """True for a table that no store keeps: a join's result, looked up through its inputs' stores."""
        return flow.store_path is None and self._flows[flow.root].operator is not None

    def _is_joined(self, flow: Flow) -> bool:
        """True for a table that is looked up through the inputs of a join."""
        root = self._flows[flow.root]
        joins = {op.id for op in self._operators.values() if op.stem == "table_table"}
        return root.operator in joins and flow.store_path == root.store_path

    def _ask_root(self, flow: Flow, **emits: bool) -> None:
        number = self._flows[flow.root].operator
        key = next(k for k, op in self._operators.items() if op.id == number)
        self._operators[key] = replace(self._operators[key], **emits)  # type: ignore[arg-type]

    def _needs_order(self, levels: int) -> bool:
        """True unless every sink is fed by one flow, sharded by the key it writes, of the last stage."""
        fed = [sink for _, sink in self._sink_edges]
        if levels == 0 or len(set(fed)) < len(fed):
            return True
        ends = [self._flows[f] for f, _ in self._sink_edges]
        return any(f.stage != levels or self._changes_key(f) for f in ends)

    def _changes_key(self, flow: Flow) -> bool:
        while flow.parent is not None:
            if self._plan.by_name[flow.node].stem in ("map", "select_key", "flat_map"):
                return True
            flow = self._flows[flow.parent]
        operators = self._operators.values()
        return any(op.id == flow.operator and op.stem in FAN_OUT for op in operators)


def _null_rules(node: Node, operator: Operator, side: int) -> tuple[bool, bool]:
    """(drops null keys, drops null values) on the way into an operator (docs/semantics, section 1)."""
    if isinstance(node, StreamStream) and operator.stem == node.stem:
        return not (node.relaxed and node.outer(side)), not node.generation.is_old
    if isinstance(node, GlobalLookup) and operator.stem == node.stem and side == 0:
        # What comes in as key is the mapped one: a left join looks nothing up for null.
        return node.how == "inner" and node.shape.kind == "stream", node.shape.kind == "stream"
    drives = isinstance(node, StreamTable) and operator.stem == node.stem and side == 0
    if not isinstance(node, StreamTable) or not drives:
        return True, False
    return not _takes_null_keys(node), not node.generation.is_old


def _takes_null_keys(node: Node) -> bool:
    """True for the stream joins that KIP-962 relaxed (3.7 and later)."""
    if isinstance(node, StreamStream):
        return node.relaxed and node.how != "inner"
    current = getattr(node, "generation", None) is Generation.CURRENT
    return current and isinstance(node, StreamTable | GlobalLookup) and node.how == "left"
