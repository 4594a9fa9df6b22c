"""Base of all nodes, with the questions of the plan; the operator's spec answers the others (`_plan/operators`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """A function of a node.

    Parameters
    ----------
    role : the node's field that holds it.
    function : what the user gave, as a function of all operands.
    operands : (name, type) of what it gets.
    """

    role: str
    function: Function
    operands: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Node:
    """Base of all nodes.

    A subclass overrides the answers that are not the usual ones; nobody asks it of which class it is.

    Parameters
    ----------
    name : unique in the topology, stable over its versions when the user gave it.
    inputs : names of the nodes it reads, left before right.
    shape : what it produces.
    store : queryable name of the table it keeps, if the user asked for one.
    history_ms : for how long the table that begins here remembers its past (KIP-889), in ms; None: not at all.
    """

    name: str
    inputs: tuple[str, ...]
    shape: Shape
    store: str | None = field(default=None, kw_only=True)
    history_ms: int | None = field(default=None, kw_only=True)

    stem: ClassVar[str] = "node"
    fans_out: ClassVar[bool] = False
    """Whether one record becomes many, which opens a path slot."""
    is_view: ClassVar[bool] = False
    """Whether it keeps and gives nothing, but is resolved where it is looked up."""
    is_sink: ClassVar[bool] = False
    makes_headers: ClassVar[bool] = False
    """Whether its records have headers of its own making, and not those of the records that they are made of."""
    combines_keys: ClassVar[bool] = False
    """Whether its key is made of those of both inputs."""
    in_step: ClassVar[bool] = True
    """Whether its results come among all else that a record causes; False: behind it, as through a topic."""

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError("A node needs a name.", given=repr(self.name))
        if self.store is not None and self.shape.kind == "stream":
            raise TopologyError(
                "Only a table can keep a store.",
                given=f"store={self.store!r} on the stream {self.name!r}",
                hint="Convert it first: stream.to_table(store=...).",
            )
        if self.history_ms is not None and self.history_ms < 0:
            raise TopologyError(
                f"The history of a table must not be negative: {self.history_ms} ms.",
                given=f"{self.history_ms} ms",
                hint='history="1 day"',
            )

    def details(self) -> tuple[tuple[str, str], ...]:
        """(name, text) pairs that describe() prints and that a checkpoint compares."""
        return ()

    @property
    def named_stores(self) -> tuple[str, ...]:
        """Names of the stores that a user has given it."""
        return () if self.store is None else (self.store,)

    @property
    def shared_stores(self) -> Mapping[str, object]:
        """Those of them that other nodes may have too, with what all that share one were given."""
        return {}

    @property
    def place(self) -> Any:
        """Its topic, table or frame outside of the topology; None for an inner node."""
        return None

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

    # -- tables and their old values (docs/semantics, sections 3 and 5) ----------------------------------------

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
        return False

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


def of_key_and_value(role: str, function: Function, given: Shape) -> UserFunction:
    """A function of the key and the value of an input."""
    return of_operands(role, function, (("key", given.key), ("value", given.value)))


def of_operands(role: str, function: Function, operands: tuple[tuple[str, Any], ...]) -> UserFunction:
    """A function of operands, and of the record, where it sees that."""
    record = record_of(function)
    return UserFunction(role, function, operands if record is None else (*operands, (RECORD, record)))
