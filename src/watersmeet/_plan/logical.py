"""The plan: all nodes of a topology in order of construction, immutable, with a stable text.

Built by StreamsBuilder.build(); read by the rewrite into levels, by describe(), and by the checkpoint,
which keeps the text to refuse another topology.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from watersmeet._plan.nodes import (
    Node,
    Shape,
    SinkNode,
    SourceNode,
    UserFunction,
    patterns_of,
    sinks_among,
    sources_among,
)
from watersmeet.errors import Generation, TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.io.inputs import SortedOut
from watersmeet.io.policies import DeadLetter, OperatorPolicies, Policy
from watersmeet.io.topics import Topic, TopicSink


@dataclass(frozen=True)
class Plan:
    """The nodes of one application."""

    application: str  # the application id
    nodes: tuple[Node, ...]  # in order of construction; a node stands after those it reads
    generation: Generation = Generation.CURRENT  # the generation of semantics the topology follows
    made_up: frozenset[str] = frozenset()  # names of nodes that the user has not named
    # what becomes of records that end behind the inputs, or for which a function raises there
    within: OperatorPolicies = field(default_factory=OperatorPolicies)
    # names of lookups that take a level although they follow another lookup: Spark evaluates what is between
    separate_lookups: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names: set[str] = set()
        for node in self.nodes:
            missing = [name for name in node.inputs if name not in names]
            if missing:
                raise TopologyError(f"Node {node.name!r} reads a node that comes after it.", given=missing)
            if node.name in names:
                raise TopologyError(f"Two nodes are named {node.name!r}.")
            names.add(node.name)

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def children(self) -> dict[str, tuple[tuple[Node, int], ...]]:
        """(child, which of its inputs) of each node, in order of construction: the forwarding order."""
        readers: dict[str, list[tuple[Node, int]]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for side, name in enumerate(node.inputs):
                readers[name].append((node, side))
        return {name: tuple(children) for name, children in readers.items()}

    def with_nodes(self, nodes: Iterable[Node]) -> Plan:
        """The same plan with these nodes in place of those of their names."""
        replacements = {node.name: node for node in nodes}
        return replace(self, nodes=tuple(replacements.get(node.name, node) for node in self.nodes))

    def below(self, name: str) -> tuple[Node, ...]:
        """All nodes that read this one, directly or not, in order of construction."""
        reached = {name}
        for node in self.nodes:
            if reached & set(node.inputs):
                reached.add(node.name)
        return tuple(node for node in self.nodes if node.name in reached - {name})

    @cached_property
    def ancestors(self) -> dict[str, frozenset[str]]:
        """Names of the sources that reach each node."""
        reach: dict[str, frozenset[str]] = {}
        for node in self.nodes:
            above: Iterable[frozenset[str]] = (reach[name] for name in node.inputs)
            sources = set() if node.inputs else {node.name}
            reach[node.name] = frozenset(sources).union(*above)
        return reach

    def forks(self, left: str, right: str) -> bool:
        """Whether one record can reach both nodes: one that is not of a global table, which gives no results."""
        shared = self.ancestors[left] & self.ancestors[right]
        return any(self.by_name[name].shape.kind != "global" for name in shared)

    @cached_property
    def confluences(self) -> frozenset[str]:
        """Names of the nodes that one record may reach on several ways."""
        names = set[str]()
        for node in self.nodes:
            pairs = () if node.reads_halves else itertools.combinations(node.inputs, 2)
            if names.intersection(node.inputs) or any(self.forks(*pair) for pair in pairs):
                names.add(node.name)
        return frozenset(names)

    @cached_property
    def time_sources(self) -> dict[str, frozenset[str]]:
        """Names of the sources that move the time of each node: all that reach it, but for inputs that move none."""
        reach: dict[str, frozenset[str]] = {}
        for node in self.nodes:
            moving = node.inputs if node.moves_time is None else [node.inputs[side] for side in node.moves_time]
            reach[node.name] = frozenset() if node.inputs else frozenset({node.name})
            reach[node.name] = reach[node.name].union(*(reach[name] for name in moving))
        return reach

    @cached_property
    def in_step(self) -> dict[str, frozenset[str]]:
        """Names of what moves each node at once: sources, and joins by a foreign key.

        Kafka sends those joins' results through topics, so behind everything else that a record causes: two
        tables of one source are out of step where one of them has come through such a join.
        """
        reach: dict[str, frozenset[str]] = {}
        for node in self.nodes:
            above: Iterable[frozenset[str]] = (reach[name] for name in node.inputs)
            begins = not (node.inputs and node.in_step)
            reach[node.name] = frozenset({node.name}) if begins else frozenset().union(*above)
        return reach

    def meet_in_step(self, left: str, right: str) -> bool:
        """Whether one input record moves both nodes at once."""
        return bool(self.in_step[left] & self.in_step[right])

    @cached_property
    def rules(self) -> TableRules:
        """Which tables are kept, and which changes carry old values."""
        return table_rules(self)

    def store_of(self, node: Node, side: int) -> str | None:
        """The store that a user asked for, of the table that a node keeps of a side."""
        return self.rules.stores.get((node.name, side))

    @cached_property
    def combined(self) -> frozenset[str]:
        """Names of the nodes with keys of one-to-many joins as they were made, on any path.

        They belong together by their prefix alone (docs/semantics/one_to_many.md).
        """
        names: set[str] = set()
        for node in self.nodes:
            if node.combines_keys or (node.keyed_by and names.issuperset(node.keyed_by)):
                names.add(node.name)
        return frozenset(names)

    def parents(self, node: Node) -> tuple[Node, ...]:
        """The nodes that `node` reads, left before right."""
        return tuple(self.by_name[name] for name in node.inputs)

    def shape(self, node: Node, side: int) -> Shape:
        """The records that a node reads on a side."""
        return self.by_name[node.inputs[side]].shape

    def functions_of(self, node: Node) -> tuple[UserFunction, ...]:
        return node.functions(tuple(parent.shape for parent in self.parents(node)))

    @cached_property
    def headers(self) -> bool:
        """Whether records carry headers: where one of the topics keeps them."""
        return any(source.origin.keeps_headers for source in self.sources)

    @cached_property
    def with_headers(self) -> frozenset[str]:
        """Names of the nodes with records that have headers: those of a topic, or of their own making."""
        names: set[str] = set()
        for node in self.nodes:
            is_source = not node.inputs and node.place.keeps_headers
            if is_source or node.makes_headers or not names.isdisjoint(node.inputs):
                names.add(node.name)
        return frozenset(names)

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The inputs, in order of registration: the order that decides ties (section A row 13)."""
        return sources_among(self.nodes)

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        return sinks_among(self.nodes)

    @property
    def patterns(self) -> list[str]:
        return patterns_of(self.sources)

    @property
    def one_writer(self) -> bool:
        """Whether an output may be Spark's own sink: it is the only one, and nothing is done before each batch."""
        return len(self.sinks) == 1 and not self.patterns


