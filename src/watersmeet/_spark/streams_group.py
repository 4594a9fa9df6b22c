"""`init --from-group`: what a broker knows of a streams group (KIP-1071, KIP-1331), and a topology drafted from it."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from watersmeet.errors import ConfigError

# The group, asked by Kafka's own Java client: no client of Python's can, nor the one that Spark's connector brings.

_LOG4J = ("slf4j.Log4jLogger", "log4j.Logger", "log4j.core.Logger")
_LOGGERS = ("org.slf4j.Logger", *(f"org.apache.logging.{name}" for name in _LOG4J))
_ADMIN = "org.apache.kafka.clients.admin."


@dataclass(frozen=True)
class GroupNode:
    """A node of a program of Kafka Streams: "Source", "Processor" or "Sink"."""

    name: str
    kind: str
    topics: Sequence[str] = ()
    stores: Sequence[str] = ()
    successors: Sequence[str] = ()


@dataclass(frozen=True)
class StreamsGroup:
    """A streams group as its broker knows it.

    Parameters
    ----------
    nodes : of the program; if the broker keeps no description (`is_described`), a node for each subtopology.
    global_tables : names of the nodes that are global tables.
    window_stores : those of which changelogs forget old rows.
    """

    name: str
    nodes: Sequence[GroupNode]
    global_tables: frozenset[str]
    window_stores: frozenset[str]
    is_described: bool


def streams_group(spark: SparkSession, name: str, servers: str, settings: Path | None, jar: Path) -> StreamsGroup:
    """The group as the broker knows it.

    Parameters
    ----------
    settings, jar : of Kafka's Java client: its properties, and the client itself, 4.4 or later.

    Raises
    ------
    ConfigError : the brokers know no group of this name, or do not answer.
    """
    answer = _answer(spark, name, servers, settings, jar)
    parts, description = list(answer.subtopologies().toArray()), answer.topologyDescription()
    changelogs = [entry for part in parts for entry in dict(part.stateChangelogTopics()).items()]
    policies = {_store_of(name, topic): dict(about.topicConfigs()).get("cleanup.policy") for topic, about in changelogs}
    windows = frozenset(store for store, policy in policies.items() if "delete" in str(policy))
    if not description.isPresent():
        nodes = [node for part in parts for node in _nodes_of(name, part)]
        return StreamsGroup(name, nodes, frozenset(), windows, is_described=False)
    tables = list(description.get().globalStores().toArray())
    described = [node for part in description.get().subtopologies().toArray() for node in part.nodes().toArray()]
    nodes = [
        _node(node) for node in (*described, *(of for table in tables for of in (table.source(), table.processor())))
    ]
    return StreamsGroup(
        name, nodes, frozenset(table.processor().name() for table in tables), windows, is_described=True
    )


def _answer(spark: SparkSession, name: str, servers: str, settings: Path | None, jar: Path) -> Any:
    context: Any = spark.sparkContext
    java, thread = context._jvm.java, context._jvm.java.lang.Thread.currentThread()
    properties, loader_of_spark = java.util.Properties(), thread.getContextClassLoader()
    if settings is not None:
        properties.load(java.io.StringReader(settings.read_text(encoding="utf-8")))
    properties.putAll({"bootstrap.servers": servers, "default.api.timeout.ms": "30000"})
    loader, types = _loader(context, jar), _array(context, java.lang.Class, properties.getClass())
    thread.setContextClassLoader(loader)
    try:
        create = loader.loadClass(f"{_ADMIN}Admin").getMethod("create", types)
        admin = create.invoke(None, _array(context, java.lang.Object, properties))
        kind = loader.loadClass(f"{_ADMIN}DescribeStreamsGroupsOptions")
        options = kind.getConstructor(_array(context, java.lang.Class)).newInstance(_array(context, java.lang.Object))
    except Py4JJavaError as error:
        raise ConfigError(f"{jar.name} cannot ask Kafka of groups.", given=_reason(error), hint=_CURE) from None
    finally:
        thread.setContextClassLoader(loader_of_spark)
    try:
        return _described(admin, java.util.List.of(name), options)
    except Py4JJavaError as error:
        raise ConfigError(
            f"--from-group={name!r}: the brokers do not describe such a streams group.",
            given=_reason(error),
            hint="kafka-groups.sh --list shows the groups: the type must be Streams (group.protocol=streams).",
        ) from None
    finally:
        admin.close()


@cache
def _loader(context: Any, jar: Path) -> Any:
    """The client beside that of Spark's connector, which is older; one for all questions, as Py4J goes by names."""
    java = context._jvm.java
    of_spark = [java.lang.Class.forName(logger).getProtectionDomain().getCodeSource() for logger in _LOGGERS]
    places = [java.io.File(str(jar.absolute())).toURI().toURL(), *(place.getLocation() for place in of_spark)]
    platform = java.lang.ClassLoader.getPlatformClassLoader()
    return java.net.URLClassLoader(_array(context, java.net.URL, *places), platform)


