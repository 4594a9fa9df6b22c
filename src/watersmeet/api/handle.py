"""Parts of all handles: the topology under construction, their node, options, and questions to two of them.

Handle layer. Operators and outputs are made of the nodes of their handles.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

import pyarrow as pa

from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import (
    BranchNode,
    FilterNode,
    MapEachNode,
    MapValuesNode,
    Node,
    PeekNode,
    Shape,
    SinkNode,
    type_text,
)
from watersmeet._plan.operators.aggregates import SuppressNode
from watersmeet._plan.pictures import picture_above, svg
from watersmeet.aggregates.user_defined import PythonFunction
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.functions import Function, FunctionBackend, adapt, record_of, seeing_record, types_for
from watersmeet.hints import NoValue, answering, signature_of
from watersmeet.io.kafka import are_topics
from watersmeet.io.origins import described
from watersmeet.windows import Suppressed, Windows

if TYPE_CHECKING:
    from watersmeet.api.streams import KStream
    from watersmeet.api.tables import KTable, WTable


HandleKind = Literal["stream", "table", "global", "wtable"]
CALLED: dict[HandleKind, str] = {
    "stream": "stream",
    "table": "table",
    "global": "global table",
    "wtable": "table by key and window",
}
"""What each kind of handle is called in errors."""


class StoreOptions(TypedDict, total=False):
    """Names of an operator and of its queryable table."""

    name: str | None
    store: str | None


@dataclass(frozen=True)
class Side:
    """A node, in its topology.

    Parameters
    ----------
    construction : the topology under construction.
    node : what the handle stands on.
    windows : those of its keys, of a table by key and window.
    wait_ms : how long behind a window's end its row may change, in ms.
    """

    construction: Construction
    node: Node
    windows: Windows | None = None
    wait_ms: int = 0

    @property
    def kind(self) -> HandleKind:
        """Which handle it is of."""
        return self.node.shape.kind if self.windows is None else "wtable"

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def called(self) -> str:
        """Its name in errors."""
        return f"the {CALLED[self.kind]} {self.name!r}"

    @property
    def key_type(self) -> Any:
        """Type of the keys; of a table by key and window, structs of both."""
        return self.node.shape.key

    @property
    def plain_key_type(self) -> Any:
        """Type of the keys without their windows."""
        return self.key_type if self.windows is None else self.functions.key_of_windowed(self.key_type)

    @property
    def value_type(self) -> Any:
        """Type of the values."""
        return self.node.shape.value

    @property
    def types(self) -> tuple[Any, Any]:
        """Types of key and value."""
        return self.key_type, self.value_type

    @property
    def functions(self) -> FunctionBackend:
        """The backend that finds the types of users' functions."""
        return self.construction.functions


def require_same_builder(left: Side, right: Side, operation: str) -> None:
    """Raise unless both are of one topology.

    Raises
    ------
    TopologyError : they are not.
    """
    if right.construction is not left.construction:
        raise TopologyError(
            f"The two sides of the {operation} belong to different builders: {left.called} and {right.called}.",
            hint="Make both with one StreamsBuilder.",
        )


def require_same_key(left: Side, right: Side, operation: str) -> None:
    """Raise unless both are of one topology and have one type of key; of windows, that of the key without them.

    Raises
    ------
    TopologyError : they are not, or have not.
    """
    require_same_builder(left, right, operation)
    left_key, right_key = left.plain_key_type, right.plain_key_type
    windowed = left.windows is not None or right.windows is not None
    if same_type(left_key, right_key) if windowed else left_key == right_key:
        return
    rekeyed = "select_key(lambda key, value: key.cast(...))"
    way = f"stream.{rekeyed}" if left.kind == "stream" else f"table.to_stream().{rekeyed}.to_table()"
    hint = f"Cast one side's key before the {operation}: {way}."
    if windowed:
        hint = f"Cast the key before the {operation}, of windows before the aggregate: stream.select_key(...)."
    its, right_type = distinct_type_names(left_key, right_key)
    raise TopologyError(
        f"The two sides of the {operation} have different key types: {left.name!r} has {its}, "
        f"{right.name!r} has {right_type}.",
        hint=hint,
    )


def distinct_type_names(left: Any, right: Any) -> tuple[str, str]:
    """Two types as texts that differ: with what can be null, where they differ in nothing else."""
    texts = type_text(left), type_text(right)
    return texts if texts[0] != texts[1] else (str(left), str(right))


def check_headers(nodes: Iterable[Node]) -> None:
    """Raise unless a topic among the nodes keeps its headers.

    Raises
    ------
    TopologyError : none does.
    """
    if not any(getattr(node.place, "keeps_headers", False) for node in nodes):
        raise TopologyError(
            "The records have no headers: no topic that has been read keeps them, headers=False.",
            hint="Read the topic with its headers: builder.stream('topic', ..., headers=True).",
        )


def same_type(left: Any, right: Any) -> bool:
    """True when keys of the two types can meet: they differ at most in what can be null."""
    return type_text(left) == type_text(right)


