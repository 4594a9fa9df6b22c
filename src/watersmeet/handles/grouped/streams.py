"""KGroupedStream: records by key, on the way to a table of aggregates. Handle layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from watersmeet._plan.nodes import SelectKeyNode, Shape, StreamAggregateNode
from watersmeet.aggregates import AnyAggregate
from watersmeet.functions import Function, adapt, types_for
from watersmeet.handles.grouped.base import Grouped
from watersmeet.handles.grouped.cogrouped import CogroupedKStream
from watersmeet.handles.grouped.folding import FoldFunction, Group, aggregating, counting, naming, reducing
from watersmeet.handles.grouped.processing import Processing, stepped
from watersmeet.handles.grouped.windowed import SessionWindowedKStream, TimeWindowedKStream, windowed
from watersmeet.names import answering
from watersmeet.windows import Duration, Windows

if TYPE_CHECKING:
    from watersmeet.handles.kstream import KStream
    from watersmeet.handles.ktable import KTable


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
        """The records by key and window: tumbling, hopping, sliding, session or unlimited windows.

        Examples
        --------
        >>> results(by_customer.windowed_by(hours).count().to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', 1)]
        """
        return windowed(self._group, windows)

    def count(self, *, name: str | None = None, store: str | None = None, history: Duration | None = None) -> KTable:
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
        return self._add(StreamAggregateNode, counting(self._group), name, "count", store, history)

    def reduce(
        self,
        reducer: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
    ) -> KTable:
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
        return self._add(StreamAggregateNode, reducing(self._group, reducer), name, "reduce", store, history)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
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
        return self._add(StreamAggregateNode, folding, name, "aggregate", store, history)

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
        return self._add(StreamAggregateNode, folding, name, "agg", store, history)
