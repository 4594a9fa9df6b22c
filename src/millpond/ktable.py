"""KTable: a table that keeps changing, the latest value of each key; null deletes.

Handle layer. Functions take and return Spark Columns; a function never sees a tombstone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millpond._plan.nodes import How, Shape, TableTable, ToStream
from millpond.errors import TopologyError
from millpond.functions import Function
from millpond.handle import Handle

if TYPE_CHECKING:
    from millpond.kstream import KStream


class KTable(Handle):
    """A changing table: what `StreamsBuilder.table`, `KStream.to_table` and joins of tables return."""

    def filter(self, predicate: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows for which the predicate holds; a row that stops holding is deleted.

        Parameters
        ----------
        predicate : Column function of (value) or (key, value) that gives a boolean; null counts as false.
        name, store : names of the operator and of its queryable table.
        """
        return KTable(self._builder, self._filtered(predicate, negate=False, name=name, store=store))

    def filter_not(self, predicate: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """The rows for which the predicate does not hold."""
        return KTable(self._builder, self._filtered(predicate, negate=True, name=name, store=store))

    def map_values(self, mapper: Function, *, name: str | None = None, store: str | None = None) -> KTable:
        """Each row with a new value; a null result deletes the row.

        Parameters
        ----------
        mapper : Column function of (value) or (key, value).
        name, store : names of the operator and of its queryable table.
        """
        return KTable(self._builder, self._mapped_values(mapper, name=name, store=store))

    def to_stream(self, *, name: str | None = None) -> KStream:
        """The changes of the table as a stream; a tombstone becomes a record with a null value."""
        from millpond.kstream import KStream

        shape = Shape("stream", self.key_type, self.value_type)
        name = self._builder._name(name, "to_stream")
        return KStream(self._builder, self._attach(ToStream(name, (self._node.name,), shape)))

    def join(
        self, other: KTable, joiner: Function, *, name: str | None = None, store: str | None = None
    ) -> KTable:
        """Inner join on the primary key: a row for each key that both tables have (KIP-77).

        Parameters
        ----------
        other : a table with the same type of key.
        joiner : Column function of (left, right) or (key, left, right) that makes the value.
        name, store : names of the operator and of its queryable table.
        """
        return self._join(other, joiner, "inner", name, store)

    def left_join(
        self, other: KTable, joiner: Function, *, name: str | None = None, store: str | None = None
    ) -> KTable:
        """Left join on the primary key: a row for each of this table's keys."""
        return self._join(other, joiner, "left", name, store)

    def outer_join(
        self, other: KTable, joiner: Function, *, name: str | None = None, store: str | None = None
    ) -> KTable:
        """Outer join on the primary key: a row for each key of either table."""
        return self._join(other, joiner, "outer", name, store)

    def to(self, target: Any, *, name: str | None = None, **options: Any) -> None:
        """Write the changes of the table out; see `KStream.to`."""
        self.to_stream().to(target, name=name, **options)

    def _join(self, other: KTable, joiner: Function, how: How, name: str | None, store: str | None) -> KTable:
        if not isinstance(other, KTable):
            raise TopologyError(
                "A table joins only with a table.",
                given=repr(other),
                hint="Convert it (stream.to_table()), or let the stream drive: stream.join(table, ...).",
            )
        self._require_same_key(other, "join")
        joiner, value = self._joiner(joiner, other)
        node = TableTable(
            self._builder._name(name, TableTable.stem),
            (self._node.name, other._node.name),
            Shape("table", self.key_type, value),
            how=how,
            joiner=joiner,
            generation=self._builder.generation,
            store=store,
        )
        return KTable(self._builder, self._attach(node))
