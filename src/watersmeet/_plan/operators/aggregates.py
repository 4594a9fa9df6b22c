"""Aggregates and suppress: what a user declares, and what their operators read, keep and give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

from watersmeet._plan.declaration import (
    BYTES,
    FLAG,
    NUMBER,
    STAMP,
    ColumnTypes,
    OperatorNode,
    OperatorSide,
    Params,
    Reads,
    Retention,
    TableSchema,
    TimeBehaviour,
    held_schema,
    row_ends,
    row_headers,
    waiting_headers,
)
from watersmeet._plan.folds import Fold
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Function, Node, Shape, UserFunction, of_key_and_value
from watersmeet.errors import TopologyError
from watersmeet.windows import BufferConfig, CalendarWindows, SessionWindows, SlidingWindows, TimeWindows, Windows


@dataclass(frozen=True)
class RegroupNode(Node):
    """Changes of a table as messages to groups: what leaves one ("old"), and what comes into one ("new").

    A change within its group is one message, which brings the old value beside the new one. The two halves stand side
    by side, so that the old one comes first.
    """

    # function of key and value that gives the pair of a group and what is grouped
    selector: Function = field(kw_only=True, compare=False, repr=False)
    half: Literal["old", "new"] = field(kw_only=True)  # which of the two

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
class AggregateParams(Params):
    """Of an aggregate: its fold, and the history retention of its result in ms, where that remembers its past."""

    fold: Fold
    history_ms: int | None = field(default=None, kw_only=True)
    is_confluence: bool = field(default=False, kw_only=True)  # whether one record may reach it on several ways

    def typed(self, convert: Callable[[Any], Any]) -> AggregateParams:
        return replace(self, fold=self.fold.typed(convert))


@dataclass(frozen=True)
class AggregatedNode(OperatorNode):
    """Base of the aggregates: a table of its own, of which each change is known, old value included."""

    fold: Fold = field(kw_only=True, compare=False, repr=False)  # how records are taken in
    # the fold's functions that are Columns
    columns: tuple[UserFunction, ...] = field(default=(), kw_only=True, compare=False, repr=False)

    old_values = "remembered"
    keeps_table = True
    cacheable = True
    widens = False

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("fold", self.fold.text),)

    def functions(self, above: tuple[Shape, ...]) -> tuple[UserFunction, ...]:
        return self.columns

    def params(self, plan: Plan) -> AggregateParams:
        return AggregateParams(self.fold, history_ms=self.history_ms, is_confluence=self.name in plan.confluences)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The state of each key: the result, or its parts."""
        columns = (("key", self.shape.key), ("value", self.fold.state), STAMP)
        store = self.store if self.history_ms is None else None
        return (TableSchema(store or f"{self.name}.aggregate", (*columns, *row_headers(plan, self.name, store))),)

    def records(self, plan: Plan) -> tuple[OperatorSide, ...]:
        """A side for each stream that is aggregated: records with key and value, which a count does not ask for."""
        shapes = (plan.shape(self, number) for number in range(len(self.inputs)))
        values = (shape.value if self.fold.how.arguments else FLAG for shape in shapes)
        return tuple(OperatorSide(value, ends=row_ends(null_value=True), looked_up=False) for value in values)

    def lookups_see_results(self, plan: Plan) -> bool:
        return True


@dataclass(frozen=True)
class StreamAggregateNode(AggregatedNode):
    """count, reduce, aggregate of a grouped stream; of several, where they are cogrouped."""

    stem = "stream_aggregate"
    is_endless = True
    by_key = True
    in_place = True

    def reads(self, plan: Plan) -> Reads:
        return Reads(self.shape.key, self.records(plan))


@dataclass(frozen=True)
class TableAggregateNode(AggregatedNode):
    """count, reduce, aggregate of a grouped table: reads both halves of its messages."""

    stem = "table_aggregate"
    reads_halves = True
    # Kafka Streams sends the messages through a topic
    in_step = False
    by_key = True
    recomputable = True

    def side_of(self, input: int) -> int:
        """Both halves come in alike."""
        return 0

    def reads(self, plan: Plan) -> Reads:
        """Messages to groups: what to add, and what to subtract before."""
        side = OperatorSide(
            plan.shape(self, 0).value, looked_up=False, old="always", ends=row_ends(late=True), nulls_reach=True
        )
        return Reads(self.shape.key, (side,))


