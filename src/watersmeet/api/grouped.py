"""Grouped streams and tables, cogroups, and their windows, on the way to a table of aggregates. Handle layer.

WTables have structs of the key and of the window's start and end, in ms since 1970, as keys (docs/semantics/wtable.md).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from watersmeet._plan.nodes import SelectKeyNode, Shape, type_text
from watersmeet._plan.operators.aggregates import (
    RegroupNode,
    SessionWindowAggregateNode,
    SlidingWindowAggregateNode,
    StreamAggregateNode,
    TableAggregateNode,
    TimeWindowAggregateNode,
    WindowAggregateNode,
)
from watersmeet.aggregates.declaration import AnyAggregate
from watersmeet.api import handle
from watersmeet.api.folds import (
    AggregateOptions,
    FoldFunction,
    Folding,
    Group,
    Grouped,
    Part,
    aggregating,
    cogrouping,
    counting,
    group_of,
    naming,
    reducing,
)
from watersmeet.api.handle import Side, StoreOptions, same_type
from watersmeet.api.processing import Processing, stepped
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt, types_for
from watersmeet.hints import answering
from watersmeet.windows import (
    CalendarWindows,
    Duration,
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)

if TYPE_CHECKING:
    from watersmeet.api.streams import KStream
    from watersmeet.api.tables import KTable, WTable


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
        clone = copy(self)
        clone._emit = strategy
        return clone

    def _windowed(self, folding: Folding, stem: str, **options: Unpack[StoreOptions]) -> WTable:
        make = partial(NODES[type(self._windows)], windows=self._windows, on_close=self._emit.on_close)
        node = self._node(make, folding, stem, **options)
        return handle.wtable(self._group.construction, node, self._windows, wait_of(self._windows))

    def _result_key(self) -> Any:
        return self._group.functions.windowed_type(self._group.key)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self._windows!r})"


@answering
class WindowedStream(Windowing):
    """Base of both kinds of windowed streams."""

    def count(self, **options: Unpack[StoreOptions]) -> WTable:
        """How many records there are of each key and window: a long.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.

        Examples
        --------
        >>> results(by_customer.windowed_by(hours).count().to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', 1)]
        """
        return self._windowed(counting(self._group), "count", **options)

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
        return self._windowed(naming(self._group, aggregates, name, merges=merges), "agg", name=name, store=store)


@answering
class TimeWindowedKStream(WindowedStream):
    """Records by key and by tumbling, hopping, sliding, calendar or unlimited windows."""

    def reduce(self, reducer: FoldFunction, **options: Unpack[StoreOptions]) -> WTable:
        """The records of each key and window made into one; see `KGroupedStream.reduce`.

        Examples
        --------
        >>> sums = payments.group_by_key().windowed_by(hours).reduce(lambda total, amount: total + amount)
        >>> results(sums.to_stream(key="key"))
        [(1, 30.0), (7, 8.0)]
        """
        return self._windowed(reducing(self._group, reducer), "reduce", **options)

    def aggregate(
        self, initializer: Callable[[], Any], aggregator: FoldFunction, **options: Unpack[StoreOptions]
    ) -> WTable:
        """The records of each key and window, folded one after the other; see `KGroupedStream.aggregate`.

        Examples
        --------
        >>> adding = lambda order, total: total + order["amount"]
        >>> results(by_customer.windowed_by(hours).aggregate(lambda: F.lit(0.0), adding).to_stream(key="key"))
        [('ann', 30.0), ('bob', 5.0), ('ann', 12.0)]
        """
        return self._windowed(aggregating(self._group, initializer, aggregator), "aggregate", **options)


@answering
class SessionWindowedKStream(WindowedStream):
    """Records by key and session."""

    def reduce(self, reducer: FoldFunction, **options: Unpack[StoreOptions]) -> WTable:
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
        return self._windowed(reducing(self._group, reducer, merges=True), "reduce", **options)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: FoldFunction,
        merger: FoldFunction,
        **options: Unpack[StoreOptions],
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
        return self._windowed(folding, "aggregate", **options)


@answering
class CogroupedWindowing(Windowing):
    """Base of both kinds of windowed cogrouped streams."""

    def __init__(self, parts: tuple[Part, ...], windows: Windows) -> None:
        super().__init__(parts[0][0], windows)
        self._parts = parts


@answering
class TimeWindowedCogroupedKStream(CogroupedWindowing):
    """Cogrouped records by key and by tumbling, hopping, sliding, calendar or unlimited windows."""

    def aggregate(self, initializer: Callable[[], Any], **options: Unpack[StoreOptions]) -> WTable:
        """The records of each key and window, folded; see `CogroupedKStream.aggregate`.

        Examples
        --------
        >>> counted = payments.group_by_key().cogroup(lambda amount, n: n + 1)
        >>> results(counted.windowed_by(hours).aggregate(lambda: F.lit(0)).to_stream(key="key"))
        [(1, 1), (7, 1)]
        """
        return self._windowed(cogrouping(self._parts, initializer), "cogroup", **options)


@answering
class SessionWindowedCogroupedKStream(CogroupedWindowing):
    """Cogrouped records by key and session."""

    def aggregate(
        self, initializer: Callable[[], Any], merger: FoldFunction, **options: Unpack[StoreOptions]
    ) -> WTable:
        """The records of each session, folded; `merger` as for `SessionWindowedKStream.aggregate`.

        Examples
        --------
        >>> counted = payments.group_by_key().cogroup(lambda amount, n: n + 1)
        >>> sessions = counted.windowed_by(wm.SessionWindows.of_inactivity_gap_with_no_grace("1 hour"))
        >>> results(sessions.aggregate(lambda: F.lit(0), lambda one, other: one + other).to_stream(key="key"))
        [(1, 1), (7, 1)]
        """
        return self._windowed(cogrouping(self._parts, initializer, merger), "cogroup", **options)


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
            hint="Take wm.TimeWindows.of_size_and_grace('1 hour', '5 minutes'), wm.SlidingWindows, wm.SessionWindows, "
            "wm.CalendarWindows or wm.UnlimitedWindows.",
        )


def wait_of(windows: Windows) -> int:
    """How long behind a window's end its row may change, in ms: the grace, and of sessions the gap."""
    if isinstance(windows, UnlimitedWindows):
        return 0
    return windows.grace_ms + (windows.gap_ms if isinstance(windows, SessionWindows) else 0)


# CogroupedKStream: several grouped streams, each with an aggregator of its own, on the way to one table (KIP-150).
#
# Handle layer.


@answering
class CogroupedKStream(Grouped):
    """Grouped streams by one type of key, each with its aggregator: what `KGroupedStream.cogroup` returns."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__(parts[0][0])
        self._parts = parts

    def cogroup(self, grouped: Grouped, aggregator: FoldFunction) -> CogroupedKStream:
        """The same with one stream more.

        Parameters
        ----------
        grouped : a grouped stream with the same type of key.
        aggregator : function of (value, aggregate) or (key, value, aggregate) that gives the next aggregate.

        Examples
        --------
        >>> paid = payments.group_by_key().cogroup(lambda amount, n: n + 1)
        >>> both = paid.cogroup(orders.group_by_key(), lambda order, n: n + 10)
        >>> results(both.aggregate(lambda: F.lit(0)))
        [(1, 10), (1, 11), (2, 10), (7, 1), (3, 10)]
        """
        group = None if isinstance(grouped, CogroupedKStream) else group_of(grouped)
        if group is None:
            raise TopologyError(
                f"cogroup takes a grouped stream, and not {grouped!r:.120}.",
                hint="Group it first: cogroup(stream.group_by_key(), lambda value, aggregate: ...).",
            )
        if group.construction is not self._group.construction or not same_type(group.key, self._group.key):
            raise TopologyError(
                f"Streams that are cogrouped belong to one builder and have one type of key: {group.inputs[-1]!r} has "
                f"{type_text(group.key)}, {self._group.inputs[-1]!r} has {type_text(self._group.key)}.",
                hint="Group both by keys of one type: group_by(lambda value: ...).",
            )
        return CogroupedKStream((*self._parts, (group, aggregator)))

    def windowed_by(self, windows: Windows) -> TimeWindowedCogroupedKStream | SessionWindowedCogroupedKStream:
        """The same by key and window.

        Examples
        --------
        >>> counted = payments.group_by_key().cogroup(lambda amount, n: n + 1)
        >>> results(counted.windowed_by(hours).aggregate(lambda: F.lit(0)).to_stream(key="key"))
        [(1, 1), (7, 1)]
        """
        return cogrouped_windows(self._parts, windows)

    def aggregate(self, initializer: Callable[[], Any], **options: Unpack[AggregateOptions]) -> KTable:
        """The records of each key, of all streams in their order, folded by the aggregator of each one's stream.

        Parameters
        ----------
        initializer : function without parameters that gives the first aggregate: a Column such as F.lit(0), or a
            plain value.
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> counted = payments.group_by_key().cogroup(lambda amount, total: total + amount)
        >>> results(counted.aggregate(lambda: F.lit(0.0)))
        [(1, 30.0), (7, 8.0)]
        """
        return self._add(StreamAggregateNode, cogrouping(self._parts, initializer), "cogroup", **options)


# KGroupedStream: records by key, on the way to a table of aggregates. Handle layer.


@answering
class StreamGrouping(Processing):
    """The grouping of a stream: part of `KStream`."""

    def group_by_key(self) -> KGroupedStream:
        """The records by their key.

        Examples
        --------
        >>> results(orders.group_by_key().count())
        [(1, 1), (2, 1), (3, 1)]
        """
        return KGroupedStream(Group(self._construction, (self.name,), *self._types()))

    def group_by(self, selector: Function, *, name: str | None = None) -> KGroupedStream:
        """The records by another key: a Column function of (value) or (key, value); null: left out, counted.

        Examples
        --------
        >>> results(orders.group_by(lambda order: order["customer"]).count())
        [('ann', 1), ('bob', 1), ('ann', 2)]
        """
        selector = adapt(selector, ("key", "value"), "key selector", self._construction.functions, sees_record=True)
        types = types_for(selector, self._types())
        key = self._construction.functions.value_type(selector, types, "key selector")
        name = self._construction.name(name, "group_by")
        shape = Shape("stream", key, self.value_type)
        node = self._attach(SelectKeyNode(name, (self.name,), shape, selector=selector))
        return KGroupedStream(Group(self._construction, (node.name,), key, self.value_type))


@answering
class KGroupedStream(Grouped):
    """A stream by key: what `KStream.group_by_key` and `KStream.group_by` return."""

    def cogroup(self, aggregator: FoldFunction) -> CogroupedKStream:
        """The records beside those of other grouped streams, on the way to one aggregate of all (KIP-150).

        Parameters
        ----------
        aggregator : function of (value, aggregate) or (key, value, aggregate) that gives the next aggregate.

        Examples
        --------
        >>> paid = payments.group_by_key().cogroup(lambda amount, total: total - amount)
        >>> both = paid.cogroup(orders.group_by_key(), lambda order, total: total + order["amount"])
        >>> results(both.aggregate(lambda: F.lit(0.0)))
        [(1, 30.0), (1, 0.0), (2, 5.0), (7, -8.0), (3, 12.0)]
        """
        return CogroupedKStream(((self._group, aggregator),))

    def process(
        self,
        init: Callable[[], Any],
        step: Callable[..., Any],
        *,
        state: Any,
        returns: Any,
        name: str | None = None,
        store: str | None = None,
    ) -> KStream:
        """The records of each key, one after the other, by a function that keeps a state and sends records.

        The short form of a processor (`KStream.process`) with one value of each key; records without key or value are
        left out, counted.

        Parameters
        ----------
        init : function without parameters that gives the first state, a plain value.
        step : function of (key, value, state, context), all plain values, that gives a pair: the next state, and a list
            of the values that are sent under the key. A state of None is none: the next record begins anew. The context
            is a processor's: it knows `timestamp` and `stream_time`.
        state, returns : types of the state and of the values that are sent, in Spark's words or as DataTypes.
        name, store : names of the operator and of the store with the states.

        Examples
        --------
        >>> def every_second(key, value, seen, context):
        ...     return seen + 1, [value["amount"]] if seen % 2 == 1 else []
        >>> results(by_customer.process(lambda: 0, every_second, state="long", returns="double"))
        [('ann', 12.0)]
        """
        return stepped(self._group, init, step, state=state, returns=returns, name=name, store=store)

    def windowed_by(self, windows: Windows) -> TimeWindowedKStream | SessionWindowedKStream:
        """The records by key and window: tumbling, hopping, sliding, session, calendar or unlimited windows.

        Examples
        --------
        >>> results(by_customer.windowed_by(hours).count().to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', 1)]
        """
        return windowed(self._group, windows)

    def count(self, **options: Unpack[AggregateOptions]) -> KTable:
        """How many records each key has had: a long. Records without key or value are left out, counted.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> results(by_customer.count())
        [('ann', 1), ('bob', 1), ('ann', 2)]
        """
        return self._add(StreamAggregateNode, counting(self._group), "count", **options)

    def reduce(self, reducer: FoldFunction, **options: Unpack[AggregateOptions]) -> KTable:
        """The records of each key made into one, two at a time.

        Parameters
        ----------
        reducer : function of (aggregate, value) or (key, aggregate, value) that gives a value of the same type; the
            first value is taken as it is; null deletes. With a parameter `record` behind these it sees the record of
            the value.
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> results(payments.group_by_key().reduce(lambda total, amount: total + amount))
        [(1, 30.0), (7, 8.0)]
        """
        return self._add(StreamAggregateNode, reducing(self._group, reducer), "reduce", **options)

    def aggregate(
        self, initializer: Callable[[], Any], aggregator: FoldFunction, **options: Unpack[AggregateOptions]
    ) -> KTable:
        """The records of each key, folded one after the other.

        Parameters
        ----------
        initializer : function without parameters that gives the first aggregate: a Column such as F.lit(0), or a
            plain value.
        aggregator : function of (value, aggregate) or (key, value, aggregate) that gives the next one; null deletes.
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> results(by_customer.aggregate(lambda: F.lit(0.0), lambda order, total: total + order["amount"]))
        [('ann', 30.0), ('bob', 5.0), ('ann', 42.0)]
        """
        folding = aggregating(self._group, initializer, aggregator)
        return self._add(StreamAggregateNode, folding, "aggregate", **options)

    def agg(
        self,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
        **aggregates: AnyAggregate,
    ) -> KTable:
        """Aggregates by name, side by side: a struct with a field for each.

        Parameters
        ----------
        aggregates : `total=wm.sum(lambda value: value["amount"]), n=wm.count()`; their arguments are evaluated
            before records are grouped. Null arguments are left out.
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> results(by_customer.agg(n=wm.count(), total=wm.sum(lambda order: order["amount"])))
        [('ann', Row(n=1, total=30.0)), ('bob', Row(n=1, total=5.0)), ('ann', Row(n=2, total=42.0))]
        """
        name = self._group.construction.name(name, "agg", *self._group.inputs[-1:])
        folding = naming(self._group, aggregates, name)
        return self._add(StreamAggregateNode, folding, "agg", name=name, store=store, history=history)


# KGroupedTable: rows by group, on the way to a table of aggregates. Handle layer.


def regrouped(table: Side, selector: Function, name: str | None) -> KGroupedTable:
    """A table by group; `selector` gives pairs of a group and what is grouped."""
    construction = table.construction
    selector = adapt(selector, ("key", "value"), "group selector", construction.functions, pair=True)
    key, value = construction.functions.pair_type(selector, table.types, "group selector")
    name = construction.name(name, RegroupNode.stem)
    shape, above = Shape("stream", key, value), (table.name,)
    old = construction.add(RegroupNode(f"{name}-old", above, shape, selector=selector, half="old", part_of=name))
    new = construction.add(RegroupNode(name, above, shape, selector=selector, half="new"))
    return KGroupedTable(Group(construction, (old.name, new.name), key, value))


@answering
class KGroupedTable(Grouped):
    """A table by group: what `KTable.group_by` returns. A changed row leaves its group before it comes into one."""

    def count(self, **options: Unpack[AggregateOptions]) -> KTable:
        """How many rows each group has: a long, which stays at 0 where all have left.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> by_country = customers.group_by(lambda name, customer: (customer["country"], customer["name"]))
        >>> results(by_country.count())
        [('FR', 1), ('DE', 1), ('FR', 0), ('DE', 2)]
        """
        return self._add(TableAggregateNode, counting(self._group), "count", **options)

    def reduce(self, adder: FoldFunction, subtractor: FoldFunction, **options: Unpack[AggregateOptions]) -> KTable:
        """The rows of each group made into one.

        Parameters
        ----------
        adder : function of (aggregate, value) or (key, aggregate, value) that gives a value of the same type, for a
            row that comes into the group; the first one is taken as it is; null deletes.
        subtractor : the same for a row that leaves it.
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> together = discounts.group_by(lambda name, percent: (F.lit("all"), percent))
        >>> results(together.reduce(lambda total, new: total + new, lambda total, old: total - old))
        [('all', 20), ('all', 25)]
        """
        return self._add(TableAggregateNode, reducing(self._group, adder, subtractor), "reduce", **options)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: FoldFunction,
        subtractor: FoldFunction,
        **options: Unpack[AggregateOptions],
    ) -> KTable:
        """The rows of each group, folded.

        Parameters
        ----------
        initializer : function without parameters that gives the first aggregate: a Column such as F.lit(0), or a
            plain value.
        adder : function of (value, aggregate) or (key, value, aggregate) that gives the next one, for a row that
            comes into the group; null deletes.
        subtractor : the same for a row that leaves it.
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> together = discounts.group_by(lambda name, percent: (F.lit("all"), percent))
        >>> adding, taking = lambda new, total: total + new, lambda old, total: total - old
        >>> results(together.aggregate(lambda: F.lit(100), adding, taking))
        [('all', 120), ('all', 125)]
        """
        folding = aggregating(self._group, initializer, adder, subtractor)
        return self._add(TableAggregateNode, folding, "aggregate", **options)

    def agg(
        self,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
        **aggregates: AnyAggregate,
    ) -> KTable:
        """Aggregates by name, side by side: a struct with a field for each.

        Parameters
        ----------
        aggregates : `total=wm.sum(lambda value: value["amount"]), n=wm.count()`; count, sum, avg and stddev
            take back what leaves the group; the others keep all its values.
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.

        Examples
        --------
        >>> together = discounts.group_by(lambda name, percent: (F.lit("all"), percent))
        >>> results(together.agg(n=wm.count(), total=wm.sum(lambda percent: percent)))
        [('all', Row(n=1, total=20)), ('all', Row(n=2, total=25))]
        """
        name = self._group.construction.name(name, "agg", *self._group.inputs[-1:])
        folding = naming(self._group, aggregates, name, takes_back=True)
        return self._add(TableAggregateNode, folding, "agg", name=name, store=store, history=history)
