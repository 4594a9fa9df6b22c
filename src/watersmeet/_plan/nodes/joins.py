"""Joins: what a user declares, and what it means for keys, tables and old values (docs/semantics, from section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from watersmeet._plan.nodes.base import Function, How, Node, Shape, UserFunction, of_key_and_value, of_operands
from watersmeet.errors import TopologyError
from watersmeet.generation import Generation
from watersmeet.windows import JoinWindows


def _joiner(joiner: Function, left: Shape, right: Shape) -> UserFunction:
    return of_operands("joiner", joiner, (("key", left.key), ("left", left.value), ("right", right.value)))


@dataclass(frozen=True)
class JoinNode(Node):
    """Base of the joins that have a type, a joiner of key, left and right, and a generation."""

    how: How = field(kw_only=True)
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how), ("generation", self.generation.value))

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (_joiner(self.joiner, *above),)


@dataclass(frozen=True)
class TableTableNode(JoinNode):
    """Primary-key join of two tables (KIP-77; docs/semantics, section 10)."""

    stem = "table_table"
    old_values = "computed"
    looks_up = (0, 1)

    @property
    def needs_old(self) -> tuple[str, ...]:
        return self.inputs[: {"inner": 0, "left": 1, "outer": 2}[self.how]]


@dataclass(frozen=True)
class MultiJoinNode(Node):
    """Join of several tables by their common key (docs/semantics, section 27).

    Parameters
    ----------
    hows : the type of the join with each table but the first; outer with one is outer with all.
    joiner : function of the key and of the value of each table.
    """

    hows: tuple[How, ...] = field(kw_only=True)
    joiner: Function = field(kw_only=True, compare=False, repr=False)
    generation: Generation = field(default=Generation.CURRENT, kw_only=True)

    stem = "multi_join"
    # a result stands as long as the rows do that it needs (docs/semantics, section 27), so it is known to whoever asks
    old_values = "remembered"
    sees_lookups = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if "outer" in self.hows and set(self.hows) != {"outer"}:
            raise TopologyError(
                f"A join of several tables is outer with all of them or with none: how={list(self.hows)}.",
                hint='Write how="outer", or a list of "inner" and "left".',
            )
        if self.generation.is_old:
            raise TopologyError(
                "Kafka Streams 0.10.0 and 0.10.1 have no join of several tables.",
                given=f"generation {self.generation.value!r}",
                hint="Join them two by two, or use a later generation.",
            )

    @property
    def needed(self) -> tuple[bool, ...]:
        """Of each table, whether there is a result only where it has a row."""
        return ("outer" not in self.hows, *(how == "inner" for how in self.hows))

    @property
    def looks_up(self) -> tuple[int, ...]:
        return tuple(range(len(self.inputs)))

    @property
    def begins_table(self) -> bool:
        return True

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", ", ".join(self.hows)), ("generation", self.generation.value))

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        values = ((f"side{number}", shape.value) for number, shape in enumerate(above))
        return (of_operands("joiner", self.joiner, (("key", self.shape.key), *values)),)


@dataclass(frozen=True)
class StreamTableNode(JoinNode):
    """Join of a stream with a table, driven by the stream (docs/semantics, section 8)."""

    stem = "stream_table"
    looks_up = (1,)
    goes_by_moment = (1,)

    @property
    def takes_null_keys(self) -> bool:
        return self.generation is Generation.CURRENT and self.how == "left"

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


@dataclass(frozen=True)
class StreamVersionedTableNode(StreamTableNode):
    """Join of a stream with a versioned table, as of the stream record's timestamp (KIP-914; section 8).

    Parameters
    ----------
    table_history_ms : the table's history retention, in ms.
    """

    table_history_ms: int = field(kw_only=True)

    stem = "stream_versioned_table"
    looks_up_as_of = (1,)

    def details(self) -> tuple[tuple[str, str], ...]:
        return (*super().details(), ("history", f"{self.table_history_ms} ms"))


@dataclass(frozen=True)
class StreamTableGraceNode(StreamVersionedTableNode):
    """The same with records of the stream held back until its time has passed them by the grace (KIP-923; section 8).

    Parameters
    ----------
    grace_ms : for how long, in ms of the stream's time; at least 1.
    """

    grace_ms: int = field(kw_only=True)

    stem = "stream_table_grace"
    moves_time = (0,)

    def details(self) -> tuple[tuple[str, str], ...]:
        return (*super().details(), ("grace", f"{self.grace_ms} ms"))


@dataclass(frozen=True)
class StreamStreamNode(JoinNode):
    """Windowed join of two streams (docs/semantics, sections 6, 7 and 17).

    Parameters
    ----------
    relaxed : whether outer sides take records without a key (KIP-962; 3.7 and later).
    """

    windows: JoinWindows = field(kw_only=True)
    relaxed: bool = field(default=True, kw_only=True)

    stem = "stream_stream"

    @property
    def takes_null_keys(self) -> bool:
        return self.relaxed and self.how != "inner"

    def outer(self, side: int) -> bool:
        """Whether an unmatched record of this side gives a result."""
        return self.how == "outer" or (self.how == "left" and side == 0)

    @property
    def waits(self) -> bool:
        """Whether results of unmatched records wait until window and grace have passed."""
        return self.how != "inner" and self.generation is Generation.CURRENT

    def details(self) -> tuple[tuple[str, str], ...]:
        generation = ("generation", self.generation.value)
        return (("type", self.how), ("window", _window_text(self.windows)), generation)


Match = Literal["first", "nearest"]
"""Of the right records in a left record's window, the one that it is joined with."""


