"""A topology under construction: the list of nodes that grows behind the builder and all of its handles.

What Kafka Streams calls InternalStreamsBuilder: the builder and the handles stand above it, and neither needs
the other to add a node. Keeps law 10: every node and every store has one name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import (
    FilterNode,
    Function,
    MapValuesNode,
    Node,
    Shape,
    SourceNode,
    sources_among,
    type_text,
)
from watersmeet._plan.operators.processors import ProcessNode, SharedProcessNode, process_nodes, table_reads
from watersmeet.errors import Generation, TopologyError
from watersmeet.functions import FunctionBackend, adapt, types_for
from watersmeet.io.formats import Format
from watersmeet.io.inputs import Origin, check_complete
from watersmeet.io.origins import origin_of
from watersmeet.io.policies import Policies
from watersmeet.io.topics import Bootstrap, check_bootstrap, check_types
from watersmeet.windows import Duration, duration_ms

# Processors that share stores, as one node: what one of them puts, the others see at the next record of the key.
#
# So what the records of all of them do is one sequence (law 1), and no stage lies between two that share a store. Which
# do is known only when a topology is complete, so it is then that their nodes become one. Behind it each has a filter
# and a projection to the records that are its own, under its name where others read it.


def with_shared_stores(nodes: Sequence[Node], functions: FunctionBackend) -> tuple[Node, ...]:
    """The nodes, those among them that share stores put together."""
    groups = _groups(process_nodes(nodes))
    for group in groups:
        _check(nodes, group)
    if not groups:
        return tuple(nodes)
    return _in_order(nodes, [_merge(group, functions) for group in groups])


def _groups(processors: Sequence[ProcessNode]) -> list[tuple[ProcessNode, ...]]:
    """Those that have a store in common, or have one in common with another of them."""
    groups: list[list[ProcessNode]] = []
    for node in processors:
        stores = {store.name for store in node.stores}
        overlapping = [
            group for group in groups if any(stores & {store.name for store in member.stores} for member in group)
        ]
        groups = [group for group in groups if group not in overlapping]
        groups.append([*(member for group in overlapping for member in group), node])
    place = {node.name: number for number, node in enumerate(processors)}
    return [tuple(sorted(group, key=lambda member: place[member.name])) for group in groups if len(group) > 1]


def _check(nodes: Sequence[Node], group: tuple[ProcessNode, ...]) -> None:
    first = group[0]
    for member in group:
        if member.shape.key != first.shape.key:
            raise TopologyError(
                f"The processors {first.name!r} and {member.name!r} share a store, and their keys have "
                f"different types: "
                f"{first.shape.key} and {member.shape.key}.",
                hint="Cast the key before one of them: stream.select_key(lambda key, value: key.cast(...)).",
            )
        if member.settings.in_bulk:
            raise TopologyError(
                f"The processor {member.name!r} shares a store, and is called with many records at once: "
                f"process_batch.",
                hint="Write process(self, record, context): the records of all that share a store are one sequence.",
            )
        reached = {member.name}
        for node in nodes:
            if reached & set(node.inputs):
                reached.add(node.name)
        downstream = [peer.name for peer in group if peer is not member and peer.name in reached]
        if downstream:
            raise TopologyError(
                f"The processor {downstream[0]!r} shares a store with {member.name!r}, and stands behind it.",
                hint="Do what both do in one processor; or let the first send what the second one needs to know.",
            )


@dataclass(frozen=True)
class _Joint:
    """Processors put together."""

    node: SharedProcessNode  # the node of all of them
    # what makes the records of each, and the name under which these are read, by the processor's
    behind: dict[str, tuple[Node, ...]]


def _merge(group: tuple[ProcessNode, ...], functions: FunctionBackend) -> _Joint:
    fields = []
    for number, part in enumerate(group):
        fields += [pa.field(f"is{number}", pa.bool_()), pa.field(f"v{number}", functions.as_arrow(part.shape.value))]
    first, kind = group[0], functions.of_arrow(pa.struct(fields))
    inputs = [part.inputs[0] for part in group]
    reads = table_reads(group)
    # the processors number what they read one by one
    inputs_left = [iter(sorted(part.tables, key=lambda read: read.everywhere)) for part in group]
    inputs += [group[read.member].inputs[next(inputs_left[read.member]).input] for read in reads]
    shape = Shape("stream", first.shape.key, kind)
    node = SharedProcessNode(first.name, tuple(inputs), shape, parts=group)
    return _Joint(node, {part.name: _projection(node, part, number, functions) for number, part in enumerate(group)})


def _projection(
    node: SharedProcessNode, part: ProcessNode, number: int, functions: FunctionBackend
) -> tuple[Node, ...]:
    """Nodes that make the records of one processor of those of all."""

    def is_own(key: Any, value: Any) -> Any:
        return functions.field(value, f"is{number}")

    def of_own(key: Any, value: Any) -> Any:
        return functions.field(value, f"v{number}")

    # the node of all has the name of the first one, so that its stores are found under it in a checkpoint
    name = part.name if number else f"{part.name}-own"
    owner = part.name
    selected = FilterNode(f"{owner}-all", (node.name,), node.shape, predicate=is_own, negate=False, part_of=owner)
    return selected, MapValuesNode(name, (selected.name,), part.shape, mapper=of_own, part_of="" if number else owner)


def _in_order(nodes: Sequence[Node], joints: Sequence[_Joint]) -> tuple[Node, ...]:
    """All nodes in the order of construction, those that are put together where the last of them stands."""
    joint_of = {name: joint for joint in joints for name in joint.behind}
    read_as = {name: projections[-1].name for joint in joints for name, projections in joint.behind.items()}
    last = {list(joint.behind)[-1] for joint in joints}
    waiting: list[Node] = []
    for node in nodes:
        if node.name in joint_of and node.name not in last:
            continue
        joint = joint_of.get(node.name)
        merged = node if joint is None else joint.node
        waiting.append(replace(merged, inputs=tuple(read_as.get(name, name) for name in merged.inputs)))
    projections = {joint.node.name: [step for steps in joint.behind.values() for step in steps] for joint in joints}
    done: list[Node] = []
    added: set[str] = set()
    while waiting:
        ready = [candidate for candidate in waiting if added.issuperset(candidate.inputs)]
        if not ready:
            stuck = ", ".join(repr(candidate.name) for candidate in waiting if candidate.name in projections)
            raise TopologyError(
                f"Processors that share stores stand behind one another: {stuck}.",
                hint="Give them stores of their own, or do what they do in one processor.",
            )
        node = ready[0]
        waiting = [candidate for candidate in waiting if candidate is not node]
        for current in (node, *projections.get(node.name, ())):
            done.append(current)
            added.add(current.name)
    return tuple(done)


# Outputs that write to one place: what they must have in common, so that it keeps one order (law 2).
#
# And topics that a topology both reads and writes: what is written comes back as an input, in a later batch.

KeyText = Callable[[Node], str]
"""Type and format of a sink's keys, as text."""


