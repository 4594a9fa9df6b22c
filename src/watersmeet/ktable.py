"""KTable: a table that keeps changing, the latest value of each key; null deletes.

Handle layer. Functions take and return Spark Columns; a function never sees a tombstone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from watersmeet._plan.nodes import ForeignKey, How, OneToMany, SelectKey, Shape, TableTable, ToStream
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt
from watersmeet.global_ktable import GlobalKTable, lookup_node
from watersmeet.grouped.tables import KGroupedTable, regrouped
from watersmeet.handle import Handle, same_type, type_text
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.dataframes import ForeachBatch, Writer
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.origins import described
from watersmeet.io.topics import Delivery, TopicSink
from watersmeet.joins.wtables import pointing_node, points
from watersmeet.names import answering
from watersmeet.suppress import suppress_node
from watersmeet.windows import Duration, Suppressed
from watersmeet.wtable import WTable

if TYPE_CHECKING:
    from watersmeet.kstream import KStream


@answering
class KTable(Handle):
    """A changing table: what `StreamsBuilder.table`, `KStream.to_table` and joins of tables return."""

    def filter(self, predicate: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows for which the predicate holds; a row that stops holding is deleted.

        Parameters
        ----------
        predicate : Column function of (value) or (key, value) that gives a boolean; null counts as false.
        name, store : names of the operator and of its queryable table.
        """
        return KTable(self._construction, self._filtered(predicate, negate=False, name=name, store=store))

    def filter_not(self, predicate: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows for which the predicate does not hold."""
        return KTable(self._construction, self._filtered(predicate, negate=True, name=name, store=store))

    def map_values(self, mapper: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """Each row with a new value; a null result deletes the row.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value).
        name, store : names of the operator and of its queryable table.
        """
        return KTable(self._construction, self._mapped_values(mapper, name=name, store=store))

    def to_stream(self, *, name: str | None = None) -> KStream:
        """The changes of the table as a stream; a tombstone becomes a record with a null value."""
        from watersmeet.kstream import KStream

        shape = Shape("stream", self.key_type, self.value_type)
        name = self._construction.name(name, "to_stream")
        return KStream(self._construction, self._attach(ToStream(name, (self._node.name,), shape)))

    def group_by(self, selector: Function, *, name: str | None = None) -> KGroupedTable:
        """The rows by group; a changed row leaves its group before it comes into one (docs/semantics, section 12).

        Parameters
        ----------
        selector : function of (value) or (key, value) that returns a pair of Columns: the group, and what is grouped;
            where one of them is null, the row is in no group.
        name : name of the operator.
        """
        return regrouped(self, selector, name)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable:
        """The table with changes held back, of each key the last one sent (KIP-328; docs/semantics, section 22).

        Parameters
        ----------
        suppressed : until when: `Suppressed.until_time_limit(...)`; of windows, `until_window_closes(...)`, too.
        name : name of the operator.

        Raises
        ------
        TopologyError : the table has no windows that close.
        """
        return KTable(self._construction, suppress_node(self, suppressed, name))

    def join(
        self,
        other: KTable | GlobalKTable | WTable,
        joiner: Function,
        *,
        foreign_key: Function | None = None,
        window_of: Function | None = None,
        keep: Duration | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Inner join: a row for each key that both tables have (KIP-77), or by a foreign key (KIP-213).

        Parameters
        ----------
        other : a table with the same type of key; with `foreign_key`, of any key; or a global table, whose
            changes give no results of their own accord; or a table by key and window.
        joiner : Column function of (left, right) or (key, left, right) that makes the value.
        foreign_key : Column function of (value) or (key, value) that gives, of each row of this table, the
            key of the other table that it refers to; null: none. The result has this table's keys: a row for
            each of its rows whose reference is there.
        window_of : for a table by key and window, Column function of (value) or (key, value) that gives the window
            that a row points at, a struct of the longs `start` and `end` in ms; null: none.
        keep : for such a table, how long after its end and grace a window still joins, a duration ("2 days").
        name, store : names of the operator and of its queryable table.
        """
        if points(other, window_of, keep):
            node = pointing_node(self, other, joiner, "inner", window_of, keep, name, store)
            return KTable(self._construction, node)
        return self._join(other, joiner, "inner", foreign_key, name, store)

    def left_join(
        self,
        other: KTable | GlobalKTable | WTable,
        joiner: Function,
        *,
        foreign_key: Function | None = None,
        window_of: Function | None = None,
        keep: Duration | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Left join: a row for each of this table's keys; right may be null. Parameters as for `join`."""
        if points(other, window_of, keep):
            node = pointing_node(self, other, joiner, "left", window_of, keep, name, store)
            return KTable(self._construction, node)
        return self._join(other, joiner, "left", foreign_key, name, store)

    def outer_join(
        self, other: KTable, joiner: Function, *, name: str | None = None, store: str | None = None
    ) -> KTable:
        """Outer join on the primary key: a row for each key of either table; one side may be null."""
        return self._join(other, joiner, "outer", None, name, store)

    def one_to_many_join(
        self,
        many: KTable,
        joiner: Function,
        *,
        key: Function,
        result_key: Function | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Inner join with a table whose rows refer to this one, keyed by both keys (KIP-213, first proposal).

        Parameters
        ----------
        many : the table whose rows refer to rows of this one.
        joiner : Column function of (one, many) or (key, one, many), where key is the combined key.
        key : Column function of (value) or (key, value) of `many` that gives the key of this table.
        result_key : Column function of (prefix, suffix), the keys of this table and of `many`, that makes the
            result's key out of both, a different one for each pair; without it the key is the struct
            (`prefix`, `suffix`), which a Kafka topic gets as KIP-213's bytes, in the partition of the prefix.
        name, store : names of the operator and of its queryable table.
        """
        if not isinstance(many, KTable):
            raise TopologyError(
                "A one-to-many join joins two tables.",
                given=repr(many),
                hint="Make a table of a stream first: one.one_to_many_join(stream.to_table(), ...).",
            )
        functions = self._construction.functions
        combined = functions.combined_type(self.key_type, many.key_type)
        joiner = adapt(joiner, ("key", "one", "many"), "joiner", functions)
        value = functions.value_type(joiner, (combined, self.value_type, many.value_type), "joiner")
        node = OneToMany(
            self._construction.name(name, OneToMany.stem, self.name, many.name),
            (self._node.name, many._node.name),
            Shape("table", combined, value),
            extractor=many._reference(key, self, "key extractor"),
            joiner=joiner,
            generation=self._construction.generation,
            store=None if result_key is not None else store,
        )
        joined = KTable(self._construction, self._attach(node))
        return joined if result_key is None else joined._under(result_key, store)

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
    def to(self, target: TopicSink | DatabaseTable | CatalogTable, *, name: str | None = None) -> None: ...

    @overload
    def to(self, target: Writer | ForeachBatch, *, name: str) -> None: ...

    def to(
        self,
        target: str | TopicSink | DatabaseTable | CatalogTable | Writer | ForeachBatch,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery | None = None,
        name: str | None = None,
    ) -> None:
        """Write the changes of the table out; tombstones are records with a null value. A `DatabaseTable` and a
        `CatalogTable` are kept as the table is: one row for each key.

        Parameters
        ----------
        target : a topic's name, a `TopicSink`, a `DatabaseTable`, a `CatalogTable`, a `Writer` or a
            `ForeachBatch`.
        key, value : of a topic, the formats; left out, they follow from the types: strings, ints, longs and bytes
            as Kafka's serializers write them, keys of one-to-many joins as KIP-213 has them, anything else as JSON.
        delivery : of a topic, "exactly_once" (a reader with `read_committed` sees each record once; default) or
            "at_least_once".
        name : the output's name, to the test driver and in describe(); default the topic's or the table's, needed
            for the others.

        Raises
        ------
        TopologyError : no such target or format, or the name is taken.
        """
        self.to_stream()._sink(target, {"key": key, "value": value, "delivery": delivery}, name)

    def _join(
        self,
        other: Any,
        joiner: Function,
        how: How,
        foreign_key: Function | None,
        name: str | None,
        store: str | None,
    ) -> KTable:
        if isinstance(other, GlobalKTable):
            return KTable(self._construction, lookup_node(self, other, joiner, how, foreign_key, name, store))
        if not isinstance(other, KTable):
            raise TopologyError(
                f"A table joins only with a table, and not with {described(other)}.",
                hint="Convert it (stream.to_table()), or let the stream drive: stream.join(table, ...).",
            )
        if foreign_key is not None:
            extractor = self._reference(foreign_key, other, "foreign key extractor")
            return self._foreign_key_join(other, joiner, how, extractor, name, store)
        self._require_same_key(other, "join")
        joiner, value = self._joiner(joiner, other)
        node = TableTable(
            self._construction.name(name, TableTable.stem, self.name, other.name),
            (self._node.name, other._node.name),
            Shape("table", self.key_type, value),
            how=how,
            joiner=joiner,
            generation=self._construction.generation,
            store=store,
        )
        return KTable(self._construction, self._attach(node))

    def _foreign_key_join(
        self,
        other: KTable,
        joiner: Function,
        how: How,
        extractor: Function,
        name: str | None,
        store: str | None,
    ) -> KTable:
        joiner, value = self._joiner(joiner, other)
        node = ForeignKey(
            self._construction.name(name, ForeignKey.stem, self.name, other.name),
            (self._node.name, other._node.name),
            Shape("table", self.key_type, value),
            how=how,
            extractor=extractor,
            joiner=joiner,
            generation=self._construction.generation,
            store=store,
        )
        return KTable(self._construction, self._attach(node))

    def _under(self, result_key: Function, store: str | None) -> KTable:
        """This table under a key made of its combined key."""
        functions = self._construction.functions

        def selector(key: Any, value: Any) -> Any:
            return result_key(*functions.combined_parts(key))

        kind = functions.value_type(selector, self._types(), "result key")
        name = f"{self.name}-result_key"
        shape = Shape("table", kind, self.value_type)
        node = SelectKey(name, (self._node.name,), shape, selector=selector, store=store)
        return KTable(self._construction, self._attach(node))

    def _reference(self, extractor: Function, other: KTable, role: str) -> Function:
        """The extractor as a function of (key, value), if its type is that of the keys of `other`."""
        self._require_same_builder(other, "join")
        extractor = adapt(extractor, ("key", "value"), role, self._construction.functions)
        kind = self._construction.functions.value_type(extractor, self._types(), role)
        if not same_type(kind, other.key_type):
            raise TopologyError(
                f"The {role} gives another type than the keys that it refers to.",
                given=f"{type_text(kind)}, and {other.name!r} has keys of {type_text(other.key_type)}",
                hint="Cast it in the extractor.",
            )
        return extractor
