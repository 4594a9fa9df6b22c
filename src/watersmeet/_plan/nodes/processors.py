"""Processors: what a user declares (docs/processors.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from watersmeet._plan.nodes.base import Node


@dataclass(frozen=True)
class ProcessorStore:
    """A store of a processor.

    Parameters
    ----------
    name : the store's.
    kind : "value", "list" or "map".
    entry : type of what tells entries of a key apart; None where there is one alone.
    value : type of the values.
    ttl_ms : for how long an entry lasts, in ms of stream time; None: until it is deleted.
    named : whether its name is the user's, and not made of the node's.
    given : what the user declared it by: processors that were given the same object share the store.
    """

    name: str
    kind: str
    entry: Any
    value: Any
    ttl_ms: int | None
    named: bool = True
    given: object = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.ttl_ms is None else f" for {self.ttl_ms} ms")


@dataclass(frozen=True)
class TableRead:
    """A table that a processor reads.

    Parameters
    ----------
    name : what the processor calls it.
    input : which of the node's inputs it is.
    key : type of its keys.
    everywhere : whether it is a global table, read by any key; else it is read by the present one.
    history_ms : how much of its past can be read, in ms; None: its current values alone.
    member : which of the node's processors reads it.
    """

    name: str
    input: int
    key: Any
    everywhere: bool = False
    history_ms: int | None = None
    member: int = 0

    def __str__(self) -> str:
        past = "" if self.history_ms is None else f" with {self.history_ms} ms of its past"
        return f"{self.name} by any key" if self.everywhere else f"{self.name}{past}"


@dataclass(frozen=True)
class ProcessorsNode(Node):
    """Records given to processors that have their stores together: one, or several that share some.

    Its inputs are the processors' streams, then the tables that are read by the present key, then global ones.
    """

    stem = "process"
    fans_out = True

    @property
    def members(self) -> tuple[ProcessNode, ...]:
        """The processors; each has the input of its number."""
        raise NotImplementedError

    @property
    def all_stores(self) -> tuple[ProcessorStore, ...]:
        """The stores of all of them, each once, by name."""
        raise NotImplementedError

    @property
    def reads(self) -> tuple[TableRead, ...]:
        """The tables that they read, in the order of the inputs."""
        raise NotImplementedError

    @property
    def keyed_by(self) -> tuple[str, ...]:
        everywhere = {read.input for read in self.reads if read.everywhere}
        return tuple(name for number, name in enumerate(self.inputs) if number not in everywhere)

    @property
    def looks_up(self) -> tuple[int, ...]:
        return tuple(read.input for read in self.reads if not read.everywhere)

    @property
    def looks_up_as_of(self) -> tuple[int, ...]:
        return tuple(read.input for read in self.reads if read.history_ms is not None)

    @property
    def goes_by_moment(self) -> tuple[int, ...]:
        return self.looks_up


@dataclass(frozen=True)
class ProcessNode(ProcessorsNode):
    """The records of a stream given to a processor, which sends others; under their keys.

    Where it sends records under other keys, these are structs of a key and a value, which a step behind makes records.

    Parameters
    ----------
    make : gives the processor.
    called : what it is called in texts.
    sends : (type of the keys it sends, None where these are the records' own; type of the values).
    stores : its stores.
    tables : the tables it reads.
    timers : whether it has timers of stream time.
    wall_timers : whether it goes by the wall clock, too, and has timers of it.
    drops_null : whether records without a value end here, counted.
    in_bulk : whether it is called with the records of many keys at once.
    """

    make: Callable[[], Any] = field(kw_only=True, compare=False, repr=False)
    called: str = field(kw_only=True)
    sends: tuple[Any, Any] = field(kw_only=True)
    stores: tuple[ProcessorStore, ...] = field(default=(), kw_only=True)
    tables: tuple[TableRead, ...] = field(default=(), kw_only=True)
    timers: bool = field(default=False, kw_only=True)
    wall_timers: bool = field(default=False, kw_only=True)
    drops_null: bool = field(default=False, kw_only=True)
    in_bulk: bool = field(default=False, kw_only=True)

    @property
    def members(self) -> tuple[ProcessNode, ...]:
        return (self,)

    @property
    def all_stores(self) -> tuple[ProcessorStore, ...]:
        return self.stores

    @property
    def reads(self) -> tuple[TableRead, ...]:
        return self.tables

    @property
    def named_stores(self) -> tuple[str, ...]:
        return tuple(store.name for store in self.stores if store.named)

    @property
    def shared_stores(self) -> Mapping[str, object]:
        return {store.name: store.given for store in self.stores if store.named}

    def details(self) -> tuple[tuple[str, str], ...]:
        kept = (("stores", ", ".join(map(str, self.stores))),) if self.stores else ()
        read = (("tables", ", ".join(map(str, self.tables))),) if self.tables else ()
        clocks = [name for name, has in (("stream time", self.timers), ("wall clock", self.wall_timers)) if has]
        timers = (("timers", ", ".join(clocks)),) if clocks else ()
        return (("processor", self.called), *kept, *read, *timers, *((("in bulk", "yes"),) if self.in_bulk else ()))


@dataclass(frozen=True)
class SharedProcessNode(ProcessorsNode):
    """Processors that share stores: their records are one sequence.

    It gives structs with two fields for each processor: whether the record is one of its, and what it sends.

    Parameters
    ----------
    parts : the processors as they were declared, in that order.
    """

    parts: tuple[ProcessNode, ...] = field(kw_only=True)

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
    def reads(self) -> tuple[TableRead, ...]:
        return table_reads(self.parts)

    @property
    def named_stores(self) -> tuple[str, ...]:
        return tuple(store.name for store in self.all_stores if store.named)

    def details(self) -> tuple[tuple[str, str], ...]:
        return tuple((f"{name} of {part.name}", text) for part in self.parts for name, text in part.details())


def table_reads(parts: Sequence[ProcessNode]) -> tuple[TableRead, ...]:
    """The tables that several processors read, with the inputs that they are of their common node."""
    given = [(read, number) for number, part in enumerate(parts) for read in part.tables]
    # those of the present key stand first
    given.sort(key=lambda each: each[0].everywhere)
    return tuple(replace(read, input=len(parts) + place, member=member) for place, (read, member) in enumerate(given))
