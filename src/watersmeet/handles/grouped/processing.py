"""Processors in a stream: `process` and `process_values` of streams, and the short form of grouped streams.

Handle layer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet._engine.operators.processors.values import has_order
from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import MapNode, ProcessNode, Shape
from watersmeet._plan.nodes.processors import ProcessorStore, TableRead
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.handles import factory as made
from watersmeet.handles.grouped.folding import Group
from watersmeet.handles.grouped.reading import TablesRead, read_by
from watersmeet.handles.handle import Handle
from watersmeet.names import answering
from watersmeet.processors import Processor, StoreDeclaration, ValueStore

if TYPE_CHECKING:
    from watersmeet.handles.kstream import KStream

_HINT = "A processor is a class: class Dedup: def process(self, record, context): context.forward(record)."
_IN_BULK: Mapping[str, tuple[str, ...]] = {"process_batch": ("records", "states"), "init": ("context",), "close": ()}
"""Of a processor that is called with many records at once."""
SIGNATURES: Mapping[str, tuple[str, ...]] = {
    "process": ("record", "context"),
    "on_timer": ("key", "timestamp", "context"),
    "on_wall_timer": ("key", "timestamp", "context"),
    "init": ("context",),
    "close": (),
}


@answering
class Processing(Handle):
    """Processors in a stream: part of `KStream`."""

    def process(
        self,
        processor: Callable[[], Any],
        *,
        value: Any,
        key: Any = None,
        stores: Sequence[StoreDeclaration] = (),
        tables: TablesRead = (),
        name: str | None = None,
    ) -> KStream:
        """A processor over the records: it keeps state by key, sets timers, and sends records of any key.

        Records without a key are dropped and counted. The types of its results are declared here, and checked. The
        page "Write a processor" (docs/processors.md) explains its methods. Kafka Streams' `KStream.process` (KIP-820)
        is the same, with stores by task instead of stores by key.

        Parameters
        ----------
        processor : a class, or a function without parameters that gives an object; see `watersmeet.Processor`.
        value : type of the values that it sends, in Spark's words ("long", "struct<n: long>") or as a DataType.
        key : type of the keys that it sends; None: that of the stream's.
        stores : its stores: `wm.ValueStore`, `wm.ListStore` and `wm.MapStore`. Processors that are given the same
            object share the store (KIP-401).
        tables : tables that it reads, by the names under which it asks for them: of a `KTable` the row of the present
            key, by `context.table(name).get()`; of a `GlobalKTable` any row, by `context.global_table(name).get(key)`.
            A list: those that are called as their stores are.
        name : the operator's name.

        Raises
        ------
        TopologyError : it is no processor, a store or a table is none, or its name is taken.
        FunctionError : unknown type, or its methods take other arguments.

        Examples
        --------
        >>> class Dedup:
        ...     def init(self, context):
        ...         self.seen = context.get_store("seen")
        ...
        ...     def process(self, record, context):
        ...         if self.seen.get(record.value) is None:
        ...             self.seen.put(record.value, True)
        ...             context.forward(record)
        >>> names = orders.map(lambda id, order: (F.lit("all"), order["customer"]))
        >>> seen = wm.MapStore("seen", "string", "boolean", ttl="10 minutes")
        >>> results(names.process(Dedup, value="string", stores=[seen]))
        [('all', 'ann'), ('all', 'bob'), ('all', 'ann')]
        """
        functions = self._construction.functions
        sent = self.key_type if key is None else functions.named_type(key), functions.named_type(value)
        fields = [pa.field(name, functions.as_arrow(kind)) for name, kind in zip(("key", "value"), sent, strict=True)]
        types, kept = (sent, functions.of_arrow(pa.struct(fields))), declared(self._construction, stores)
        read = read_by(self._side, tables)
        node = processed(self._construction, self._types_above, processor, types, kept, name, read=read)

        def record(key: Any, value: Any) -> tuple[Any, Any]:
            return functions.field(value, "key"), functions.field(value, "value")

        sends = MapNode(f"{node.name}-records", (node.name,), Shape("stream", *sent), mapper=record)
        return made.stream(self._construction, self._attach(sends))

    def process_values(
        self,
        processor: Callable[[], Any],
        *,
        value: Any,
        stores: Sequence[StoreDeclaration] = (),
        tables: TablesRead = (),
        name: str | None = None,
    ) -> KStream:
        """The same of a processor that sends records under the key of the record, or timer, that it works on.

        So what stands behind needs no shuffle. Kafka Streams has it as `KStream.processValues`.

        Parameters
        ----------
        processor, value, stores, tables, name : as `process` has them.

        Examples
        --------
        >>> class Numbered:
        ...     def init(self, context):
        ...         self.count = context.get_store("count")
        ...
        ...     def process(self, record, context):
        ...         self.count.put((self.count.get() or 0) + 1)
        ...         context.forward(value=f"{record.value['amount']}, number {self.count.get()}")
        >>> numbered = orders.select_key(lambda order: order["customer"])
        >>> results(numbered.process_values(Numbered, value="string", stores=[wm.ValueStore("count", "long")]))
        [('ann', '30.0, number 1'), ('bob', '5.0, number 1'), ('ann', '12.0, number 2')]
        """
        kind = self._construction.functions.named_type(value)
        types, kept = ((None, kind), kind), declared(self._construction, stores)
        read = read_by(self._side, tables)
        node = processed(self._construction, self._types_above, processor, types, kept, name, read=read)
        return made.stream(self._construction, node)

    @property
    def _types_above(self) -> tuple[str, Any]:
        return self.name, self.key_type


def processed(
    construction: Construction,
    above: tuple[str, Any],
    processor: Callable[[], Any],
    types: tuple[tuple[Any, Any], Any],
    stores: tuple[ProcessorStore, ...],
    name: str | None,
    *,
    read: tuple[tuple[str, ...], tuple[TableRead, ...]] = ((), ()),
    drops_null: bool = False,
    within: Any = None,
) -> ProcessNode:
    """The node of a processor, attached.

    Parameters
    ----------
    above : name of the stream's node, and the type of its keys.
    types : of the keys and values that it sends, and of the values that the node gives.
    read : names of the nodes of the tables that it reads, and what it reads of them.
    drops_null : whether records without a value end here.
    within : what the processor passes its calls on to, if it does.
    """
    (sends, kind), (stream, key), (tables, reads) = types, above, read
    tried = tried_out(processor) if within is None else within
    in_bulk = has_method(tried, "process_batch")
    if in_bulk:
        check_bulk(tried, stores, reads)
    node = ProcessNode(
        construction.name(name, ProcessNode.stem, stream),
        (stream, *tables),
        Shape("stream", key, kind),
        make=processor,
        called=type(tried).__name__,
        sends=sends,
        stores=stores,
        tables=reads,
        timers=has_method(tried, "on_timer"),
        wall_timers=has_method(tried, "on_wall_timer"),
        drops_null=drops_null,
        in_bulk=in_bulk,
    )
    construction.add(node)
    return node


def tried_out(processor: Any, signatures: Mapping[str, tuple[str, ...]] = SIGNATURES) -> Any:
    """A processor, made once to see what it has.

    Parameters
    ----------
    signatures : names of the parameters of each method; the first one it must have.

    Raises
    ------
    TopologyError : it is none.
    FunctionError : one of its methods takes other arguments.
    """
    if not callable(processor):
        own = type(processor).__name__
        called = f"Give the class itself: process({own}, ...); or process(lambda: {own}(...), ...)."
        raise TopologyError(
            f"A processor must be a class, or a function that makes one, and not {processor!r:.80}.",
            hint=called if hasattr(processor, "process") else _HINT,
        )
    name = getattr(processor, "__name__", type(processor).__name__)
    try:
        made = processor()
    except Exception as error:
        hint = f"process(lambda: {name}(...), ...) gives it what it needs; what all records need is made in init."
        hint = hint if inspect.isclass(processor) else _HINT
        raise FunctionError(
            f"The processor {name} cannot be made without arguments: {error!r:.200}.", hint=hint
        ) from error
    if signatures is SIGNATURES and has_method(made, "process_batch"):
        signatures = _IN_BULK
    for method, parameters in signatures.items():
        _check_method(made, method, parameters, needed=method == next(iter(signatures)))
    return made


def has_method(made: Any, method: str) -> bool:
    """Whether a processor has a method of its own."""
    return getattr(type(made), method, None) not in (None, getattr(Processor, method, None))


def check_bulk(made: Any, stores: Sequence[ProcessorStore], tables: Sequence[TableRead]) -> None:
    """Raise where a processor that is called with many records at once has what goes by one record.

    Raises
    ------
    TopologyError : it does.
    """
    own, lasting = type(made).__name__, [store.name for store in stores if store.ttl_ms is not None]
    other = [name for name in ("process", "on_timer", "on_wall_timer") if has_method(made, name)]
    if other:
        what, hint = f"the method {other[0]}", "Leave one of both out; timers go with process(self, record, context)."
    elif lasting:
        what, hint = f"the store {lasting[0]!r} with a ttl", "Delete entries by a time that is part of their value."
    elif tables:
        what, hint = f"the table {tables[0].name!r} to read", "Join the table before: stream.left_join(table, ...)."
    else:
        return
    raise TopologyError(f"The processor {own} has process_batch, and {what}.", hint=hint)


def _check_method(made: Any, method: str, parameters: tuple[str, ...], *, needed: bool) -> None:
    own, given = type(made).__name__, getattr(made, method, None)
    if given is None and not needed:
        return
    wanted = f"def {method}({', '.join(('self', *parameters))})"
    if not callable(given):
        hint = _HINT if method == "process" else f"Write {wanted}."
        raise TopologyError(f"The processor {own} has no method {method}.", given=repr(made)[:80], hint=hint)
    if not _takes(given, parameters):
        raise FunctionError(
            f"The method {method} of the processor {own} takes other arguments: {inspect.signature(given)}.",
            hint=f"Write {wanted}.",
        )


def _takes(function: Callable[..., Any], names: tuple[str, ...]) -> bool:
    """Whether a function can be called with so many arguments; one that does not say what it takes can."""
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def declared(construction: Construction, given: Any) -> tuple[ProcessorStore, ...]:
    """The stores, by name: in which order they are given makes no difference."""
    functions = construction.functions
    found = []
    if isinstance(given, StoreDeclaration) or not isinstance(given, list | tuple):
        raise TopologyError(
            f"stores must be a list: stores={given!r:.80}.",
            hint="stores=[wm.ValueStore('last', 'long')].",
        )
    for each in given:
        if not isinstance(each, StoreDeclaration):
            raise TopologyError(
                f"stores takes declarations of stores, and not {type(each).__name__}: {each!r:.80}.",
                hint="wm.ValueStore('last', 'long'), wm.ListStore('all', 'string') or "
                "wm.MapStore('seen', 'string', 'boolean'). A table is read by tables={'name': table}.",
            )
        entry, value = (None if kind is None else functions.named_type(kind) for kind in each.types)
        if entry is not None and not has_order(functions.as_arrow(entry)):
            raise TopologyError(
                f"The keys of the map {each.name!r} must have an order, and {each.types[0]!r} has none.",
                hint="Take texts, bytes, whole numbers, decimals, dates or times: of a struct, its fields as a text.",
            )
        found.append(ProcessorStore(each.name, each.kind, entry, value, each.ttl_ms, given=each))
    return tuple(sorted(found, key=lambda store: store.name))


class StepProcessor:
    """The short form as a processor: a function that gives the next state and what is to be sent."""

    def __init__(self, init: Callable[[], Any], step: Callable[..., Any], store: str) -> None:
        self._init, self._step, self._store = init, step, store

    def init(self, context: Any) -> None:
        """Find the store."""
        self._state = context.get_store(self._store)

    def process(self, record: Any, context: Any) -> None:
        """One step."""
        state = self._state.get()
        given = self._step(record.key, record.value, self._init() if state is None else state, context)
        if not isinstance(given, tuple) or len(given) != 2:
            raise FunctionError(
                f"The step must return a pair of a state and a list of values, not {given!r:.80}.",
                hint="return state, [value, ...]; return state, [] sends nothing.",
            )
        state, values = given
        self._state.put(state)
        for value in values or ():
            context.forward(value=value)


def stepped(
    group: Group, init: Any, step: Any, *, state: Any, returns: Any, name: str | None, store: str | None
) -> KStream:
    """The stream of the short form."""
    construction, above = group.construction, (group.inputs[-1], group.key)
    for role, given, names in (("init", init, ()), ("step", step, ("key", "value", "state", "context"))):
        if not callable(given):
            raise FunctionError(
                f"The {role} must be a function, not {given!r:.80}.", hint=f"A function of ({', '.join(names)})."
            )
        _check_function(role, given, names)
    name = construction.name(name, ProcessNode.stem, above[0])
    kept = ValueStore(store or f"{name}.state", state)
    kind = construction.functions.named_type(returns)
    make = lambda: StepProcessor(init, step, kept.name)  # noqa: E731
    types = ((None, kind), kind)
    stores = tuple(replace(each, named=store is not None) for each in declared(construction, [kept]))
    return made.stream(construction, processed(construction, above, make, types, stores, name, drops_null=True))


def _check_function(role: str, function: Callable[..., Any], names: tuple[str, ...]) -> None:
    if not _takes(function, names):
        raise FunctionError(
            f"The {role} takes other arguments: {inspect.signature(function)}.",
            hint=f"Write it as a function of ({', '.join(names)}).",
        )
