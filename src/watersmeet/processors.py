"""The protocol of a processor, and the arguments of its methods.

These classes say what there is; the engine has its own, which are faster. A processor may name them in its type hints.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from watersmeet.errors import TopologyError
from watersmeet.hints import answering
from watersmeet.windows import Duration, duration_ms

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BatchState",
    "Context",
    "GlobalTableState",
    "ListState",
    "ListStore",
    "MapState",
    "MapStore",
    "Processor",
    "ProcessorMetrics",
    "Record",
    "StoreDeclaration",
    "TableState",
    "ValueState",
    "ValueStore",
]


class Record(Protocol):
    """A record that a processor gets. It can be changed, and sent on by `context.forward(record)`.

    Attributes
    ----------
    key, value : as Python has them: structs and maps are dictionaries, arrays are lists; a value may be None.
    timestamp : its time in ms since 1970.
    """

    key: Any
    value: Any
    timestamp: int

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Its headers, as (name, bytes) pairs; only where the input keeps them (`headers=True`)."""
        ...

    @property
    def topic(self) -> str:
        """The topic, or the input's name, of the source record that caused it."""
        ...

    @property
    def partition(self) -> int:
        """The partition of that source record."""
        ...

    @property
    def offset(self) -> int:
        """The offset of that source record; in a test driver the number of the piped record."""
        ...


class ValueState(Protocol):
    """The value of the present key in a `ValueStore`."""

    def get(self) -> Any:
        """The value; None where there is none."""
        ...

    def put(self, value: Any) -> None:
        """Another value; None deletes."""
        ...

    def delete(self) -> None:
        """No value any more."""
        ...


class ListState(Protocol):
    """The list of the present key in a `ListStore`."""

    def get(self) -> list[Any]:
        """The elements, in order; a list of the caller's own."""
        ...

    def append(self, value: Any) -> None:
        """One more element, behind all others."""
        ...

    def put(self, values: list[Any]) -> None:
        """Other elements."""
        ...

    def delete(self) -> None:
        """No elements any more."""
        ...


class MapState(Protocol):
    """The map of the present key in a `MapStore`."""

    def get(self, key: Any) -> Any:
        """The value of one of the map's keys; None where there is none."""
        ...

    def put(self, key: Any, value: Any) -> None:
        """Another value of one of the map's keys; None deletes."""
        ...

    def delete(self, key: Any) -> None:
        """One of the map's keys is no more."""
        ...

    def range(self, from_key: Any = None, to_key: Any = None) -> list[tuple[Any, Any]]:
        """(key, value) of the map's keys between the two, both included, in order; None: no limit."""
        ...

    def all(self) -> list[tuple[Any, Any]]:
        """(key, value) of all of the map's keys, in order."""
        ...


class BatchState(Protocol):
    """The entries of a store, of all keys of a call of `process_batch`."""

    def rows(self) -> pa.Table:
        """The entries before the call, in order: group, key, entry (a map's key, the number of an element), value."""
        ...

    def put(self, rows: pa.Table) -> None:
        """Other entries: group, entry but for a `ValueStore`, value; null deletes. Once in a call; the rest stays."""
        ...


class TableState(Protocol):
    """A table's row of the present key."""

    def get(self, as_of: int | None = None) -> Any:
        """The row's value where the record, or timer, stands; None where there is none.

        Parameters
        ----------
        as_of : of a table with a history, the time to look the value up at, in ms; None: that of the record.
        """
        ...


class GlobalTableState(Protocol):
    """A global table."""

    def get(self, key: Any) -> Any:
        """The value of any row; None where there is none."""
        ...