# What KStream and KTable share: a node under construction, and how further nodes are attached to it.
#
# A handle is a thin thing: it checks arguments, asks the function backend for types, appends frozen nodes
# to the topology under construction and returns a handle on that.


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
        suffix = "" if store is None else f", store={store!r}"
        types = f"key={type_text(shape.key)}, value={type_text(shape.value)}"
        return f"{type(self).__name__}({self._node.name!r}, {types}{suffix})"

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


def side_of(value: Any) -> Side | None:
    """The side of a handle; None: what is given is no handle."""
    return value._side if isinstance(value, Handle) else None


# Columns beside the values of records for a step or two: partitions before an output, the record before a `peek`.
#
# Handle layer.

_ROLE = "partitioner"


def with_partitions(side: Side, node: SinkNode) -> SinkNode:
    """The output of the records with their partitions, which stand beside their values until the stage ends.

    Parameters
    ----------
    node : the output of the records as they are.

    Raises
    ------
    TopologyError : the output cannot be added.
    FunctionError : the partitioner does not fit, or gives no whole numbers.
    """
    construction, functions, sink = side.construction, side.functions, node.target
    construction.check(node)
    function = adapt(sink.partitioner, ("key", "value"), _ROLE, functions, sees_record=True)
    types = types_for(function, side.types)
    kind = functions.value_type(function, types, _ROLE)
    if not pa.types.is_integer(functions.as_arrow(kind)):
        raise FunctionError(
            f"partitioner= must give whole numbers, not {type_text(kind)}.",
            hint="partitioner=lambda key, value: F.pmod(F.xxhash64(value['customer']), F.lit(12)), or .cast('int').",
        )

    def with_partition(key: Any, value: Any, *record: Any) -> Any:
        return functions.record(key, {"value": value, "partition": function(key, value, *record)})

    record = record_of(function)
    beside = (
        with_partition
        if record is None
        else seeing_record(with_partition, with_partition, record, ("key", "value", "record"))
    )
    shape = Shape("stream", side.key_type, functions.value_type(beside, types, _ROLE))
    place = construction.add(
        MapEachNode(f"{node.name}-partitions", (side.name,), shape, mapper=beside, part_of=node.name)
    )
    return replace(node, inputs=(place.name,))


def peeking(side: Side, action: Function, name: str) -> Node:
    """The records, shown to a function of (value, record) or (key, value, record).

    The record stands beside the value for as long as the function is shown both; behind it the value is as it was.

    Parameters
    ----------
    name : of the peek's node.
    """
    construction, functions = side.construction, side.functions
    adapted = adapt(action, ("key", "value", "record"), "action")
    kind = functions.record_type()

    def with_record(key: Any, value: Any, record: Any) -> Any:
        return functions.record(key, {"value": value, "record": record})

    def value_only(_: Any, pair: Any) -> Any:
        return functions.field(pair, "value")

    beside = seeing_record(with_record, with_record, kind, ("key", "value", "record"))
    shape = Shape("stream", side.key_type, functions.value_type(beside, (*side.types, kind), "action"))
    above = construction.add(MapEachNode(f"{name}-record", (side.name,), shape, mapper=beside, part_of=name))
    peek = construction.add(PeekNode(name, (above.name,), shape, action=PeekWithRecord(adapted)))
    return construction.add(
        MapEachNode(f"{name}-value", (peek.name,), side.node.shape, mapper=value_only, part_of=name)
    )


class PeekWithRecord:
    """A function of key, value and record, as one of the key and of the struct that holds both.

    Parameters
    ----------
    action : the user's.
    """

    def __init__(self, action: Function) -> None:
        self._action = action

    def __call__(self, key: Any, pair: dict[str, Any]) -> None:
        """Show it one record."""
        self._action(key, pair["value"], pair["record"])


# Parameters that several methods share: told once, and shown by each.
#
# A method says what is its own, and in its last line "Other parameters as for `KStream.to`." In the place of that line
# `help` and the site show what the named method says of them.

F = TypeVar("F", bound=Callable[..., Any])
ELSEWHERE = re.compile(r"\n*^(?:Other p|P)arameters as for `[\w.]+`\.$", re.MULTILINE)
"""The line that the parameters of another method stand in for."""
_SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\w+(?:, \w+)* : )", re.MULTILINE)


