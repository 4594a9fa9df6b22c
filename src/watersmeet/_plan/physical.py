"""Levels: what a plan becomes before it runs. Frozen, the same for Spark and for the engine without JVM.

A **stage** is what stands between two exchanges. In it rows are **flows**: one flow per path through the
stateless nodes, unrolled from the stage's roots (sources in stage 0, operators of level n in stage n). A
flow ends in **edges**: into a side of an **operator** of a later level, or into a sink.

Paths (law 2). Depth-first order is the preorder number of a flow in the tree of all paths below a record's
source. A number is added to the row's current path slot; a node that makes many records of one (flat_map)
opens the next slot, with record index times the size of its subtree plus the number within.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet._plan.declaration import (
    OperatorDeclaration,
    OperatorSide,
    Params,
    Reads,
    ResultColumns,
    RowColumn,
    RowEnd,
    TableSchema,
    TimeBehaviour,
)
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node, patterns_of
from watersmeet._plan.operators.tables import keeper_of

TIME_SIDE = -1
"""Side on which an operator gets the times of the sources."""


def bounds_side(side: int) -> int:
    """Side on which an operator gets the time bounds of the rows of `side`."""
    return -2 - side


@dataclass(frozen=True)
class Flow:
    """Rows of one node, come by one path."""

    id: int  # its number in the plan
    node: str  # name of its node; the node's step makes the rows out of the parent's
    stage: int  # 0 before the first exchange, n behind the operators of level n
    parent: int | None  # the flow it is made of; None for a root
    root: int  # the flow at the top of its tree: itself for a root
    operator: int | None  # for a root behind an operator, that operator's id
    path: int  # its number below its root (below its flat_map, where one stands between)
    slot: int  # the path slot its number is added to
    fan: int  # size of the subtree, for a flow that opens a slot (flat_map); else 0
    entry: int  # for such a flow, its own number in the slot before; else 0
    # number of the flow with the store that shows its changes; None: as the operator defines (`visible`)
    store_path: int | None
    store_slot: int  # slot of that number
    columns: frozenset[RowColumn]  # what rows bring
    suppress: bool  # whether null after null is dropped here (a filter that knows the old value), or made silent
    ends: frozenset[RowEnd]  # rows that end here; those without key are counted


@dataclass(frozen=True)
class Edge:
    """A flow's way into one side of an operator."""

    id: int  # its number in the plan
    flow: int  # the flow that it carries
    path: int  # the number that the operator has below this flow's root: added to the row's slot
    target: int  # id of the operator
    side: int  # 0 left, 1 right
    reads: OperatorSide  # what the operator says of that side
    # what rows bring: their place for lookups where both sides have one root (`Operator.shared_root`); the timestamp
    # that lookups see where that is the maximum of the values present, whatever record caused the change, as in an
    # unmaterialized join; the old value where it is not what the target knows from before
    columns: frozenset[RowColumn]
    ends: frozenset[RowEnd]  # rows that end here, counted; silent ones are not
    timing: TimeBehaviour | None = None  # how the target goes by time; None: not at all

    @property
    def keeps_time(self) -> bool:
        """Whether records that end here move stream time all the same."""
        return self.timing is not None and self.timing.dropped_move

    @property
    def broadcasts_bounds(self) -> bool:
        """Whether every shard gets the bounds of the rows' timestamps."""
        return self.timing is not None and self.timing.broadcasts_bounds(self.side)


@dataclass(frozen=True)
class OperatorTime:
    """How an operator goes by the time of the sources (law 3)."""

    every: bool = False  # whether every shard gets every record that moves time; else the latest time of a batch
    # names of the sources that send it their times: all that reach it, or an operator that it has one time with
    # (`rewrite.settle_timing`), as far as partitions have times of their own in both
    told_by: tuple[str, ...] = ()
    together: tuple[str, ...] = ()  # the same without that restriction: told where all partitions have one time
    domains: bool = False  # whether source partitions have times of their own
    # how long the operators above can hold a result back, in ms of event time, and one more for each of them that
    # does
    hold_back: int = 0
    # time moves on with the wall clock when no record has told any for so long; 0: it does not
    idle_after_ms: int = 0
    wall_ms: int | None = None  # the wall clock until its source sends it, in ms; None: it does not go by that

    @property
    def by_wall(self) -> bool:
        """Whether it goes by the wall clock, too."""
        return self.wall_ms is not None