class ProcessorMetrics(Protocol):
    """Counters and timers of a processor's own, by names that it chooses (Kafka Streams' `StreamsMetrics`, KIP-444).

    They are in `query.metrics()` and at the query's port for Prometheus, by operator and name. A batch that runs again
    counts once, and a record that ends with an error has counted nothing.
    """

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter.

        Parameters
        ----------
        number : how much; 0 or more.

        Raises
        ------
        FunctionError : the name is no text, or the number is none of 0 or more.
        """
        ...

    def time(self, name: str) -> AbstractContextManager[None]:
        """Time what is done within: `with context.metrics.time("lookup"): ...` adds a call and its seconds."""
        ...


class Context(Protocol):
    """The context of a processor: its questions and actions.

    Attributes
    ----------
    key : the present key. The stores hold its state. None in `init` and `close`.
    timestamp : of the present record, or of the timer, in ms.
    stream_time : the time of the stream at this place of the sequence, in ms: the largest timestamp so far, less what
        operators above hold back. Within `on_timer` it is the timer's own time.
    wall_clock : what the wall clock shows in this batch, in ms since 1970; only where the processor has a method
        `on_wall_timer`.
    metrics : its counters and timers; may be asked for once, in `init`.
    """

    key: Any
    timestamp: int
    stream_time: int
    wall_clock: int
    metrics: ProcessorMetrics

    def forward(self, record: Any = None, *, key: Any = ..., value: Any = ..., timestamp: Any = ...) -> None:
        """Send a record.

        Parameters
        ----------
        record : what key, value and timestamp are taken from where they are not given; None: the key and the timestamp
            are the present ones, and the value is null.
        key, value, timestamp : of what is sent.

        Raises
        ------
        FunctionError : it is not of the types that were declared.
        """
        ...

    def get_store(self, name: str) -> Any:
        """The state of the present key in one of the processor's stores; may be asked for once, in `init`."""
        ...

    def table(self, name: str) -> TableState:
        """One of the tables that the processor reads; may be asked for once, in `init`."""
        ...

    def global_table(self, name: str) -> GlobalTableState:
        """One of the global tables that it reads; may be asked for once, in `init`."""
        ...

    def set_timer(self, timestamp: int, *, clock: str = "stream") -> None:
        """Have `on_timer` called for the present key when stream time reaches this moment, in ms.

        It is called directly before the record that moves time there is processed; at once, behind the present call, if
        time is there already. A key has one timer of each moment and clock.

        Parameters
        ----------
        timestamp : the moment, in ms since 1970.
        clock : "wall": `on_wall_timer` is called when the wall clock reaches it, at the beginning of a batch. Its time
            is recorded, and read about once a second.
        """
        ...

    def delete_timer(self, timestamp: int, *, clock: str = "stream") -> None:
        """Forget the present key's timer of this moment and clock, if there is one."""
        ...


class Processor:
    """The methods of a processor. A class need not be derived from it, and leaves out the methods it does not need.

    An object is made for each shard and batch. So what has to last lies in stores: an attribute that changes after
    `init` is an error. `init` makes all that records share, such as the stores, a compiled pattern or a client.
    """

    def init(self, context: Any) -> None:
        """Begin; nothing can be sent here, and no key is present."""

    def process(self, record: Any, context: Any) -> None:
        """Take one record."""
        raise NotImplementedError

    def process_batch(self, records: pa.Table, states: Mapping[str, BatchState]) -> pa.Table | None:
        """Take the records of many keys at once, in place of `process`.

        All records that a batch has of a key come in one call, one after the other and in order. Batches are as they
        come: the results must not depend on where they are cut, which is the case where they follow, for each key by
        itself, from its records in order and from what is put into states.

        Parameters
        ----------
        records : columns group (number of the key in this call, from 0 on, ascending), key, value, timestamp (ms).
        states : the stores, by name.

        Returns
        -------
        Columns record (number of the row of `records` that it is sent for), value, key where the processor sends other
        keys, and perhaps timestamp (that of the record where it is left out); None: nothing.
        """
        raise NotImplementedError

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """A timer of this key is due."""

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """A timer of this key is due by the wall clock."""

    def close(self) -> None:
        """End."""


