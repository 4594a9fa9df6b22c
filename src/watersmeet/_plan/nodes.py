"""Nodes that keep nothing: inputs, outputs, and the steps between, which make a record's successors of it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from watersmeet.errors import TopologyError
from watersmeet.functions import RECORD, record_of

Kind = Literal["stream", "table", "global"]
How = Literal["inner", "left", "outer"]
Function = Callable[..., Any]
OldValues = Literal["passed on", "stored", "remembered", "computed"]
"""Whence the old value of a table's change is known, to whoever asks for it: from the one table that this one is made
of; from its store, where it has one; from what its operator remembers anyway; from all tables it is made of."""


@dataclass(frozen=True)
class Shape:
    """The records of an edge: the kind of handle, and the types of key and value."""

    kind: Kind
    key: Any
    value: Any


@dataclass(frozen=True)
class UserFunction:
    """A function of a node."""

    role: str  # the node's field that holds it
    function: Function  # what the user gave, as a function of all operands
    operands: tuple[tuple[str, Any], ...]  # (name, type) of what it gets


@dataclass(frozen=True)
class Node:
    """Base of all nodes.

    A subclass overrides the answers that are not the usual ones; nobody asks it of which class it is.
    """

    name: str  # unique in the topology, stable over its versions when the user gave it
    inputs: tuple[str, ...]  # names of the nodes it reads, left before right
    shape: Shape  # what it produces
    # queryable name of the table it keeps, if the user asked for one
    store: str | None = field(default=None, kw_only=True)
    # for how long the table that begins here remembers its past (KIP-889), in ms; None: not at all
    history_ms: int | None = field(default=None, kw_only=True)
    # name of the user's node for which the library made this one; "": it is one of the user's
    part_of: str = field(default="", kw_only=True)

    stem: ClassVar[str] = "node"
    fans_out: ClassVar[bool] = False
    """Whether one record becomes many, which opens a path slot."""
    same_records: ClassVar[bool] = False
    """Whether its records are those of its input, as they are."""
    makes_headers: ClassVar[bool] = False
    """Whether its records have headers of its own making, and not those of the records that they are made of."""
    combines_keys: ClassVar[bool] = False
    """Whether its key is made of those of both inputs."""
    is_endless: ClassVar[bool] = False
    """Whether its store has a row for each key that ever came, where no retention ends it."""
    in_step: ClassVar[bool] = True
    """Whether its results come among all else that a record causes; False: behind it, as through a topic."""
    reads_halves: ClassVar[bool] = False
    """Whether its inputs are the halves of one table's changes: what leaves a group, and what comes into one."""

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError(f"The name of an operator must be a text: name={self.name!r}.", hint="name='counts'")
        if self.store is not None and self.shape.kind == "stream":
            raise TopologyError(
                "Only a table can keep a store.",
                given=f"store={self.store!r} on the stream {self.name!r}",
                hint="Convert it first: stream.to_table(store=...).",
            )
        if self.history_ms is not None and self.history_ms < 0:
            raise TopologyError(
                f"The history of a table must not be negative: {self.history_ms} ms.", hint='history="1 day"'
            )

    def details(self) -> tuple[tuple[str, str], ...]:
        """(name, text) pairs that describe() prints and that a checkpoint compares."""
        return ()

    @property
    def declared_stores(self) -> tuple[tuple[str, object], ...]:
        """Its stores that have the user's names, and what declares each: nodes with one declaration share the store."""
        return () if self.store is None else ((self.store, self),)

    @property
    def operators(self) -> tuple[Any, ...]:
        """The operators that it becomes, first to last (`OperatorDeclaration`); none: it is a step of a stage."""
        return ()

    def read_through(self, plan: Any) -> tuple[str, ...]:
        """Names of the nodes that its operators read, in the order of their sides: behind a view all of its tables."""
        return self.inputs

    def replicas(self, plan: Any) -> Mapping[int, Node]:
        """The global tables of which it keeps copies, by the operator's sides."""
        return {}

    @property
    def place(self) -> Any:
        """Its topic, table or frame outside of the topology; None for an inner node."""
        return None

    @property
    def is_sink(self) -> bool:
        return self.place is not None and bool(self.inputs)

    @property
    def is_view(self) -> bool:
        """Whether it keeps and gives nothing, but is resolved where it is looked up."""
        return self.shape.kind == "global" and bool(self.inputs)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        """Its users' functions that give Columns, by the shapes of its inputs; of one branch of a split, its own."""
        return ()

    @property
    def calls_python(self) -> bool:
        """Whether it calls a plain Python function with each record, which gives nothing."""
        return False

    # -- keys ------------------------------------------------------------------------------------------------

    @property
    def keyed_by(self) -> tuple[str, ...]:
        """The inputs that its keys come from; none if it makes keys of its own."""
        return self.inputs

    @property
    def keeps_partition(self) -> bool:
        """Whether a step leaves records where they are, under the key they have there."""
        return bool(self.keyed_by)

    @property
    def drops_null_key(self) -> bool:
        """Whether records without a key end in this step, unless something below takes them."""
        return False

    @property
    def takes_null_keys(self) -> bool:
        """Whether records without a key are worth something to it (KIP-962; 3.7 and later)."""
        return False

    # -- tables and their old values (docs/semantics/table.md) ----------------------------------------

    old_values: ClassVar[OldValues] = "passed on"
    """Whence the old values of its changes are known; of a table."""
    asks_old: ClassVar[bool] = False
    """Whether it would like to know old values, and does without where nothing keeps them."""
    moves_time: ClassVar[tuple[int, ...] | None] = None
    """The inputs whose sources move its time, and that of what is behind it; None: all."""
    sees_lookups: ClassVar[bool] = True
    """Whether it sees its inputs as Kafka's lookups do; what watersmeet alone has goes by what was sent."""

    keeps_table: ClassVar[bool] = False
    """Whether its own operator keeps the table that begins here, and sends old values without another one behind."""

    @property
    def looks_up(self) -> tuple[int, ...]:
        """The inputs in which it looks up current values."""
        return ()

    @property
    def looks_up_as_of(self) -> tuple[int, ...]:
        """The inputs of which it remembers the past, and looks up the values of another record's time."""
        return ()

    @property
    def goes_by_moment(self) -> tuple[int, ...]:
        """The inputs of which each change counts, since it is looked up in the moment of another record."""
        return ()

    @property
    def begins_table(self) -> bool:
        """Whether a table begins here: its old value is known only from a store."""
        return self.shape.kind == "table" and self.old_values in ("stored", "remembered")

    @property
    def takes_old(self) -> bool:
        """Whether it works on the old values of changes beside the new ones, whatever is made of them below."""
        return False

    @property
    def needs_old(self) -> tuple[str, ...]:
        """The inputs that have to send old values."""
        return ()

    @property
    def keeps_sides(self) -> tuple[int, ...]:
        """The inputs that it keeps as tables of their own keys, which so can be the store that a user asked for."""
        return self.looks_up

    @property
    def passes_changes(self) -> bool:
        """Whether a change of a table goes through here, new and old value alike, and nothing is kept."""
        return False