@dataclass(frozen=True)
class Operator:
    """A stateful operator of a level."""

    id: int  # its number in the plan
    node: str  # name of its node
    declaration: type[OperatorDeclaration]  # the class of its declaration; its stem says which engine function runs it
    params: Params  # its own parameters
    level: int  # 1 for the first
    # what results bring; where there are silent ones, results themselves are seen at their own position
    emits: frozenset[RowColumn] = frozenset()
    # whether one input record can reach both sides, so that visibility must be told apart from position
    shared_root: bool = False
    slot: int = 0  # path slot that its output continues, or opens
    fan: int = 0  # for an operator that opens a slot (many results of one row), size of the subtree below; else 0
    time: OperatorTime | None = None  # how it goes by the time of the sources; None: not at all
    # whether a key has one change per batch, from what it was before to what it is then (`record_cache`)
    cached: bool = False
    tables: tuple[TableSchema, ...] = ()  # the tables that it works with, each in a store (`Physical.stores`)
    # of a lookup behind others, id of the first of them: it runs in that one's shards, on rows that stay there
    head: int | None = None

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of its tables that users see."""
        return tuple(table.name for table in self.tables if table.shown)

    @property
    def keeps_headers(self) -> bool:
        """Whether rows that it keeps have headers."""
        return any(table.bare != table for table in self.tables)

    @property
    def stem(self) -> str:
        """Which engine function runs it."""
        return self.declaration.operator_stem or self.declaration.stem


def declaration_of(plan: Plan, operator: Operator) -> OperatorDeclaration:
    node = plan.by_name[operator.node]
    declarations: tuple[OperatorDeclaration, ...] = (*node.operators, keeper_of(node))
    return {type(declaration): declaration for declaration in declarations}[operator.declaration]


@dataclass(frozen=True)
class StoreReader:
    """How an operator reads a store that another one of its level owns."""

    operator: int  # its id
    table: str  # the name that it has for the store; users find the rows under it, too (law 10)
    side: int  # of both operators, by which the rows come: they come to the owner alone
    # slot, shift: the path slot, and what is added there, so that the owner's rows have the position that they would
    # have on their way into the reader
    slot: int
    shift: int


@dataclass(frozen=True)
class StateStore:
    """A table with rows that lie once: in the shards of its owner."""

    schema: TableSchema  # as the owner declares it; the state has it under this name
    owner: int  # id of the operator that writes it
    readers: tuple[StoreReader, ...] = ()  # the others, whose shards are the owner's


@dataclass(frozen=True)
class Physical:
    """A plan in levels."""

    plan: Plan
    flows: tuple[Flow, ...]
    edges: tuple[Edge, ...]
    operators: tuple[Operator, ...]
    sink_edges: tuple[tuple[int, str], ...]
    levels: int
    slots: int
    ordered_exit: bool
    stores: tuple[StateStore, ...] = ()  # those of an operator side by side, in the order of its tables
    # of each level, from the first on, the number of its group, from 1 on; empty: each level has its own
    group_numbers: tuple[int, ...] = ()

    @cached_property
    def level_groups(self) -> tuple[tuple[int, ...], ...]:
        """The levels of each group: they run behind one another in one task, with one commit of their state."""
        levels = range(1, self.levels + 1)
        numbers = self.group_numbers or tuple(levels)
        return tuple(
            tuple(level for level in levels if numbers[level - 1] == n) for n in range(1, max(numbers, default=0) + 1)
        )

    def in_groups(self, numbers: Iterable[int]) -> Physical:
        """The same plan with these numbers for its levels' groups."""
        return replace(self, group_numbers=tuple(numbers))

    def group_of(self, level: int) -> int:
        """The number of a level's group, from 1 on."""
        return self.group_numbers[level - 1] if self.group_numbers else level

    def node(self, flow: Flow) -> Node:
        return self.plan.by_name[flow.node]

    def declaration_of(self, operator: Operator) -> OperatorDeclaration:
        """The node of an operator, or the declaration that stands before or behind the node's own."""
        return declaration_of(self.plan, operator)

    def reads(self, operator: Operator) -> Reads:
        return self.declaration_of(operator).reads(self.plan)

    def results(self, operator: Operator) -> ResultColumns:
        """The results of an operator, and the rows made of them."""
        return self.declaration_of(operator).results(self.plan, old="old" in operator.emits)

    def stage_flows(self, stage: int) -> tuple[Flow, ...]:
        return tuple(f for f in self.flows if f.stage == stage)

    def stage_edges(self, stage: int) -> tuple[Edge, ...]:
        """Edges that send rows from a stage to operators; rows of a store go to its owner, and to no reader."""
        edges = (e for e in self.edges if self.flows[e.flow].stage == stage and not e.reads.direct)
        sides = {(reader.operator, reader.side) for reader in self.readers.values()}
        return tuple(e for e in edges if (e.target, e.side) not in sides)

    @cached_property
    def readers(self) -> dict[int, StoreReader]:
        """How operators read the stores of others, by the reader's id."""
        return {reader.operator: reader for store in self.stores for reader in store.readers}

    @cached_property
    def _stores_by_operator(self) -> dict[int, tuple[tuple[str, StateStore], ...]]:
        stores: dict[int, tuple[tuple[str, StateStore], ...]] = {}
        for store in self.stores:
            for operator, name in ((store.owner, store.schema.name), *((r.operator, r.table) for r in store.readers)):
                stores[operator] = (*stores.get(operator, ()), (name, store))
        return stores

    def stores_of(self, operator: int) -> tuple[tuple[str, StateStore], ...]:
        """The stores of an operator's tables, in order, under the names that it has for them."""
        return self._stores_by_operator.get(operator, ())

    def host(self, operator: int) -> int:
        """The operator that owns the shards of an operator.

        The first one of a chain of lookups, the owner of its stores, or itself if it has none.
        """
        head = self.operators[operator].head
        return next((store.owner for _, store in self.stores_of(operator)), operator) if head is None else head

    def inputs_of(self, operator: Operator) -> tuple[Edge, ...]:
        return tuple(e for e in self.edges if e.target == operator.id)

    def time_port(self, operator: Operator) -> int:
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
        timed = (self.declaration_of(operator).timed(self.plan) for operator in self.operators)
        return any(timing is not None and timing.hold is not None for timing in timed)

    @cached_property
    def exits(self) -> tuple[tuple[str, ...], ...]:
        """Sinks by where their rows leave, in the order of `sinks`: those of one topic leave together, in one order."""
        groups: dict[object, list[str]] = {}
        for name in self.sinks:
            target = self.plan.by_name[name].place
            groups.setdefault(target.topic or (name,), []).append(name)
        return tuple(map(tuple, groups.values()))

    def sink_of(self, port: int) -> int:
        """Number of the sink, in `sinks`, of the rows on a port of `sink_port`."""
        return self.sinks.index(self.sink_edges[port - len(self.edges)][1])

    def sink_port(self, index: int) -> int:
        return len(self.edges) + index

    @cached_property
    def timed(self) -> tuple[tuple[Operator, OperatorTime], ...]:
        return tuple((operator, operator.time) for operator in self.operators if operator.time is not None)

    @cached_property
    def ports(self) -> dict[int, tuple[int, int]]:
        """The operator of each port, and its side: one of its own, `TIME_SIDE`, or `bounds_side` of one of them."""
        ports = {edge.id: (edge.target, edge.side) for edge in self.edges}
        ports |= {self.time_port(operator): (operator.id, TIME_SIDE) for operator, _ in self.timed}
        bounds = (edge for edge in self.edges if edge.broadcasts_bounds)
        return ports | {self.bounds_port(edge): (edge.target, bounds_side(edge.side)) for edge in bounds}

    def with_one_domain(self, node: str | None = None) -> Physical:
        """The same plan, one time for all partitions at this node, where their numbers do not match; or at all."""

        def in_one_domain(operator: Operator, time: OperatorTime) -> OperatorTime:
            is_meant = node in (None, operator.node)
            return replace(time, domains=False, told_by=time.together) if is_meant else time

        return self._with_times(in_one_domain)

    def with_idle_time(self, idle_after_ms: int) -> Physical:
        """The same plan, its time moving on with the wall clock when the input has rested for so long."""
        return self._with_times(lambda _, time: replace(time, idle_after_ms=idle_after_ms))

    @property
    def by_wall(self) -> bool:
        """Whether an operator goes by the wall clock."""
        return any(time.by_wall for _, time in self.timed)

    def with_wall_clock(self, wall_ms: int) -> Physical:
        """The same plan, with this as the wall clock until its source sends it."""
        return self._with_times(lambda _, time: replace(time, wall_ms=wall_ms) if time.by_wall else time)

    def _with_times(self, change: Callable[[Operator, OperatorTime], OperatorTime]) -> Physical:
        operators = (o if o.time is None else replace(o, time=change(o, o.time)) for o in self.operators)
        return replace(self, operators=tuple(operators))

    def direct_edges(self, operator: Operator) -> tuple[Edge, ...]:
        """Edges that take an operator's rows to the next operator of its node."""
        root = self.roots[operator.id].id
        return tuple(e for e in self.edges if e.reads.direct and e.flow == root)

    def lookups_before(self, operator: Operator) -> tuple[Operator, ...]:
        """The lookups of its chain that give an operator its rows."""
        roots = {self.flows[e.flow].root for e in self.edges if e.target == operator.id and e.side == 0}
        return tuple(o for o in self.operators if operator.head is not None and self.roots[o.id].id in roots)

    @cached_property
    def roots(self) -> dict[int, Flow]:
        return {f.operator: f for f in self.flows if f.operator is not None}