def check_output(plan: Plan, sink: Node, key_text: KeyText) -> None:
    """Raise where another output of the plan writes to the same place and the two do not go together.

    Parameters
    ----------
    plan : with the sink as its last node.
    sink : the one that was added.
    key_text : says how a sink's keys are written.
    """
    for peer in (output for output in plan.sinks if output is not sink):
        topic = sink.place.topic
        if topic is not None and topic == peer.place.topic and _written(plan, sink) == _written(plan, peer):
            raise TopologyError(
                f"{_written(plan, sink)!r} is written to the topic {topic!r} twice: each record would be there twice.",
                given=f"outputs {peer.name!r} and {sink.name!r}",
                hint=f"Leave one of the two calls of to({topic!r}) out.",
            )
        if sink.place.claim is not None and sink.place.claim == peer.place.claim:
            sink.place.check_beside(peer.place, (peer.name, sink.name), partial(_keys, plan, peer, sink, key_text))


def _written(plan: Plan, sink: Node) -> str:
    """The name of the stream or table that an output writes."""
    above = plan.by_name[sink.inputs[0]]
    while above.same_records:
        above = plan.by_name[above.inputs[0]]
    return above.name


def _keys(plan: Plan, peer: Node, sink: Node, key_text: KeyText) -> tuple[str, str]:
    peer_text, sink_text = (
        key_text(output) + (", by prefix" if output.name in plan.combined else "") for output in (peer, sink)
    )
    return peer_text, sink_text


