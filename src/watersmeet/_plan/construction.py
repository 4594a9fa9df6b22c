"""A topology under construction: the list of nodes that grows behind the builder and all of its handles.

What Kafka Streams calls InternalStreamsBuilder: the builder and the handles stand above it, and neither needs
the other to add a node. Keeps law 10: every node and every store has one name.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.nodes.shared_stores import with_shared_stores
from watersmeet._plan.operators import operators_of
from watersmeet._plan.outputs import check_output
from watersmeet.errors import TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.generation import Generation
from watersmeet.windows import Duration, duration_ms


class Construction:
    """The nodes so far, in order of construction.

    Parameters
    ----------
    application : the application id.
    generation : the generation of semantics that the topology follows.
    functions : what says the types of users' functions.
    """

    def __init__(self, application: str, generation: Generation, functions: FunctionBackend) -> None:
        self.application = application
        self.generation = generation
        self.functions = functions
        self._nodes: dict[str, Node] = {}
        self._stores: set[str] = set()
        self._shared: dict[str, object] = {}
        self._topics: dict[str, Node] = {}
        self._made_up: dict[str, None] = {}
        self._origins: dict[str, str] = {}
        self._built = False

    def add(self, node: Node) -> Node:
        """The node, behind all others.

        Raises
        ------
        TopologyError : its name or that of its store is taken, it closes a circle through a topic, it is an
            output that does not go together with another one, or the topology has been built.
        """
        self.check_open(f"{node.stem} {node.name!r}")
        self._check_name(node)
        self._check_stores(node)
        self._check_topic(node)
        if node.is_sink:
            check_output(self._plan(node), node, self._key_text)
        self._origins[node.name] = self._origin(node)
        self._nodes[node.name] = node
        return node

    def check_open(self, what: str) -> None:
        """Raise where the topology has been built, and something is still to be said of it."""
        if self._built:
            raise TopologyError(
                "The topology has been built: what is added now would not be in it.",
                given=what,
                hint="Add it before build(), or begin another StreamsBuilder.",
            )

    def _check_name(self, node: Node) -> None:
        if node.name in self._nodes:
            raise TopologyError(
                "Two operators have one name.",
                given=f"{node.name!r}, of {self._nodes[node.name].stem} and {node.stem}",
                hint="Give one of them another name=...",
            )

    def _check_stores(self, node: Node) -> None:
        store: object = node.store
        if store is not None and (not isinstance(store, str) or not store):
            raise TopologyError(
                f"The name of a store must be a text: store={store!r:.80}.", hint="For example store='counts'."
            )
        for name in node.named_stores:
            self._check_store(name, node)
        taken = {store for store in self._stores if _is_made_up(store, node)}
        for name in node.named_stores:
            if any(_is_made_up(name, above) for above in (*self._nodes.values(), node)):
                taken.add(name)
        if taken:
            store = min(taken)
            raise TopologyError(
                f"This store name is one of the join {store.rpartition('.')[0]!r} for what it keeps itself.",
                given=f"store={store!r}",
                hint="Give the table another store=..., or the join another name=...",
            )
        self._stores.update(node.named_stores)
        self._shared.update(node.shared_stores)

    def _check_store(self, name: str, node: Node) -> None:
        if node.named_stores.count(name) > 1 or (name in self._stores and not self._is_shared(name, node)):
            of_processors = name in self._shared and name in node.shared_stores
            raise TopologyError(
                f"Two processors have stores of one name, {name!r}, and do not share one."
                if of_processors
                else "Two tables have one store name.",
                given=repr(name),
                hint="Give both the same object, once declared; or one of them another name."
                if of_processors
                else "Give one another store=...",
            )

    def _is_shared(self, name: str, node: Node) -> bool:
        """Whether a store of this name is one that the node may have, too."""
        given = node.shared_stores.get(name)
        return given is not None and self._shared.get(name) is given

    def _check_topic(self, node: Node) -> None:
        topic = None if node.place is None else node.place.topic
        if topic is None:
            return
        other = self._topics.setdefault(topic, node)
        if other.is_sink != node.is_sink:
            raise TopologyError(
                "The topology reads a topic that it writes: each result would come back as an input.",
                given=f"topic {topic!r}, of {other.stem} {other.name!r} and {node.stem} {node.name!r}",
                hint="Write to another topic. To go on with what is written, use what through() returns.",
            )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes so far."""
        return tuple(self._nodes.values())

    def input_of(self, node: Node) -> Node:
        """The first node that a node reads."""
        return self._nodes[node.inputs[0]]

    def history_ms(self, history: Duration | None) -> int | None:
        """A table's history retention in ms, as it was given.

        Raises
        ------
        TopologyError : it is no duration, or the generation has no versioned tables.
        """
        if history is not None and self.generation.is_old:
            raise TopologyError(
                "Kafka Streams 0.10.0 and 0.10.1 have no versioned tables.",
                given=f"history={history!r}, generation {self.generation.value!r}",
                hint="Leave history out, or use a later generation.",
            )
        return None if history is None else duration_ms(history, "history")

    def history_of(self, node: Node) -> int | None:
        """The history retention of a versioned table, in ms; of what is computed of it, too (KIP-914)."""
        while node.history_ms is None and node.passes_changes:
            node = self.input_of(node)
        return node.history_ms

    def name(self, name: str | None, stem: str, *inputs: str) -> str:
        """The given name, or one that is made up.

        What keeps state is found by its name in a checkpoint (law 10), so the name says what comes in, and does not
        depend on how many others came before: stem and inputs, and a number only where two would have one name. Other
        nodes are numbered among the unnamed of their stem.

        Parameters
        ----------
        inputs : what comes into a node that may keep state.
        """
        if name is not None:
            given: object = name
            if not isinstance(given, str) or not given:
                raise TopologyError(
                    f"The name of an operator must be a text: name={name!r:.80}.", hint="For example name='counts'."
                )
            return name
        called = "-".join([stem, *self._above(inputs)])
        free = called if inputs and called not in self._nodes else self._free(called, 2 if inputs else 1)
        self._made_up[free] = None
        return free

    def _free(self, stem: str, number: int) -> str:
        while f"{stem}-{number}" in self._nodes:
            number += 1
        return f"{stem}-{number}"

    def _above(self, inputs: tuple[str, ...]) -> list[str]:
        """What inputs are called in the names of those that they come into, each once."""
        return list(dict.fromkeys(self._origins.get(each, each) for each in inputs))

    def _origin(self, node: Node) -> str:
        """What a node is called in other names: one whose name is made up as what comes into it."""
        above = "-".join(self._above(node.inputs))
        if node.name in self._made_up:
            return above
        # of a split, the branch's own name
        prefixes = (name for name in self._made_up if name not in self._nodes and node.name.startswith(f"{name}-"))
        prefix = next(prefixes, None)
        return node.name if prefix is None else above + node.name.removeprefix(prefix)

    def plan(self) -> Plan:
        """All nodes; from now on no further ones are taken."""
        self._built = True
        plan = self._plan()
        nodes = with_shared_stores(plan.nodes, self.functions)
        added = {node.name for node in nodes} - plan.by_name.keys()
        return replace(plan, nodes=nodes, made_up=plan.made_up | added)

    def _plan(self, *more: Node) -> Plan:
        return Plan(self.application, (*self._nodes.values(), *more), self.generation, frozenset(self._made_up))

    def _key_text(self, sink: Node) -> str:
        return self.functions.written_as(sink.place.key, sink.shape.key)


def _is_made_up(store: str, node: Node) -> bool:
    """Whether the library calls what it keeps for the node so: the node's name, a dot and a word."""
    return bool(operators_of(node)) and store.rpartition(".")[0] == node.name
