"""A handle as an operator reads it: its node, in the topology under construction; and what is asked of two of them.

Handle layer. Joins, merges, groups and outputs are made of the sides of their handles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import Node
from watersmeet.errors import TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.windows import Windows

HandleKind = Literal["stream", "table", "global", "wtable"]
CALLED: dict[HandleKind, str] = {
    "stream": "stream",
    "table": "table",
    "global": "global table",
    "wtable": "table by key and window",
}
"""What each kind of handle is called in errors."""


@dataclass(frozen=True)
class Side:
    """A node, in its topology.

    Parameters
    ----------
    construction : the topology under construction.
    node : what the handle stands on.
    windows : those of its keys, of a table by key and window.
    wait_ms : how long behind a window's end its row may change, in ms.
    """

    construction: Construction
    node: Node
    windows: Windows | None = None
    wait_ms: int = 0

    @property
    def kind(self) -> HandleKind:
        """Which handle it is of."""
        return self.node.shape.kind if self.windows is None else "wtable"

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def called(self) -> str:
        """Its name in errors."""
        return f"the {CALLED[self.kind]} {self.name!r}"

    @property
    def key_type(self) -> Any:
        """Type of the keys; of a table by key and window, structs of both."""
        return self.node.shape.key

    @property
    def plain_key_type(self) -> Any:
        """Type of the keys without their windows."""
        return self.key_type if self.windows is None else self.functions.key_of_windowed(self.key_type)

    @property
    def value_type(self) -> Any:
        """Type of the values."""
        return self.node.shape.value

    @property
    def types(self) -> tuple[Any, Any]:
        """Types of key and value."""
        return self.key_type, self.value_type

    @property
    def functions(self) -> FunctionBackend:
        """The backend that finds the types of users' functions."""
        return self.construction.functions


def require_same_builder(left: Side, right: Side, what: str) -> None:
    """Raise unless both are of one topology.

    Raises
    ------
    TopologyError : they are not.
    """
    if right.construction is not left.construction:
        raise TopologyError(
            f"The two sides of the {what} belong to different builders: {left.called} and {right.called}.",
            hint="Make both with one StreamsBuilder.",
        )


def require_same_key(left: Side, right: Side, what: str) -> None:
    """Raise unless both are of one topology and have one type of key; of windows, that of the key without them.

    Raises
    ------
    TopologyError : they are not, or have not.
    """
    require_same_builder(left, right, what)
    one, other = left.plain_key_type, right.plain_key_type
    windowed = left.windows is not None or right.windows is not None
    if same_type(one, other) if windowed else one == other:
        return
    rekeyed = "select_key(lambda key, value: key.cast(...))"
    way = f"stream.{rekeyed}" if left.kind == "stream" else f"table.to_stream().{rekeyed}.to_table()"
    hint = f"Cast one side's key before the {what}: {way}."
    if windowed:
        hint = f"Cast the key before the {what}, of windows before the aggregate: stream.select_key(...)."
    its, others = distinct_type_names(one, other)
    raise TopologyError(
        f"The two sides of the {what} have different key types: {left.name!r} has {its}, {right.name!r} has {others}.",
        hint=hint,
    )


def type_text(kind: Any) -> str:
    """A type as text, the same whether parts of it can be null or not."""
    simple = getattr(kind, "simpleString", None)
    return str(simple()) if callable(simple) else str(kind).replace(" not null", "")


def distinct_type_names(one: Any, other: Any) -> tuple[str, str]:
    """Two types as texts that differ: with what can be null, where they differ in nothing else."""
    texts = type_text(one), type_text(other)
    return texts if texts[0] != texts[1] else (str(one), str(other))


def check_headers(nodes: Iterable[Node]) -> None:
    """Raise unless a topic among the nodes keeps its headers.

    Raises
    ------
    TopologyError : none does.
    """
    if not any(getattr(node.place, "keeps_headers", False) for node in nodes):
        raise TopologyError(
            "The records have no headers: no topic that has been read keeps them, headers=False.",
            hint="Read the topic with its headers: builder.stream('topic', ..., headers=True).",
        )


def same_type(one: Any, other: Any) -> bool:
    """True when keys of the two types can meet: they differ at most in what can be null."""
    return type_text(one) == type_text(other)