@dataclass(frozen=True)
class VersionedAggregateNode(AggregatedNode):
    """Base of aggregates with a history: a record older than that ends, counted."""

    by_key = False
    cacheable = False

    def timed(self, plan: Plan) -> TimeBehaviour:
        """Its time is how far what it takes in reaches."""
        return TimeBehaviour(dropped_move=False)


@dataclass(frozen=True)
class VersionedStreamAggregateNode(VersionedAggregateNode, StreamAggregateNode):
    """The same with a result that remembers its past."""


@dataclass(frozen=True)
class VersionedTableAggregateNode(VersionedAggregateNode, TableAggregateNode):
    """The same with a result that remembers its past."""

    recomputable = False


WITH_HISTORY: dict[Callable[..., AggregatedNode], type[AggregatedNode]] = {
    StreamAggregateNode: VersionedStreamAggregateNode,
    TableAggregateNode: VersionedTableAggregateNode,
}
"""The aggregates whose result remembers its past, by those without."""


@dataclass(frozen=True)
class WindowParams(AggregateParams):
    """Of a windowed aggregate: its windows, and whether results come when they close."""

    windows: Windows
    on_close: bool


@dataclass(frozen=True)
class WindowAggregateNode(AggregatedNode):
    """Base of the aggregates of a grouped stream by key and window: a table with structs of both as keys."""

    windows: Windows = field(kw_only=True)  # which windows a record belongs to
    # whether a window gives one result, when it has closed, in place of one for each change
    on_close: bool = field(default=False, kw_only=True)
    # a windowed key's rows all come from the partition of its key
    in_place = True
    fans_out = True
    kept_as: ClassVar[str] = "windows"
    """What its table is called, where the user gives it no name."""
    stamps: ClassVar[ColumnTypes] = (STAMP,)
    """The column with the timestamp of what changed a window last, where that is not known from the window itself."""

    @property
    def keyed_by(self) -> tuple[str, ...]:
        return ()

    def details(self) -> tuple[tuple[str, str], ...]:
        lengths = (
            (setting.name.removesuffix("_ms"), getattr(self.windows, setting.name)) for setting in fields(self.windows)
        )
        parts = ", ".join(f"{name} {length}{' ms' * isinstance(length, int)}" for name, length in lengths)
        return (*super().details(), ("windows", parts), *((("emit", "on close"),) if self.on_close else ()))

    def reads(self, plan: Plan) -> Reads:
        """Records with key and value: null values are left out, too (row 10 of section A)."""
        return Reads(plan.shape(self, 0).key, self.records(plan))

    def params(self, plan: Plan) -> WindowParams:
        return WindowParams(self.fold, self.windows, self.on_close)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The state of each key and window, which the time of its domain lets go.

        With the headers of the record that changed it last, where results come when windows close, or users read them.
        """
        headers = waiting_headers(plan) if self.on_close else row_headers(plan, self.name, self.store)
        bounds = tuple((name, NUMBER) for name in dict.fromkeys((self.bound, "start")))
        columns = (("key", plan.shape(self, 0).key), *bounds, ("value", self.fold.state), *self.stamps)
        schema = TableSchema(
            self.store or f"{self.name}.{self.kept_as}",
            (*columns, ("domain", NUMBER), *headers),
            identity=("key", self.bound),
            order=(self.bound,),
            retention=Retention(self.bound, "domain"),
            due=() if self.on_close else None,
        )
        return (schema,)

    @property
    def bound(self) -> str:
        """The end of a window by which those of a key are told apart, and let go."""
        return "start"

    def timed(self, plan: Plan) -> TimeBehaviour:
        # the last moment at which a window is open
        hold = max(0, self.wait_ms - 1) if self.on_close else None
        return TimeBehaviour(hold=hold, dropped_move=False, reaches=(), elsewhere=True)

    def retention_ms(self, plan: Plan) -> int | None:
        """A window is kept until it is closed."""
        return self.wait_ms

    @property
    def wait_ms(self) -> int:
        """From a window's start on until it is closed, in ms."""
        raise NotImplementedError


@dataclass(frozen=True)
class TimeWindowAggregateNode(WindowAggregateNode):
    """By tumbling, hopping or unlimited windows."""

    stem = "time_window_aggregate"

    @property
    def bound(self) -> str:
        """Windows of the calendar differ in length: they are told apart, and let go, by their ends."""
        return "end" if isinstance(self.windows, CalendarWindows) else "start"

    @property
    def wait_ms(self) -> int:
        """From a window's start on until it is closed; of the calendar's the longest."""
        windows = self.windows
        if isinstance(windows, CalendarWindows):
            return windows.longest_ms + windows.grace_ms
        return windows.size_ms + windows.grace_ms if isinstance(windows, TimeWindows) else 0


