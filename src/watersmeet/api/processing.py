"""Processors in a stream: `process` and `process_values` of streams, and the short form of grouped streams.

Handle layer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from watersmeet._engine.operators.process_state import has_order
from watersmeet._plan.construction import Construction
from watersmeet._plan.nodes import MapNode, Node, Shape
from watersmeet._plan.operators.processors import Clock, ProcessNode, ProcessorSettings, ProcessorStore, TableRead
from watersmeet.aggregates.user_defined import returns_nothing
from watersmeet.api import handle
from watersmeet.api.folds import Group
from watersmeet.api.handle import Handle, Side, require_same_builder, require_same_key, side_of
from watersmeet.api.joins import rows_of
from watersmeet.api.outputs import changes_of
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.hints import answering, check_called
from watersmeet.io.policies import Policies
from watersmeet.processors import Processor, StoreDeclaration, ValueStore

if TYPE_CHECKING:
    from watersmeet.api.streams import KStream
    from watersmeet.api.tables import GlobalKTable, KTable


# The tables that a processor reads: of which handles they are, and what it calls them.
#
# Handle layer.

TablesRead: TypeAlias = "Mapping[str, KTable | GlobalKTable] | Sequence[KTable | GlobalKTable]"
"""Tables by the names that a processor calls them; or those that are called as their stores are."""
_READING_HINT = "tables={'customers': customers}, and in init context.table('customers')."


def read_by(stream: Side, tables: Any) -> tuple[tuple[str, ...], tuple[TableRead, ...]]:
    """(names of the tables' nodes, what is read of them) of a processor of this stream.

    Raises
    ------
    TopologyError : one is no table, has no name, or has keys of another type than the stream; or two have one
        name.
    """
    sides = _by_name(tables)
    # tables of the present key stand first, and the order in which they are given makes no difference
    ordered = sorted(sides, key=lambda name: (sides[name].kind == "global", name))
    reads = tuple(_read(stream, name, sides[name], 1 + place) for place, name in enumerate(ordered))
    return tuple(rows_of(sides[name]).name for name in ordered), reads


def _by_name(tables: Any) -> dict[str, Side]:
    if isinstance(tables, Mapping):
        pairs = [(name, _side(table)) for name, table in tables.items()]
    elif isinstance(tables, list | tuple):
        pairs = [(_store(side), side) for side in map(_side, tables)]
    else:
        raise TopologyError(
            f"The tables that a processor reads come by name: tables={tables!r:.80}.", hint=_READING_HINT
        )
    sides: dict[str, Side] = {}
    for name, side in pairs:
        if not isinstance(name, str) or not name:
            message = f"The name of a table that is read must be a text: tables={{{name!r:.80}: ...}}."
            raise TopologyError(message, hint=_READING_HINT)
        if name in sides:
            raise TopologyError(
                f"A processor reads two tables of one name: tables=[..., {name!r}, ...].", hint=_READING_HINT
            )
        sides[name] = side
    return sides


def _store(side: Side) -> str:
    store = rows_of(side).node.store
    if store is None:
        message = f"A table that is read has no store, and so no name: tables=[..., {side.name!r}]."
        raise TopologyError(message, hint=_READING_HINT)
    return store


def _side(table: Any) -> Side:
    side = side_of(table)
    if side is None or side.kind not in ("table", "global"):
        label = repr(table)[:80] if side is None else side.called
        raise TopologyError(
            f"A processor reads tables and global tables, not {label}: tables=...",
            hint="Make a table of a stream first: stream.to_table().",
        )
    return side


def _read(stream: Side, name: str, side: Side, place: int) -> TableRead:
    if side.kind == "global":
        require_same_builder(stream, side, "processor's table")
        return TableRead(name, place, side.key_type, everywhere=True)
    require_same_key(stream, side, "processor's table")
    return TableRead(name, place, side.key_type, history_ms=side.construction.history_of(side.node))


_PROCESSING_HINT = "A processor is a class: class Dedup: def process(self, record, context): context.forward(record)."
_TRANSFORMER = "A transformer is a class: class Named: def transform(self, record, context): return record.value."
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
        types, processor_stores = (sent, functions.of_arrow(pa.struct(fields))), declared(self._construction, stores)
        read = read_by(self._side, tables)
        name, processor = wrapped(self._construction, self.name, name, processor)
        node = processed(self._construction, self._types_above, processor, types, processor_stores, name, read=read)

        def record(key: Any, value: Any) -> tuple[Any, Any]:
            return functions.field(value, "key"), functions.field(value, "value")

        sends = MapNode(f"{node.name}-records", (node.name,), Shape("stream", *sent), mapper=record, part_of=node.name)
        return handle.stream(self._construction, self._attach(sends))

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
        types, processor_stores = ((None, kind), kind), declared(self._construction, stores)
        read = read_by(self._side, tables)
        name, processor = wrapped(self._construction, self.name, name, processor)
        node = processed(self._construction, self._types_above, processor, types, processor_stores, name, read=read)
        return handle.stream(self._construction, node)

    @property
    def _types_above(self) -> tuple[str, Any]:
        return self.name, self.key_type


def wrapped(
    construction: Construction,
    above: str,
    name: str | None,
    processor: Callable[[], Any],
    signatures: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[str | None, Callable[[], Any]]:
    """The name of a processor's operator, and what the builder's `processor_wrapper` makes of the processor.

    Parameters
    ----------
    above : name of the node that it reads.
    signatures : as `tried_out` has them.
    """
    if construction.processor_wrapper is None:
        return name, processor
    # what is wrong with the user's own is said before the wrapper gets it
    tried_out(processor, signatures or SIGNATURES)
    name = construction.name(name, ProcessNode.stem, above)
    result: object = construction.processor_wrapper(name, processor)
    if not callable(result):
        raise TopologyError(
            f"processor_wrapper must give a class, or a function that makes a processor: for {name!r} it gives "
            f"{result!r:.80}.",
            hint="return processor leaves one as it is; return lambda: Timed(processor()) wraps it.",
        )
    return name, result


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
    delegate: Any = None,
) -> ProcessNode:
    """The node of a processor, attached.

    Parameters
    ----------
    above : name of the stream's node, and the type of its keys.
    types : of the keys and values that it sends, and of the values that the node gives.
    read : names of the nodes of the tables that it reads, and what it reads of them.
    drops_null : whether records without a value end here.
    delegate : what the processor passes its calls on to, if it does.
    """
    (sends, kind), (stream, key), (tables, reads) = types, above, read
    tried = tried_out(processor) if delegate is None else delegate
    in_bulk = has_method(tried, "process_batch")
    if in_bulk:
        check_bulk(tried, stores, reads)
    methods: dict[Clock, str] = {"stream": "on_timer", "wall": "on_wall_timer"}
    clocks = frozenset(clock for clock, method in methods.items() if has_method(tried, method))
    node = ProcessNode(
        construction.name(name, ProcessNode.stem, stream),
        (stream, *tables),
        Shape("stream", key, kind),
        settings=ProcessorSettings(
            processor, type(tried).__name__, *sends, tuple(store.name for store in stores), clocks, in_bulk
        ),
        stores=stores,
        tables=reads,
        drops_null=drops_null,
    )
    construction.add(node)
    return node


def completed(construction: Construction, source: Node) -> ProcessNode:
    """The rows of a topic of Debezium's, whole: columns that were not sent have the values of the stored row."""
    from watersmeet._worker.formats.debezium import StoredColumns

    functions, policies = construction.functions, source.place.policies
    row = functions.of_arrow(pa.struct(list(functions.as_arrow(source.shape.value))[:-1]))
    store = ProcessorStore(f"{source.name}.rows", "value", None, row, None, named=False)
    above, make = (source.name, source.shape.key), partial(StoredColumns, store.name, fails=policies.fails)
    node = processed(construction, above, make, ((None, row), row), (store,), None)
    if not policies.fails:
        construction.set_policies(node.name, Policies(on_drop=policies.on_undecodable))
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
        class_name = type(processor).__name__
        suggestion = f"Give the class itself: process({class_name}, ...); or process(lambda: {class_name}(...), ...)."
        raise TopologyError(
            f"A processor must be a class, or a function that makes one, and not {processor!r:.80}.",
            hint=suggestion if hasattr(processor, "process") else _PROCESSING_HINT,
        )
    name = getattr(processor, "__name__", type(processor).__name__)
    try:
        instance = processor()
    except Exception as error:
        hint = f"process(lambda: {name}(...), ...) gives it what it needs; what all records need is made in init."
        plain = "map_values(lambda value: ...) takes a function of the value. " if signatures is _METHODS else ""
        hint = hint if inspect.isclass(processor) else f"{plain}{_TRANSFORMER if plain else _PROCESSING_HINT}"
        if "get_store" in str(error) or "'context'" in str(error):
            hint = "def init(self, context): self.seen = context.get_store('seen'): the context comes with init."
        raise FunctionError(
            f"The processor {name} cannot be made without arguments: {error!r:.200}.", hint=hint
        ) from error
    if signatures is SIGNATURES and has_method(instance, "process_batch"):
        signatures = _IN_BULK
    for method, parameters in signatures.items():
        _check_method(instance, method, parameters, needed=method == next(iter(signatures)))
    return instance


def has_method(processor: Any, method: str) -> bool:
    """Whether a processor has a method of its own."""
    return getattr(type(processor), method, None) not in (None, getattr(Processor, method, None))


def check_bulk(processor: Any, stores: Sequence[ProcessorStore], tables: Sequence[TableRead]) -> None:
    """Raise where a processor that is called with many records at once has what goes by one record.

    Raises
    ------
    TopologyError : it does.
    """
    class_name, lasting = type(processor).__name__, [store.name for store in stores if store.ttl_ms is not None]
    methods = [name for name in ("process", "on_timer", "on_wall_timer") if has_method(processor, name)]
    if methods:
        part, hint = f"the method {methods[0]}", "Leave one of both out; timers go with process(self, record, context)."
    elif lasting:
        part, hint = f"the store {lasting[0]!r} with a ttl", "Delete entries by a time that is part of their value."
    elif tables:
        part, hint = f"the table {tables[0].name!r} to read", "Join the table before: stream.left_join(table, ...)."
    else:
        return
    raise TopologyError(f"The processor {class_name} has process_batch, and {part}.", hint=hint)


def _check_method(processor: Any, method: str, parameters: tuple[str, ...], *, needed: bool) -> None:
    class_name, function = type(processor).__name__, getattr(processor, method, None)
    if function is None and not needed:
        return
    signature = f"def {method}({', '.join(('self', *parameters))})"
    if not callable(function):
        hint = _PROCESSING_HINT if method == "process" else f"Write {signature}."
        raise TopologyError(
            f"The processor {class_name} has no method {method}.", given=repr(processor)[:80], hint=hint
        )
    check_called(function, f"The method {method} of the processor {class_name}", parameters, signature)
    if method == "transform" and returns_nothing(getattr(function, "__func__", function)):
        raise FunctionError(
            f"The method transform of the processor {class_name} returns None for each row, which deletes it.",
            hint="return value gives the row its new value.",
        )


def declared(construction: Construction, declarations: Any) -> tuple[ProcessorStore, ...]:
    """The stores, by name: in which order they are given makes no difference."""
    functions = construction.functions
    stores = []
    if isinstance(declarations, StoreDeclaration) or not isinstance(declarations, list | tuple):
        raise TopologyError(
            f"stores must be a list: stores={declarations!r:.80}.",
            hint="stores=[wm.ValueStore('last', 'long')].",
        )
    for declaration in declarations:
        if not isinstance(declaration, StoreDeclaration):
            raise TopologyError(
                f"stores takes declarations of stores, and not {type(declaration).__name__}: {declaration!r:.80}.",
                hint="wm.ValueStore('last', 'long'), wm.ListStore('all', 'string') or "
                "wm.MapStore('seen', 'string', 'boolean'). A table is read by tables={'name': table}.",
            )
        entry, value = (None if kind is None else functions.named_type(kind) for kind in declaration.types)
        if entry is not None and not has_order(functions.as_arrow(entry)):
            raise TopologyError(
                f"The keys of the map {declaration.name!r} must have an order, and {declaration.types[0]!r} has none.",
                hint="Take texts, bytes, whole numbers, decimals, dates or times: of a struct, its fields as a text.",
            )
        stores.append(
            ProcessorStore(declaration.name, declaration.kind, entry, value, declaration.ttl_ms, given=declaration)
        )
    return tuple(sorted(stores, key=lambda store: store.name))


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
        result = self._step(record.key, record.value, self._init() if state is None else state, context)
        if not isinstance(result, tuple) or len(result) != 2:
            raise FunctionError(
                f"The step must return a pair of a state and a list of values, not {result!r:.80}.",
                hint="return state, [value, ...]; return state, [] sends nothing.",
            )
        state, values = result
        self._state.put(state)
        for value in values or ():
            context.forward(value=value)


def stepped(
    group: Group, init: Any, step: Any, *, state: Any, returns: Any, name: str | None, store: str | None
) -> KStream:
    """The stream of the short form."""
    construction, above = group.construction, (group.inputs[-1], group.key)
    for role, function, names in (("init", init, ()), ("step", step, ("key", "value", "state", "context"))):
        if not callable(function):
            raise FunctionError(
                f"The {role} must be a function, not {function!r:.80}.", hint=f"A function of ({', '.join(names)})."
            )
        check_called(function, f"The {role}", names, f"it as a function of ({', '.join(names)})")
    name = construction.name(name, ProcessNode.stem, above[0])
    declaration = ValueStore(store or f"{name}.state", state)
    kind = construction.functions.named_type(returns)
    make = lambda: StepProcessor(init, step, declaration.name)  # noqa: E731
    types = ((None, kind), kind)
    stores = tuple(
        replace(processor_store, named=store is not None) for processor_store in declared(construction, [declaration])
    )
    return handle.stream(construction, processed(construction, above, make, types, stores, name, drops_null=True))


# A processor over the changes of a table, with a table as its result: `KTable.transform_values`.
#
# Handle layer. The changes are a stream to it, and what it gives are the changes of the result.

_METHODS = {"transform": ("record", "context"), **{k: v for k, v in SIGNATURES.items() if k != "process"}}


class Transforming:
    """A transformer as a processor, which sends what it gives."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._transformer = make()

    def init(self, context: Any) -> None:
        """Begin."""
        self._call("init", context)

    def process(self, record: Any, context: Any) -> None:
        """One change."""
        context.forward(value=self._transformer.transform(record, context))

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """A timer of stream time."""
        self._transformer.on_timer(key, timestamp, context)

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """A timer of the wall clock."""
        self._transformer.on_wall_timer(key, timestamp, context)

    def close(self) -> None:
        """End."""
        self._call("close")

    def _call(self, method: str, *arguments: Any) -> None:
        function = getattr(self._transformer, method, None)
        if function is not None:
            function(*arguments)


def transformed(
    table: Side,
    transformer: Callable[[], Any],
    *,
    value: Any,
    stores: Sequence[StoreDeclaration],
    tables: TablesRead,
    name: str | None,
    store: str | None,
) -> KTable:
    """See `KTable.transform_values`."""
    construction, delegate = table.construction, tried_out(transformer, _METHODS)
    changes, kind = changes_of(table, None), construction.functions.named_type(value)
    name, wrapping = wrapped(construction, changes.name, name, transformer, _METHODS)
    if wrapping is not transformer:
        transformer, delegate = wrapping, tried_out(wrapping, _METHODS)
    above, types, processor_stores = (
        (changes.name, table.key_type),
        ((None, kind), kind),
        declared(construction, stores),
    )
    make = lambda: Transforming(transformer)  # noqa: E731
    node = processed(
        construction, above, make, types, processor_stores, name, read=read_by(table, tables), delegate=delegate
    )
    return handle.stream(construction, node).to_table(store=store)