# Which tables keep a store, and which filters know the old value (docs/semantics/table.md).
#
# Kafka Streams decides this while the topology is built: a node may ask its parent for old values, and what
# it gets depends on what has been materialized at that moment. So the rules run over the nodes in order of
# construction. If one record reaches both sides of a join, its messages differ from its lookups: `loose` marks where
# that matters.


@dataclass(frozen=True)
class TableRules:
    """The results of the rules for each table node, by name."""

    suppressing: frozenset[str]  # filters that know the old value, so that null after null is not forwarded
    fused: frozenset[str]  # suppressing filters with consumers that suppress in their own stores
    carries_old: frozenset[str]  # nodes with changes that carry the old value, since a filter behind them needs it
    kept: frozenset[str]  # nodes that become an operator of their own, keeping the table
    # tables with changes that may differ from lookups, and old values that may differ from the last message: joins of
    # which both sides are reached by one record, and what is computed from them (KAFKA-6443)
    loose: frozenset[str]
    split: frozenset[str]  # loose tables that a join looks up without a store between: they also say what lookups see
    # by node and side of its operator, the store that a user asked for and that it keeps as its own table of that side
    stores: Mapping[tuple[str, int], str]
    # tables that remember their past, and what is computed of them where it is looked up: filters and mapped values
    # without stores (KIP-914)
    versioned: frozenset[str] = frozenset()


def table_rules(plan: Plan) -> TableRules:
    """The rules, applied to the nodes of `plan`."""
    sends = _SendsOld(plan).names
    versioned = _versioned(plan)
    # behind a versioned table nothing is suppressed: a change that is not the latest is worth something
    suppressing = frozenset(
        n.name for n in plan.nodes if n.asks_old and n.name in sends and not versioned.intersection(n.inputs)
    )
    loose = _loose(plan)
    fused = frozenset(name for name in suppressing - loose if _fuses(plan, name, suppressing))
    carries = _carries_old(plan, suppressing - fused) | (loose & sends)
    stores = _stores(plan, carries)
    keepers = frozenset(
        n.name
        for n in plan.nodes
        if not n.is_view
        and (not n.keeps_table or n.history_ms is not None)
        and (
            (n.store is not None and n.store not in stores.values())
            or (n.begins_table and n.history_ms is None and n.name in carries)
            or (n.history_ms is not None and not _only_looked_up(plan, n))
        )
    )
    return TableRules(suppressing, fused, carries, keepers, loose, _split(plan, loose - keepers), stores, versioned)