# The stores of a processor, as they are declared: a value, a list, or an ordered map under each key.
#
# >>> MapStore("seen", key_type="string", value_type="boolean", ttl="10 minutes")
# MapStore('seen', key_type='string', value_type='boolean', ttl='10 minutes')


@dataclass(frozen=True, repr=False)
class StoreDeclaration:
    """Base of all declarations of stores.

    Parameters
    ----------
    name : the store's name, one of its own in the topology.
    """

    name: str

    kind: ClassVar[str]
    """"value", "list" or "map"."""

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not name:
            raise TopologyError(
                f"The name of a store must be a text: {type(self).__name__}({self.name!r:.80}).",
                hint=f"For example wm.{type(self).__name__}('seen', ...).",
            )
        for option in ("type", "key_type", "value_type"):
            kind = getattr(self, option, "long")
            if not kind or isinstance(kind, int | float | bytes | list | dict):
                raise TopologyError(
                    f"A type must be a text or a DataType: {option}={kind!r:.80} of the store {self.name!r}.",
                    hint=f'Say it in Spark\'s words: {option}="long".',
                )
        if self.ttl_ms is not None and self.ttl_ms < 1:
            raise TopologyError(
                f"ttl must be more than zero: ttl of {self.name!r} is {self.ttl_ms} ms.",
                hint="ttl='10 minutes', or leave it out.",
            )

    def __repr__(self) -> str:
        options = ((member.name, getattr(self, member.name)) for member in fields(self)[1:])
        text = "".join(f", {name}={value!r}" for name, value in options if value is not None)
        return f"{type(self).__name__}({self.name!r}{text})"

    @property
    def types(self) -> tuple[Any, Any]:
        """(type of what tells entries of a key apart, None where there is one alone; type of the values)."""
        raise NotImplementedError

    @property
    def ttl_ms(self) -> int | None:
        """For how long an entry lasts, in ms; None: until it is deleted."""
        ttl = getattr(self, "ttl", None)
        return None if ttl is None else duration_ms(ttl, "ttl")


@answering
@dataclass(frozen=True, repr=False)
class ValueStore(StoreDeclaration):
    """A value of each key.

    Parameters
    ----------
    name : the store's name.
    type : type of the values, in Spark's words ("long", "struct<n: long>") or as a DataType.
    ttl : for how long a value lasts after it was put, in stream time, a duration ("1 hour"); None: until it is deleted.

    Examples
    --------
    >>> ValueStore("last", "long")
    ValueStore('last', type='long')
    """

    type: Any
    ttl: Duration | None = field(default=None, kw_only=True)
    kind = "value"

    @property
    def types(self) -> tuple[Any, Any]:
        return None, self.type


@answering
@dataclass(frozen=True, repr=False)
class ListStore(StoreDeclaration):
    """A list of values of each key.

    Parameters
    ----------
    name : the store's name.
    type : type of the elements, in Spark's words or as a DataType.
    ttl : for how long an element lasts after it was put, in stream time; None: until it is deleted.
    """

    type: Any
    ttl: Duration | None = field(default=None, kw_only=True)
    kind = "list"

    @property
    def types(self) -> tuple[Any, Any]:
        return "long", self.type


@answering
@dataclass(frozen=True, repr=False)
class MapStore(StoreDeclaration):
    """A map of each key, in the order of the map's own keys.

    Parameters
    ----------
    name : the store's name.
    key_type, value_type : types of the map's keys and values, in Spark's words or as DataTypes. Keys are texts, bytes,
        whole numbers, decimals, dates or times.
    ttl : for how long an entry lasts after it was put, in stream time, a duration; None: until it is deleted.

    Examples
    --------
    >>> MapStore("seen", "string", "boolean", ttl="10 minutes").ttl_ms
    600000
    """

    key_type: Any
    value_type: Any
    ttl: Duration | None = field(default=None, kw_only=True)
    kind = "map"

    @property
    def types(self) -> tuple[Any, Any]:
        return self.key_type, self.value_type
