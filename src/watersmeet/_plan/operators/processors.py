"""Processors and map_async: what a user declares, and what their operators read, keep and give (docs/processors.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from watersmeet._plan.declaration import (
    FOLLOWS,
    NUMBER,
    STAMP,
    OperatorNode,
    OperatorSide,
    Params,
    Reads,
    Retention,
    TableSchema,
    TimeBehaviour,
    current_rows,
    held_schema,
    row_ends,
)
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.tables import versions

UNTIL = "until"
"""The column with the last moment of an entry that lasts for a while; its domain stands beside it."""


ENTRY = "entry"
"""The column that tells a key's entries apart."""
Clock = Literal["stream", "wall"]
_TIMERS: dict[Clock, tuple[str, str]] = {"stream": ("timers", "stream time"), "wall": ("wall_timers", "wall clock")}
"""By clock the end of the name of a table of its timers, and what it is called."""


@dataclass(frozen=True)
class ProcessorStore:
    """A store of a processor."""

    name: str  # the store's
    kind: str  # "value", "list" or "map"
    entry: Any  # type of what tells entries of a key apart; None where there is one alone
    value: Any  # type of the values
    ttl_ms: int | None  # for how long an entry lasts, in ms of stream time; None: until it is deleted
    named: bool = True  # whether its name is the user's, and not made of the node's
    # what the user declared it by: processors that were given the same object share the store
    given: object = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.ttl_ms is None else f" for {self.ttl_ms} ms")


@dataclass(frozen=True)
class TableRead:
    """A table that a processor reads."""

    name: str  # what the processor calls it
    input: int  # which of the node's inputs it is
    key: Any  # type of its keys
    everywhere: bool = False  # whether it is a global table, read by any key; else it is read by the present one
    history_ms: int | None = None  # how much of its past can be read, in ms; None: its current values alone
    member: int = 0  # which of the node's processors reads it

    def __str__(self) -> str:
        past = "" if self.history_ms is None else f" with {self.history_ms} ms of its past"
        return f"{self.name} by any key" if self.everywhere else f"{self.name}{past}"


@dataclass(frozen=True)
class ProcessorSettings:
    """Of one processor."""

    # make, called: gives it, and what it is called in texts
    make: Callable[[], Any] = field(compare=False, repr=False)
    called: str
    # sent_key, sent_value: types of what it sends; no type of a key: the records' own
    sent_key: Any
    sent_value: Any
    stores: tuple[str, ...]  # names of its stores
    clocks: frozenset[Clock]  # the clocks by which it has timers
    in_bulk: bool  # whether it is called with the records of many keys at once


@dataclass(frozen=True)
class ProcessParams(Params):
    """Of processors that have their stores together."""

    members: tuple[ProcessorSettings, ...] = field(metadata=FOLLOWS)  # the processors
    stores: tuple[ProcessorStore, ...] = field(metadata=FOLLOWS)  # their stores, each once
    # the tables that they read, in the order of their sides behind the members'
    reads: tuple[TableRead, ...] = field(metadata=FOLLOWS)
    # what each source of the plan is called: its topic, or the input's name
    sources: tuple[str, ...] = field(metadata=FOLLOWS)

    @property
    def timers(self) -> bool:
        return any(member.clocks for member in self.members)

    @property
    def by_wall(self) -> bool:
        return any("wall" in member.clocks for member in self.members)

    def typed(self, convert: Callable[[Any], Any]) -> ProcessParams:
        def as_one(kind: Any) -> Any:
            return None if kind is None else convert(kind)

        stores = tuple(replace(store, entry=as_one(store.entry), value=convert(store.value)) for store in self.stores)
        members = tuple(
            replace(member, sent_key=as_one(member.sent_key), sent_value=convert(member.sent_value))
            for member in self.members
        )
        reads = tuple(replace(read, key=convert(read.key)) for read in self.reads)
        return replace(self, members=members, stores=stores, reads=reads)


