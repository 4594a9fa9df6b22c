"""TimeWindowedKStream, SessionWindowedKStream: grouped records by window, on the way to a table of aggregates.

Handle layer. `KGroupedStream.windowed_by` makes them. The WTables that they give have structs of the key and of the
window's start and end, in ms since 1970, as keys (docs/semantics, sections 13, 14 and 20).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from watersmeet._plan.nodes import (
    SessionWindowAggregateNode,
    SlidingWindowAggregateNode,
    TimeWindowAggregateNode,
    WindowAggregateNode,
)
from watersmeet._plan.operators import OPERATORS
from watersmeet.aggregates import AnyAggregate
from watersmeet.errors import TopologyError
from watersmeet.handles import factory as made
from watersmeet.handles.grouped.base import Grouped
from watersmeet.handles.grouped.folding import (
    FoldFunction,
    Folding,
    Group,
    Part,
    aggregating,
    cogrouping,
    counting,
    naming,
    reducing,
)
from watersmeet.names import answering
from watersmeet.windows import (
    CalendarWindows,
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)

if TYPE_CHECKING:
    from watersmeet.handles.wtable import WTable

W = TypeVar("W", bound="Windowing")
NODES: dict[type, type[WindowAggregateNode]] = {
    TimeWindows: TimeWindowAggregateNode,
    UnlimitedWindows: TimeWindowAggregateNode,
    CalendarWindows: TimeWindowAggregateNode,
    SlidingWindows: SlidingWindowAggregateNode,
    SessionWindows: SessionWindowAggregateNode,
}
"""The node of each kind of windows."""


@answering
class Windowing(Grouped):
    """Base of all handles that are grouped by window."""

    def __init__(self, group: Group, windows: Windows, emit: EmitStrategy | None = None) -> None:
        super().__init__(group)
        self._windows = windows
        self._emit = emit or EmitStrategy.on_window_update()

    def emit_strategy(self: W, strategy: EmitStrategy) -> W:
        """The same with results at each update (the default), or once a window has closed (KIP-825).

        Raises
        ------
        TopologyError : this is no strategy; or results are to come once a window has closed, and the windows never
            close.

        Examples
        --------
        >>> closed = by_customer.windowed_by(hours).emit_strategy(wm.EmitStrategy.on_window_close())
        >>> results(closed.count().to_stream(key="key"))
        [('ann', 1), ('bob', 1)]
        """
        if not isinstance(strategy, EmitStrategy):
            raise TopologyError(
                f"emit_strategy takes an EmitStrategy, and not {strategy!r:.120}.",
                hint="Take EmitStrategy.on_window_close() or EmitStrategy.on_window_update().",
            )
        if strategy.on_close and isinstance(self._windows, UnlimitedWindows):
            raise TopologyError(
                f"{strategy!r} needs windows that close, and UnlimitedWindows never do.",
                hint="EmitStrategy.on_window_update(), or windows that close: wm.TimeWindows, wm.SlidingWindows, "
                "wm.SessionWindows.",
            )
        other = copy(self)
        other._emit = strategy
        return other

    def _windowed(self, folding: Folding, name: str | None, stem: str, store: str | None) -> WTable:
        make = partial(NODES[type(self._windows)], windows=self._windows, on_close=self._emit.on_close)
        node = self._node(make, folding, name, stem, store)
        return made.wtable(self._group.construction, node, self._windows, wait_of(self._windows))

    def _result_key(self) -> Any:
        return self._group.functions.windowed_type(self._group.key)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self._windows!r})"


@answering
class WindowedStream(Windowing):
    """Base of both kinds of windowed streams."""

    def count(self, *, name: str | None = None, store: str | None = None) -> WTable:
        """How many records there are of each key and window: a long.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.

        Examples
        --------
        >>> results(by_customer.windowed_by(hours).count().to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', 1)]
        """
        return self._windowed(counting(self._group), name, "count", store)

    def agg(self, *, name: str | None = None, store: str | None = None, **aggregates: AnyAggregate) -> WTable:
        """Aggregates by name of each key and window, side by side; see `KGroupedStream.agg`.

        Examples
        --------
        >>> largest = by_customer.windowed_by(hours).agg(largest=wm.max(lambda order: order["amount"]))
        >>> results(largest.to_stream(key="key"))
        [('ann', Row(largest=30.0)), ('bob', Row(largest=5.0)), ('ann', Row(largest=12.0))]
        """
        name = self._group.construction.name(name, "agg", *self._group.inputs[-1:])
        merges = isinstance(self._windows, SessionWindows)
        return self._windowed(naming(self._group, aggregates, name, merges=merges), name, "agg", store)


@answering
class TimeWindowedKStream(WindowedStream):
    """Records by key and by tumbling, hopping, sliding or unlimited windows."""

    def reduce(self, reducer: FoldFunction, *, name: str | None = None, store: str | None = None) -> WTable:
        """The records of each key and window made into one; see `KGroupedStream.reduce`.

        Examples
        --------
        >>> sums = payments.group_by_key().windowed_by(hours).reduce(lambda total, amount: total + amount)
        >>> results(sums.to_stream(key="key"))
        [(1, 30.0), (7, 8.0)]
        """
        return self._windowed(reducing(self._group, reducer), name, "reduce", store)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
    ) -> WTable:
        """The records of each key and window, folded one after the other; see `KGroupedStream.aggregate`.

        Examples
        --------
        >>> adding = lambda order, total: total + order["amount"]
        >>> results(by_customer.windowed_by(hours).aggregate(lambda: F.lit(0.0), adding).to_stream(key="key"))
        [('ann', 30.0), ('bob', 5.0), ('ann', 12.0)]
        """
        return self._windowed(aggregating(self._group, initializer, aggregator), name, "aggregate", store)


@answering
class SessionWindowedKStream(WindowedStream):
    """Records by key and session."""

    def reduce(self, reducer: FoldFunction, *, name: str | None = None, store: str | None = None) -> WTable:
        """The records of each session made into one; sessions that grow together are reduced with one another.

        Parameters
        ----------
        reducer : function of (aggregate, value) or (key, aggregate, value) that gives a value of the same type.
        name, store : names of the operator and of its queryable table.

        Examples
        --------
        >>> sessions = wm.SessionWindows.of_inactivity_gap_with_no_grace("30 minutes")
        >>> sums = payments.group_by_key().windowed_by(sessions).reduce(lambda total, amount: total + amount)
        >>> results(sums.to_stream(key="key"))
        [(1, 30.0), (7, 8.0)]
        """
        return self._windowed(reducing(self._group, reducer, merges=True), name, "reduce", store)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: FoldFunction,
        merger: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
    ) -> WTable:
        """The records of each session, folded.

        Parameters
        ----------
        initializer, aggregator : as for `KGroupedStream.aggregate`.
        merger : function of (one, other) or (key, one, other) that gives the aggregate of two sessions that have grown
            together, the earlier one first.
        name, store : names of the operator and of its queryable table.

        Examples
        --------
        >>> sessions = by_customer.windowed_by(wm.SessionWindows.of_inactivity_gap_with_no_grace("2 hours"))
        >>> count = sessions.aggregate(lambda: F.lit(0), lambda order, n: n + 1, lambda one, other: one + other)
        >>> results(count.to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', None), ('ann', 2)]
        """
        folding = aggregating(self._group, initializer, aggregator, merger=merger)
        return self._windowed(folding, name, "aggregate", store)


@answering
class CogroupedWindowing(Windowing):
    """Base of both kinds of windowed cogrouped streams."""

    def __init__(self, parts: tuple[Part, ...], windows: Windows) -> None:
        super().__init__(parts[0][0], windows)
        self._parts = parts


@answering
class TimeWindowedCogroupedKStream(CogroupedWindowing):
    """Cogrouped records by key and by tumbling, hopping, sliding or unlimited windows."""

    def aggregate(self, initializer: Callable[[], Any], *, name: str | None = None, store: str | None = None) -> WTable:
        """The records of each key and window, folded; see `CogroupedKStream.aggregate`.

        Examples
        --------
        >>> counted = payments.group_by_key().cogroup(lambda amount, n: n + 1)
        >>> results(counted.windowed_by(hours).aggregate(lambda: F.lit(0)).to_stream(key="key"))
        [(1, 1), (7, 1)]
        """
        return self._windowed(cogrouping(self._parts, initializer), name, "cogroup", store)


@answering
class SessionWindowedCogroupedKStream(CogroupedWindowing):
    """Cogrouped records by key and session."""

    def aggregate(
        self,
        initializer: Callable[[], Any],
        merger: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
    ) -> WTable:
        """The records of each session, folded; `merger` as for `SessionWindowedKStream.aggregate`.

        Examples
        --------
        >>> counted = payments.group_by_key().cogroup(lambda amount, n: n + 1)
        >>> sessions = counted.windowed_by(wm.SessionWindows.of_inactivity_gap_with_no_grace("1 hour"))
        >>> results(sessions.aggregate(lambda: F.lit(0), lambda one, other: one + other).to_stream(key="key"))
        [(1, 1), (7, 1)]
        """
        return self._windowed(cogrouping(self._parts, initializer, merger), name, "cogroup", store)


def cogrouped_windows(
    parts: tuple[Part, ...], windows: Windows
) -> TimeWindowedCogroupedKStream | SessionWindowedCogroupedKStream:
    """Cogrouped records by these windows."""
    check_windows(windows)
    sessions = isinstance(windows, SessionWindows)
    kind = SessionWindowedCogroupedKStream if sessions else TimeWindowedCogroupedKStream
    return kind(parts, windows)


def windowed(group: Group, windows: Windows) -> TimeWindowedKStream | SessionWindowedKStream:
    """Grouped records by these windows."""
    check_windows(windows)
    kind = SessionWindowedKStream if isinstance(windows, SessionWindows) else TimeWindowedKStream
    return kind(group, windows)


def check_windows(windows: Windows) -> None:
    """Raise where these are no windows of aggregates."""
    if type(windows) not in NODES:
        raise TopologyError(
            f"windowed_by takes the windows of aggregates, and not {windows!r:.120}.",
            hint="Take wm.TimeWindows.of_size_and_grace('1 hour', '5 minutes'), wm.SlidingWindows, wm.SessionWindows "
            "wm.CalendarWindows or wm.UnlimitedWindows.",
        )
    if NODES[type(windows)] not in OPERATORS:
        raise TopologyError(f"windowed_by does not support {windows!r:.120} yet.")


def wait_of(windows: Windows) -> int:
    """How long behind a window's end its row may change, in ms: the grace, and of sessions the gap."""
    if isinstance(windows, UnlimitedWindows):
        return 0
    return windows.grace_ms + (windows.gap_ms if isinstance(windows, SessionWindows) else 0)