class _SendsOld:
    """Runs Kafka's enableSendingOldValues over the nodes in order of construction."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._materialized: set[str] = set()
        self.names: set[str] = set()
        for node in plan.nodes:
            self._construct(node)

    def _construct(self, node: Node) -> None:
        if node.store is not None or node.history_ms is not None:
            self._materialized.add(node.name)
        # A node that merely asks forces nothing: only what is already materialized answers.
        if node.asks_old and node.shape.kind == "table" and self._enable(node.inputs[0], force=False):
            self.names.add(node.name)
        for name in node.needs_old:
            self._enable(name, force=True)
        for side in node.looks_up:
            self._look_up(node.inputs[side])

    def _enable(self, name: str, *, force: bool) -> bool:
        node = self._plan.by_name[name]
        match node.old_values:
            case "remembered":
                available = True
            case "stored":
                available = force or name in self._materialized
            case "computed":
                available = True
                for parent in node.inputs:
                    self._enable(parent, force=True)
            case "passed on":
                available = node.store is not None or self._enable(node.inputs[0], force=force)
        if available:
            self.names.add(name)
            if node.begins_table:
                self._materialized.add(name)
        return name in self.names

    def _look_up(self, name: str) -> None:
        """A join reads values of this table: what it is computed from is materialized now."""
        node = self._plan.by_name[name]
        if node.begins_table or node.shape.kind == "global":
            self._materialized.add(name)
        elif node.store is None:
            for parent in node.inputs:
                self._look_up(parent)


def _versioned(plan: Plan) -> frozenset[str]:
    """A store without a past ends it; so does a join or an aggregate, which begins a table of its own."""
    versioned: set[str] = set()
    for node in plan.nodes:
        if node.history_ms is not None or (node.passes_changes and versioned.issuperset(node.inputs)):
            versioned.add(node.name)
    return frozenset(versioned)


def _only_looked_up(plan: Plan, node: Node) -> bool:
    """Whether all that read a versioned table are joins that remember its past themselves."""
    children = plan.children[node.name]
    return bool(children) and all(
        side in child.looks_up_as_of or (child.passes_changes and _only_looked_up(plan, child))
        for child, side in children
    )


def _loose(plan: Plan) -> frozenset[str]:
    loose: set[str] = set()
    for node in plan.nodes:
        inexact = any(name in loose for name in node.inputs)
        if node.old_values == "computed":
            inexact = inexact or plan.meet_in_step(*node.inputs)
        elif not node.passes_changes:
            continue
        if inexact:
            loose.add(node.name)
    return frozenset(loose)


def _split(plan: Plan, loose: frozenset[str]) -> frozenset[str]:
    split: set[str] = set()
    for node in reversed(plan.nodes):
        children = plan.children[node.name]
        if node.name in loose and any(
            c.name in split or (c.sees_lookups and side in c.looks_up) for c, side in children
        ):
            split.add(node.name)
    return frozenset(split)


def _fuses(plan: Plan, name: str, suppressing: frozenset[str]) -> bool:
    """True when every consumer keeps this filter's output itself, so it can suppress null after null."""
    node = plan.by_name[name]
    children = plan.children[name]
    return name in suppressing and node.store is None and all(side in child.looks_up for child, side in children)


def _carries_old(plan: Plan, in_need: frozenset[str]) -> frozenset[str]:
    carries: set[str] = set()
    for node in reversed(plan.nodes):
        if node.takes_old:
            carries.update((node.name, *node.inputs))
        for child, _ in plan.children[node.name]:
            if child.passes_changes and (child.name in in_need or child.name in carries):
                carries.add(node.name)
    return frozenset(carries)


def _stores(plan: Plan, carries: frozenset[str]) -> Mapping[tuple[str, int], str]:
    """Stores that no operator of their own keeps: the first node that keeps such a table anyway has its store."""
    stores: dict[tuple[str, int], str] = {}
    for node in plan.nodes:
        for side, table in node.replicas(plan).items():
            # a global table's store is a copy that a join with it keeps anyway
            if table.shape.kind == "global" and table.store is not None and table.store not in stores.values():
                stores[node.name, side] = table.store
        if node.store is None or node.name in carries or not node.begins_table:
            continue
        if not _only_looked_up(plan, node) if node.history_ms is not None else node.keeps_table:
            continue
        keeps = ((child.name, side) for child, side in plan.children[node.name] if side in child.keeps_sides)
        stores |= dict.fromkeys(itertools.islice(keeps, 1), node.store)
    return stores


