"""KTable, GlobalKTable and WTable, the tables of a topology.

Handle layer. Windowed aggregates and joins of WTables make WTables (docs/semantics/wtable.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import Node, SelectKeyNode, type_text
from watersmeet.api import handle
from watersmeet.api.folds import counted_groups
from watersmeet.api.grouped import KGroupedTable, regrouped
from watersmeet.api.handle import Handle, Side, StoreOptions, made_as, parameters_of, same_type, side_of, suppress_node
from watersmeet.api.joins import Join, TableJoins, WindowJoins, joined, values_of_on
from watersmeet.api.outputs import TableOutputs, changes_of, keeps_rows, written
from watersmeet.api.processing import TablesRead, transformed
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, belonging
from watersmeet.hints import answering
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.outputs import Output
from watersmeet.processors import StoreDeclaration
from watersmeet.windows import Suppressed, Windows

if TYPE_CHECKING:
    from watersmeet.api.streams import KStream


KeyName = Literal["start", "key"]
"""The conversions that need no function: a struct of the key and the window's start, and the key alone."""


@made_as("wtable")
@answering
class WTable(WindowJoins):
    """A changing table with a key and a window in each row: the result of a windowed aggregate.

    Its keys are structs of `key`, `start` and `end`, the ends of the window in ms since 1970. It cannot be written to a
    topic as it is: `to_stream` converts it.
    """

    def __init__(self, construction: Construction, node: Node, windows: Windows, wait_ms: int) -> None:
        """Of a node with keys of these windows. Its rows may change for `wait_ms` after a window's end."""
        super().__init__(construction, node)
        self._windows = windows
        self._wait_ms = wait_ms

    @property
    def _side(self) -> Side:
        return Side(self._construction, self._node, self._windows, self._wait_ms)

    def filter(self, predicate: Function, *, name: str | None = None) -> WTable:
        """The rows for which the predicate holds; a row that stops holding is deleted.

        Parameters
        ----------
        predicate : Column function of (value) or (key, value) that gives a boolean; null counts as false. The key is
            the struct of key, start and end.
        name : name of the operator.

        Examples
        --------
        >>> results(hourly.filter(lambda key, n: key["key"] == "ann").to_stream(key="key"))
        [('ann', 1), ('ann', 1)]
        """
        return self._like(self._filtered(predicate, negate=False, name=name, store=None))

    def filter_not(self, predicate: Function, *, name: str | None = None) -> WTable:
        """The rows for which the predicate does not hold.

        Examples
        --------
        >>> results(hourly.filter_not(lambda n: n > 1).to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', 1)]
        """
        return self._like(self._filtered(predicate, negate=True, name=name, store=None))

    def map_values(self, mapper: Function, *, name: str | None = None) -> WTable:
        """Each row with a new value; a null result deletes the row.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value). The key is the struct of key, start and end.
        name : name of the operator.

        Examples
        --------
        >>> results(hourly.map_values(lambda n: n * 100).to_stream(key="key"))
        [('ann', 100), ('bob', 100), ('ann', 100)]
        """
        return self._like(self._mapped_values(mapper, name=name, store=None))

    def group_by(self, selector: Function, *, name: str | None = None) -> KGroupedTable:
        """The rows by group, as Kafka Streams has it as `KTable<Windowed<K>, V>.groupBy` (table_aggregate.md).

        A changed window leaves its group before it comes into one, and so does a session that becomes part of a longer
        one. Rows of an aggregate that emits on close, or after `until_window_closes`, come once for each window.

        Parameters
        ----------
        selector : Column function of (value) or (key, value) that returns a pair of Columns: the group, and what is
            grouped; where one of them is null, the row is in no group. The key is the struct of key, start and end.
        name : name of the operator.

        Example
        -------
        How many users have seen a page in each hour, of views by user and hour:
        `hours.group_by(lambda key, views: (key["start"], views)).count()`.

        Examples
        --------
        >>> results(hourly.group_by(lambda key, n: (key["start"], n)).count())
        [(0, 1), (0, 2), (3600000, 1)]
        """
        return regrouped(self._side, selector, name)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> WTable:
        """The table with changes held back, of each key and window the last one sent (KIP-328; section 22).

        Parameters
        ----------
        suppressed : until when: `Suppressed.until_time_limit(...)` or `until_window_closes(...)`.
        name : name of the operator.

        Raises
        ------
        TopologyError : the table has no windows that close.

        Examples
        --------
        >>> final = wm.Suppressed.until_window_closes(wm.BufferConfig.unbounded())
        >>> results(hourly.suppress(final).to_stream(key="key"))
        [('ann', 1), ('bob', 1)]
        """
        node = suppress_node(self._side, suppressed, name)
        return WTable(self._construction, node, self._windows, self._wait_ms + (suppressed.limit_ms or 0))

    def to_stream(self, *, key: KeyName | Function | None = None, name: str | None = None) -> KStream:
        """The changes of the table as a stream; a tombstone becomes a record with a null value.

        Parameters
        ----------
        key : what becomes the key: a function of (key, window) that gives a Column, where the window is a struct of
            `start` and `end`; "start" for a struct of `key` and the window's `start`; "key" for the key alone. Left
            out, it is the struct of `key`, `start` and `end`.
        name : name of the operator.

        Raises
        ------
        TopologyError : no such key.

        Examples
        --------
        >>> results(hourly.to_stream(key=lambda key, window: F.concat(key, F.lit("@"), window["start"])))
        [('ann@0', 1), ('bob@0', 1), ('ann@3600000', 1)]
        """
        construction, node = self._construction, changes_of(self._side, name)
        if key is None:
            return handle.stream(construction, node)
        selector = self._selector(key)
        kind = construction.functions.value_type(selector, self._types(), "key selector")
        shape, node_name = replace(node.shape, key=kind), f"{node.name}-key"
        return handle.stream(
            construction, self._attach(SelectKeyNode(node_name, (node.name,), shape, selector=selector))
        )

    def to(self, target: DatabaseTable | CatalogTable | Output, *, name: str | None = None) -> None:
        """Keep the table in one of a database or catalog; the key's columns are those of the key, `start` and `end`.

        Parameters
        ----------
        target : a `DatabaseTable`, a `CatalogTable`, or an `Output` that keeps a row for each key. A topic's name is
            refused: the table lies where its key lies, which no reader of its keys could know; convert it first.
        name : the output's name, to the test driver and in describe(); default the table's there.

        Raises
        ------
        TopologyError : it is neither, or the name is taken.

        Examples
        --------
        >>> kept = wm.DatabaseTable("sqlite:////data/shop.db", table="orders_by_hour", create=True)
        >>> hourly.to(kept)
        """
        destination: Any = target
        if not keeps_rows(destination):
            raise TopologyError(
                f"A table by key and window cannot be written directly: target={destination!r:.120}.",
                hint="Convert it first: wtable.to_stream().to(...) writes structs of key, start and end; "
                'to_stream(key="start") makes structs of key and start, to_stream(key="key") makes plain keys, '
                "and to_stream(key=lambda key, window: ...) calls your own function.",
            )
        written(self._side, destination, {}, name)

    def _like(self, node: Node) -> WTable:
        return WTable(self._construction, node, self._windows, self._wait_ms)

    def _selector(self, key: KeyName | Function) -> Function:
        functions = self._construction.functions
        parts = functions.windowed_parts
        if callable(key):
            function = key
            return lambda windowed, _: function(*parts(windowed))
        if key == "key":
            return lambda windowed, _: parts(windowed)[0]
        if key == "start":
            return lambda windowed, _: functions.record(
                windowed, {"key": parts(windowed)[0], "start": functions.field(parts(windowed)[1], "start")}
            )
        raise TopologyError(
            f"Unknown key={key!r:.80} of to_stream.",
            hint='Use "start", "key", or a function: to_stream(key=lambda key, window: ...).',
        )


