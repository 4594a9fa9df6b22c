"""Aggregates: what a user declares, and what it means for keys, tables and old values (docs/semantics, section 12)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from watersmeet._plan.folds import Fold
from watersmeet._plan.nodes.base import Function, Node, Shape, UserFunction, of_key_and_value
from watersmeet.errors import TopologyError
from watersmeet.windows import BufferConfig, CalendarWindows, SessionWindows, SlidingWindows, TimeWindows, Windows


@dataclass(frozen=True)
class RegroupNode(Node):
    """Changes of a table as messages to groups: what leaves one ("old"), and what comes into one ("new").

    A change within its group is one message, which brings the old value beside the new one. The two halves stand side
    by side, so that the old one comes first.

    Parameters
    ----------
    selector : function of key and value that gives the pair of a group and what is grouped.
    half : which of the two.
    """

    selector: Function = field(kw_only=True, compare=False, repr=False)
    half: Literal["old", "new"] = field(kw_only=True)

    stem = "group_by"
    takes_old = True

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return ()

    @property
    def needs_old(self) -> tuple[str, ...]:
        return self.inputs

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("half", self.half),)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("selector", self.selector, *above),)


@dataclass(frozen=True)
class ArgumentsNode(Node):
    """The input of aggregates by name: a struct of their arguments in place of the value; of a message, of both."""

    mapper: Function = field(kw_only=True, compare=False, repr=False)
    of_messages: bool = field(kw_only=True)

    stem = "arguments"

    @property
    def takes_old(self) -> bool:
        return self.of_messages

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return (of_key_and_value("mapper", self.mapper, *above),)


@dataclass(frozen=True)
class AggregatedNode(Node):
    """Base of the aggregates: a table of its own, of which each change is known, old value included.

    Parameters
    ----------
    fold : how records are taken in.
    columns : the fold's functions that are Columns.
    """

    fold: Fold = field(kw_only=True, compare=False, repr=False)
    columns: tuple[UserFunction, ...] = field(default=(), kw_only=True, compare=False, repr=False)

    old_values = "remembered"
    keeps_table = True

    @property
    def begins_table(self) -> bool:
        return True

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("fold", self.fold.text),)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return self.columns


@dataclass(frozen=True)
class StreamAggregateNode(AggregatedNode):
    """count, reduce, aggregate of a grouped stream; of several, where they are cogrouped."""

    stem = "stream_aggregate"


@dataclass(frozen=True)
class TableAggregateNode(AggregatedNode):
    """count, reduce, aggregate of a grouped table: reads both halves of its messages."""

    stem = "table_aggregate"
    # Kafka Streams sends the messages through a topic
    in_step = False


@dataclass(frozen=True)
class WindowAggregateNode(AggregatedNode):
    """Base of the aggregates of a grouped stream by key and window: a table with structs of both as keys.

    Parameters
    ----------
    windows : which windows a record belongs to.
    on_close : whether a window gives one result, when it has closed, in place of one for each change.
    """

    windows: Windows = field(kw_only=True)
    on_close: bool = field(default=False, kw_only=True)

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return ()

    def details(self) -> tuple[tuple[str, str], ...]:
        lengths = ((each.name.removesuffix("_ms"), getattr(self.windows, each.name)) for each in fields(self.windows))
        parts = ", ".join(f"{name} {length}{' ms' * isinstance(length, int)}" for name, length in lengths)
        return (*super().details(), ("windows", parts), *((("emit", "on close"),) if self.on_close else ()))


@dataclass(frozen=True)
class SuppressNode(Node):
    """Changes of a table held back, of each key the last one (docs/semantics, section 22; KIP-328).

    Parameters
    ----------
    limit_ms : how long after the first change that is held back, in ms; None: until the key's window has closed.
    windows : those of a table by window; None: its keys are no windows.
    buffer : how much is held back at most.
    """

    limit_ms: int | None = field(kw_only=True)
    windows: Windows | None = field(default=None, kw_only=True)
    buffer: BufferConfig = field(default_factory=BufferConfig.unbounded, kw_only=True)

    stem = "suppress"
    takes_old = True

    @property
    def needs_old(self) -> tuple[str, ...]:
        return self.inputs

    def details(self) -> tuple[tuple[str, str], ...]:
        until = "window closes" if self.limit_ms is None else f"{self.limit_ms} ms"
        return (("until", until), *((("buffer", str(self.buffer)),) if self.buffer.is_limited else ()))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit_ms is not None or isinstance(
            self.windows, TimeWindows | SlidingWindows | SessionWindows | CalendarWindows
        ):
            return
        raise TopologyError(
            "Suppressed.until_window_closes() needs a table of windows that close.",
            given=f"{self.inputs[0]!r}" + ("" if self.windows is None else f", by {self.windows}"),
            hint="Aggregate by TimeWindows, SlidingWindows or SessionWindows first, and suppress what the aggregate "
            "returns; or use Suppressed.until_time_limit(...).",
        )


@dataclass(frozen=True)
class TimeWindowAggregateNode(WindowAggregateNode):
    """By tumbling, hopping or unlimited windows."""

    stem = "time_window_aggregate"


@dataclass(frozen=True)
class SlidingWindowAggregateNode(WindowAggregateNode):
    """By sliding windows."""

    stem = "sliding_window_aggregate"


@dataclass(frozen=True)
class SessionWindowAggregateNode(WindowAggregateNode):
    """By sessions."""

    stem = "session_window_aggregate"
