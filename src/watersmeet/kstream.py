"""KStream: a stream of records, each a fact of its own.

Handle layer. Functions take and return Spark Columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from watersmeet._plan.nodes import (
    Branch,
    FlatMap,
    How,
    Map,
    Merge,
    Peek,
    Repartition,
    SelectKey,
    Shape,
    ToTable,
)
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt, check_branches
from watersmeet.generation import Generation
from watersmeet.global_ktable import GlobalKTable, lookup_node
from watersmeet.grouped.streams import StreamGrouping
from watersmeet.handle import Handle, refuse_table, type_text
from watersmeet.io.dataframes import ForeachBatch, Writer
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.origins import described, reading
from watersmeet.io.topics import Delivery, TopicSink
from watersmeet.joins.stream_stream import stream_join_node
from watersmeet.joins.stream_table import refuse_given, refuse_grace, table_join_node
from watersmeet.joins.wtables import pointing_node, points
from watersmeet.ktable import KTable
from watersmeet.names import answering
from watersmeet.windows import Duration, JoinWindows
from watersmeet.wtable import WTable


@answering
class KStream(StreamGrouping):
    """A stream of records: what `StreamsBuilder.stream` and `KTable.to_stream` return."""

    def filter(self, predicate: Function, *, name: str | None = None) -> KStream:
        """The records for which the predicate, a Column function of (value) or (key, value), holds."""
        return KStream(self._construction, self._filtered(predicate, negate=False, name=name, store=None))

    def filter_not(self, predicate: Function, *, name: str | None = None) -> KStream:
        """The records for which the predicate does not hold."""
        return KStream(self._construction, self._filtered(predicate, negate=True, name=name, store=None))

    def map_values(self, mapper: Function, *, name: str | None = None) -> KStream:
        """Each record with a new value: a Column function of (value) or (key, value)."""
        return KStream(self._construction, self._mapped_values(mapper, name=name, store=None))

    def map(self, mapper: Function, *, name: str | None = None) -> KStream:
        """Each record with a new key and a new value.

        Parameters
        ----------
        mapper : function of (value) or (key, value) that returns a pair of Columns (key, value).
        """
        mapper = adapt(mapper, ("key", "value"), "mapper", self._construction.functions, pair=True)
        key, value = self._construction.functions.pair_type(mapper, self._types(), "mapper")
        shape = Shape("stream", key, value)
        node = Map(self._construction.name(name, "map"), (self._node.name,), shape, mapper=mapper)
        return KStream(self._construction, self._attach(node))

    def select_key(self, selector: Function, *, name: str | None = None) -> KStream:
        """Each record under a new key: a Column function of (value) or (key, value)."""
        selector = adapt(selector, ("key", "value"), "key selector", self._construction.functions)
        key = self._construction.functions.value_type(selector, self._types(), "key selector")
        shape = Shape("stream", key, self.value_type)
        name = self._construction.name(name, "select_key")
        return KStream(self._construction, self._attach(SelectKey(name, (self._node.name,), shape, selector=selector)))

    def flat_map(self, mapper: Function, *, name: str | None = None) -> KStream:
        """None, one or many records of each.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value) that gives an array of structs of two fields,
            the key and the value; a null or empty array gives no record.
        """
        return self._flat(mapper, name, values_only=False)

    def flat_map_values(self, mapper: Function, *, name: str | None = None) -> KStream:
        """None, one or many records of each, all under its key: a Column function that gives an array."""
        return self._flat(mapper, name, values_only=True)

    def merge(self, other: KStream, *, name: str | None = None) -> KStream:
        """The records of both streams (types must be the same)."""
        given: Any = other
        if not isinstance(given, KStream):
            many = isinstance(given, list | tuple | set)
            hint = "Merge two at a time: one.merge(other).merge(third)." if many else None
            if isinstance(given, Handle):
                hint = "Merge with the changes of a table: stream.merge(table.to_stream())."
            raise TopologyError(
                f"A stream merges only with a stream, and not with {type(other).__name__}: {described(other)}.",
                hint=hint or f"Read it first: stream.merge(builder.stream({reading(other)})).",
            )
        self._require_same_key(other, "merge")
        if other.value_type != self.value_type:
            raise TopologyError(
                "The two sides of the merge have different value types: "
                f"{self.name!r} has {type_text(self.value_type)}, {other.name!r} has {type_text(other.value_type)}.",
                hint="Bring both to one type with map_values.",
            )
        node = Merge(self._construction.name(name, "merge"), (self._node.name, other._node.name), self._node.shape)
        return KStream(self._construction, self._attach(node))

    def split(
        self, branches: Mapping[str, Function], *, default: str | None = None, name: str | None = None
    ) -> dict[str, KStream]:
        """Each record in the first branch whose predicate holds.

        Parameters
        ----------
        branches : predicate of each named branch, in order of precedence.
        default : name of a branch for the records that no predicate takes; without it they are dropped.
        name : prefix of the branches' operator names.

        Returns
        -------
        The stream of each branch, by name.
        """
        check_branches(branches)
        if not branches and default is None:
            raise TopologyError("A split needs a branch.", hint="split({'large': predicate}, default='rest')")
        prefix = self._construction.name(name, "split") if name is None else name
        predicates: list[Function] = []
        streams: dict[str, KStream] = {}
        for branch, predicate in branches.items():
            role = f"predicate of branch {branch!r}"
            predicate = adapt(predicate, ("key", "value"), role, self._construction.functions)
            self._construction.functions.check_predicate(predicate, self._types(), f"predicate of {branch!r}")
            streams[branch] = self._branch(f"{prefix}-{branch}", tuple(predicates), predicate)
            predicates.append(predicate)
        if default is not None:
            if default in streams:
                raise TopologyError(f"Two branches have one name: {default!r}.", hint="Give the default another one.")
            streams[default] = self._branch(f"{prefix}-{default}", tuple(predicates), None)
        return streams

    def peek(self, action: Function, *, name: str | None = None) -> KStream:
        """Show each record to a Python function of (value) or (key, value), for its side effect.

        It runs in Spark's Python workers, once for each time a batch is computed, on plain Python values. `on_error` of
        the builder and its inputs says what becomes of a record for which it raises.
        """
        action = adapt(action, ("key", "value"), "action")
        name = self._construction.name(name, "peek")
        node = Peek(name, (self._node.name,), self._node.shape, action=action)
        return KStream(self._construction, self._attach(node))

    def repartition(self, *, name: str | None = None) -> KStream:
        """The records at the shard of their key; null keys end here unless a join below takes them."""
        node = Repartition(self._construction.name(name, "repartition"), (self._node.name,), self._node.shape)
        return KStream(self._construction, self._attach(node))

    @overload
    def through(
        self,
        target: str,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery = "exactly_once",
        name: str | None = None,
    ) -> KStream: ...

    @overload
    def through(self, target: TopicSink, *, name: str | None = None) -> KStream: ...

    @overload
    def through(self, target: Writer | ForeachBatch, *, name: str) -> KStream: ...

    def through(
        self,
        target: str | TopicSink | Writer | ForeachBatch,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery | None = None,
        name: str | None = None,
    ) -> KStream:
        """Write the stream out as `to` does, and go on with it, partitioned by its key.

        Parameters
        ----------
        target : a topic's name, a `TopicSink`, a `Writer` or a `ForeachBatch`.
        key, value : of a topic, the formats; left out, they follow from the types: strings, ints, longs and bytes
            as Kafka's serializers write them, keys of one-to-many joins as KIP-213 has them, anything else as JSON.
        delivery : of a topic, "exactly_once" (a reader with `read_committed` sees each record once; default) or
            "at_least_once".
        name : the output's name, to the test driver and in describe(); default the topic's, needed for the others.

        Raises
        ------
        TopologyError : no such target or format, or the name is taken.
        """
        refuse_table(self, target)
        self._sink(target, {"key": key, "value": value, "delivery": delivery}, name)
        return self.repartition(name=None if name is None else f"{name}-repartition")

    @overload
    def to(
        self,
        target: str,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery = "exactly_once",
        name: str | None = None,
    ) -> None: ...

    @overload
    def to(self, target: TopicSink, *, name: str | None = None) -> None: ...

    @overload
    def to(self, target: Writer | ForeachBatch, *, name: str) -> None: ...

    def to(
        self,
        target: str | TopicSink | Writer | ForeachBatch,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery | None = None,
        name: str | None = None,
    ) -> None:
        """Write the stream out.

        Parameters
        ----------
        target : a topic's name, a `TopicSink`, a `Writer` or a `ForeachBatch`.
        key, value : of a topic, the formats; left out, they follow from the types: strings, ints, longs and bytes
            as Kafka's serializers write them, keys of one-to-many joins as KIP-213 has them, anything else as JSON.
        delivery : of a topic, "exactly_once" (a reader with `read_committed` sees each record once; default) or
            "at_least_once".
        name : the output's name, to the test driver and in describe(); default the topic's, needed for the others.

        Raises
        ------
        TopologyError : no such target or format, or the name is taken.
        """
        refuse_table(self, target)
        self._sink(target, {"key": key, "value": value, "delivery": delivery}, name)

    def to_table(self, *, name: str | None = None, store: str | None = None, history: Duration | None = None) -> KTable:
        """The stream read as the changes of a table: the latest value of each key, null deletes.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.
        history : for how long the table remembers its past (KIP-889), as for `StreamsBuilder.table`.
        """
        shape = Shape("table", self.key_type, self.value_type)
        name = self._construction.name(name, "to_table", self.name)
        kept = self._construction.history_ms(history)
        node = ToTable(name, (self._node.name,), shape, store=store, history_ms=kept)
        return KTable(self._construction, self._attach(node))

    def join(
        self,
        other: KTable | KStream | GlobalKTable | WTable,
        joiner: Function,
        windows: JoinWindows | None = None,
        *,
        key: Function | None = None,
        window_of: Function | None = None,
        keep: Duration | None = None,
        generation: str | Generation | None = None,
        grace: Duration | None = None,
        name: str | None = None,
    ) -> KStream:
        """Each record with the table's value of its key, or with each record of another stream in the window.

        Parameters
        ----------
        other : a table or a stream with the same type of key, a global table, or a table by key and window.
        joiner : Column function of (left, right) or (key, left, right) that makes the value; with a global
            table also of (key, mapped key, left, right).
        windows : of two streams, how far apart their timestamps may be.
        key : for a global table, Column function of (value) or (key, value) that gives the key to look up;
            where it gives null nothing is found.
        window_of : for a table by key and window, Column function of (value) or (key, value) that gives the window
            whose value is looked up, a struct of the longs `start` and `end` in ms; null: none.
        keep : for such a table, how long after its end and grace a window is still found, a duration ("2 days").
        generation : of two streams, whose results to reproduce: "current", "spurious" (0.10.2 to 3.0: what
            the deprecated `JoinWindows.of` means too), "old" (0.10.1), "old-0.10.0".
        grace : with a versioned table, how long a record is held back, in time of the stream, so that changes of the
            table that come late are still seen (KIP-923); the table's history must be as long.
        """
        if points(other, window_of, keep):
            refuse_grace(grace, other)
            refuse_given(other, windows=windows, key=key, generation=generation)
            return KStream(self._construction, pointing_node(self, other, joiner, "inner", window_of, keep, name))
        return self._join(other, joiner, "inner", windows, key, generation, grace, name)

    def left_join(
        self,
        other: KTable | KStream | GlobalKTable | WTable,
        joiner: Function,
        windows: JoinWindows | None = None,
        *,
        key: Function | None = None,
        window_of: Function | None = None,
        keep: Duration | None = None,
        generation: str | Generation | None = None,
        grace: Duration | None = None,
        name: str | None = None,
    ) -> KStream:
        """As `join`, and each record that meets none joined with null (one without a key, too: KIP-962).

        Of two streams, that result comes once the window and its grace have passed.
        """
        if points(other, window_of, keep):
            refuse_grace(grace, other)
            refuse_given(other, windows=windows, key=key, generation=generation)
            return KStream(self._construction, pointing_node(self, other, joiner, "left", window_of, keep, name))
        return self._join(other, joiner, "left", windows, key, generation, grace, name)

    def outer_join(
        self,
        other: KStream,
        joiner: Function,
        windows: JoinWindows,
        *,
        generation: str | Generation | None = None,
        name: str | None = None,
    ) -> KStream:
        """As `left_join` of two streams, for unmatched records of both."""
        return self._join(other, joiner, "outer", windows, None, generation, None, name)

    # ------------------------------------------------------------------------------------------------------

    def _join(
        self,
        other: Any,
        joiner: Function,
        how: How,
        windows: JoinWindows | None,
        key: Function | None,
        generation: str | Generation | None,
        grace: Duration | None,
        name: str | None,
    ) -> KStream:
        if not isinstance(other, KTable):
            refuse_grace(grace, other)
        if isinstance(other, GlobalKTable):
            refuse_given(other, windows=None if how == "outer" else windows, generation=generation)
            return KStream(self._construction, lookup_node(self, other, joiner, how, key, name))
        if key is not None:
            raise TopologyError(
                "Only a join with a global table looks up another key than the record's own.",
                given=f"key= and {other!r}",
                hint="Re-key the stream first: stream.select_key(...).join(table, ...).",
            )
        if how == "outer" and isinstance(other, KTable):
            raise TopologyError(
                f"An outer join is of two streams or of two tables, and {other.name!r} is a table.",
                hint="Take left_join(table, joiner), or make a table of the stream: "
                "stream.to_table().outer_join(table, joiner).",
            )
        if isinstance(other, KStream):
            return KStream(self._construction, stream_join_node(self, other, joiner, how, windows, generation, name))
        if not isinstance(other, KTable):
            raise TopologyError(
                f"A stream joins with a table, a global table or a stream, and not {described(other)}.",
                hint=f"Read it first: builder.table({reading(other)}), builder.global_table or builder.stream.",
            )
        refuse_given(other, windows=windows, generation=generation)
        return KStream(self._construction, table_join_node(self, other, joiner, how, grace, name))

    def _flat(self, mapper: Function, name: str | None, *, values_only: bool) -> KStream:
        functions = self._construction.functions
        mapper = adapt(mapper, ("key", "value"), "mapper", functions)
        element = functions.element_type(mapper, self._types(), "mapper")
        key, value = (self.key_type, element) if values_only else functions.element_pair(element, "mapper")
        stem = "flat_map_values" if values_only else "flat_map"
        node = FlatMap(
            self._construction.name(name, stem),
            (self._node.name,),
            Shape("stream", key, value),
            mapper=mapper,
            values_only=values_only,
        )
        return KStream(self._construction, self._attach(node))

    def _branch(self, name: str, earlier: tuple[Function, ...], predicate: Function | None) -> KStream:
        node = Branch(name, (self._node.name,), self._node.shape, earlier=earlier, predicate=predicate)
        return KStream(self._construction, self._attach(node))