# KTable: a table that keeps changing, the latest value of each key; null deletes.
#
# Handle layer. Functions take and return Spark Columns; a function never sees a tombstone.


@made_as("table")
@answering
class KTable(TableJoins, TableOutputs):
    """A changing table: what `StreamsBuilder.table`, `KStream.to_table` and joins of tables return."""

    def filter(self, predicate: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows for which the predicate holds; a row that stops holding is deleted.

        Parameters
        ----------
        predicate : Column function of (value) or (key, value) that gives a boolean; null counts as false.
        name, store : names of the operator and of its queryable table.

        Examples
        --------
        >>> results(discounts.filter(lambda percent: percent > 10))
        [('ann', 20), ('carl', None)]
        """
        return KTable(self._construction, self._filtered(predicate, negate=False, name=name, store=store))

    def filter_not(self, predicate: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows for which the predicate does not hold.

        Examples
        --------
        >>> results(discounts.filter_not(lambda percent: percent > 10))
        [('ann', None), ('carl', 5)]
        """
        return KTable(self._construction, self._filtered(predicate, negate=True, name=name, store=store))

    def map_values(self, mapper: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """Each row with a new value; a null result deletes the row.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value).
        name, store : names of the operator and of its queryable table.

        Examples
        --------
        >>> results(customers.map_values(lambda customer: customer["country"]))
        [('ann', 'FR'), ('bob', 'DE'), ('ann', 'DE')]
        """
        return KTable(self._construction, self._mapped_values(mapper, name=name, store=store))

    def transform_values(
        self,
        transformer: Callable[[], Any],
        *,
        value: Any,
        stores: Sequence[StoreDeclaration] = (),
        tables: TablesRead = (),
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Each row with the value that a transformer gives it, which keeps state by key and sets timers.

        It is a processor (docs/processors.md) with a method `transform(record, context)` in place of `process`: what
        that gives is the row's new value, and None deletes the row. It is called for each change of the table,
        deletions (a value of None) among them. Records that it sends in other ways (`context.forward`, a timer) are
        later changes of the row. Kafka Streams has it as `KTable.transformValues` (KIP-149).

        Parameters
        ----------
        transformer : a class, or a function without parameters that gives an object.
        value : type of the values that it gives, in Spark's words or as a DataType.
        stores : its stores: `wm.ValueStore`, `wm.ListStore` and `wm.MapStore`.
        tables : tables that it reads, as `KStream.process` has them.
        name, store : names of the operator and of the result's queryable table.

        Raises
        ------
        TopologyError : it is no transformer, a store or a table is none, or its name is taken.
        FunctionError : unknown type, or its methods take other arguments.

        Examples
        --------
        >>> class Times:
        ...     def init(self, context):
        ...         self.times = context.get_store("times")
        ...
        ...     def transform(self, record, context):
        ...         self.times.put((self.times.get() or 0) + 1)
        ...         return None if record.value is None else f"{record.value}, change {self.times.get()}"
        >>> countries_of = customers.map_values(lambda customer: customer["country"])
        >>> times = wm.ValueStore("times", "long")
        >>> results(countries_of.transform_values(Times, value="string", stores=[times]))
        [('ann', 'FR, change 1'), ('bob', 'DE, change 1'), ('ann', 'DE, change 2')]
        """
        side = self._side
        return transformed(side, transformer, value=value, stores=stores, tables=tables, name=name, store=store)

    def to_stream(self, *, key: Function | None = None, name: str | None = None) -> KStream:
        """The changes of the table as a stream; a tombstone becomes a record with a null value.

        Parameters
        ----------
        key : a new key of each record: a Column function of (value) or (key, value), which sees null values, too; None:
            the row's.
        name : name of the operator.

        Examples
        --------
        >>> results(customers.to_stream().map_values(lambda customer: customer["name"]))
        [('ann', 'Ann'), ('bob', 'Bob'), ('ann', 'Ann')]
        """
        stream = handle.stream(self._construction, changes_of(self._side, name))
        return stream if key is None else stream.select_key(key, name=f"{stream.name}-key")

    def group_by(self, selector: Function, *, name: str | None = None) -> KGroupedTable:
        """The rows by group; a changed row leaves its group before it comes into one (semantics/table_aggregate.md).

        Parameters
        ----------
        selector : function of (value) or (key, value) that returns a pair of Columns: the group, and what is grouped;
            where one of them is null, the row is in no group.
        name : name of the operator.

        Examples
        --------
        >>> results(customers.group_by(lambda name, customer: (customer["country"], name)).count())
        [('FR', 1), ('DE', 1), ('FR', 0), ('DE', 2)]
        """
        return regrouped(self._side, selector, name)

    def semi_join(
        self,
        other: KTable | GlobalKTable,
        *,
        foreign_key: Function | None = None,
        on: Any = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """The rows that meet one of another table, as they are: SQL's `EXISTS`.

        Parameters
        ----------
        other : a table with the same type of key; with `foreign_key` or `on`, of any key; or a global table, which is
            only looked up.
        foreign_key : Column function of (value) or (key, value) that gives the key of the other table that a row refers
            to; null: none.
        on : what must be equal in rows of both tables, as for `KTable.join`; null equals nothing.
        name, store : names of the operator and of its queryable table.

        Raises
        ------
        TopologyError : the types of what is compared differ, or an option does not belong to `other`.

        Examples
        --------
        >>> results(customers.semi_join(discounts).map_values(lambda customer: customer["name"]))
        [('ann', 'Ann'), ('ann', 'Ann')]
        """
        return self._rows_by(
            other, Join("inner", lambda left, right: left, name, store, foreign_key=foreign_key, on=on)
        )

    @parameters_of(semi_join)
    def anti_join(
        self,
        other: KTable | GlobalKTable,
        *,
        foreign_key: Function | None = None,
        on: Any = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """The rows that meet none of another table: SQL's `NOT EXISTS`.

        Parameters as for `KTable.semi_join`.

        Examples
        --------
        >>> results(customers.anti_join(discounts).map_values(lambda customer: customer["name"]))
        [('ann', 'Ann'), ('bob', 'Bob'), ('ann', None), ('ann', None)]
        """
        where_null = self._construction.functions.where_null
        join = Join("left", lambda left, right: where_null(right, left), name, store, foreign_key=foreign_key, on=on)
        return self._rows_by(other, join)

    def union(self, other: KTable, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows of both tables; of a key that both have, this one's.

        A key stands for one row, so this is `UNION` by key. `distinct` makes values keys: `one.distinct().union(
        other.distinct())` is SQL's.

        Parameters
        ----------
        other : a table with the same types of key and value.
        name, store : names of the operator and of its queryable table.

        Raises
        ------
        TopologyError : it is no such table.

        Examples
        --------
        >>> results(discounts.union(customers.map_values(lambda customer: F.lit(0))))
        [('ann', 0), ('bob', 0), ('ann', 20), ('ann', 20), ('carl', 5)]
        """
        where_null = self._construction.functions.where_null
        self._check_rows(other, "union")
        return self._rows_by(other, Join("outer", lambda left, right: where_null(left, right, left), name, store))

    @parameters_of(union)
    def intersect(self, other: KTable, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows of this table with a key that the other one has, too.

        Parameters as for `KTable.union`.

        Examples
        --------
        >>> results(discounts.intersect(customers.map_values(lambda customer: F.lit(0))))
        [('ann', 20), ('ann', 20)]
        """
        self._check_rows(other, "intersect")
        return self.semi_join(other, name=name, store=store)

    @parameters_of(union)
    def subtract(self, other: KTable, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows of this table with a key that the other one does not have: SQL's `EXCEPT`, by key.

        Parameters as for `KTable.union`.

        Examples
        --------
        >>> results(discounts.subtract(customers.map_values(lambda customer: F.lit(0))))
        [('ann', None), ('ann', None), ('carl', 5)]
        """
        self._check_rows(other, "subtract")
        return self.anti_join(other, name=name, store=store)

    def distinct(self, *, name: str | None = None, store: str | None = None) -> KTable:
        """A row for each value that rows of the table have, under itself as its key.

        It stands until the last row with the value has gone.

        Parameters
        ----------
        name, store : names of the operator and of its queryable table.

        Examples
        --------
        >>> results(customers.map_values(lambda customer: customer["country"]).distinct())
        [('FR', 'FR'), ('DE', 'DE'), ('FR', None), ('DE', 'DE')]
        """
        name = self._construction.name(name, "distinct", self.name)
        values = self._values(lambda key, value: value, name)
        return values.map_values(lambda value, rows: value, name=name, store=store)

    def _rows_by(self, table: Any, join: Join) -> KTable:
        """A join of which the joiner gives rows of this table alone; by `on`, with the values of the other one."""
        right, construction = side_of(table), self._construction
        if join.on is not None and right is not None and right.kind == "table":
            stem = "anti_join" if join.how == "left" else "semi_join"
            name = construction.name(join.name, stem, self.name, right.name)
            (left_value, right_value), _ = values_of_on(self._side, right, join)
            table = KTable(construction, right.node)._values(right_value, name)
            reference = belonging(lambda key, value: left_value(key, value), left_value, ("key", "value"))
            join = replace(join, name=name, on=None, foreign_key=reference)
        elif not join.options and right is not None and right.kind == "table":
            # a record that changes both tables gives what stands behind it, which a join of two does not promise
            return self.multi_join([table], join.joiner, how=join.how, name=join.name, store=join.store)
        result: KTable = joined(self._side, table, join)
        return result

    def _values(self, function: Function, name: str) -> KTable:
        """The values that a function of key and value gives of the rows, as keys, with the number of rows of each."""
        functions = self._construction.functions

        def by_value(key: Any, value: Any) -> tuple[Any, Any]:
            return function(key, value), functions.record(key, {"row": None})

        return counted_groups(regrouped(self._side, by_value, f"{name}-values"), f"{name}-rows")

    def _check_rows(self, table: Any, operation: str) -> None:
        right = side_of(table)
        if right is None or right.kind != "table":
            hint = f"Make one: {operation}(stream.to_table()); a topic of a global table can be read by builder.table."
            raise TopologyError(f"{operation} takes a table: other={table!r:.80}.", hint=hint)
        if not same_type(right.value_type, self.value_type):
            raise TopologyError(
                f"The two tables of {operation} have values of different types: {self.name!r} has "
                f"{type_text(self.value_type)}, {right.name!r} has {type_text(right.value_type)}.",
                hint=f"Make them alike: {operation}(other.map_values(lambda value: ...)).",
            )

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable:
        """The table with changes held back, of each key the last one sent (KIP-328; docs/semantics/suppress.md).

        Parameters
        ----------
        suppressed : until when: `Suppressed.until_time_limit(...)`; of windows, `until_window_closes(...)`, too.
        name : name of the operator.

        Raises
        ------
        TopologyError : the table has no windows that close.

        Examples
        --------
        >>> last = wm.Suppressed.until_time_limit("1 hour", wm.BufferConfig.unbounded())
        >>> results(by_customer.count().suppress(last))
        [('ann', 1), ('bob', 1)]
        """
        return KTable(self._construction, suppress_node(self._side, suppressed, name))


# GlobalKTable: a table of which every shard has a copy, so that it can be looked up by any key.
#
# Handle layer. What `StreamsBuilder.global_table` returns, and the joins of streams and tables with it
# (docs/semantics/global_lookup.md): only the stream or the table drives them.


@made_as("global")
@answering
class GlobalKTable(Handle):
    """A global table: it can be joined and looked up, nothing else."""

    def join(
        self, other: GlobalKTable, joiner: Function, *, key: Function, **options: Unpack[StoreOptions]
    ) -> GlobalKTable:
        """Inner join with another global table, as a view (KIP-99): a row where both have one.

        It is resolved at each lookup, and gives no results of its own. A lookup needs no further exchange for the
        second table. With `store` its rows are kept, too, and can be asked for. Rows are also kept where a processor
        reads the view, and where its left side is a view.

        Parameters
        ----------
        other : a global table, or a view of some.
        joiner : Column function of (left, right) or (key, left, right) that makes the value.
        key : Column function of (value) or (key, value) of this table that gives the other's key; null: none.
        name, store : names of the view and of its queryable table.

        Raises
        ------
        TopologyError : `other` is no global table, or the key is of another type than the other's.

        Examples
        --------
        >>> priced = countries.join(currencies, lambda country, currency: currency, key=lambda code, country: code)
        >>> country_of = lambda customer: customer["country"]
        >>> results(customers.join(priced, lambda customer, currency: currency, foreign_key=country_of))
        [('ann', 'euro'), ('ann', None)]
        """
        return self._view(other, Join("inner", joiner, key=key, **options))

    @parameters_of(join)
    def left_join(
        self, other: GlobalKTable, joiner: Function, *, key: Function, **options: Unpack[StoreOptions]
    ) -> GlobalKTable:
        """Left join as a view: a row for each of this table's; right may be null.

        Parameters as for `GlobalKTable.join`.

        Examples
        --------
        >>> either = lambda country, currency: F.coalesce(currency, country)
        >>> named = countries.left_join(currencies, either, key=lambda code, country: code)
        >>> country_of = lambda customer: customer["country"]
        >>> results(customers.join(named, lambda customer, found: found, foreign_key=country_of))
        [('ann', 'euro'), ('bob', 'Germany'), ('ann', 'Germany')]
        """
        return self._view(other, Join("left", joiner, key=key, **options))

    def _view(self, right: Any, join: Join) -> GlobalKTable:
        result: GlobalKTable = joined(self._side, right, join)
        return result
