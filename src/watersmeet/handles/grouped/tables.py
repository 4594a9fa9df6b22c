"""KGroupedTable: rows by group, on the way to a table of aggregates. Handle layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from watersmeet._plan.nodes import RegroupNode, Shape, TableAggregateNode
from watersmeet.aggregates import AnyAggregate
from watersmeet.functions import Function, adapt
from watersmeet.handles.grouped.base import Grouped
from watersmeet.handles.grouped.folding import FoldFunction, Group, aggregating, counting, naming, reducing
from watersmeet.handles.side import Side
from watersmeet.names import answering
from watersmeet.windows import Duration

if TYPE_CHECKING:
    from watersmeet.handles.ktable import KTable


def regrouped(table: Side, selector: Function, name: str | None) -> KGroupedTable:
    """A table by group; `selector` gives pairs of a group and what is grouped."""
    construction = table.construction
    selector = adapt(selector, ("key", "value"), "group selector", construction.functions, pair=True)
    key, value = construction.functions.pair_type(selector, table.types, "group selector")
    name = construction.name(name, RegroupNode.stem)
    shape, above = Shape("stream", key, value), (table.name,)
    old = construction.add(RegroupNode(f"{name}-old", above, shape, selector=selector, half="old"))
    new = construction.add(RegroupNode(name, above, shape, selector=selector, half="new"))
    return KGroupedTable(Group(construction, (old.name, new.name), key, value))


@answering
class KGroupedTable(Grouped):
    """A table by group: what `KTable.group_by` returns. A changed row leaves its group before it comes into one."""

    def count(self, *, name: str | None = None, store: str | None = None, history: Duration | None = None) -> KTable:
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
        return self._add(TableAggregateNode, counting(self._group), name, "count", store, history)

    def reduce(
        self,
        adder: FoldFunction,
        subtractor: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
    ) -> KTable:
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
        return self._add(TableAggregateNode, reducing(self._group, adder, subtractor), name, "reduce", store, history)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: FoldFunction,
        subtractor: FoldFunction,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
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
        return self._add(
            TableAggregateNode,
            aggregating(self._group, initializer, adder, subtractor),
            name,
            "aggregate",
            store,
            history,
        )

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
        return self._add(TableAggregateNode, folding, name, "agg", store, history)