def check_feedback(node: Node, nodes: Mapping[str, Node], functions: FunctionBackend) -> None:
    """Raise where a node reads what another one writes, or the other way round, and nobody has asked for that.

    Parameters
    ----------
    node : the one that is added.
    nodes : those before it, by name.
    """
    if node.place is None or node.place.topic is None:
        return
    for peer in (
        candidate for candidate in nodes.values() if candidate.place is not None and candidate.is_sink != node.is_sink
    ):
        sink, source = (node, peer) if node.is_sink else (peer, node)
        topic = sink.place.topic
        if source.place.reads(topic):
            if not sink.place.feeds_back:
                pattern = source.place.pattern
                by = "" if pattern is None else f", which wm.TopicPattern({pattern!r}) matches"
                raise TopologyError(
                    f"The topology reads and writes the topic {topic!r}{by}: each result would come back as an input.",
                    given=f"topic {topic!r}, of {peer.stem} {peer.name!r} and {node.stem} {node.name!r}",
                    hint="Write to another topic. To continue with the written records, use the stream that through() "
                    "returns. To read them in a later batch: to(topic, feedback=True).",
                )
            _check_types(topic, sink, source, functions)


def check_fed_back(nodes: Iterable[Node]) -> None:
    """Raise where an output feeds back what nothing reads."""
    sources = [node.place for node in nodes if node.place is not None and not node.is_sink]
    for node in nodes:
        if node.is_sink and node.place.feeds_back and not any(source.reads(node.place.topic) for source in sources):
            raise TopologyError(
                f"feedback=True of {node.name!r} needs an input of its topic {node.place.topic!r}: nothing reads it.",
                hint=f"Read it: builder.stream({node.place.topic!r}, ...); or leave feedback out.",
            )


def _check_types(topic: str, sink: Node, source: Node, functions: FunctionBackend) -> None:
    shape = sink.shape
    for part in ("key", "value"):  # the parts of a record
        written, read = getattr(shape, part), getattr(source.shape, part)
        form = sink.place.formats[part]
        kind = functions.written_as(None, written).rpartition(" as ")[2] if form is None else Format.of(form).kind
        expected = Format.of(source.place.formats[part]).kind
        if (type_text(written), kind) != (type_text(read), expected):
            raise TopologyError(
                f"feedback=True of the topic {topic!r} writes {part}s of another type than those that are read.",
                given=f"{part}s are written as {kind} of {type_text(written)}, "
                f"and read as {expected} of {type_text(read)}",
                hint="Give both the same type (map_values, select_key) and the same format.",
            )


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
    processor_wrapper : takes the name and the maker of each processor, and gives another maker; None: there is none.
    """

    def __init__(self, application: str, generation: Generation, functions: FunctionBackend) -> None:
        self.application = application
        self.generation = generation
        self.functions = functions
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, object] = {}
        self._made_up: dict[str, None] = {}
        self._origins: dict[str, str] = {}
        self._built = False
        self.prefixes: list[str] = []
        self.named_policies: dict[str, Policies] = {}
        self.processor_wrapper: Callable[[str, Callable[[], Any]], Callable[[], Any]] | None = None

    def add(self, node: Node) -> Node:
        """The node, behind all others."""
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
        """Set what becomes of records that end in one operator or output."""
        if name in self.named_policies:
            raise TopologyError(
                f"policies({name!r}) is called twice.",
                hint=f"Give all policies at once: policies({name!r}, on_error=..., on_drop=...)",
            )
        self.named_policies[name] = policies

    def check_open(self, subject: str) -> None:
        """Raise where the topology has been built, and something is still to be said of it."""
        if self._built:
            raise TopologyError(
                f"The topology has been built, and nothing can be added to it: {subject}.",
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
        names = [name for name, _ in node.declared_stores]
        for name, declaration in node.declared_stores:
            if names.count(name) > 1 or self._stores.get(name, declaration) is not declaration:
                self._refuse_store(name, declaration)
        conflicts = {store for store in self._stores if _is_made_up(store, node)}
        for name in names:
            if any(_is_made_up(name, above) for above in (*self._nodes.values(), node)):
                conflicts.add(name)
        if conflicts:
            store = min(conflicts)
            raise TopologyError(
                f"The store name {store!r} belongs to the join {store.rpartition('.')[0]!r}, for its own state.",
                hint="Give the table another store=..., or the join another name=...",
            )
        self._stores.update(node.declared_stores)

    def _refuse_store(self, name: str, declaration: object) -> None:
        subject, hint = f"Two tables have the store name {name!r}.", "Give one another store=..."
        # a table is declared by its node
        if name in self._stores and not any(hasattr(one, "shape") for one in (declaration, self._stores[name])):
            subject = f"Two processors have stores of one name, {name!r}, and do not share one."
            hint = "Declare the store once and give both that object, or give one of them another name."
        raise TopologyError(subject, hint=hint)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes.values())

    def input_of(self, node: Node) -> Node:
        return self.inputs_of(node)[0]

    def inputs_of(self, node: Node) -> tuple[Node, ...]:
        return tuple(self._nodes[name] for name in node.inputs)

    def history_ms(self, history: Duration | None) -> int | None:
        """A table's history retention in ms, as it was given."""
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

    def name(self, name: str | None, stem: str, *inputs: str, ends: Sequence[str] = ("",)) -> str:
        """The given name, or one that is made up.

        Tables are found by their names in a checkpoint (law 10), so a name is made of the inputs, and does not depend
        on how many others came before: stem and inputs, and a number only where two would have one name. Other nodes
        are numbered among the unnamed of their stem. `prefixes` stand before it.

        Parameters
        ----------
        inputs : what comes into a node that may keep state.
        ends : what names of nodes have behind it.
        """
        if name is not None:
            candidate: object = name
            if not isinstance(candidate, str) or not candidate:
                raise TopologyError(
                    f"The name of an operator must be a text: name={name!r:.80}.", hint="For example name='counts'."
                )
            return name
        base = "-".join([*self.prefixes, stem, *self._above(inputs)])
        free = base if inputs and base not in self._nodes else self._free(base, 2 if inputs else 1, ends)
        self._made_up[free] = None
        return free

    def _free(self, stem: str, number: int, ends: Sequence[str] = ("",)) -> str:
        while any(f"{stem}-{number}{end}" in self._nodes for end in ends):
            number += 1
        return f"{stem}-{number}"

    def _above(self, inputs: tuple[str, ...]) -> list[str]:
        """The names of inputs in the names of the nodes that read them, each once."""
        return list(dict.fromkeys(self._origins.get(name, name) for name in inputs))

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

    def forks(self, left: str, right: str) -> bool:
        """Whether one record can reach both nodes."""
        return self._plan().forks(left, right)

    def _plan(self, *new_nodes: Node) -> Plan:
        return Plan(self.application, (*self._nodes.values(), *new_nodes), self.generation, frozenset(self._made_up))

    def _key_text(self, sink: Node) -> str:
        return self.functions.written_as(sink.place.key, sink.shape.key)


