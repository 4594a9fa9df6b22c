"""KStream: a stream of records, each a fact of its own.

Handle layer. Functions take and return Spark Columns.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import (
    BranchNode,
    FlatMapNode,
    MapEachNode,
    MapHeadersNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    Node,
    PeekNode,
    SelectKeyNode,
    Shape,
    ToTableNode,
)
from watersmeet._plan.operators.processors import AsyncMap, MapAsyncNode
from watersmeet._plan.operators.tables import DistinctNode, ExpiryNode
from watersmeet.api import handle
from watersmeet.api.grouped import StreamGrouping
from watersmeet.api.handle import (
    Handle,
    Side,
    check_headers,
    distinct_type_names,
    made_as,
    peeking,
    require_same_key,
    side_of,
)
from watersmeet.api.joins import StreamJoins
from watersmeet.api.outputs import StreamOutputs
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.functions import COROUTINE, Function, adapt, asks_for_record, check_branches, types_for
from watersmeet.hints import ByName, answering
from watersmeet.io.origins import described, reading
from watersmeet.io.policies import OnError, Policies, named_policies
from watersmeet.windows import Duration, positive_ms

if TYPE_CHECKING:
    from watersmeet.api.tables import KTable


# Values that a coroutine function gives: `map_async` of streams. Handle layer.

Coroutine = Callable[..., Awaitable[Any]]
Client = Callable[[], AbstractAsyncContextManager[Any]]


@answering
class Asynchronous(Handle):
    """Lookups elsewhere, many at once: part of `KStream`."""

    def map_async(
        self,
        function: Coroutine,
        *,
        returns: Any,
        concurrency: int = 100,
        timeout: Duration | None = "30 seconds",
        client: Client | None = None,
        on_error: OnError | None = None,
        name: str | None = None,
    ) -> KStream:
        """Each record with a new value, for which a coroutine function asks elsewhere: a web service, a database.

        Many calls are under way at once; results keep the order of their records. The function is called in Spark's
        Python workers, on plain Python values. A record without a value is passed on, and no call is made for it.
        **Calls are made at least once.** A batch that is not finished is run again, and asks again; it may get other
        answers, and the results are those of the run that is committed. So a call should change nothing, or may be
        repeated. All operators and outputs below see the same answer. See docs/functions.md.

        Parameters
        ----------
        function : ``async def`` function of (value) or (key, value), and of the client behind them, if there is one.
            Values are as for `wm.python`.
        returns : type of what it gives, in Spark's words ("long", "struct<n: long>") or as a DataType.
        concurrency : calls that are under way at once, at most, in each task. Spark runs as many tasks as it has cores.
        timeout : how long a call may take, a duration ("5 seconds"); None: without end. A call that takes longer is an
            error of its record.
        client : gives an asynchronous context manager, as `httpx.AsyncClient` does. It is entered before the first call
            of a batch in a task and left after the last one, and the function gets what entering it gives.
        on_error : what becomes of a record for which the function raises, or does not answer in time: "fail", "skip" or
            a `wm.DeadLetter`, with the error's text; None: as the builder says.
        name : name of the operator.

        Raises
        ------
        FunctionError : it is no coroutine function, or takes other arguments, or `returns` is no type.
        TopologyError : `concurrency` is no number from 1 on, or `timeout` is no duration.

        Examples
        --------
        >>> async def length(order):
        ...     return len(order["customer"])
        >>> results(orders.map_async(length, returns="long"))
        [(1, 3), (2, 3), (3, 3)]

        With a client of a web service:

        >>> async def rating(order, client):
        ...     answer = await client.get(f"https://ratings.example/{order['customer']}")
        ...     return answer.json()["rating"]
        >>> rated = orders.map_async(rating, returns="double", client=httpx.AsyncClient)  # doctest: +SKIP
        """
        construction = self._construction
        adapted = adapt(function, ("key", "value", *(() if client is None else ("client",))), COROUTINE)
        function_name = getattr(function, "__name__", type(function).__name__)
        if not _is_coroutine_function(function):
            raise FunctionError(
                f"The function {function_name} is no coroutine function.",
                given=repr(function)[:80],
                hint=f"Write async def {function_name if function_name.isidentifier() else 'rating'}(value): ...; a "
                "plain function is for map_values(wm.python(...)).",
            )
        if client is not None and not callable(client):
            raise FunctionError(
                f"client={client!r:.80} is no function.",
                hint="A class, or a function without parameters that makes one: client=httpx.AsyncClient. It is made "
                "in the workers.",
            )
        async_map = AsyncMap(adapted, client, function_name, _number(concurrency), _timeout_ms(timeout))
        kind = construction.functions.named_type(returns)
        name = construction.name(name, MapAsyncNode.stem, self.name)
        node = self._attach(MapAsyncNode(name, (self.name,), Shape("stream", self.key_type, kind), how=async_map))
        if on_error is not None:
            construction.set_policies(name, named_policies(name, Policies(on_error=on_error)))
        return handle.stream(construction, node)


def _is_coroutine_function(function: Any) -> bool:
    """Whether it is one, or an object that is called as one."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _number(concurrency: Any) -> int:
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise TopologyError(
            f"concurrency={concurrency!r:.80} must be a whole number from 1 on.",
            hint="concurrency=100; 1 makes one call after the other.",
        )
    return concurrency


