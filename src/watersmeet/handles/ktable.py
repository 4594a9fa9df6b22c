"""KTable: a table that keeps changing, the latest value of each key; null deletes.

Handle layer. Functions take and return Spark Columns; a function never sees a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from watersmeet.functions import Function
from watersmeet.handles import factory as made
from watersmeet.handles.factory import made_as
from watersmeet.handles.grouped.reading import TablesRead
from watersmeet.handles.grouped.tables import KGroupedTable, regrouped
from watersmeet.handles.grouped.transforming import transformed
from watersmeet.handles.joins.of_tables import TableJoins
from watersmeet.handles.outputs import TableOutputs, changes_of
from watersmeet.handles.suppress import suppress_node
from watersmeet.names import answering
from watersmeet.processors import StoreDeclaration
from watersmeet.windows import Suppressed

if TYPE_CHECKING:
    from watersmeet.handles.kstream import KStream


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
        stream = made.stream(self._construction, changes_of(self._side, name))
        return stream if key is None else stream.select_key(key, name=f"{stream.name}-key")

    def group_by(self, selector: Function, *, name: str | None = None) -> KGroupedTable:
        """The rows by group; a changed row leaves its group before it comes into one (docs/semantics, section 12).

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

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable:
        """The table with changes held back, of each key the last one sent (KIP-328; docs/semantics, section 22).

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