@dataclass(frozen=True)
class ProcessorsNode(OperatorNode):
    """Records given to processors that have their stores together: one, or several that share some.

    Its inputs are the processors' streams, then the tables that are read by the present key, then global ones.
    """

    stem = "process"
    mixes_keys = True
    in_place = True
    fans_out = True
    grows = True

    @property
    def members(self) -> tuple[ProcessNode, ...]:
        """The processors; each has the input of its number."""
        raise NotImplementedError

    @property
    def all_stores(self) -> tuple[ProcessorStore, ...]:
        """The stores of all of them, each once, by name."""
        raise NotImplementedError

    @property
    def declared_stores(self) -> tuple[tuple[str, object], ...]:
        return tuple((store.name, store.given) for store in self.all_stores if store.named)

    @property
    def tables_read(self) -> tuple[TableRead, ...]:
        raise NotImplementedError

    @property
    def keyed_by(self) -> tuple[str, ...]:
        everywhere = {read.input for read in self.tables_read if read.everywhere}
        return tuple(name for number, name in enumerate(self.inputs) if number not in everywhere)

    @property
    def looks_up(self) -> tuple[int, ...]:
        return tuple(read.input for read in self.tables_read if not read.everywhere)

    @property
    def looks_up_as_of(self) -> tuple[int, ...]:
        return tuple(read.input for read in self.tables_read if read.history_ms is not None)

    @property
    def goes_by_moment(self) -> tuple[int, ...]:
        return self.looks_up

    def reads(self, plan: Plan) -> Reads:
        """Records, null values among them, where they are wanted; then the tables that are read."""
        records = (
            OperatorSide(
                plan.shape(self, side).value,
                ends=row_ends(null_value=member.drops_null, silent=True),
                looked_up=False,
            )
            for side, member in enumerate(self.members)
        )
        tables = (_side(plan.shape(self, read.input).value, read) for read in self.tables_read)
        return Reads(self.shape.key, (*records, *tables))

    def meets(self, plan: Plan) -> bool:
        records, tables = ([self.inputs[side] for side in sides] for sides in (range(len(self.members)), self.looks_up))
        return any(plan.meet_in_step(record, table) for record in records for table in tables)

    def params(self, plan: Plan) -> ProcessParams:
        sources = tuple(source.origin.topic or source.input for source in plan.sources)
        return ProcessParams(
            tuple(member.settings for member in self.members), self.all_stores, self.tables_read, sources
        )

    def keeps(self, plan: Plan) -> tuple[TableSchema, ...]:
        """The stores; of each processor timers of stream time, then of the wall clock; the tables that are read."""
        key = self.shape.key
        stores = tuple(_table(store, key) for store in self.all_stores)
        names = (
            f"{member.name}.{name}"
            for member in self.members
            for clock, (name, _) in _TIMERS.items()
            if clock in member.settings.clocks
        )
        waiting = (held_schema(name, key, (), replaced=True) for name in names)
        return (*stores, *waiting, *self._copies(plan))

    def replicas(self, plan: Plan) -> Mapping[int, Node]:
        return {read.input: plan.by_name[self.inputs[read.input]] for read in self.tables_read if read.everywhere}

    def _copies(self, plan: Plan) -> Iterator[TableSchema]:
        """The tables that are read, as the processor stores them: current rows, their versions, or a whole copy."""
        for read in self.tables_read:
            table, usual = plan.by_name[self.inputs[read.input]], f"{self.members[read.member].name}.{read.name}"
            store = plan.store_of(self, read.input)
            if read.history_ms is not None:
                yield versions(store or usual, read.key, table.shape.value)
            else:
                yield current_rows(plan, table, store, usual, everywhere=read.everywhere)

    def timed(self, plan: Plan) -> TimeBehaviour:
        """Records that timers send have the timers' time, so it holds nothing back for longer than they are due."""
        clocks = frozenset[Clock]().union(*(member.settings.clocks for member in self.members))
        holds_back = bool(clocks) or any(store.ttl_ms is not None for store in self.all_stores)
        hold = 0 if holds_back else None
        return TimeBehaviour(hold, dropped_move=False, reaches=self.looks_up_as_of, by_wall="wall" in clocks)


@dataclass(frozen=True)
class ProcessNode(ProcessorsNode):
    """The records of a stream given to a processor, which sends others; under their keys.

    Where it sends records under other keys, these are structs of a key and a value, which a step behind makes records.
    """

    settings: ProcessorSettings = field(kw_only=True)
    stores: tuple[ProcessorStore, ...] = field(default=(), kw_only=True)  # its stores
    tables: tuple[TableRead, ...] = field(default=(), kw_only=True)  # the tables it reads
    drops_null: bool = field(default=False, kw_only=True)  # whether records without a value end here, counted

    @property
    def members(self) -> tuple[ProcessNode, ...]:
        return (self,)

    @property
    def all_stores(self) -> tuple[ProcessorStore, ...]:
        return self.stores

    @property
    def tables_read(self) -> tuple[TableRead, ...]:
        return self.tables

    def details(self) -> tuple[tuple[str, str], ...]:
        stores = (("stores", ", ".join(map(str, self.stores))),) if self.stores else ()
        read = (("tables", ", ".join(map(str, self.tables))),) if self.tables else ()
        clocks = [name for clock, (_, name) in _TIMERS.items() if clock in self.settings.clocks]
        timers = (("timers", ", ".join(clocks)),) if clocks else ()
        in_bulk = (("in bulk", "yes"),) if self.settings.in_bulk else ()
        return (("processor", self.settings.called), *stores, *read, *timers, *in_bulk)


