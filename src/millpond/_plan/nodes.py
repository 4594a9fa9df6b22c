"""The nodes of a topology: frozen declarations, checked when they are made; an ill-formed one cannot exist.

Called by the handles, which append them to a plan in order of construction: that order is the order in
which Kafka Streams forwards to children, so it decides the order of results (law 2). A user's function is
kept as it was given and never compared or printed; types are whatever the function backend speaks (Spark's
DataTypes, Arrow's), compared with ``==`` and printed with ``str``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from millpond.errors import TopologyError
from millpond.generation import Generation
from millpond.windows import JoinWindows

Kind = Literal["stream", "table", "global"]
How = Literal["inner", "left", "outer"]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Shape:
    """What flows on an edge: the kind of thing, and the types of key and value."""

    kind: Kind
    key: Any
    value: Any


@dataclass(frozen=True)
class Node:
    """Base of all nodes.

    Parameters
    ----------
    name : unique in the topology, stable over its versions when the user gave it.
    inputs : names of the nodes it reads, left before right.
    shape : what it produces.
    store : queryable name of the table it keeps, if the user asked for one.
    """

    name: str
    inputs: tuple[str, ...]
    shape: Shape
    store: str | None = field(default=None, kw_only=True)

    stem = "node"
    operands: ClassVar[tuple[str, ...]] = ("key", "left", "right")
    """What a joiner gets, by name of the operator's result column."""
    drop_reasons: ClassVar[tuple[str, ...]] = ()
    """Why its operator lets rows end, beside null keys and values."""

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError("A node needs a name.", given=repr(self.name))
        if self.store is not None and self.shape.kind == "stream":
            raise TopologyError(
                "Only a table can keep a store.",
                given=f"store={self.store!r} on the stream {self.name!r}",
                hint="Convert it first: stream.to_table(store=...).",
            )

    def details(self) -> tuple[tuple[str, str], ...]:
        """(name, text) pairs that describe() prints and that a checkpoint compares."""
        return ()


@dataclass(frozen=True)
class Source(Node):
    """An input, read as a stream or as a table; `input` is its name to the test driver."""

    input: str = field(kw_only=True)
    origin: Any = field(kw_only=True, compare=False, repr=False)

    stem = "source"

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("input", self.input),)


@dataclass(frozen=True)
class Filter(Node):
    """Keeps what the predicate holds for; of a table, turns the rest into tombstones."""

    predicate: Function = field(kw_only=True, compare=False, repr=False)
    negate: bool = field(default=False, kw_only=True)

    stem = "filter"

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("keep", "where not" if self.negate else "where"),)


@dataclass(frozen=True)
class MapValues(Node):
    """A new value from the old one; of a table, a tombstone stays a tombstone."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)

    stem = "map_values"


@dataclass(frozen=True)
class Map(Node):
    """A new key and a new value."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)

    stem = "map"


@dataclass(frozen=True)
class SelectKey(Node):
    """A new key, the same value."""

    selector: Function = field(kw_only=True, compare=False, repr=False)

    stem = "select_key"


