"""KTable: a table that keeps changing, the latest value of each key; null deletes.

Handle layer. Functions take and return Spark Columns; a function never sees a tombstone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millpond._plan.nodes import ForeignKey, How, Node, Shape, TableTable, ToStream
from millpond.errors import TopologyError
from millpond.functions import Function, adapt
from millpond.handle import Handle, same_type, type_text

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
        self,
        other: KTable,
        joiner: Function,
        *,
        foreign_key: Function | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Inner join: a row for each key that both tables have (KIP-77), or by a foreign key (KIP-213).

        Parameters
        ----------
        other : a table with the same type of key; with `foreign_key`, of any key.
        joiner : Column function of (left, right) or (key, left, right) that makes the value.
        foreign_key : Column function of (value) or (key, value) that gives, of each row of this table, the
            key of the other table that it refers to; null: none. The result has this table's keys: a row for
            each of its rows whose reference is there.
        name, store : names of the operator and of its queryable table.
        """
        return self._join(other, joiner, "inner", foreign_key, name, store)

    def left_join(
        self,
        other: KTable,
        joiner: Function,
        *,
        foreign_key: Function | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Left join: a row for each of this table's keys; right may be null. Parameters as for `join`."""
        return self._join(other, joiner, "left", foreign_key, name, store)

    def outer_join(
        self, other: KTable, joiner: Function, *, name: str | None = None, store: str | None = None
    ) -> KTable:
        """Outer join on the primary key: a row for each key of either table; one side may be null."""
        return self._join(other, joiner, "outer", None, name, store)

    def to(self, target: Any, *, name: str | None = None, **options: Any) -> None:
        """Write the changes of the table out; see `KStream.to`."""
        self.to_stream().to(target, name=name, **options)

    def _join(
        self,
        other: KTable,
        joiner: Function,
        how: How,
        foreign_key: Function | None,
        name: str | None,
        store: str | None,
    ) -> KTable:
        if not isinstance(other, KTable):
            raise TopologyError(
                "A table joins only with a table.",
                given=repr(other),
                hint="Convert it first (stream.to_table()), or let the stream drive: stream.join(table, ...).",
            )
        if foreign_key is None:
            self._require_same_key(other, "join")
        else:
            foreign_key = self._reference(foreign_key, other, "foreign key extractor")
        joiner, value = self._joiner(joiner, other)
        sides = (self._node.name, other._node.name)
        shape = Shape("table", self.key_type, value)
        generation = self._builder.generation
        node: Node
        if foreign_key is None:
            name = self._builder._name(name, TableTable.stem)
            node = TableTable(
                name, sides, shape, how=how, joiner=joiner, generation=generation, store=store
            )
        else:
            name = self._builder._name(name, ForeignKey.stem)
            node = ForeignKey(
                name,
                sides,
                shape,
                how=how,
                extractor=foreign_key,
                joiner=joiner,
                generation=generation,
                store=store,
            )
        return KTable(self._builder, self._attach(node))

    def _reference(self, extractor: Function, other: KTable, role: str) -> Function:
        """The extractor as a function of (key, value), once its type is known to be that of `other`'s keys."""
        self._require_same_builder(other, "join")
        extractor = adapt(extractor, ("key", "value"), role)
        kind = self._builder._functions.value_type(extractor, self._types(), role)
        if not same_type(kind, other.key_type):
            raise TopologyError(
                f"The {role} gives another type than the keys that it refers to.",
                given=f"{type_text(kind)}, and {other.name!r} has keys of {type_text(other.key_type)}",
                hint="Cast it in the extractor.",
            )
        return extractor