@dataclass(frozen=True)
class SharedProcessNode(ProcessorsNode):
    """Processors that share stores: their records are one sequence.

    It gives structs with two fields for each processor: whether the record is one of its, and what it sends.
    """

    parts: tuple[ProcessNode, ...] = field(kw_only=True)  # the processors as they were declared, in that order

    @property
    def members(self) -> tuple[ProcessNode, ...]:
        return self.parts

    @cached_property
    def _stores_by_name(self) -> dict[str, ProcessorStore]:
        return {store.name: store for part in self.parts for store in part.stores}

    @property
    def all_stores(self) -> tuple[ProcessorStore, ...]:
        return tuple(self._stores_by_name[name] for name in sorted(self._stores_by_name))

    @property
    def tables_read(self) -> tuple[TableRead, ...]:
        return table_reads(self.parts)

    def details(self) -> tuple[tuple[str, str], ...]:
        return tuple((f"{name} of {part.name}", text) for part in self.parts for name, text in part.details())


def process_nodes(nodes: Iterable[Node]) -> list[ProcessNode]:
    return [node for node in nodes if isinstance(node, ProcessNode)]


def table_reads(parts: Sequence[ProcessNode]) -> tuple[TableRead, ...]:
    """The tables that several processors read, with the inputs that they are of their common node."""
    reads = [(read, number) for number, part in enumerate(parts) for read in part.tables]
    # those of the present key stand first
    reads.sort(key=lambda pair: pair[0].everywhere)
    return tuple(replace(read, input=len(parts) + place, member=member) for place, (read, member) in enumerate(reads))


def _side(value: Any, read: TableRead) -> OperatorSide:
    if read.everywhere:
        return OperatorSide(value, broadcast=True, looked_up=False, ends=row_ends(silent=True))
    return OperatorSide(value, marks_silent=False, nulls_reach=read.history_ms is not None)


def _table(store: ProcessorStore, key: Any) -> TableSchema:
    """A row for each entry; one that lasts for a while is another row when it is put again."""
    entry = () if store.entry is None else ((ENTRY, store.entry),)
    columns = (("key", key), *entry, ("value", store.value), STAMP)
    identity = ("key", *(name for name, _ in entry))
    if store.ttl_ms is None:
        return TableSchema(store.name, columns, identity)
    return TableSchema(
        store.name,
        (*columns, (UNTIL, NUMBER), ("domain", NUMBER)),
        (*identity, UNTIL, "domain"),
        order=(UNTIL,),
        retention=Retention(UNTIL, "domain"),
    )


# map_async: values that a coroutine function gives (docs/functions.md).


@dataclass(frozen=True)
class AsyncMap:
    """A coroutine function of records, and how it is called."""

    # of the plain values (key, value), and of the client behind them where there is one; it gives an awaitable
    function: Callable[..., Any] = field(compare=False, repr=False)
    # gives what is entered before the first call of a batch, as `async with` does it; None: nothing
    client: Callable[[], Any] | None = field(compare=False, repr=False)
    called: str  # what the function is called in texts
    concurrency: int  # calls that are under way at once, at most
    timeout_ms: int | None  # how long a call may take; None: without end


@dataclass(frozen=True)
class MapAsyncParams(Params):
    """How the function is called, and the type of what it gives; state depends on neither."""

    how: AsyncMap = field(metadata=FOLLOWS)
    result: Any = field(metadata=FOLLOWS)

    def typed(self, convert: Callable[[Any], Any]) -> MapAsyncParams:
        return replace(self, result=convert(self.result))


@dataclass(frozen=True)
class MapAsyncNode(OperatorNode):
    """The records of a stream with new values, which a coroutine function gives."""

    how: AsyncMap = field(kw_only=True)  # the function

    stem = "map_async"
    mixes_keys = True
    in_place = True

    def details(self) -> tuple[tuple[str, str], ...]:
        limit = self.how.timeout_ms
        timeout = "none" if limit is None else f"{limit} ms"
        return (("function", self.how.called), ("concurrency", str(self.how.concurrency)), ("timeout", timeout))

    def reads(self, plan: Plan) -> Reads:
        """All records, those without a key or a value too."""
        shape = plan.shape(self, 0)
        return Reads(
            shape.key, (OperatorSide(shape.value, ends=row_ends(null_key=False, silent=True), looked_up=False),)
        )

    def params(self, plan: Plan) -> MapAsyncParams:
        return MapAsyncParams(self.how, self.shape.value)