# Where the tables of a plan's operators lie (docs/decisions/state.md).
#
# Joins of one level that read one table by one key have the same rows of it at every position. So it is one store: the
# first of them owns it, and the others read it there. Rows come to the owner alone, whose shards are the readers', too.

Places = Mapping[tuple[str, str], object]
"""Where the table of a node and a name lies until now; those that lie nowhere yet are left out."""


def with_stores(physical: Physical, places: Places | None = None) -> Physical:
    """The same plan with its stores; tables that lie apart until now stay apart."""
    stores: list[StateStore] = []
    for operator in physical.operators:
        for number, store in enumerate(stores):
            reader = _reader(physical, physical.operators[store.owner], operator, places or {})
            if reader is not None:
                stores[number] = replace(store, readers=(*store.readers, reader))
                break
        else:
            stores += [StateStore(table, operator.id) for table in operator.tables]
    return replace(physical, stores=tuple(stores))


def with_recorded_stores(physical: Physical, addresses: Mapping[str, Mapping[str, Sequence[int]]]) -> Physical:
    """The same plan, its stores as a checkpoint has them.

    Parameters
    ----------
    addresses : of each node's tables, the labels under which they lie.
    """
    lying = ((node, table, tuple(labels)) for node, tables in addresses.items() for table, labels in tables.items())
    return with_stores(physical, {(node, table): labels for node, table, labels in lying})