@dataclass(frozen=True)
class StreamMatchNode(JoinNode):
    """Windowed join of each record of a stream with one record of another (docs/semantics, section 26).

    Parameters
    ----------
    match : with the first one by timestamp, or with the nearest one.
    """

    windows: JoinWindows = field(kw_only=True)
    match: Match = field(kw_only=True)

    stem = "stream_match"
    waits: ClassVar[bool] = True

    @property
    def takes_null_keys(self) -> bool:
        return self.how == "left"

    @property
    def wait_ms(self) -> int:
        """How long a left record waits for the best partner, in ms of stream time behind its timestamp."""
        return max(self.windows.after_ms, 0) + self.windows.grace_ms

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how), ("match", self.match), ("window", _window_text(self.windows)))


def _window_text(windows: JoinWindows) -> str:
    return f"{-windows.before_ms:+}..{windows.after_ms:+} ms, grace {windows.grace_ms} ms"


@dataclass(frozen=True)
class ReferenceNode(JoinNode):
    """Base of the joins by a foreign key: rows of one input refer to rows of the other.

    Parameters
    ----------
    how : inner or left.
    extractor : function of key and value of the referring table that gives a key of the other.
    joiner : function of the values of both inputs.
    """

    how: How = field(default="inner", kw_only=True)
    extractor: Function = field(kw_only=True, compare=False, repr=False)

    referring_side: ClassVar[int] = 0
    in_step = False
    looks_up = (0, 1)

    @property
    def begins_table(self) -> bool:
        return True

    @property
    def needs_old(self) -> tuple[str, ...]:
        return (self.referring,)

    @property
    def keeps_sides(self) -> tuple[int, ...]:
        return (1 - self.referring_side,)

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
        """Name of the table of rows that refer."""
        return self.inputs[self.referring_side]

    @property
    def referred(self) -> str:
        """Name of the table that is referred to."""
        return self.inputs[1 - self.referring_side]

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        referring = above[self.referring_side]
        one, other = above
        operands = (("key", self.shape.key), ("left", one.value), ("right", other.value))
        return of_key_and_value("extractor", self.extractor, referring), of_operands("joiner", self.joiner, operands)


@dataclass(frozen=True)
class ForeignKeyNode(ReferenceNode):
    """Join of two tables by a foreign key in the left value (KIP-213; docs/semantics, section 11)."""

    stem = "foreign_key"
    old_values = "stored"

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return self.inputs[:1]


@dataclass(frozen=True)
class OneToManyNode(ReferenceNode):
    """Join of "one" with the table "many" that refers to it, keyed by both keys (docs/semantics, section 21)."""

    stem = "one_to_many"
    referring_side = 1
    # its last result per key stands (docs/semantics, section 21), so it is known to whoever asks
    old_values = "remembered"
    combines_keys = True
    sees_lookups = False


@dataclass(frozen=True)
class GlobalLookupNode(JoinNode):
    """Join of a stream with a global table by a mapped key, driven by the stream (docs/semantics, section 9).

    Parameters
    ----------
    mapper : function of the stream's key and value that gives the key to look up.
    joiner : function of key, mapped key, left and right.
    """

    mapper: Function = field(kw_only=True, compare=False, repr=False)

    stem = "global_lookup"
    sees_lookups = False

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return self.inputs[:1]

    @property
    def takes_null_keys(self) -> bool:
        return self.shape.kind == "stream" and self.generation is Generation.CURRENT and self.how == "left"

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

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        left, right = above
        keys = (("key", left.key), ("mapped_key", right.key))
        operands = (*keys, ("left", left.value), ("right", right.value))
        return of_key_and_value("mapper", self.mapper, left), of_operands("joiner", self.joiner, operands)


@dataclass(frozen=True)
class GlobalTableLookupNode(GlobalLookupNode):
    """Join of a table with a global table, driven by the former; the last result of each key stands."""

    stem = "global_table_lookup"
    # its last result per key is kept (docs/semantics, section 9), so it is known to whoever asks
    old_values = "remembered"

    @property
    def begins_table(self) -> bool:
        return True


@dataclass(frozen=True)
class GlobalViewNode(Node):
    """Join of two global tables by a mapped key, as a view (KIP-99; docs/semantics, section 9).

    Parameters
    ----------
    mapper : function of the left table's key and value that gives the key of the right one.
    joiner : function of key, left and right.
    """

    how: How = field(kw_only=True)
    mapper: Function = field(kw_only=True, compare=False, repr=False)
    joiner: Function = field(kw_only=True, compare=False, repr=False)

    stem = "global_view"
    is_view = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how == "outer":
            raise TopologyError("A join of global tables has no outer form.", hint="Use join or left_join.")

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("type", self.how),)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return of_key_and_value("mapper", self.mapper, above[0]), _joiner(self.joiner, *above)


def view_of(node: Node) -> GlobalViewNode | None:
    """The node as a view, None if it is none."""
    return node if isinstance(node, GlobalViewNode) else None
