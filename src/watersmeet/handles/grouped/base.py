"""Grouped: what all grouped streams and tables share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from watersmeet._plan.nodes import AggregatedNode, Node, Shape
from watersmeet.handles import factory as made
from watersmeet.handles.grouped.folding import Folding, Group
from watersmeet.handles.side import type_text
from watersmeet.names import NoValue, answering
from watersmeet.windows import Duration

if TYPE_CHECKING:
    from watersmeet.handles.ktable import KTable


@answering
class Grouped(NoValue):
    """Base of grouped handles: their input, and how tables are made of it."""

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def key_type(self) -> Any:
        """Type of the groups' keys.

        Examples
        --------
        >>> orders.group_by_key().key_type
        LongType()
        """
        return self._group.key

    @property
    def value_type(self) -> Any:
        """Type of what is grouped.

        Examples
        --------
        >>> payments.group_by_key().value_type
        DoubleType()
        """
        return self._group.value

    def __repr__(self) -> str:
        types = f"key={type_text(self._group.key)}, value={type_text(self._group.value)}"
        return f"{type(self).__name__}({self._group.inputs[-1]!r}, {types})"

    def _result_key(self) -> Any:
        """Type of the keys of results."""
        return self._group.key

    def _add(
        self,
        make: Callable[..., AggregatedNode],
        folding: Folding,
        name: str | None,
        stem: str,
        store: str | None,
        history: Duration | None = None,
    ) -> KTable:
        """The table of the aggregates, attached."""
        return made.table(self._group.construction, self._node(make, folding, name, stem, store, history))

    def _node(
        self,
        make: Callable[..., AggregatedNode],
        folding: Folding,
        name: str | None,
        stem: str,
        store: str | None,
        history: Duration | None = None,
    ) -> Node:
        """Its node, attached."""
        node = make(
            self._group.construction.name(name, stem, *self._group.inputs[-1:]),
            folding.inputs,
            Shape("table", self._result_key(), folding.fold.result),
            fold=folding.fold,
            columns=folding.columns,
            store=store,
            history_ms=self._group.construction.history_ms(history),
        )
        return self._group.construction.add(node)


def group_of(given: Any) -> Group | None:
    """The group of a handle; None: the argument is not a grouped handle."""
    return given._group if isinstance(given, Grouped) else None
