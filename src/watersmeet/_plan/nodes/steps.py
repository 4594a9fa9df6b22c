"""Nodes that keep nothing: inputs, outputs, and the steps between, which make a record's successors of it alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from watersmeet._plan.nodes.base import Function, Node, Shape, UserFunction, of_key_and_value


@dataclass(frozen=True)
class SourceNode(Node):
    """An input, read as a stream or as a table; `input` is its name to the test driver.

    `dead_letters_of` names the input of its rows, which are bad records; it reads nothing itself. `bootstrap` is its
    beginning: a table's `Snapshot`, or a `Backfill`. `timestamp` is the function of key and value that gives its
    records' times in ms, where these are not their own.
    """

    input: str = field(kw_only=True)
    origin: Any = field(kw_only=True, compare=False, repr=False)
    dead_letters_of: str | None = field(default=None, kw_only=True)
    bootstrap: Any = field(default=None, kw_only=True, compare=False, repr=False)
    timestamp: Function | None = field(default=None, kw_only=True, compare=False, repr=False)

    stem = "source"
    old_values = "stored"

    @property
    def begins_table(self) -> bool:
        return self.shape.kind == "table"

    @property
    def place(self) -> Any:
        return self.origin

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("input", self.input),)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        function = self.timestamp
        return () if function is None else (of_key_and_value("timestamp extractor", function, self.shape),)


@dataclass(frozen=True)
class FilterNode(Node):
    """Keeps what the predicate holds for; of a table, turns the rest into tombstones."""

    predicate: Function = field(kw_only=True, compare=False, repr=False)
    negate: bool = field(default=False, kw_only=True)

    stem = "filter"
    asks_old = True

    @property
    def passes_changes(self) -> bool:
        return self.shape.kind == "table" and self.store is None

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("keep", "where not" if self.negate else "where"),)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("predicate", self.predicate, *above),)


@dataclass(frozen=True)
class MapValuesNode(Node):
    """A new value from the old one; of a table, a tombstone stays a tombstone."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)

    stem = "map_values"

    @property
    def passes_changes(self) -> bool:
        return self.shape.kind == "table" and self.store is None

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("mapper", self.mapper, *above),)


@dataclass(frozen=True)
class MapEachNode(Node):
    """A new value of each record of a stream, also of one without a value."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)

    stem = "map_each"

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("mapper", self.mapper, *above),)


@dataclass(frozen=True)
class MapNode(Node):
    """A new key and a new value."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)

    stem = "map"

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return ()

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("mapper", self.mapper, *above),)


@dataclass(frozen=True)
class MapHeadersNode(Node):
    """Other headers, the same key and value."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)

    stem = "map_headers"
    makes_headers = True

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("header mapper", self.mapper, *above),)


@dataclass(frozen=True)
class SelectKeyNode(Node):
    """A new key, the same value."""

    selector: Function = field(kw_only=True, compare=False, repr=False)

    stem = "select_key"
    # a table under another key is the result of a one-to-many join, which remembers what stands
    old_values = "remembered"

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return ()

    @property
    def begins_table(self) -> bool:
        return self.shape.kind == "table"

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("selector", self.selector, *above),)


@dataclass(frozen=True)
class FlatMapNode(Node):
    """None, one or many records of each; the mapper returns an array (of key-value structs, or of values)."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)
    values_only: bool = field(kw_only=True)

    stem = "flat_map"
    fans_out = True

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return self.inputs if self.values_only else ()

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("mapper", self.mapper, *above),)


@dataclass(frozen=True)
class MergeNode(Node):
    """The records of all inputs."""

    stem = "merge"


@dataclass(frozen=True)
class BranchNode(Node):
    """One named branch of a split: records that this predicate holds for and no earlier one does."""

    earlier: tuple[Function, ...] = field(kw_only=True, compare=False, repr=False)
    predicate: Function | None = field(kw_only=True, compare=False, repr=False)

    stem = "branch"

    def details(self) -> tuple[tuple[str, str], ...]:
        which = "rest" if self.predicate is None else "predicate"
        return (("after", str(len(self.earlier))), ("takes", which))

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return () if self.predicate is None else (of_key_and_value("predicate", self.predicate, *above),)


@dataclass(frozen=True)
class PeekNode(Node):
    """Shows each record to a Python function, and hands it on unchanged."""

    action: Function = field(kw_only=True, compare=False, repr=False)

    stem = "peek"

    @property
    def calls_python(self) -> bool:
        return True


@dataclass(frozen=True)
class RepartitionNode(Node):
    """Brings records to the shard of their key; null keys stop here unless a join downstream takes them."""

    stem = "repartition"

    @property
    def keeps_partition(self) -> bool:
        return False

    @property
    def drops_null_key(self) -> bool:
        return True


@dataclass(frozen=True)
class ToTableNode(Node):
    """A stream read as the changes of a table."""

    stem = "to_table"
    old_values = "stored"

    @property
    def begins_table(self) -> bool:
        return True


@dataclass(frozen=True)
class ToStreamNode(Node):
    """The changes of a table read as a stream."""

    stem = "to_stream"


@dataclass(frozen=True)
class SinkNode(Node):
    """An output; `output` is its name to the test driver."""

    output: str = field(kw_only=True)
    target: Any = field(kw_only=True, compare=False, repr=False)

    stem = "sink"
    is_sink = True

    @property
    def place(self) -> Any:
        return self.target

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("output", self.output),)


def sources_among(nodes: Iterable[Node]) -> tuple[SourceNode, ...]:
    """The inputs among nodes."""
    return tuple(node for node in nodes if isinstance(node, SourceNode))


def patterns_of(sources: Iterable[SourceNode]) -> list[str]:
    """The patterns of topics among what these inputs read."""
    return [source.origin.pattern for source in sources if source.origin.pattern is not None]


def sinks_among(nodes: Iterable[Node]) -> tuple[SinkNode, ...]:
    """The outputs among nodes."""
    return tuple(node for node in nodes if isinstance(node, SinkNode))
