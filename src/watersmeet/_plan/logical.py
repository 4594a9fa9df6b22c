"""The plan: all nodes of a topology in order of construction, immutable, with a stable text.

Built by StreamsBuilder.build(); read by the rewrite into levels, by describe(), and by the checkpoint,
which keeps the text to refuse another topology.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from watersmeet._plan.nodes import Node, SinkNode, SourceNode, UserFunction, patterns_of, sinks_among, sources_among
from watersmeet.errors import TopologyError
from watersmeet.generation import Generation
from watersmeet.io.policies import OperatorPolicies


@dataclass(frozen=True)
class Plan:
    """The nodes of one application.

    Parameters
    ----------
    application : the application id.
    nodes : in order of construction; a node stands after those it reads.
    generation : the generation of semantics the topology follows.
    made_up : names of nodes that the user has not named.
    within : what becomes of records that end behind the inputs, or for which a function raises there.
    """

    application: str
    nodes: tuple[Node, ...]
    generation: Generation = Generation.CURRENT
    made_up: frozenset[str] = frozenset()
    within: OperatorPolicies = field(default_factory=OperatorPolicies)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for node in self.nodes:
            missing = [name for name in node.inputs if name not in seen]
            if missing:
                raise TopologyError(f"Node {node.name!r} reads a node that comes after it.", given=missing)
            if node.name in seen:
                raise TopologyError(f"Two nodes are named {node.name!r}.", given=repr(node.name))
            seen.add(node.name)

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Node of each name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def children(self) -> dict[str, tuple[tuple[Node, int], ...]]:
        """(child, which of its inputs) of each node, in order of construction: the forwarding order."""
        found: dict[str, list[tuple[Node, int]]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for side, name in enumerate(node.inputs):
                found[name].append((node, side))
        return {name: tuple(children) for name, children in found.items()}

    def with_nodes(self, nodes: Iterable[Node]) -> Plan:
        """The same plan with these nodes in place of those of their names."""
        made = {node.name: node for node in nodes}
        return replace(self, nodes=tuple(made.get(node.name, node) for node in self.nodes))

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
            own = set() if node.inputs else {node.name}
            reach[node.name] = frozenset(own).union(*above)
        return reach

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

    def meet_in_step(self, one: str, other: str) -> bool:
        """Whether one input record moves both nodes at once."""
        return bool(self.in_step[one] & self.in_step[other])

    @cached_property
    def combined(self) -> frozenset[str]:
        """Names of the nodes with keys of one-to-many joins as they were made, on any path.

        They belong together by their prefix alone (docs/semantics, section 21).
        """
        found: set[str] = set()
        for node in self.nodes:
            if node.combines_keys or (node.keyed_by and found.issuperset(node.keyed_by)):
                found.add(node.name)
        return frozenset(found)

    def parents(self, node: Node) -> tuple[Node, ...]:
        """The nodes that `node` reads, left before right."""
        return tuple(self.by_name[name] for name in node.inputs)

    def functions_of(self, node: Node) -> tuple[UserFunction, ...]:
        """The users' functions of a node that give Columns."""
        return node.functions(tuple(parent.shape for parent in self.parents(node)))

    @cached_property
    def headers(self) -> bool:
        """Whether records carry headers: where one of the topics keeps them."""
        return any(source.origin.keeps_headers for source in self.sources)

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The inputs, in order of registration: the order that decides ties (section A row 13)."""
        return sources_among(self.nodes)

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        """The outputs, in order of construction."""
        return sinks_among(self.nodes)

    @property
    def patterns(self) -> list[str]:
        """The patterns of topics that its inputs read."""
        return patterns_of(self.sources)

    @property
    def one_writer(self) -> bool:
        """Whether an output may be Spark's own sink: it is the only one, and nothing is done before each batch."""
        return len(self.sinks) == 1 and not self.patterns