@dataclass(frozen=True)
class SlidingWindowAggregateNode(WindowAggregateNode):
    """By sliding windows."""

    stem = "sliding_window_aggregate"

    @property
    def wait_ms(self) -> int:
        """From a window's start on until it is closed; one moment more, since its end belongs to it."""
        windows = self.windows
        assert isinstance(windows, SlidingWindows)
        return windows.difference_ms + windows.grace_ms + 1


@dataclass(frozen=True)
class SessionWindowAggregateNode(WindowAggregateNode):
    """By sessions."""

    stem = "session_window_aggregate"
    kept_as = "sessions"
    stamps = ()

    @property
    def bound(self) -> str:
        """Sessions of a key have an end each; they are looked for by it, and let go by it."""
        return "end"

    @property
    def wait_ms(self) -> int:
        """From a session's end on until it is closed; one moment more, since it may still grow in the last one."""
        windows = self.windows
        assert isinstance(windows, SessionWindows)
        return windows.gap_ms + windows.grace_ms + 1


@dataclass(frozen=True)
class SuppressParams(Params):
    """How long changes wait, and in which order they come."""

    wait: int  # from the time of an entry until it goes, in ms
    until_close: bool  # whether entries have the time of their window's end, and tombstones are dropped
    # the fields of a windowed key that are serialized behind the key, in order; none of a plain key
    suffix: tuple[str, ...]
    buffer: BufferConfig  # how much is held back at most


@dataclass(frozen=True)
class SuppressNode(OperatorNode):
    """Changes of a table held back, of each key the last one (docs/semantics/suppress.md; KIP-328)."""

    # how long after the first change that is held back, in ms; None: until the key's window has closed
    limit_ms: int | None = field(kw_only=True)
    # those of a table by window; None: its keys are no windows
    windows: Windows | None = field(default=None, kw_only=True)
    # how much is held back at most
    buffer: BufferConfig = field(default_factory=BufferConfig.unbounded, kw_only=True)

    stem = "suppress"
    takes_old = True
    mixes_keys = True
    in_place = True
    fans_out = True

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

    def reads(self, plan: Plan) -> Reads:
        shape = self.shape
        return Reads(shape.key, (OperatorSide(shape.value, looked_up=False, old="always", ends=row_ends(silent=True)),))

    def params(self, plan: Plan) -> SuppressParams:
        bounds = ("end", "start") if isinstance(self.windows, SessionWindows) else ("start",)
        suffix = () if self.windows is None else bounds
        return SuppressParams(self._wait, self.limit_ms is None, suffix, self.buffer)

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The changes that are held back, under their serialized keys where these are windows."""
        values = (("value", self.shape.value), ("old", self.shape.value), *waiting_headers(plan))
        if self.windows is None:
            return (held_schema(f"{self.name}.held", self.shape.key, values, replaced=True),)
        columns = (("windowed", self.shape.key), *values)
        return (held_schema(f"{self.name}.held", BYTES, columns, replaced=True),)

    def lookups_see_results(self, plan: Plan) -> bool:
        return True

    def timed(self, plan: Plan) -> TimeBehaviour:
        """The last moment in which a change waits is one before the end of its wait."""
        hold = self._wait + self._length - 1
        return TimeBehaviour(hold=hold, dropped_move=False, reaches=())

    def retention_ms(self, plan: Plan) -> int | None:
        return self._wait + self._length

    @property
    def _wait(self) -> int:
        """From an entry's time on; sliding windows and sessions may change in the moment that ends it (row 17)."""
        if self.limit_ms is not None:
            return self.limit_ms
        match self.windows:
            case TimeWindows(grace_ms=grace) | CalendarWindows(grace_ms=grace):
                return grace
            case SlidingWindows(grace_ms=grace):
                return grace + 1
            case SessionWindows(gap_ms=gap, grace_ms=grace):
                return grace + gap + 1
        raise AssertionError(f"{self.name}: no windows that close")

    @property
    def _length(self) -> int:
        """How far an entry's time may lie behind its timestamp."""
        match self.windows if self.limit_ms is None else None:
            case TimeWindows(size_ms=length) | SlidingWindows(difference_ms=length):
                return length
            case CalendarWindows() as windows:
                return windows.longest_ms
        return 0