def _reader(physical: Physical, owner: Operator, operator: Operator, places: Places) -> StoreReader | None:
    """How the operator reads the owner's only table; None if its own differs in rows, level, columns or place."""
    side = operator.declaration.shared_side
    if side is None or (operator.keeps_headers and not owner.keeps_headers):
        return None
    pair = owner, operator
    owner_facts, facts = (
        (each.declaration, each.level, each.shared_root, *(replace(t.bare, name="") for t in each.tables))
        for each in pair
    )
    owner_edges, edges = (_edges(physical, operator, side) for operator in pair)
    name, place = operator.tables[0].name, places.get((owner.node, owner.tables[0].name))
    if owner_facts != facts or not edges or list(map(_rows_of, owner_edges)) != list(map(_rows_of, edges)):
        return None
    shifts = {
        (physical.flows[edge.flow].slot, edge.path - owner_edge.path)
        for owner_edge, edge in zip(owner_edges, edges, strict=True)
    }
    if len(shifts) > 1 or place != places.get((operator.node, name)):
        return None
    return StoreReader(operator.id, name, side, *shifts.pop())


def _edges(physical: Physical, operator: Operator, side: int) -> list[Edge]:
    return sorted((e for e in physical.inputs_of(operator) if e.side == side), key=lambda edge: edge.flow)