@dataclass(frozen=True)
class FlatMap(Node):
    """None, one or many records of each; the mapper returns an array (of key-value structs, or of values)."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)
    values_only: bool = field(kw_only=True)

    stem = "flat_map"


@dataclass(frozen=True)
class Merge(Node):
    """The records of all inputs."""

    stem = "merge"


@dataclass(frozen=True)
class Branch(Node):
    """One named branch of a split: records that this predicate holds for and no earlier one does."""

    earlier: tuple[Function, ...] = field(kw_only=True, compare=False, repr=False)
    predicate: Function | None = field(kw_only=True, compare=False, repr=False)

    stem = "branch"

    def details(self) -> tuple[tuple[str, str], ...]:
        which = "rest" if self.predicate is None else "predicate"
        return (("after", str(len(self.earlier))), ("takes", which))


@dataclass(frozen=True)
class Peek(Node):
    """Shows each record to a Python function, and hands it on unchanged."""

    action: Function = field(kw_only=True, compare=False, repr=False)

    stem = "peek"


@dataclass(frozen=True)
class Repartition(Node):
    """Brings records to the shard of their key; null keys stop here unless a join downstream takes them."""

    stem = "repartition"


@dataclass(frozen=True)
class ToTable(Node):
    """A stream read as the changes of a table."""

    stem = "to_table"


@dataclass(frozen=True)
class ToStream(Node):
    """The changes of a table read as a stream."""

    stem = "to_stream"


@dataclass(frozen=True)
class TableTable(Node):
    """Primary-key join of two tables (KIP-77; docs/semantics, section 10)."""

    how: How = field(kw_only=True)
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)

    stem = "table_table"

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how), ("generation", self.generation.value))


@dataclass(frozen=True)
class StreamTable(Node):
    """Join of a stream with a table, driven by the stream (docs/semantics, section 8)."""

    how: How = field(kw_only=True)
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)

    stem = "stream_table"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how == "outer":
            raise TopologyError("A stream and a table have no outer join.", hint="Use join or left_join.")
        if self.generation.is_old and self.how == "inner":
            raise TopologyError(
                "Kafka Streams 0.10.0 and 0.10.1 have no inner join of a stream and a table.",
                given=f"generation {self.generation.value!r}",
                hint="Use left_join, or a later generation.",
            )

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how), ("generation", self.generation.value))


@dataclass(frozen=True)
class StreamStream(Node):
    """Windowed join of two streams (docs/semantics, sections 6, 7 and 17).

    Parameters
    ----------
    relaxed : whether outer sides take records without a key (KIP-962; 3.7 and later).
    """

    how: How = field(kw_only=True)
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    windows: JoinWindows = field(kw_only=True)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)
    relaxed: bool = field(default=True, kw_only=True)

    stem = "stream_stream"
    drop_reasons = ("expired_window_record",)

    def outer(self, side: int) -> bool:
        """Whether an unmatched record of this side gives a result."""
        return self.how == "outer" or (self.how == "left" and side == 0)

    @property
    def waits(self) -> bool:
        """Whether results of unmatched records wait until window and grace have passed."""
        return self.how != "inner" and self.generation is Generation.CURRENT

    def details(self) -> tuple[tuple[str, str], ...]:
        w = self.windows
        window = f"{-w.before_ms:+}..{w.after_ms:+} ms, grace {w.grace_ms} ms"
        return (("type", self.how), ("window", window), ("generation", self.generation.value))


@dataclass(frozen=True)
class Reference(Node):
    """Base of the joins by a foreign key: rows of one input refer to rows of the other.

    Parameters
    ----------
    how : inner or left.
    extractor : function of key and value of the referring table that gives a key of the other.
    joiner : function of the values of both inputs.
    """

    how: How = field(default="inner", kw_only=True)
    extractor: Function = field(kw_only=True, compare=False, repr=False)
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)

    referring_side = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how == "outer":
            raise TopologyError("A foreign-key join has no outer form.", hint="Use join or left_join.")
        if self.generation.is_old:
            raise TopologyError(
                "Kafka Streams 0.10.0 and 0.10.1 have no foreign-key join.",
                given=f"generation {self.generation.value!r}",
                hint="Use a later generation.",
            )

    @property
    def referring(self) -> str:
        """Name of the table whose rows refer."""
        return self.inputs[self.referring_side]

    @property
    def referred(self) -> str:
        """Name of the table that is referred to."""
        return self.inputs[1 - self.referring_side]

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how), ("generation", self.generation.value))


@dataclass(frozen=True)
class ForeignKey(Reference):
    """Join of two tables by a foreign key in the left value (KIP-213; docs/semantics, section 11)."""

    stem = "foreign_key"


@dataclass(frozen=True)
class OneToMany(Reference):
    """Join of "one" with the table "many" that refers to it, keyed by both keys (docs/semantics, section 21)."""

    stem = "one_to_many"
    referring_side = 1


@dataclass(frozen=True)
class GlobalLookup(Node):
    """Join of a stream with a global table by a mapped key, driven by the stream (docs/semantics, section 9).

    Parameters
    ----------
    mapper : function of the stream's key and value that gives the key to look up.
    joiner : function of key, mapped key, left and right.
    """

    how: How = field(kw_only=True)
    mapper: Function = field(kw_only=True, compare=False, repr=False)
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)

    stem = "global_lookup"
    operands = ("key", "mapped_key", "left", "right")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how == "outer":
            raise TopologyError("A join with a global table has no outer form.", hint="Use join or left_join.")
        if self.generation.is_old:
            raise TopologyError(
                "Kafka Streams 0.10.0 and 0.10.1 have no global tables.",
                given=f"generation {self.generation.value!r}",
                hint="Use a later generation.",
            )

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how), ("generation", self.generation.value))


@dataclass(frozen=True)
class GlobalTableLookup(GlobalLookup):
    """Join of a table with a global table, driven by the former; the last result of each key stands."""

    stem = "global_table_lookup"


@dataclass(frozen=True)
class Sink(Node):
    """An output; `output` is its name to the test driver."""

    output: str = field(kw_only=True)
    target: Any = field(kw_only=True, compare=False, repr=False)

    stem = "sink"

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("output", self.output),)


STATEFUL: tuple[type[Node], ...] = (
    TableTable,
    StreamTable,
    StreamStream,
    ForeignKey,
    OneToMany,
    GlobalLookup,
    GlobalTableLookup,
)
"""Nodes that are always an operator in a level; tables may become one (see `tables`)."""
OPERATORS: dict[type[Node], tuple[str, ...]] = {
    ForeignKey: ("foreign_key_send", "foreign_key_receive"),
    OneToMany: ("foreign_key_send", "one_to_many"),
}
"""Stems of the operators of a node that takes several, first to last; others have one, of their own stem."""
FAN_OUT = ("foreign_key_receive", "one_to_many")
"""Stems of operators that give many results of one row, keyed by another key than they are sharded by."""


def entry(node: Node, side: int) -> tuple[str, int]:
    """(stem of the operator, its side) by which input `side` of a node comes in."""
    if isinstance(node, Reference):
        side = side if node.referring_side == 0 else 1 - side
        return OPERATORS[type(node)][side], side
    return node.stem, side


def begins_table(node: Node) -> bool:
    """True where a table begins: its old value is known only from a store."""
    if isinstance(node, Source | SelectKey):
        return node.shape.kind == "table"
    return isinstance(node, ToTable | ForeignKey | OneToMany | GlobalTableLookup)
