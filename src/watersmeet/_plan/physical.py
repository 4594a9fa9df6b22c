"""Levels: what a plan becomes before it runs. Frozen, the same for Spark and for the engine without JVM.

A **stage** is what stands between two exchanges. In it rows are **flows**: one flow per path through the
stateless nodes, unrolled from the stage's roots (sources in stage 0, operators of level n in stage n). A
flow ends in **edges**: into a side of an **operator** of a later level, or into a sink.

Paths (law 2). Depth-first order is the preorder number of a flow in the tree of all paths below a record's
source. A number is added to the row's current path slot; a node that makes many records of one (flat_map)
opens the next slot, with record index times the size of its subtree plus the number within.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.spec import Params, Reads, ResultColumns, Spec, SpecSide, SpecSite, TableSchema
from watersmeet._plan.tables import TableRules

TIME_SIDE = -1
"""Side on which an operator gets the times of the sources."""


def bounds_side(side: int) -> int:
    """Side on which an operator gets the time bounds of the rows of `side`."""
    return -2 - side


@dataclass(frozen=True)
class Flow:
    """Rows of one node, come by one path.

    Parameters
    ----------
    id : its number in the plan.
    node : name of its node; the node's step makes the rows out of the parent's.
    stage : 0 before the first exchange, n behind the operators of level n.
    parent : the flow it is made of; None for a root.
    root : the flow at the top of its tree: itself for a root.
    operator : for a root behind an operator, that operator's id.
    path : its number below its root (below its flat_map, where one stands between).
    slot : the path slot its number is added to.
    fan : size of the subtree, for a flow that opens a slot (flat_map); else 0.
    entry : for such a flow, its own number in the slot before; else 0.
    store_path : number of the flow with the store that shows its changes; None: as the operator defines (`visible`).
    store_slot : slot of that number.
    carries_old : whether rows carry the old value.
    suppress : whether null after null is dropped here (a filter that knows the old value), or made silent.
    drops_null_key : whether records without a key end here, counted.
    silent : whether rows are among its own that only say what lookups see (`Operator.emits_views`).
    drops_silent : whether such rows end here.
    late : whether rows say if they are not the latest change of their key in a versioned table (`Operator.emits_late`).
    """

    id: int
    node: str
    stage: int
    parent: int | None
    root: int
    operator: int | None
    path: int
    slot: int
    fan: int
    entry: int
    store_path: int | None
    store_slot: int
    carries_old: bool
    suppress: bool
    drops_null_key: bool
    silent: bool = False
    drops_silent: bool = False
    late: bool = False


@dataclass(frozen=True)
class Edge:
    """A flow's way into one side of an operator, or into a sink.

    Parameters
    ----------
    id : its number in the plan.
    flow : the flow that it carries.
    path : the number that the operator has below this flow's root: added to the row's slot.
    target : id of the operator.
    side : 0 left, 1 right.
    reads : what the operator says of that side.
    visible : True when rows also carry the position from which lookups see them (`Operator.shared_root`).
    stored_ts : True when rows also carry the timestamp that lookups see: that of an unmaterialized join is
        the maximum of the values present, whatever record caused the change.
    keeps_time : whether records that end here move stream time all the same.
    broadcasts_bounds : whether every shard gets the bounds of the rows' timestamps.
    old : True when rows also carry the old value, since it is not what the target knows from before.
    silent : True when rows also say whether they are silent.
    drops_silent : whether silent rows end here.
    drops_late : whether changes end here that are not the latest of their key in a versioned table, counted.
    """

    id: int
    flow: int
    path: int
    target: int
    side: int
    reads: SpecSide
    visible: bool = False
    stored_ts: bool = False
    keeps_time: bool = False
    broadcasts_bounds: bool = False
    old: bool = False
    silent: bool = False
    drops_silent: bool = False
    drops_late: bool = False


@dataclass(frozen=True)
class Time:
    """How an operator goes by the time of the sources (law 3).

    Parameters
    ----------
    every : whether every shard gets every record that moves time; else the latest time of a batch.
    told_by : names of the sources that send it their times: all that reach it, or an operator that it has one time with
        (`timing`), as far as partitions have times of their own in both.
    together : the same without that restriction: told where all partitions have one time.
    domains : whether source partitions have times of their own.
    hold_back : how long the operators above can hold a result back, in ms of event time, and one more for each of
        them that does.
    idle_after_ms : time moves on with the wall clock when no record has told any for so long; 0: it does not.
    by_wall : whether it goes by the wall clock, too.
    wall_ms : the wall clock until its source sends it, in ms.
    """

    every: bool = False
    told_by: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    domains: bool = False
    hold_back: int = 0
    idle_after_ms: int = 0
    by_wall: bool = False
    wall_ms: int = 0


@dataclass(frozen=True)
class Lent:
    """A table that an operator reads in the state of another one of its level (`operators.lending`).

    Parameters
    ----------
    lender : id of the operator that stores it.
    side : of both operators, by which the table comes.
    slot, shift : the path slot, and what is added there, so that the lender's rows have the position that they would
        have on their way into the borrower.
    """

    lender: int
    side: int
    slot: int
    shift: int


@dataclass(frozen=True)
class Operator:
    """A stateful operator of a level.

    Parameters
    ----------
    id : its number in the plan.
    node : name of its node.
    spec : what it answers for; its stem says which engine file runs it.
    params : its own parameters.
    level : 1 for the first.
    emits_old : whether results carry the old result too.
    emits_visible, emits_stored_ts : whether results say from which position lookups see them, and with
        which timestamp.
    emits_views : whether silent rows say what lookups see, wherever that changes; its results themselves are
        then seen at their own position.
    shared_root : whether one input record can reach both sides, so that visibility must be told apart
        from position.
    slot : path slot that its output continues, or opens.
    fan : for an operator that opens a slot (many results of one row), size of the subtree below; else 0.
    time : how it goes by the time of the sources; None: not at all.
    cached : whether a key has one change per batch, from what it was before to what it is then (`record_cache`).
    keeps : the tables it keeps.
    lent : where it reads its table, if another operator stores it; its rows then come to that one's shards.
    """

    id: int
    node: str
    spec: Spec[Any]
    params: Params
    level: int
    emits_old: bool = False
    emits_visible: bool = False
    emits_stored_ts: bool = False
    emits_views: bool = False
    shared_root: bool = False
    slot: int = 0
    fan: int = 0
    time: Time | None = None
    cached: bool = False
    keeps: tuple[TableSchema, ...] = ()
    lent: Lent | None = None

    @property
    def stored(self) -> tuple[TableSchema, ...]:
        """The tables that the operator stores itself: none if it borrows one."""
        return self.keeps if self.lent is None else ()

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the tables it keeps that users see."""
        return tuple(table.name for table in self.keeps if table.shown)

    @property
    def emits_late(self) -> bool:
        """Whether results say if they are not the latest change of their key."""
        return self.spec.emits_late

    @property
    def stem(self) -> str:
        """Which engine file runs it."""
        return self.spec.stem


