"""What KStream and KTable share: a node under construction, and how further nodes are attached to it.

A handle is a thin thing: it checks arguments, asks the function backend for types, appends one frozen node
to the topology under construction and returns a handle on that.
"""

from __future__ import annotations

from typing import Any, TypeVar

from watersmeet._engine.databases.columns import columns_of
from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import Filter, MapValues, Node, Shape, Sink
from watersmeet._plan.pictures.picture import picture_above
from watersmeet._plan.pictures.svg import svg
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt
from watersmeet.io.databases import TableTarget
from watersmeet.io.origins import default_name, sink_of
from watersmeet.io.topics import TopicSink
from watersmeet.names import NoValue, answering

H = TypeVar("H", bound="Handle")


@answering
class Handle(NoValue):
    """A node under construction."""

    def __init__(self, construction: Construction, node: Node) -> None:
        self._construction = construction
        self._node = node

    @property
    def name(self) -> str:
        """Name of the operator behind this handle."""
        return self._node.name

    @property
    def key_type(self) -> Any:
        """Type of the keys."""
        return self._node.shape.key

    @property
    def value_type(self) -> Any:
        """Type of the values."""
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
    def _kept(self) -> tuple[str, ...]:
        """What comes into a step that may keep a table."""
        return (self.name,) if self._node.shape.kind == "table" else ()

    def _types(self) -> tuple[Any, Any]:
        return self._node.shape.key, self._node.shape.value

    def _attach(self, node: Node) -> Node:
        return self._construction.add(node)

    def _filtered(self, predicate: Function, *, negate: bool, name: str | None, store: str | None) -> Node:
        role = "predicate"
        predicate = adapt(predicate, ("key", "value"), role, self._construction.functions)
        self._construction.functions.check_predicate(predicate, self._types(), role)
        name = self._construction.name(name, "filter", *self._kept)
        node = Filter(name, (self._node.name,), self._node.shape, predicate=predicate, negate=negate, store=store)
        return self._attach(node)

    def _mapped_values(self, mapper: Function, *, name: str | None, store: str | None) -> Node:
        mapper = adapt(mapper, ("key", "value"), "mapper", self._construction.functions)
        value = self._construction.functions.value_type(mapper, self._types(), "mapper")
        shape = Shape(self._node.shape.kind, self._node.shape.key, value)
        name = self._construction.name(name, "map_values", *self._kept)
        return self._attach(MapValues(name, (self._node.name,), shape, mapper=mapper, store=store))

    def _sink(self, target: Any, options: dict[str, Any], name: str | None) -> Node:
        sink = sink_of(target, {name: value for name, value in options.items() if value is not None})
        if isinstance(sink, TopicSink):
            for part, kind in zip(("key", "value"), self._types(), strict=True):
                if (form := getattr(sink, part)) is not None:
                    self._construction.functions.check_written(form, kind, f"{part}s of the output {sink.name!r}")
        if isinstance(sink, TableTarget):
            columns_of(sink, *map(self._construction.functions.as_arrow, self._types()))
        output = name or default_name(sink)
        if output is None:
            raise TopologyError(f"This sink has no name of its own: {sink!r}.", hint="Give it one: to(..., name=...).")
        name = self._construction.name(name, f"to-{output}") if name is None else name
        node = Sink(name, (self._node.name,), self._node.shape, output=output, target=sink)
        return self._attach(node)

    def _require_same_builder(self, other: Any, what: str) -> None:
        if other._construction is not self._construction:
            raise TopologyError(
                f"The two sides of the {what} belong to different builders.",
                given=f"{self!r} and {other!r}",
                hint="Make both with one StreamsBuilder.",
            )

    def _require_same_key(self, other: Any, what: str) -> None:
        self._require_same_builder(other, what)
        if other.key_type != self.key_type:
            rekeyed = "select_key(lambda key, value: key.cast(...))"
            is_stream = self._node.shape.kind == "stream"
            way = f"stream.{rekeyed}" if is_stream else f"table.to_stream().{rekeyed}.to_table()"
            raise TopologyError(
                f"The two sides of the {what} have different key types: {self.name!r} has {type_text(self.key_type)}, "
                f"{other.name!r} has {type_text(other.key_type)}.",
                hint=f"Cast one side's key before the {what}: {way}.",
            )

    def _joiner(self, joiner: Function, other: Any) -> tuple[Function, Any]:
        """(joiner of key, left, right; type of its result)."""
        joiner = adapt(joiner, ("key", "left", "right"), "joiner", self._construction.functions)
        types = (self.key_type, self.value_type, other.value_type)
        return joiner, self._construction.functions.value_type(joiner, types, "joiner")


def refuse_table(stream: Handle, target: Any) -> None:
    """Raise where the records of a stream are to be kept as a table.

    Raises
    ------
    TopologyError : they are.
    """
    if isinstance(target, TableTarget):
        raise TopologyError(
            "A stream is no table: what is kept there are the rows of a table.",
            given=f"{stream!r}.to({target!r})",
            hint="Make a table of it first, which keeps the latest record of each key: stream.to_table().to(...); or "
            "write the table that the stream is of.",
        )


def type_text(kind: Any) -> str:
    """A type as text, the same whether parts of it can be null or not."""
    simple = getattr(kind, "simpleString", None)
    return str(simple()) if callable(simple) else str(kind).replace(" not null", "")


def same_type(one: Any, other: Any) -> bool:
    """True when keys of the two types can meet: they differ at most in what can be null."""
    return type_text(one) == type_text(other)