# Dead letters in a plan: an input without an origin for each topic that has a dead-letter topic, and its output.
#
# The rows of such an input are those that its topic's source sorts out. So they are routed, put into order and written
# as all others are, in the transaction of the results (law 6), and nothing below has to know of them. They stand behind
# all that the user wrote, so that nothing there is numbered anew: who chooses another policy keeps the checkpoint.

BEHIND_INPUTS = ""
"""Whose dead letters those are that end behind the inputs: no input's."""


def with_dead_letters(plan: Plan, functions: FunctionBackend) -> Plan:
    """The plan with what writes the dead letters of its inputs.

    Parameters
    ----------
    plan : as it was written.
    functions : says the type of bytes.
    """
    added = [node for source in plan.sources for node in _nodes(plan, source, functions)]
    added += _written(plan, plan.within.dead_letters, BEHIND_INPUTS, "topology", functions)
    return replace(plan, nodes=(*plan.nodes, *added)) if added else plan


def without_dead_letters(plan: Plan) -> Plan:
    letters = letter_sources(plan)
    nodes = tuple(node for node in plan.nodes if node.name not in letters and not letters.keys() & node.inputs)
    return replace(plan, nodes=nodes) if letters else plan


def letter_sources(plan: Plan) -> Mapping[str, str]:
    return {source.name: source.dead_letters_of for source in plan.sources if source.dead_letters_of is not None}


def dead_letter_sources(plan: Plan) -> Mapping[tuple[str, str], int]:
    numbered = enumerate(plan.sources)
    return {(s.dead_letters_of, s.origin.goes_to): n for n, s in numbered if s.dead_letters_of is not None}


def undecodable_source(plan: Plan, source: SourceNode) -> int | None:
    """The number of the source that has an input's records which cannot be decoded, if there is one."""
    return _source_for(plan, source, source.origin.policies.on_undecodable)


def raised_source(plan: Plan, source: SourceNode) -> int | None:
    """The same of records for which a function raises."""
    return _source_for(plan, source, source.origin.policies.on_error)


def invalid_timestamp_source(plan: Plan, source: SourceNode) -> int | None:
    """The same of records that an input's timestamp extractor gives no time."""
    return _source_for(plan, source, source.origin.policies.on_invalid_timestamp)


def _source_for(plan: Plan, source: SourceNode, policy: Policy | None) -> int | None:
    return dead_letter_sources(plan)[source.name, policy.topic] if isinstance(policy, DeadLetter) else None


def operators_source(plan: Plan, policy: Policy) -> str | None:
    """The name of the source that has what ends behind the inputs under a policy, if there is one."""
    topic = policy.topic if isinstance(policy, DeadLetter) else None
    names = (s.name for s in plan.sources if s.dead_letters_of == BEHIND_INPUTS and s.origin.goes_to == topic)
    return next(names, None)


def dropped_source(plan: Plan) -> str | None:
    """The name of the source that keeps records as they came, if any that are dropped are dead letters."""
    names = (operators_source(plan, policy) for policy in plan.within.drops)
    return next((name for name in names if name is not None), None)


def _nodes(plan: Plan, source: SourceNode, functions: FunctionBackend) -> Iterator[Node]:
    yield from _written(plan, source.origin.policies.dead_letters, source.name, source.name, functions)


def _written(plan: Plan, topics: Sequence[str], of: str, label: str, functions: FunctionBackend) -> Iterator[Node]:
    """An input and an output for each topic of dead letters."""
    names = {node.name for node in plan.nodes}
    for topic in topics:
        _check(plan, label, topic)
        name = f"{label}-dead-letters"
        while name in names:
            name += "-"
        names.add(name)
        shape = Shape("stream", *functions.source_types(Topic(topic, "bytes", "bytes"), name))
        yield SourceNode(name, (), shape, input=name, origin=SortedOut(topic), dead_letters_of=of, part_of=of)
        target = TopicSink(topic, "bytes", "bytes")
        yield SinkNode(f"{name}-sink", (name,), shape, output=topic, target=target)


def _check(plan: Plan, label: str, topic: str) -> None:
    for node in plan.nodes:
        if node.place is not None and (node.place.topic == topic or (not node.is_sink and node.place.reads(topic))):
            raise TopologyError(
                f"Dead letters need a topic of their own, and {topic!r} has other records: keys and values of dead "
                "letters are any bytes.",
                given=f"topic {topic!r}, of the dead letters of {label!r} and of {node.stem} {node.name!r}",
                hint="Name another topic: wm.DeadLetter(...).",
            )