def of_key_and_value(role: str, function: Function, shape: Shape) -> UserFunction:
    return of_operands(role, function, (("key", shape.key), ("value", shape.value)))


def of_operands(role: str, function: Function, operands: tuple[tuple[str, Any], ...]) -> UserFunction:
    record = record_of(function)
    return UserFunction(role, function, operands if record is None else (*operands, (RECORD, record)))


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
        condition = "rest" if self.predicate is None else "predicate"
        return (("after", str(len(self.earlier))), ("takes", condition))

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


@dataclass(frozen=True)
class ToStreamNode(Node):
    """The changes of a table read as a stream."""

    stem = "to_stream"
    same_records = True


@dataclass(frozen=True)
class SinkNode(Node):
    """An output; `output` is its name to the test driver."""

    output: str = field(kw_only=True)
    target: Any = field(kw_only=True, compare=False, repr=False)

    stem = "sink"

    @property
    def place(self) -> Any:
        return self.target

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("output", self.output),)


def sources_among(nodes: Iterable[Node]) -> tuple[SourceNode, ...]:
    return tuple(node for node in nodes if isinstance(node, SourceNode))


def patterns_of(sources: Iterable[SourceNode]) -> list[str]:
    """The patterns of topics among what these inputs read."""
    return [source.origin.pattern for source in sources if source.origin.pattern is not None]


def sinks_among(nodes: Iterable[Node]) -> tuple[SinkNode, ...]:
    return tuple(node for node in nodes if isinstance(node, SinkNode))


def simple_text(kind: object) -> str:
    """A type in Spark's short words, an Arrow type in Arrow's."""
    simple = getattr(kind, "simpleString", None)
    return str(simple()) if callable(simple) else str(kind)


def type_text(kind: object) -> str:
    """A type as text, the same whether parts of it can be null or not."""
    return simple_text(kind) if hasattr(kind, "simpleString") else str(kind).replace(" not null", "")
