"""What KStream and KTable share: a node under construction, and how further nodes are attached to it.

A handle is a thin thing: it checks arguments, asks the function backend for types, appends one frozen node
to the topology under construction and returns a handle on that.
"""

from __future__ import annotations

from typing import Any

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import FilterNode, MapEachNode, MapValuesNode, Node, Shape
from watersmeet._plan.pictures.picture import picture_above
from watersmeet._plan.pictures.svg import svg
from watersmeet.functions import Function, adapt, types_for
from watersmeet.handles.side import Side, type_text
from watersmeet.names import NoValue, answering


@answering
class Handle(NoValue):
    """A node under construction."""

    def __init__(self, construction: Construction, node: Node) -> None:
        self._construction = construction
        self._node = node

    @property
    def name(self) -> str:
        """Name of the operator behind this handle.

        Examples
        --------
        >>> orders.filter(lambda order: order["amount"] > 10, name="large").name
        'large'
        """
        return self._node.name

    @property
    def key_type(self) -> Any:
        """Type of the keys.

        Examples
        --------
        >>> customers.key_type
        StringType()
        """
        return self._node.shape.key

    @property
    def value_type(self) -> Any:
        """Type of the values.

        Examples
        --------
        >>> payments.value_type
        DoubleType()
        """
        return self._node.shape.value

    def __repr__(self) -> str:
        shape, store = self._node.shape, self._node.store
        kept = "" if store is None else f", store={store!r}"
        types = f"key={type_text(shape.key)}, value={type_text(shape.value)}"
        return f"{type(self).__name__}({self._node.name!r}, {types}{kept})"

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto">{svg(picture_above(self._construction.nodes, self._node))}</div>'

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    # -- shared by streams and tables ------------------------------------------------------------------------

    @property
    def _side(self) -> Side:
        """The side of this handle, for joins, groups and outputs."""
        return Side(self._construction, self._node)

    @property
    def _state_inputs(self) -> tuple[str, ...]:
        """The inputs of a step that may keep a table."""
        return (self.name,) if self._node.shape.kind == "table" else ()

    @property
    def _is_stream(self) -> bool:
        """Whether records are facts of their own, which functions may see."""
        return self._node.shape.kind == "stream"

    def _types(self) -> tuple[Any, Any]:
        return self._node.shape.key, self._node.shape.value

    def _attach(self, node: Node) -> Node:
        return self._construction.add(node)

    def _filtered(self, predicate: Function, *, negate: bool, name: str | None, store: str | None) -> Node:
        role = "predicate"
        predicate = adapt(predicate, ("key", "value"), role, self._construction.functions, sees_record=self._is_stream)
        self._construction.functions.check_predicate(predicate, types_for(predicate, self._types()), role)
        name = self._construction.name(name, "filter", *self._state_inputs)
        node = FilterNode(name, (self._node.name,), self._node.shape, predicate=predicate, negate=negate, store=store)
        return self._attach(node)

    def _mapped_values(
        self,
        mapper: Function,
        make: type[MapValuesNode | MapEachNode] = MapValuesNode,
        *,
        name: str | None,
        store: str | None,
    ) -> Node:
        mapper = adapt(mapper, ("key", "value"), "mapper", self._construction.functions, sees_record=self._is_stream)
        value = self._construction.functions.value_type(mapper, types_for(mapper, self._types()), "mapper")
        shape = Shape(self._node.shape.kind, self._node.shape.key, value)
        name = self._construction.name(name, "map_values", *self._state_inputs)
        return self._attach(make(name, (self._node.name,), shape, mapper=mapper, store=store))


def side_of(given: Any) -> Side | None:
    """The side of a handle; None: what is given is no handle."""
    return given._side if isinstance(given, Handle) else None