@dataclass(frozen=True)
class Physical:
    """A plan in levels."""

    plan: Plan
    rules: TableRules
    flows: tuple[Flow, ...]
    edges: tuple[Edge, ...]
    operators: tuple[Operator, ...]
    sink_edges: tuple[tuple[int, str], ...]
    levels: int
    slots: int
    ordered_exit: bool
    store_of: dict[str, tuple[int, str]] = field(default_factory=dict)

    def node(self, flow: Flow) -> Node:
        """The node of a flow."""
        return self.plan.by_name[flow.node]

    def site(self, operator: Operator) -> SpecSite[Any]:
        """Where an operator stands."""
        return SpecSite(self.plan, self.rules, self.plan.by_name[operator.node])

    def reads(self, operator: Operator) -> Reads:
        """The input of an operator."""
        return operator.spec.reads(self.site(operator))

    def results(self, operator: Operator) -> ResultColumns:
        """The results of an operator, and the rows made of them."""
        return operator.spec.results(self.site(operator), old=operator.emits_old)

    def stage_flows(self, stage: int) -> tuple[Flow, ...]:
        """Flows of a stage, parents before children."""
        return tuple(f for f in self.flows if f.stage == stage)

    def stage_edges(self, stage: int) -> tuple[Edge, ...]:
        """Edges that send rows from a stage to operators; a borrower's table has none: its lender gets the rows."""
        mine = (e for e in self.edges if self.flows[e.flow].stage == stage and not e.reads.direct)
        return tuple(e for e in mine if not self._is_of_lender(e))

    def _is_of_lender(self, edge: Edge) -> bool:
        """Whether the lender of the edge's operator gets the same rows, so that the edge sends none."""
        lent = self.operators[edge.target].lent
        return lent is not None and lent.side == edge.side

    def stage_sinks(self, stage: int) -> tuple[tuple[Flow, str], ...]:
        """(flow, sink name) pairs of a stage."""
        pairs = ((self.flows[f], sink) for f, sink in self.sink_edges)
        return tuple((flow, sink) for flow, sink in pairs if flow.stage == stage)

    def host(self, operator: int) -> int:
        """The operator that owns the shards of an operator: its lender, or itself if it has none."""
        lent = self.operators[operator].lent
        return operator if lent is None else lent.lender

    def lent_table(self, operator: Operator) -> TableSchema | None:
        """The lender's table, as the lender declares it; None if the operator borrows none."""
        return None if operator.lent is None else self.operators[operator.lent.lender].keeps[0]

    @cached_property
    def borrowers(self) -> dict[int, int]:
        """The borrower that reads each port; ports of other operators are left out."""
        edges = (edge for edge in self.edges if not self._is_of_lender(edge))
        return {edge.id: edge.target for edge in edges if self.operators[edge.target].lent is not None}

    def inputs_of(self, operator: Operator) -> tuple[Edge, ...]:
        """Edges into an operator."""
        return tuple(e for e in self.edges if e.target == operator.id)

    def time_port(self, operator: Operator) -> int:
        """Port on which the operator gets the times of the sources."""
        return len(self.edges) + len(self.sink_edges) + operator.id

    def bounds_port(self, edge: Edge) -> int:
        """Port on which the edge's target gets the time bounds of the edge's rows."""
        return len(self.edges) + len(self.sink_edges) + len(self.operators) + edge.id

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        """Names of the sinks, in the order in which rows are numbered for them."""
        return tuple(dict.fromkeys(name for _, name in self.sink_edges))

    @cached_property
    def holds_back(self) -> bool:
        """Whether any operator keeps results until time lets them go: these say which key they were held under."""
        timed = (operator.spec.timed(self.site(operator)) for operator in self.operators)
        return any(each is not None and each.hold is not None for each in timed)

    @cached_property
    def exits(self) -> tuple[tuple[str, ...], ...]:
        """Sinks by where their rows leave, in the order of `sinks`: those of one topic leave together, in one order."""
        found: dict[object, list[str]] = {}
        for name in self.sinks:
            target = self.plan.by_name[name].place
            found.setdefault(target.topic or (name,), []).append(name)
        return tuple(map(tuple, found.values()))

    def sink_of(self, port: int) -> int:
        """Number of the sink, in `sinks`, of the rows on a port of `sink_port`."""
        return self.sinks.index(self.sink_edges[port - len(self.edges)][1])

    def sink_port(self, index: int) -> int:
        """Port of the rows of `sink_edges[index]`."""
        return len(self.edges) + index

    @cached_property
    def timed(self) -> tuple[tuple[Operator, Time], ...]:
        """The operators that go by time, and how."""
        return tuple((operator, operator.time) for operator in self.operators if operator.time is not None)

    @cached_property
    def side_of(self) -> dict[int, int]:
        """Side of each port: an operator's own sides, `TIME_SIDE`, or `bounds_side` of one of its sides."""
        sides = {edge.id: edge.side for edge in self.edges}
        sides |= {self.time_port(operator): TIME_SIDE for operator, _ in self.timed}
        return sides | {self.bounds_port(e): bounds_side(e.side) for e in self.edges if e.broadcasts_bounds}

    def with_one_domain(self, node: str | None = None) -> Physical:
        """The same plan, one time for all partitions at this node, where their numbers do not match; or at all."""
        return replace(
            self,
            operators=tuple(
                replace(o, time=replace(o.time, domains=False, told_by=o.time.together))
                if o.time is not None and node in (None, o.node)
                else o
                for o in self.operators
            ),
        )

    def with_idle_time(self, idle_after_ms: int) -> Physical:
        """The same plan, its time moving on with the wall clock when the input has rested for so long."""
        operators = (
            o if o.time is None else replace(o, time=replace(o.time, idle_after_ms=idle_after_ms))
            for o in self.operators
        )
        return replace(self, operators=tuple(operators))

    @property
    def by_wall(self) -> bool:
        """Whether an operator goes by the wall clock."""
        return any(time.by_wall for _, time in self.timed)

    def with_wall_clock(self, wall_ms: int) -> Physical:
        """The same plan, with this as the wall clock until its source sends it."""
        operators = (
            o if o.time is None or not o.time.by_wall else replace(o, time=replace(o.time, wall_ms=wall_ms))
            for o in self.operators
        )
        return replace(self, operators=tuple(operators))

    def direct_edges(self, operator: Operator) -> tuple[Edge, ...]:
        """Edges that take an operator's rows to the next operator of its node."""
        root = self.roots[operator.id].id
        return tuple(e for e in self.edges if e.reads.direct and e.flow == root)

    @cached_property
    def roots(self) -> dict[int, Flow]:
        """Root flow behind each operator."""
        return {f.operator: f for f in self.flows if f.operator is not None}