def _timeout_ms(timeout: Any) -> int | None:
    if timeout is None:
        return None
    hint = "timeout='5 seconds'; timeout=None waits without end."
    return positive_ms(timeout, "timeout", "time that a call may take", hint)


# The first record of each key: `distinct` of streams. Handle layer.


@answering
class Deduplicating(Handle):
    """Duplicates in a stream: part of `KStream`."""

    def distinct(
        self, key: Function | None = None, *, within: Duration | None = None, name: str | None = None
    ) -> KStream:
        """The first record of each key, and again the first one when `within` has passed (KIP-655).

        A record that passes says for how long records of its key are duplicates: for `within`, from the stream time at
        which it comes. Duplicates end here, counted as "duplicate", and prolong nothing. A late record is judged as all
        others are, by the stream time at which it comes. Records without a key pass, as nothing says what they are
        duplicates of. See docs/semantics/distinct.md, which has the differences from KIP-655.

        Parameters
        ----------
        key : what records are told apart by: a Column function of (value) or (key, value); None: their key. Records
            keep the key and the value that they have; null: the record passes.
        within : for how long, in stream time, a duration ("10 minutes"); None: for ever. Then each key is remembered
            for ever, too.
        name : name of the operator.

        Raises
        ------
        TopologyError : `within` is no duration, or not more than 0.

        Examples
        --------
        One order of each customer in half an hour, told apart by a field of theirs:

        >>> first = orders.distinct(lambda order: order["customer"], within="30 minutes")

        And as a table, which has the first order of each customer:

        >>> amounts = orders.map(lambda id, order: (order["customer"], order["amount"]))
        >>> results(amounts.distinct().to_table(store="first-orders"))
        [('ann', 30.0), ('bob', 5.0)]
        """
        within_ms = _duration_ms(within)
        construction = self._construction
        name = construction.name(name, DistinctNode.stem, self.name)
        if key is None:
            node = self._attach(DistinctNode(name, (self.name,), self._node.shape, within_ms=within_ms))
            return handle.stream(construction, node)
        functions, types = construction.functions, self._types()
        key_function = adapt(key, ("key", "value"), "key", functions)
        kind = functions.value_type(key_function, types, "key")
        fields = [
            pa.field(part, functions.as_arrow(part_type))
            for part, part_type in zip(("key", "value"), types, strict=True)
        ]
        shape = Shape("stream", kind, functions.of_arrow(pa.struct(fields)))

        def record(key: Any, value: Any) -> tuple[Any, Any]:
            return key_function(key, value), functions.record(key, {"key": key, "value": value})

        def parts(_: Any, record: Any) -> tuple[Any, Any]:
            return functions.field(record, "key"), functions.field(record, "value")

        by_key = self._attach(MapNode(f"{name}-key", (self.name,), shape, mapper=record, part_of=name))
        node = self._attach(DistinctNode(name, (by_key.name,), shape, within_ms=within_ms))
        records = MapNode(f"{name}-records", (node.name,), self._node.shape, mapper=parts, part_of=name)
        return handle.stream(construction, self._attach(records))


