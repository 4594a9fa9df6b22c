"""GlobalKTable: a table of which every shard has a copy, so that it can be looked up by any key.

Handle layer. What `StreamsBuilder.global_table` returns, and the joins of streams and tables with it
(docs/semantics, section 9): only the stream or the table drives them.
"""

from __future__ import annotations

from typing import Any

from watersmeet._plan.nodes import GlobalLookup, GlobalTableLookup, GlobalView, How, Shape
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, FunctionBackend, adapt, belonging, names_of, wants
from watersmeet.handle import Handle, same_type, type_text
from watersmeet.names import answering


@answering
class GlobalKTable(Handle):
    """A global table: it can be joined and looked up, nothing else."""

    def join(self, other: GlobalKTable, joiner: Function, *, key: Function, name: str | None = None) -> GlobalKTable:
        """Inner join with another global table, as a view (KIP-99): a row where both have one.

        It is resolved whenever it is looked up, and gives no results of its own accord. Whoever looks it up needs
        no further exchange for the second table.

        Parameters
        ----------
        other : a global table, or a view of some.
        joiner : Column function of (left, right) or (key, left, right) that makes the value.
        key : Column function of (value) or (key, value) of this table that gives the other's key; null: none.
        name : name of the view.
        """
        return self._view(other, joiner, "inner", key, name)

    def left_join(
        self, other: GlobalKTable, joiner: Function, *, key: Function, name: str | None = None
    ) -> GlobalKTable:
        """Left join as a view: a row for each of this table's; right may be null. Parameters as for `join`."""
        return self._view(other, joiner, "left", key, name)

    def _view(
        self, other: GlobalKTable, joiner: Function, how: How, mapper: Function, name: str | None
    ) -> GlobalKTable:
        if not isinstance(other, GlobalKTable):
            raise TopologyError(
                "A global table joins with global tables only: it drives nothing.",
                given=repr(other),
                hint="Let the other one drive: stream.join(table, joiner, key=...).",
            )
        if isinstance(self._node, GlobalView):
            raise TopologyError(
                "A view cannot be the left side of a view: the key to look up would come from a value that is only "
                "joined when the view is looked up.",
                given=repr(self),
                hint="Join from the inside out: a.join(b.join(c, ...), ...).",
            )
        mapper = _mapper(self, other, mapper)
        joiner, value = self._joiner(joiner, other)
        shape = Shape("global", self.key_type, value)
        name = self._construction.name(name, GlobalView.stem)
        node = GlobalView(name, (self.name, other.name), shape, how=how, mapper=mapper, joiner=joiner)
        return GlobalKTable(self._construction, self._attach(node))


def lookup_node(
    left: Handle,
    right: GlobalKTable,
    joiner: Function,
    how: How,
    mapper: Function | None,
    name: str | None,
    store: str | None = None,
) -> GlobalLookup:
    """The node of a join of a stream or a table with a global table, attached to the builder.

    Parameters
    ----------
    joiner : function of (left, right), (key, left, right) or (key, mapped key, left, right).
    mapper : function of (value) or (key, value) that gives the key to look up.
    """
    option = "key" if left._node.shape.kind == "stream" else "foreign_key"
    if how == "outer":
        raise TopologyError(
            f"A join with a global table has no outer form: {right.name!r} is one.",
            hint=f"Use left_join(table, joiner, {option}=...).",
        )
    if mapper is None:
        raise TopologyError(
            f"A join with the global table {right.name!r} needs the key to look up: {option}= is left out.",
            hint=f"Give it: join(table, joiner, {option}=lambda value: value['country']).",
        )
    mapper = _mapper(left, right, mapper)
    joiner = _with_both_keys(joiner, left._construction.functions)
    value = left._construction.functions.value_type(
        joiner, (left.key_type, right.key_type, left.value_type, right.value_type), "joiner"
    )
    made: type[GlobalLookup] = GlobalLookup if left._node.shape.kind == "stream" else GlobalTableLookup
    node = made(
        left._construction.name(name, made.stem, left.name, right.name),
        (left.name, right.name),
        Shape(left._node.shape.kind, left.key_type, value),
        how=how,
        mapper=mapper,
        joiner=joiner,
        generation=left._construction.generation,
        store=store,
    )
    left._attach(node)
    return node


def _mapper(left: Handle, right: GlobalKTable, mapper: Function) -> Function:
    """The key mapper as a function of (key, value), if it gives keys of the right side."""
    left._require_same_builder(right, "join")
    mapper = adapt(mapper, ("key", "value"), "key mapper", left._construction.functions)
    kind = left._construction.functions.value_type(mapper, left._types(), "key mapper")
    if not same_type(kind, right.key_type):
        raise TopologyError(
            f"The key mapper gives another type than the table's, {type_text(kind)}: {right.name!r} has "
            f"keys of {type_text(right.key_type)}.",
            hint=f"Cast it in the mapper: value['field'].cast('{type_text(right.key_type)}').",
        )
    return mapper


def _with_both_keys(joiner: Function, functions: FunctionBackend) -> Function:
    """The joiner as one of (key, mapped key, left, right)."""
    if wants(joiner, 4):
        return joiner
    adapted = adapt(joiner, ("key", "left", "right"), "joiner", functions)

    def joined(key: Any, mapped_key: Any, left: Any, right: Any) -> Any:
        return adapted(key, left, right)

    key, left, right = names_of(adapted, 3)
    return belonging(joined, joiner, (key, "mapped_key", left, right))