def _array(context: Any, kind: Any, *values: Any) -> Any:
    array = context._gateway.new_array(kind, len(values))
    for number, value in enumerate(values):
        array[number] = value
    return array


_CURE = "--client takes kafka-clients 4.4 or later, --command-config the client's properties."


def _described(admin: Any, names: Any, options: Any, *, entire: bool = True) -> Any:
    options.includeTopologyDescription(entire)
    try:
        return admin.describeStreamsGroups(names, options).describedGroups().get(names.get(0)).get()
    except Py4JJavaError as error:
        if not entire or "UnsupportedVersion" not in str(error.java_exception):
            raise
    return _described(admin, names, options, entire=False)  # a broker before 4.4


def _reason(error: Py4JJavaError) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause)


def _node(node: Any) -> GroupNode:
    kind, topics = str(node.getClass().getSimpleName()), []
    if kind == "Source":
        topics = list(node.topics())
    elif kind == "Sink":
        topics = [node.topic().orElse("")]
    stores = list(node.stores()) if kind == "Processor" else []
    return GroupNode(str(node.name()), kind, topics, stores, list(node.successors()))


def _nodes_of(group: str, subtopology: Any) -> Iterable[GroupNode]:
    """A subtopology as its topics, and one node between them."""
    node, sinks = f"subtopology-{subtopology.subtopologyId()}", list(subtopology.repartitionSinkTopics().toArray())
    for topic in [*subtopology.sourceTopics().toArray(), *dict(subtopology.repartitionSourceTopics())]:
        yield GroupNode(f"{node}-from-{topic}", "Source", [topic], successors=[node])
    stores = [_store_of(group, topic) for topic in dict(subtopology.stateChangelogTopics())]
    yield GroupNode(node, "Processor", (), stores, [f"{node}-to-{topic}" for topic in sinks])
    yield from (GroupNode(f"{node}-to-{topic}", "Sink", [topic]) for topic in sinks)


def _store_of(group: str, changelog: str) -> str:
    return changelog.removeprefix(f"{group}-").removesuffix("-changelog")


# The draft: a line for each node, as far as its name says what it does.

_DEFAULT_NAME = re.compile(r"((?:COGROUP)?K(?:STREAM|TABLE)-[A-Z-]*[A-Z])-(\d{10})|subtopology-\d+.*")
_DEFAULT_STORE = re.compile(r"-\d{10}(-store)?$")
_OWN_TOPIC = re.compile(r"-repartition$|-subscription-(registration|response)(-\d{10})?-topic$", re.IGNORECASE)
_SIDE = re.compile(r"(JOIN|OUTER)(THIS|OTHER)-\d{10}$|-(this|other)-join$|-join-(this|other)$")
_RIGHT = re.compile(r"OTHER-\d{10}$|-other-|-other$|-foreign-join-")
_PART = re.compile(
    rf"{_SIDE.pattern}|^KSTREAM-WINDOWED-\d{{10}}$|^KTABLE-FK-JOIN-(?!OUTPUT)"
    r"|-repartition-filter$|-windowed$|-subscription-|-foreign-join-"
)
"""Nodes that are a part of an operator here."""
_WINDOWS = '.windowed_by(wm.TimeWindows.of_size_with_no_grace("1 minute"))'
_OPERATORS = {
    kind: columns
    for kind, *columns in (
        line.split("\t")
        for line in (files(__package__) / "group_operators.tsv").read_text(encoding="utf-8").splitlines()
    )
}
"""By kind: what the operator gives, its call, and what the broker does not know of it."""


@dataclass(frozen=True)
class _DraftHandle:
    """A variable of the draft, and what it is: stream, table, grouped or global."""

    variable: str
    kind: str


