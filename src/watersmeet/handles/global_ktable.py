"""GlobalKTable: a table of which every shard has a copy, so that it can be looked up by any key.

Handle layer. What `StreamsBuilder.global_table` returns, and the joins of streams and tables with it
(docs/semantics, section 9): only the stream or the table drives them.
"""

from __future__ import annotations

from typing import Any

from watersmeet.functions import Function
from watersmeet.handles.factory import made_as
from watersmeet.handles.handle import Handle
from watersmeet.handles.joins.join import Join
from watersmeet.handles.joins.kinds import joined
from watersmeet.handles.shared_parameters import parameters_of
from watersmeet.names import answering


@made_as("global")
@answering
class GlobalKTable(Handle):
    """A global table: it can be joined and looked up, nothing else."""

    def join(self, other: GlobalKTable, joiner: Function, *, key: Function, name: str | None = None) -> GlobalKTable:
        """Inner join with another global table, as a view (KIP-99): a row where both have one.

        It is resolved at each lookup, and gives no results of its own. A lookup needs no further exchange for the
        second table.

        Parameters
        ----------
        other : a global table, or a view of some.
        joiner : Column function of (left, right) or (key, left, right) that makes the value.
        key : Column function of (value) or (key, value) of this table that gives the other's key; null: none.
        name : name of the view.

        Raises
        ------
        TopologyError : `other` is no global table, this one is a view, or the key is of another type than the other's.

        Examples
        --------
        >>> priced = countries.join(currencies, lambda country, currency: currency, key=lambda code, country: code)
        >>> country_of = lambda customer: customer["country"]
        >>> results(customers.join(priced, lambda customer, currency: currency, foreign_key=country_of))
        [('ann', 'euro'), ('ann', None)]
        """
        return self._view(other, Join("inner", joiner, name, key=key))

    @parameters_of(join)
    def left_join(
        self, other: GlobalKTable, joiner: Function, *, key: Function, name: str | None = None
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
        return self._view(other, Join("left", joiner, name, key=key))

    def _view(self, other: Any, join: Join) -> GlobalKTable:
        result: GlobalKTable = joined(self._side, other, join)
        return result