def parameters_of(source: Callable[..., Any]) -> Callable[[F], F]:
    """The parameters that a method has in common with `source`, and says nothing of itself, as `source` has them.

    So is the section of errors, where it has none.

    Parameters
    ----------
    source : the method that tells them, with a section of parameters.
    """

    def completed(function: F) -> F:
        if function.__doc__ is None or source.__doc__ is None:
            return function  # `python -OO` has no docstrings
        head, declared = _parts(ELSEWHERE.sub("", inspect.getdoc(function) or ""))
        _, shared = _parts(inspect.getdoc(source) or "")
        names = list(signature_of(function).parameters)
        entries = _entries(declared.pop("Parameters", ""))
        documented = {name for entry in entries for name in entry}
        entries |= {
            entry: text
            for entry, text in _entries(shared["Parameters"]).items()
            if set(entry) <= set(names) and documented.isdisjoint(entry)
        }
        listed = "\n".join(entries[entry] for entry in sorted(entries, key=lambda entry: names.index(entry[0])))
        sections = {"Parameters": listed, **({"Raises": shared["Raises"]} if "Raises" in shared else {}), **declared}
        function.__doc__ = "\n\n".join(
            [head, *(f"{title}\n{'-' * len(title)}\n{body}" for title, body in sections.items())]
        )
        return function

    return completed


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """(what stands before the sections, the sections by title)."""
    head, *pieces = _SECTION.split(text)
    return head.strip(), {title: body.strip() for title, body in zip(pieces[::2], pieces[1::2], strict=True)}


def _entries(body: str) -> dict[tuple[str, ...], str]:
    """The entries of a section of parameters, by the names that each is of."""
    entries = [entry.strip() for entry in _ENTRY.split(body) if entry.strip()]
    return {tuple(entry.partition(" : ")[0].split(", ")): entry for entry in entries}


# The handle of a node, by its kind. So handles give one another, and none imports the module of another.
#
# Handle layer. A class of handles registers itself by `made_as`; `watersmeet` imports all of them.

C = TypeVar("C", bound=type)
_CLASSES: dict[HandleKind, Callable[..., Any]] = {}


def made_as(kind: HandleKind) -> Callable[[C], C]:
    """Registers a class as that of the handles of a kind."""

    def registered(cls: C) -> C:
        _CLASSES[kind] = cls
        return cls

    return registered


def stream(construction: Construction, node: Node) -> KStream:
    """The handle of a stream."""
    return cast("KStream", _CLASSES["stream"](construction, node))


def table(construction: Construction, node: Node) -> KTable:
    """The handle of a table."""
    return cast("KTable", _CLASSES["table"](construction, node))


def wtable(construction: Construction, node: Node, windows: Windows, wait_ms: int) -> WTable:
    """The handle of a table by key and window; its rows may change for `wait_ms` behind a window's end."""
    return cast("WTable", _CLASSES["wtable"](construction, node, windows, wait_ms))


def handle_of(side: Side) -> Any:
    """The handle of a side, by its kind."""
    windowed = () if side.windows is None else (side.windows, side.wait_ms)
    return _CLASSES[side.kind](side.construction, side.node, *windowed)


# An output topic for each record: a branch of the stream for each topic that a function may name.
#
# Handle layer.


def branches_by_topic(stream: Side, selector: Any, topics: Any, name: str | None) -> Mapping[str, Side]:
    """The records for which the function names it, by topic.

    Parameters
    ----------
    selector : gives the name of a record's topic.
    topics : those that it may name.
    name : prefix of the branches' operator names.

    Raises
    ------
    TopologyError : the topics are no list of names, or the target is no function.
    FunctionError : the function does not fit, or gives no names.
    """
    names = list(topics) if isinstance(topics, list | tuple) else []
    if not names or not are_topics(names) or len(set(names)) < len(names):
        raise TopologyError(
            f"topics must be a list of names, each once: topics={topics!r:.120}.",
            hint="to(lambda value: value['topic'], topics=['orders-de', 'orders-fr'])",
        )
    if not callable(selector) and not isinstance(selector, PythonFunction):
        raise TopologyError(
            f"The option topics= is for a function that names a record's topic, and not for {described(selector)}.",
            hint="to(lambda value: value['topic'], topics=[...]), or leave topics= out.",
        )
    functions, construction = stream.functions, stream.construction
    function = adapt(selector, ("key", "value"), "topic selector", functions, sees_record=True)
    predicates = functions.chosen_topic(function, types_for(function, stream.types), names)
    prefix = construction.name(name, "chosen") if name is None else name
    sides: dict[str, Side] = {}
    for topic, predicate in predicates.items():
        node = BranchNode(f"{prefix}-{topic}", (stream.name,), stream.node.shape, earlier=(), predicate=predicate)
        sides[topic] = Side(construction, construction.add(node))
    return sides


# What `suppress` adds: a node that knows the windows of its table, if there are any.
#
# Handle layer.


def suppress_node(table: Side, suppressed: Suppressed, name: str | None) -> Node:
    """The node, attached.

    Raises
    ------
    TopologyError : what is given is no `Suppressed`, or the table has no windows that close.
    """
    if not isinstance(suppressed, Suppressed):
        raise TopologyError(
            f"suppress takes a Suppressed, and not {suppressed!r:.80}.",
            hint="Take suppress(wm.Suppressed.until_time_limit('10 seconds', wm.BufferConfig.unbounded())).",
        )
    node = SuppressNode(
        table.construction.name(name, SuppressNode.stem, table.name),
        (table.name,),
        table.node.shape,
        limit_ms=suppressed.limit_ms,
        windows=table.windows,
        buffer=suppressed.buffer,
    )
    return table.construction.add(node)