def _rows_of(edge: Edge) -> Edge:
    """The edge without its id, path and target: two edges that are then equal send the same rows."""
    return replace(edge, id=0, path=0, target=0)


# The record cache: of all that a table's key goes through in a batch, one change is sent (semantics/record_cache.md).
#
# Section A, row 12. In Kafka Streams a cached store forwards when it is flushed, at a commit or when it is full; here a
# batch is what a commit is there, so results depend on how records fall into batches, but on nothing else. Readers that
# depend on each change get every one: nothing above a table that a stream looks up is cached.


def with_record_cache(physical: Physical) -> Physical:
    """The same plan with the record cache on, wherever nobody goes by the moment of each change."""
    # Where one record moves both sides of a join, what is sent is not what was before and is then (KAFKA-6443).
    entangled = {op.node for op in physical.operators if op.shared_root or _hears_inexact(physical, op)}
    exact = entangled | _above(physical.plan, entangled)

    def is_cached(operator: Operator) -> bool:
        return operator.declaration.cacheable and operator.node not in exact

    return replace(physical, operators=tuple(replace(op, cached=is_cached(op)) for op in physical.operators))


def _hears_inexact(physical: Physical, operator: Operator) -> bool:
    loose = physical.plan.rules.loose
    return any(
        "silent" in edge.columns or ("old" in edge.columns and physical.flows[edge.flow].node in loose)
        for edge in physical.inputs_of(operator)
    )


def _above(plan: Plan, entangled: Collection[str]) -> frozenset[str]:
    """Names of all that tables that streams look up are made of, and of all that the entangled nodes are made of."""
    names: set[str] = set()
    for node in reversed(plan.nodes):
        names.update(node.inputs[side] for side in node.goes_by_moment)
        if node.name in names or node.name in entangled:
            names.update(node.inputs)
    return frozenset(names)


# The time domains of a plan, when it is known how its inputs are partitioned.


def with_known_domains(topology: Physical, partitions: Mapping[str, int], begins: Collection[str]) -> Physical:
    """The plan with one time for all partitions wherever an operator's inputs are partitioned differently.

    Law 3: partitions have times of their own only where those of all inputs match. A DataFrame is one partition, and so
    is what an input begins with. Topics of a pattern may have any numbers of partitions, and others may join them.
    """
    physical, plan = topology, topology.plan
    for operator, time in topology.timed:
        if not time.domains:
            continue
        sources = [s for s in plan.sources if s.name in plan.ancestors[operator.node].union(time.told_by)]
        counts = {1 if s.origin.topic is None else partitions.get(s.origin.topic) for s in sources}
        counts |= {1 for s in sources if s.name in begins}
        if len(counts) > 1 or patterns_of(sources):
            physical = physical.with_one_domain(operator.node)
    return physical
