"""The joins of a table: part of `KTable`. Handle layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from watersmeet._plan.nodes import How
from watersmeet.functions import Function
from watersmeet.handles import factory as made
from watersmeet.handles.handle import Handle
from watersmeet.handles.joins.join import Join
from watersmeet.handles.joins.kinds import ONE_TO_MANY, Joins, joined
from watersmeet.handles.joins.multi_join import attach_multi_join
from watersmeet.handles.shared_parameters import parameters_of
from watersmeet.names import answering
from watersmeet.windows import Duration

if TYPE_CHECKING:
    from watersmeet.handles.global_ktable import GlobalKTable
    from watersmeet.handles.ktable import KTable
    from watersmeet.handles.wtable import WTable


@answering
class TableJoins(Handle):
    """The joins of a table with tables, global tables, and tables by key and window."""

    @overload
    def join(
        self,
        other: KTable,
        joiner: Function,
        *,
        foreign_key: Function | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable: ...

    @overload
    def join(
        self,
        other: GlobalKTable,
        joiner: Function,
        *,
        foreign_key: Function,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable: ...

    @overload
    def join(
        self,
        other: WTable,
        joiner: Function,
        *,
        window_of: Function,
        keep: Duration,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable: ...

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
        other : a table with the same type of key; with `foreign_key`, of any key; or a global table, which is only
            looked up: its changes give no results; or a table by key and window.
        joiner : Column function of (left, right) or (key, left, right) that makes the value.
        foreign_key : Column function of (value) or (key, value) that gives, of each row of this table, the
            key of the other table that it refers to; null: none. The result has this table's keys: a row for
            each of its rows with an existing reference.
        window_of : for a table by key and window, Column function of (value) or (key, value) that gives the window
            that a row points at, a struct of the longs `start` and `end` in ms; null: none.
        keep : for such a table, how long after its end and grace a window still joins, a duration ("2 days").
        name, store : names of the operator and of its queryable table.

        Raises
        ------
        TopologyError : an option does not belong to a join with `other`, or is left out; or the types of key differ.

        Examples
        --------
        >>> named = lambda order, customer: customer["country"]
        >>> results(orders.to_table().join(customers, named, foreign_key=lambda order: order["customer"]))
        [(1, 'FR'), (2, 'DE'), (1, 'DE'), (3, 'DE')]
        """
        options: dict[str, Any] = {"foreign_key": foreign_key, "window_of": window_of, "keep": keep}
        return self._join(other, Join("inner", joiner, name, store, **options))

    @overload
    def left_join(
        self,
        other: KTable,
        joiner: Function,
        *,
        foreign_key: Function | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable,
        joiner: Function,
        *,
        foreign_key: Function,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable: ...

    @overload
    def left_join(
        self,
        other: WTable,
        joiner: Function,
        *,
        window_of: Function,
        keep: Duration,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable: ...

    @parameters_of(join)
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
        """Left join: a row for each of this table's keys; right may be null.

        Parameters as for `KTable.join`.

        Examples
        --------
        >>> results(customers.left_join(discounts, lambda customer, percent: F.coalesce(percent, F.lit(0))))
        [('ann', 0), ('bob', 0), ('ann', 20), ('ann', 20)]
        """
        options: dict[str, Any] = {"foreign_key": foreign_key, "window_of": window_of, "keep": keep}
        return self._join(other, Join("left", joiner, name, store, **options))

    @parameters_of(join)
    def outer_join(
        self, other: KTable, joiner: Function, *, name: str | None = None, store: str | None = None
    ) -> KTable:
        """Outer join on the primary key: a row for each key of either table; one side may be null.

        Parameters
        ----------
        other : a table with the same type of key.

        Other parameters as for `KTable.join`.

        Examples
        --------
        >>> results(customers.outer_join(discounts, lambda customer, percent: F.coalesce(customer["name"], F.lit("?"))))
        [('ann', 'Ann'), ('bob', 'Bob'), ('ann', 'Ann'), ('ann', 'Ann'), ('carl', '?')]
        """
        return self._join(other, Join("outer", joiner, name, store))

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
        """Inner join with a table of rows that refer to this one, keyed by both keys (KIP-213, first proposal).

        Parameters
        ----------
        many : the table of rows that refer to rows of this one.
        joiner : Column function of (one, many) or (key, one, many), where key is the combined key.
        key : Column function of (value) or (key, value) of `many` that gives the key of this table.
        result_key : Column function of (prefix, suffix), the keys of this table and of `many`, that makes the
            result's key out of both, a different one for each pair; without it the key is the struct
            (`prefix`, `suffix`), which a Kafka topic gets as KIP-213's bytes, in the partition of the prefix.
        name, store : names of the operator and of its queryable table.

        Raises
        ------
        TopologyError : `many` is no table, or the key is of another type than this table's.

        Examples
        --------
        >>> amount, customer_of = lambda customer, order: order["amount"], lambda order: order["customer"]
        >>> both = lambda customer, order: F.concat(customer, F.lit("-"), order)
        >>> results(customers.one_to_many_join(orders.to_table(), amount, key=customer_of, result_key=both))
        [('ann-1', 30.0), ('bob-2', 5.0), ('ann-1', 30.0), ('ann-3', 12.0)]
        """
        return self._join(many, Join("inner", joiner, name, store, key=key, result_key=result_key), ONE_TO_MANY)

    def multi_join(
        self,
        others: Sequence[KTable],
        joiner: Function,
        *,
        how: How | Sequence[How] = "inner",
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Join with several tables by their common key, in one operator that keeps each table once.

        A change of any table gives one result. A chain of joins ends with the same rows, but keeps each result but the
        last as well, and may give more results for one change.

        Parameters
        ----------
        others : tables with the same type of key.
        joiner : Column function of the values of all tables, this one's first, or of the key and these, that makes the
            value.
        how : "inner", "left" or "outer", or a list of "inner" and "left", one for each of the others. A row needs this
            table and all inner ones; if all are outer, any one of them.
        name, store : names of the operator and of its queryable table.

        Raises
        ------
        TopologyError : an element of `others` is no table, or there is none; a type of key differs; unknown `how`.

        Examples
        --------
        >>> sum_of = lambda customer, percent, bonus: F.coalesce(percent, F.lit(0)) + F.coalesce(bonus, F.lit(0))
        >>> bonuses = discounts.map_values(lambda percent: percent * 10)
        >>> results(customers.multi_join([discounts, bonuses], sum_of, how="left"))
        [('ann', 0), ('bob', 0), ('ann', 200), ('ann', 220), ('ann', 220)]
        """
        result: KTable = made.handle_of(attach_multi_join(self._side, others, joiner, how, name, store))
        return result

    def _join(self, other: Any, join: Join, joins: Joins | None = None) -> KTable:
        result: KTable = joined(self._side, other, join, joins)
        return result