class Draft:
    """A topology in Python under construction, of the nodes of a streams group."""

    def __init__(self, group: StreamsGroup) -> None:
        self._group, self._nodes = group, {node.name: node for node in group.nodes}
        self._lines: list[str] = []
        self._handles: dict[str, list[_DraftHandle]] = {}
        self._owners: dict[str, _DraftHandle] = {}
        self._variables = {"builder", "pair", "wm", "F", "topology"}
        self._inputs: dict[str, list[GroupNode]] = {name: [] for name in self._nodes}
        # the left side of a join first
        for node in sorted(group.nodes, key=lambda node: (bool(_RIGHT.search(node.name)), _number(node))):
            readers = [reader.name for reader in self._readers(node)] if _is_own(node) else []
            for successor in [*node.successors, *readers]:
                self._inputs[successor].append(node)

    def text(self) -> str:
        """The module."""
        # tables first, since a join names the store alone
        for node in sorted(self._group.nodes, key=lambda node: (not self._is_table(node), _number(node))):
            if self._is_table(node) or not node.successors:
                self._outputs(node)
        if not self._group.is_described:
            self._lines.append("# Unknown: outputs, and what the subtopologies do. The broker keeps no description")
        text = (files(__package__) / "group.py.txt").read_text(encoding="utf-8")
        return text.replace("GROUP", json.dumps(self._group.name)[1:-1]).replace("LINES", "\n    ".join(self._lines))

    def _readers(self, node: GroupNode) -> list[GroupNode]:
        sources = [source for source in self._group.nodes if source.kind == "Source" and node.kind == "Sink"]
        return [source for source in sources if set(source.topics) & set(node.topics)]

    def _outputs(self, node: GroupNode) -> list[_DraftHandle]:
        """The handles of a node; one that is a part of an operator has those of its inputs."""
        if node.name not in self._handles:
            self._handles[node.name] = []  # subtopologies may send to each other in a circle
            inputs = [handle for input_node in self._inputs[node.name] for handle in self._outputs(input_node)]
            handles = self._handles[node.name] = list(dict.fromkeys(inputs))
            table = any(self._is_table(self._nodes[name]) for name in node.successors)
            if node.kind == "Sink" and not _is_own(node):
                self._output(node, handles)
            elif node.kind == "Processor" and not _PART.search(node.name) and not _is_split(node):
                self._handles[node.name] = [self._operator(node, handles)]
            elif node.kind == "Source" and not _is_own(node) and not table:
                self._handles[node.name] = [self._input("stream", node, node.topics)]
        return self._handles[node.name]

    def _operator(self, node: GroupNode, inputs: list[_DraftHandle]) -> _DraftHandle:
        input_nodes, kind = self._inputs[node.name], _kind(node)
        if self._is_table(node):
            table = "global_table" if node.name in self._group.global_tables else "table"
            return self._input(table, node, [topic for source in input_nodes for topic in source.topics])
        tables = [self._owners[store] for store in node.stores if store in self._owners]
        is_unknown, kinds = kind not in _OPERATORS, [handle.kind for handle in inputs]
        if any(_SIDE.search(part.name) for part in input_nodes):
            return self._join(node, (inputs * 2)[:2])
        if kind == "KTABLE-FK-JOIN-OUTPUT" or (is_unknown and kinds == ["table", "table"]):
            return self._join(node, (inputs * 2)[:2], ", foreign_key=lambda left: left")
        if is_unknown and kinds == ["stream"] and (tables or kind in ("KSTREAM-JOIN", "KSTREAM-LEFTJOIN")):
            tables = tables or [handle for handle in self._owners.values() if handle.kind == "global_table"]
            return self._join(node, [*inputs, *tables[:1]])
        return self._step(node, kind, inputs)

    def _input(self, kind: str, node: GroupNode, topics: Sequence[str]) -> _DraftHandle:
        topic = json.dumps(topics[0] if len(topics) == 1 else sorted(topics))
        call = f'builder.{kind}({topic}, key="string", value="string"{_store(node)}{_name(node)})'
        return self._line(node, kind, call, variable="_".join(sorted(topics)))

    def _output(self, node: GroupNode, inputs: Sequence[_DraftHandle]) -> None:
        topic = json.dumps(node.topics[0]) if node.topics[0] else 'lambda value: F.lit("topic")'
        options = ", feedback=True" if self._readers(node) else ""
        self._lines += [f"{handle.variable}.to({topic}{options}{_name(node)})" for handle in inputs]

    def _join(self, node: GroupNode, sides: Sequence[_DraftHandle], options: str = "") -> _DraftHandle:
        names = " ".join((node.name, *(part.name for part in self._inputs[node.name])))
        method = "outer_join" if re.search("OUTERTHIS|-outer-this", names) else "join"
        method = "left_join" if method == "join" and re.search("LEFTJOIN|OUTER|-outer-", names) else method
        unknown = "the joiner" if sides[0].kind == "stream" else "the joiner; whether join, left_join or outer_join"
        if [side.kind for side in sides] == ["stream", "stream"]:
            options, unknown = ', wm.JoinWindows.of_time_difference_with_no_grace("1 minute")', "joiner and windows"
        elif sides[-1].kind == "global_table":
            options, unknown = ", key=lambda key, value: key", "joiner and key"
        call = f"{sides[0].variable}.{method}({sides[-1].variable}, pair{options}{_name(node)})"
        return self._line(node, sides[0].kind, call, unknown)

    def _step(self, node: GroupNode, kind: str, inputs: Sequence[_DraftHandle]) -> _DraftHandle:
        topics = [topic for name in node.successors for topic in self._nodes[name].topics]
        if any(map(_is_split, self._inputs[node.name])):
            kind = "KSTREAM-BRANCHCHILD"
        elif f"{node.name}-repartition-filter" in node.successors:
            kind = "KSTREAM-KEY-SELECT"
        elif kind not in _OPERATORS and any(topic.endswith(f"-{node.name}-repartition") for topic in topics):
            kind = "KTABLE-SELECT"
        unknown_call = "{0}.map_values(lambda value: value{name})"
        if len(inputs) > 1:
            unknown_call = "{0}" + "".join(f".merge({other.variable})" for other in inputs[1:])
        result, call, unknown = _OPERATORS.get(
            kind, ("", unknown_call, "" if kind == "KSTREAM-MERGE" else "what it does")
        )
        windows = _WINDOWS if set(node.stores) & self._group.window_stores else ""
        text = call.format(inputs[0].variable, store=_store(node), name=_name(node), windows=windows)
        if windows and windows in text:
            unknown += ", and the windows"
        return self._line(node, result or inputs[0].kind, text.replace("(, ", "("), unknown)

    def _line(self, node: GroupNode, kind: str, call: str, unknown: str = "", variable: str = "") -> _DraftHandle:
        """A line of the draft, under a comment that names the node and what is unknown of it."""
        method = re.search(r"\.(?!group_by_key|windowed_by|of_size)(\w+)\(", call)
        name = variable or (f"{method[1]}_{_number(node)}" if method and _kind(node) else node.name)
        name = re.sub(r"\W+", "_", name.lower()).strip("_")
        name = f"_{name}" if not name or name[0].isdigit() or keyword.iskeyword(name) else name
        while name in self._variables:
            name += "_"
        self._variables.add(name)
        handle = _DraftHandle(name, kind)
        self._owners = dict.fromkeys(node.stores, handle) | self._owners
        parts = [node.name, f" (stores: {', '.join(node.stores)})" if node.stores else ""]
        self._lines += [f"# {''.join(parts)}" + (f". Unknown: {unknown}" if unknown else ""), f"{name} = {call}"]
        return handle

    def _is_table(self, node: GroupNode) -> bool:
        """Whether a node is the table of a topic, by its name or that of its source."""
        sources = [source.name for source in self._inputs[node.name] if source.kind == "Source" and not _is_own(source)]
        return bool(sources) and (_kind(node) == "KTABLE-SOURCE" or sources == [f"{node.name}-source"])


def _is_own(node: GroupNode) -> bool:
    """Whether a source or sink is of topics that Kafka Streams makes itself."""
    return bool(node.topics) and all(_OWN_TOPIC.search(topic) for topic in node.topics)


def _is_split(node: GroupNode) -> bool:
    is_named = _kind(node) == "KSTREAM-BRANCH" or node.name.endswith("-")
    return is_named and all(name.startswith(node.name) for name in node.successors)


def _kind(node: GroupNode) -> str:
    match = _DEFAULT_NAME.fullmatch(node.name)
    return (match and match[1]) or ""


def _number(node: GroupNode) -> int:
    match = _DEFAULT_NAME.fullmatch(node.name)
    return int((match and match[2]) or 0)


def _name(node: GroupNode) -> str:
    return "" if _DEFAULT_NAME.fullmatch(node.name) else f", name={json.dumps(node.name)}"


def _store(node: GroupNode) -> str:
    is_default = len(node.stores) != 1 or _DEFAULT_STORE.search(node.stores[0])
    return "" if is_default else f", store={json.dumps(node.stores[0])}"