def _duration_ms(duration: Duration | None) -> int | None:
    if duration is None:
        return None
    hint = "distinct(within='10 minutes'); without within, records are duplicates for ever."
    return positive_ms(duration, "within", "time within which records are duplicates", hint)


# Rows that last for a while: what `to_table` and `StreamsBuilder.table` put before the table. Handle layer.

Since = Literal["update", "record"]
"""From when on a row lasts: from the stream time at which its last update comes, or from that record's timestamp."""


def expiring(construction: Construction, node: Node, ttl: Duration | None, since: Since, **options: Any) -> Node:
    """The changes of a table with rows that expire after `ttl`, attached; without `ttl` the stream itself.

    Parameters
    ----------
    options : further options that were given, which do not go together with `ttl`; None: not given.

    Raises
    ------
    TopologyError : `ttl` is no duration of more than 0, `since` is neither, or another option was given.
    """
    if since not in get_args(Since):
        raise TopologyError(
            f"Unknown since={since!r:.80}.",
            hint="since='update', the stream time of its last update, or since='record', that record's timestamp.",
        )
    if ttl is None:
        if since != "update":
            raise TopologyError(f"since={since!r} needs ttl=: without it, rows do not expire.", hint="ttl='1 hour'.")
        return node
    length = positive_ms(ttl, "ttl", "ttl", "ttl='1 hour', or leave it out.")
    name = next((name for name, value in options.items() if value is not None), None)
    if name is not None:
        raise TopologyError(
            f"Give either ttl={ttl!r:.80} or {name}={options[name]!r:.80}, not both.",
            hint=f"Leave out {name}=, or ttl=; or have one table after the other: "
            f"stream.to_table(ttl=...).to_stream().to_table({name}=...).",
        )
    node_name = construction.name(None, ExpiryNode.stem, node.name)
    return construction.add(ExpiryNode(node_name, (node.name,), node.shape, ttl_ms=length, of_record=since == "record"))


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
        ends = [f"-{branch}" for branch in (*branches, default)]
        prefix = self._construction.name(None, "split", ends=ends) if name is None else name
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
        return ByName(streams, "branches", "branch")

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
        history_ms = self._construction.history_ms(history)
        node = ToTableNode(name, (above.name,), shape, store=store, history_ms=history_ms)
        return handle.table(self._construction, self._attach(node))

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


def _merged(left: Side, candidate: Any) -> Side:
    """The other side of a merge.

    Raises
    ------
    TopologyError : it is no stream, or has other types.
    """
    right = side_of(candidate)
    if right is None or right.kind != "stream":
        many = isinstance(candidate, list | tuple | set)
        hint = "Merge two at a time: one.merge(other).merge(third)." if many else None
        if right is not None:
            hint = "Merge with the changes of a table: stream.merge(table.to_stream())."
        label = f"{type(candidate).__name__}: {described(candidate)}" if right is None else right.called
        raise TopologyError(
            f"A stream merges only with a stream, and not with {label}.",
            hint=hint or f"Read it first: stream.merge(builder.stream({reading(candidate)})).",
        )
    require_same_key(left, right, "merge")
    if right.value_type != left.value_type:
        left_type, right_type = distinct_type_names(left.value_type, right.value_type)
        raise TopologyError(
            f"The two sides of the merge have different value types: {left.name!r} has {left_type}, {right.name!r} has "
            f"{right_type}.",
            hint="Bring both to one type with map_values.",
        )
    return right
