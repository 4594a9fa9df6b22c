"""Joins with tables by key and window: what a user declares, and what it means for keys and tables (section 20)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from watersmeet._plan.nodes.base import Function, Shape, UserFunction, of_key_and_value
from watersmeet._plan.nodes.joins import JoinNode
from watersmeet.errors import TopologyError


@dataclass(frozen=True)
class WTableJoinNode(JoinNode):
    """Base of the joins of which a side is a table by key and window: rows of the left side each meet one of the right.

    Parameters
    ----------
    by : type of the keys under which the sides meet, which is the key of all windows.
    lives : of each side, how long behind its window's end a row joins, in ms; None: its rows have no windows.
    window_of : function of the left key and value that gives the window of the right row; None: see `distance`.
    distance : how much earlier than the left window the right one lies, in ms, where no function says which it is.
    """

    by: Any = field(kw_only=True)
    lives: tuple[int | None, int | None] = field(kw_only=True)
    window_of: Function | None = field(default=None, kw_only=True, compare=False, repr=False)
    distance: int = field(default=0, kw_only=True)

    old_values = "remembered"
    sees_lookups = False
    drives: ClassVar[str] = "table"

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return self.inputs[:1]

    @property
    def begins_table(self) -> bool:
        return self.shape.kind == "table"

    def details(self) -> tuple[tuple[str, str], ...]:
        left, right = ("for ever" if live is None else f"{live} ms" for live in self.lives)
        meets = f"{self.distance} ms earlier" if self.distance else "the same"
        window = "as a function says" if self.window_of is not None else meets
        return (("type", self.how), ("window", window), ("live", f"left {left}, right {right}"))

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        operands = (("key", self.shape.key), ("left", above[0].value), ("right", above[1].value))
        found = () if self.window_of is None else (of_key_and_value("window_of", self.window_of, above[0]),)
        return (*found, UserFunction("joiner", self.joiner, operands))


@dataclass(frozen=True)
class StreamWTableNode(WTableJoinNode):
    """Join of a stream with the window that each of its records names, driven by the stream."""

    stem = "stream_wtable"
    goes_by_moment = (1,)

    @property
    def takes_null_keys(self) -> bool:
        return self.how == "left"


@dataclass(frozen=True)
class TableWTableNode(WTableJoinNode):
    """Join of a table with the window that each of its rows points at, driven by both."""

    stem = "table_wtable"


@dataclass(frozen=True)
class WTableTableNode(WTableJoinNode):
    """Join of a table by key and window with a table by key: all live windows of a key meet its row."""

    stem = "wtable_table"
    # the last result of each key and window is kept where old values are asked for
    keeps_table = True


@dataclass(frozen=True)
class WTableWTableNode(WTableJoinNode):
    """Join of two tables by key and window: equal windows meet, or the left one meets the one that is its shift."""

    stem = "wtable_wtable"
    keeps_table = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how == "outer" and (self.distance or self.window_of is not None):
            raise TopologyError(
                "An outer join with a shift has no key for an unmatched right row.",
                given=f"{self.inputs[0]!r} and {self.inputs[1]!r}",
                hint="Use left_join, or an outer join of equal windows: leave shift= out.",
            )