def _is_made_up(store: str, node: Node) -> bool:
    """Whether the library calls what it keeps for the node so: the node's name, a dot and a word."""
    return bool(node.operators) and store.rpartition(".")[0] == node.name


# Inputs of a topology under construction: each becomes a source node, checked on the line that reads it.


class Inputs:
    """The inputs of one topology.

    Parameters
    ----------
    construction : takes their nodes.
    policies : of topics that say none themselves.

    Attributes
    ----------
    names : of the inputs so far.
    """

    def __init__(self, construction: Construction, policies: Policies) -> None:
        self._construction = construction
        self._policies = policies
        self.names: set[str] = set()

    def add(
        self,
        source: Any,
        kind: Any,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Bootstrap | None = None,
        **options: Any,
    ) -> Node:
        """The node of a topic or a DataFrame; options that are None have not been given."""
        settings = {option: setting for option, setting in options.items() if setting is not None}
        if hasattr(source, "isStreaming") and hasattr(source, "columns"):
            check_complete(source, {"name": name, **dict.fromkeys(("key", "timestamp", "order")), **settings})
        origin = origin_of(source, settings)
        origin = origin.under(origin.policies.over(self._policies))
        name = name or origin.default_name
        if name is None:
            raise TopologyError("An input that is a DataFrame needs name=.", hint='Give it one: name="orders".')
        if name in self.names:
            raise TopologyError(
                f"Two inputs are named {name!r}.",
                hint="Read it once and use the handle twice, or give one of them name=...",
            )
        self._check_pattern(origin, kind, name, bootstrap)
        kind = _kind_of(origin, kind, name, bootstrap)
        key, value = self._construction.functions.source_types(origin, name)
        history_ms = self._construction.history_ms(history)
        if bootstrap is not None:
            check_bootstrap(bootstrap, kind, origin, name)
            check_types(self._construction.functions.source_types(bootstrap, name), (key, value), name)
        self._check_start(origin, kind, name, bootstrap)
        shape = Shape(kind, key, value)
        node = SourceNode(
            name, (), shape, input=name, origin=origin, store=store, history_ms=history_ms, bootstrap=bootstrap
        )
        self.names.add(name)
        return self._construction.add(replace(node, timestamp=self._extractor(origin, shape)))

    def _check_pattern(self, origin: Origin, kind: Any, name: str, bootstrap: Bootstrap | None) -> None:
        """Raise where a pattern of topics is no stream of its own topics alone, or begins with something."""
        origins = [source.origin for source in sources_among(self._construction.nodes)]
        for pattern_origin, topic_origin in [(origin, peer) for peer in origins] + [(peer, origin) for peer in origins]:
            if (
                pattern_origin.pattern is not None
                and topic_origin.pattern is None
                and pattern_origin.reads(topic_origin.topic)
            ):
                raise TopologyError(
                    f"wm.TopicPattern({pattern_origin.pattern!r}) matches the topic "
                    f"{topic_origin.topic!r}, which another input reads.",
                    given=f"inputs {pattern_origin.topic!r} and {topic_origin.topic!r}",
                    hint="Narrow the pattern, or leave the other input out and take its records by "
                    f'filter(lambda value, record: record["topic"] == {topic_origin.topic!r}).',
                )
        if origin.pattern is None:
            return
        if kind != "stream":
            raise TopologyError(
                f"A {'global table' if kind == 'global' else kind} has no TopicPattern({origin.pattern!r}): two topics "
                "may have rows with the same key, and nothing says which is newer.",
                hint="builder.stream(wm.TopicPattern(...), ...).to_table(): the latest record of a key is its row.",
            )
        if bootstrap is not None:
            raise TopologyError(
                f"bootstrap= belongs to one topic, and wm.TopicPattern({origin.pattern!r}) reads several.",
                given=f"bootstrap= of {name!r}",
                hint="Read that topic by its name, with its bootstrap=, then merge: one.merge(other).",
            )

    def _check_start(self, origin: Origin, kind: Any, name: str, bootstrap: Bootstrap | None) -> None:
        """Raise where it is said twice, or to no end, from where a topic is read."""
        if origin.begins_at is None:
            return
        setting = f"starting_offsets={origin.begins_at!r} of {name!r}"
        if kind == "global":
            raise TopologyError(
                f"A global table takes no starting_offsets={origin.begins_at!r}: every start reads it from the "
                "beginning.",
                given=setting,
                hint="Leave starting_offsets= out.",
            )
        if bootstrap is not None:
            raise TopologyError(
                "starting_offsets= and bootstrap= both say where the topic continues: give one of them.",
                given=f"{setting}, which has bootstrap=, too",
                hint="Leave starting_offsets= of the topic out: wm.Snapshot(..., starting_offsets=...) has it.",
            )

    def _extractor(self, origin: Origin, shape: Shape) -> Function | None:
        """The function of key and value that gives an input's records their times in ms, if one does."""
        extractor, functions, role = origin.timestamp_extractor, self._construction.functions, "timestamp extractor"
        if extractor is None:
            return None
        adapted = adapt(extractor, ("key", "value"), role, functions, sees_record=True)
        return functions.milliseconds(adapted, types_for(adapted, (shape.key, shape.value)), role)


def _kind_of(origin: Origin, kind: Any, name: str, bootstrap: Bootstrap | None) -> Any:
    """The kind of an input: of one that needs the values of stored rows a stream, of which a table is made."""
    if not any(isinstance(form, Format) and form.takes_stored for form in origin.formats.values()):
        return kind
    option = 'unavailable_columns="stored"'
    kind_name = "global table" if kind == "global" else kind
    if kind != "table":
        raise TopologyError(
            f"{option} needs a table's stored rows, and the input {name!r} is a {kind_name}.",
            hint=f"builder.table(...), and to_stream() behind it for a stream of its changes; or leave {option} out.",
        )
    if bootstrap is not None:
        raise TopologyError(
            f"{option} and bootstrap= of the input {name!r} do not go together.",
            hint=f"Leave bootstrap= out, and have Debezium send the rows as its snapshot; or leave {option} out.",
        )
    return "stream"
