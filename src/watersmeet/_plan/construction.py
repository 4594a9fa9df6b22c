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
from watersmeet._plan.outputs import check_feedback, check_output
from watersmeet.errors import TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.generation import Generation
from watersmeet.io.policies import Policies
from watersmeet.windows import Duration, duration_ms


class Construction:
    """The nodes so far, in order of construction.

    Parameters
    ----------
    application : the application id.
    generation : the generation of semantics that the topology follows.
    functions : what says the types of users' functions.

    Attributes
    ----------
    named_policies : those of single operators and outputs, by their names.
    """

    def __init__(self, application: str, generation: Generation, functions: FunctionBackend) -> None:
        self.application = application
        self.generation = generation
        self.functions = functions
        self._nodes: dict[str, Node] = {}
        self._stores: set[str] = set()
        self._shared: dict[str, object] = {}
        self._made_up: dict[str, None] = {}
        self._origins: dict[str, str] = {}
        self._built = False
        self.named_policies: dict[str, Policies] = {}

    def add(self, node: Node) -> Node:
        """The node, behind all others.

        Raises
        ------
        TopologyError : its name or that of its store is taken, it closes a circle through a topic, it is an
            output that does not go together with another one, or the topology has been built.
        """
        self.check(node)
        self._origins[node.name] = self._origin(node)
        self._nodes[node.name] = node
        return node

    def check(self, node: Node) -> None:
        """Raise where a node cannot be added; see `add`."""
        self.check_open(f"{node.stem} {node.name!r}")
        self._check_name(node)
        self._check_stores(node)
        check_feedback(node, self._nodes, self.functions)
        if node.is_sink:
            check_output(self._plan(node), node, self._key_text)

    def set_policies(self, name: str, policies: Policies) -> None:
        """Set what becomes of records that end in one operator or output.

        Raises
        ------
        TopologyError : the operator or output has policies already.
        """
        if name in self.named_policies:
            raise TopologyError(
                f"policies({name!r}) is called twice.",
                hint=f"Give all policies at once: policies({name!r}, on_error=..., on_drop=...)",
            )
        self.named_policies[name] = policies

    def check_open(self, what: str) -> None:
        """Raise where the topology has been built, and something is still to be said of it."""
        if self._built:
            raise TopologyError(
                f"The topology has been built, and nothing can be added to it: {what}.",
                given=what,
                hint="Add it before build(), or begin another StreamsBuilder.",
            )

    def _check_name(self, node: Node) -> None:
        if node.name in self._nodes:
            raise TopologyError(
                f"Two operators are named {node.name!r}.",
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
                f"The store name {store!r} belongs to the join {store.rpartition('.')[0]!r}, for its own state.",
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
                else f"Two tables have the store name {name!r}.",
                given=repr(name),
                hint="Give both the same object, once declared; or one of them another name."
                if of_processors
                else "Give one another store=...",
            )

    def _is_shared(self, name: str, node: Node) -> bool:
        """Whether a store of this name is one that the node may have, too."""
        given = node.shared_stores.get(name)
        return given is not None and self._shared.get(name) is given

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

        Tables are found by their names in a checkpoint (law 10), so a name is made of the inputs, and does not depend
        on how many others came before: stem and inputs, and a number only where two would have one name. Other nodes
        are numbered among the unnamed of their stem.

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
        """The names of inputs in the names of the nodes that read them, each once."""
        return list(dict.fromkeys(self._origins.get(each, each) for each in inputs))

    def _origin(self, node: Node) -> str:
        """The name of a node in other names: a node with a made-up name goes by its inputs."""
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
