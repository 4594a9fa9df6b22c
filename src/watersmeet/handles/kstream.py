"""KStream: a stream of records, each a fact of its own.

Handle layer. Functions take and return Spark Columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from watersmeet._plan.nodes import (
    BranchNode,
    FlatMapNode,
    MapEachNode,
    MapHeadersNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    SelectKeyNode,
    Shape,
    ToTableNode,
)
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt, asks_for_record, check_branches, types_for
from watersmeet.handles import factory as made
from watersmeet.handles.beside_values import peeking
from watersmeet.handles.distinct import Deduplicating
from watersmeet.handles.expiry import Since, expiring
from watersmeet.handles.factory import made_as
from watersmeet.handles.grouped.streams import StreamGrouping
from watersmeet.handles.handle import side_of
from watersmeet.handles.joins.of_streams import StreamJoins
from watersmeet.handles.map_async import Asynchronous
from watersmeet.handles.outputs import StreamOutputs
from watersmeet.handles.side import Side, check_headers, distinct_type_names, require_same_key
from watersmeet.io.origins import described, reading
from watersmeet.names import answering
from watersmeet.windows import Duration

if TYPE_CHECKING:
    from watersmeet.handles.ktable import KTable


@made_as("stream")
@answering
class KStream(StreamGrouping, Deduplicating, Asynchronous, StreamJoins, StreamOutputs):
    """A stream of records: what `StreamsBuilder.stream` and `KTable.to_stream` return."""

    def filter(self, predicate: Function, *, name: str | None = None) -> KStream:
        """The records for which the predicate, a Column function of (value) or (key, value), holds.

        Examples
        --------
        >>> results(payments.filter(lambda amount: amount > 10))
        [(1, 30.0)]
        """
        return KStream(self._construction, self._filtered(predicate, negate=False, name=name, store=None))

    def filter_not(self, predicate: Function, *, name: str | None = None) -> KStream:
        """The records for which the predicate does not hold.

        Examples
        --------
        >>> results(payments.filter_not(lambda amount: amount > 10))
        [(7, 8.0)]
        """
        return KStream(self._construction, self._filtered(predicate, negate=True, name=name, store=None))

    def map_values(self, mapper: Function, *, nulls: bool = False, name: str | None = None) -> KStream:
        """Each record with a new value.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value).
        nulls : whether the mapper also gets null values, as in Kafka Streams. By default a null value stays null, so
            that tombstones go on as tombstones, also if the mapper makes a struct.
        name : name of the operator.

        Examples
        --------
        >>> french = customers.filter(lambda customer: customer["country"] == "FR").to_stream()
        >>> results(french.map_values(lambda customer: F.coalesce(customer["name"], F.lit("gone")), nulls=True))
        [('ann', 'Ann'), ('bob', 'gone'), ('ann', 'gone')]
        """
        make = MapEachNode if nulls else MapValuesNode
        return KStream(self._construction, self._mapped_values(mapper, make, name=name, store=None))

    def map(self, mapper: Function, *, name: str | None = None) -> KStream:
        """Each record with a new key and a new value.

        Parameters
        ----------
        mapper : function of (value) or (key, value) that returns a pair of Columns (key, value).

        Examples
        --------
        >>> results(orders.map(lambda id, order: (order["customer"], order["amount"])))
        [('ann', 30.0), ('bob', 5.0), ('ann', 12.0)]
        """
        mapper = adapt(mapper, ("key", "value"), "mapper", self._construction.functions, pair=True, sees_record=True)
        key, value = self._construction.functions.pair_type(mapper, types_for(mapper, self._types()), "mapper")
        shape = Shape("stream", key, value)
        node = MapNode(self._construction.name(name, "map"), (self._node.name,), shape, mapper=mapper)
        return KStream(self._construction, self._attach(node))

    def map_headers(self, mapper: Function, *, name: str | None = None) -> KStream:
        """Each record with other headers, which operators and outputs below have from it.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value), and of the `record` behind them, that gives an array of
            structs of a text and bytes; null is none.

        Raises
        ------
        TopologyError : no topic that has been read keeps its headers.
        FunctionError : what the mapper gives are no headers.

        Examples
        --------
        >>> visits = builder.stream("visits", key="string", value="string", headers=True)
        >>> visits.map_headers(lambda v, record: F.slice(record["headers"], 1, 1))
        KStream('map_headers-1', key=string, value=string)
        """
        check_headers(self._construction.nodes)
        functions, role = self._construction.functions, "header mapper"
        mapper = adapt(mapper, ("key", "value"), role, functions, sees_record=True)
        mapper = functions.headers(mapper, types_for(mapper, self._types()), role)
        name = self._construction.name(name, "map_headers")
        node = MapHeadersNode(name, (self._node.name,), self._node.shape, mapper=mapper)
        return KStream(self._construction, self._attach(node))

    def select_key(self, selector: Function, *, name: str | None = None) -> KStream:
        """Each record under a new key: a Column function of (value) or (key, value).

        Examples
        --------
        >>> results(orders.select_key(lambda order: order["customer"]).map_values(lambda order: order["amount"]))
        [('ann', 30.0), ('bob', 5.0), ('ann', 12.0)]
        """
        selector = adapt(selector, ("key", "value"), "key selector", self._construction.functions, sees_record=True)
        types = types_for(selector, self._types())
        key = self._construction.functions.value_type(selector, types, "key selector")
        shape = Shape("stream", key, self.value_type)
        name = self._construction.name(name, "select_key")
        return KStream(
            self._construction, self._attach(SelectKeyNode(name, (self._node.name,), shape, selector=selector))
        )

    def flat_map(self, mapper: Function, *, name: str | None = None) -> KStream:
        """None, one or many records of each.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value) that gives an array of structs of two fields,
            the key and the value; a null or empty array gives no record.

        Examples
        --------
        >>> both = lambda id, amount: F.transform(F.array(id, -id), lambda each: F.struct(each, amount))
        >>> results(payments.flat_map(both))
        [(1, 30.0), (-1, 30.0), (7, 8.0), (-7, 8.0)]
        """
        return self._flat(mapper, name, values_only=False)

    def flat_map_values(self, mapper: Function, *, name: str | None = None) -> KStream:
        """None, one or many records of each, all under its key: a Column function that gives an array.

        Examples
        --------
        >>> results(payments.flat_map_values(lambda amount: F.array(amount, -amount)))
        [(1, 30.0), (1, -30.0), (7, 8.0), (7, -8.0)]
        """
        return self._flat(mapper, name, values_only=True)

    def merge(self, other: KStream, *, name: str | None = None) -> KStream:
        """The records of both streams (types must be the same).

        Examples
        --------
        >>> results(orders.map_values(lambda order: order["amount"]).merge(payments))
        [(1, 30.0), (1, 30.0), (2, 5.0), (7, 8.0), (3, 12.0)]
        """
        right = _merged(self._side, other)
        node = MergeNode(self._construction.name(name, "merge"), (self.name, right.name), self._node.shape)
        return KStream(self._construction, self._attach(node))

    def split(
        self, branches: Mapping[str, Function], *, default: str | None = None, name: str | None = None
    ) -> dict[str, KStream]:
        """Each record goes to the first branch with a predicate that holds.

        Parameters
        ----------
        branches : predicate of each named branch, in order of precedence.
        default : name of a branch for the records that no predicate takes; without it they are dropped.
        name : prefix of the branches' operator names.

        Returns
        -------
        The stream of each branch, by name.

        Examples
        --------
        >>> branches = payments.split({"large": lambda amount: amount > 10}, default="small")
        >>> results(branches["small"])
        [(7, 8.0)]
        """
        check_branches(branches)
        if not branches and default is None:
            raise TopologyError(
                "A split needs a branch: branches={} and default=None.",
                hint="For example split({'large': predicate}, default='rest').",
            )
        prefix = self._construction.name(name, "split") if name is None else name
        predicates: list[Function] = []
        streams: dict[str, KStream] = {}
        for branch, predicate in branches.items():
            role = f"predicate of branch {branch!r}"
            predicate = adapt(predicate, ("key", "value"), role, self._construction.functions, sees_record=True)
            types = types_for(predicate, self._types())
            self._construction.functions.check_predicate(predicate, types, f"predicate of {branch!r}")
            streams[branch] = self._branch(f"{prefix}-{branch}", tuple(predicates), predicate)
            predicates.append(predicate)
        if default is not None:
            if default in streams:
                raise TopologyError(
                    f"Two branches are named {default!r}: default={default!r}.", hint="Give the default another one."
                )
            streams[default] = self._branch(f"{prefix}-{default}", tuple(predicates), None)
        return streams

    def peek(self, action: Function, *, name: str | None = None) -> KStream:
        """Show each record to a Python function of (value) or (key, value), for its side effect.

        With a parameter `record` behind these it gets the record's time, headers and place, too, as a dictionary. It
        runs in Spark's Python workers, once for each time a batch is computed, on plain Python values. `on_error` of
        the builder and its inputs says what becomes of a record for which it raises.

        Examples
        --------
        >>> seen = payments.peek(lambda key, amount: print("seen:", key, amount))
        >>> results(seen)
        seen: 1 30.0
        seen: 7 8.0
        [(1, 30.0), (7, 8.0)]
        """
        name = self._construction.name(name, "peek")
        if asks_for_record(action, ("key", "value"), "action", allowed=True):
            return KStream(self._construction, peeking(self._side, action, name))
        action = adapt(action, ("key", "value"), "action")
        node = PeekNode(name, (self._node.name,), self._node.shape, action=action)
        return KStream(self._construction, self._attach(node))

    def to_table(
        self,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
        ttl: Duration | None = None,
        since: Since = "update",
    ) -> KTable:
        """The stream read as the changes of a table: the latest value of each key, null deletes.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.
        ttl, since : for how long a row lasts, as for `StreamsBuilder.table`.

        Examples
        --------
        >>> results(payments.to_table())
        [(1, 30.0), (7, 8.0)]
        """
        shape = Shape("table", self.key_type, self.value_type)
        above = expiring(self._construction, self._node, ttl, since, history=history)
        name = self._construction.name(name, "to_table", above.name)
        kept = self._construction.history_ms(history)
        node = ToTableNode(name, (above.name,), shape, store=store, history_ms=kept)
        return made.table(self._construction, self._attach(node))

    # ------------------------------------------------------------------------------------------------------

    def _flat(self, mapper: Function, name: str | None, *, values_only: bool) -> KStream:
        functions = self._construction.functions
        mapper = adapt(mapper, ("key", "value"), "mapper", functions, sees_record=True)
        element = functions.element_type(mapper, types_for(mapper, self._types()), "mapper")
        key, value = (self.key_type, element) if values_only else functions.element_pair(element, "mapper")
        stem = "flat_map_values" if values_only else "flat_map"
        node = FlatMapNode(
            self._construction.name(name, stem),
            (self._node.name,),
            Shape("stream", key, value),
            mapper=mapper,
            values_only=values_only,
        )
        return KStream(self._construction, self._attach(node))

    def _branch(self, name: str, earlier: tuple[Function, ...], predicate: Function | None) -> KStream:
        node = BranchNode(name, (self._node.name,), self._node.shape, earlier=earlier, predicate=predicate)
        return KStream(self._construction, self._attach(node))


def _merged(left: Side, other: Any) -> Side:
    """The other side of a merge.

    Raises
    ------
    TopologyError : it is no stream, or has other types.
    """
    right = side_of(other)
    if right is None or right.kind != "stream":
        many = isinstance(other, list | tuple | set)
        hint = "Merge two at a time: one.merge(other).merge(third)." if many else None
        if right is not None:
            hint = "Merge with the changes of a table: stream.merge(table.to_stream())."
        shown = f"{type(other).__name__}: {described(other)}" if right is None else right.called
        raise TopologyError(
            f"A stream merges only with a stream, and not with {shown}.",
            hint=hint or f"Read it first: stream.merge(builder.stream({reading(other)})).",
        )
    require_same_key(left, right, "merge")
    if right.value_type != left.value_type:
        its, others = distinct_type_names(left.value_type, right.value_type)
        raise TopologyError(
            f"The two sides of the merge have different value types: {left.name!r} has {its}, {right.name!r} has "
            f"{others}.",
            hint="Bring both to one type with map_values.",
        )
    return right
