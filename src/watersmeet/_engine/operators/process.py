"""process: users' classes called for each record and timer of a key, in the order of the sequence (docs/processors.md).

The results of a key follow from its own records and timers, from the rows of the tables that are read, and from time.
So a batch is done in slices of keys: state is read for all keys of a slice, then each key's records and timers go one
after the other, then state is written.
"""

from __future__ import annotations

import gc
import inspect
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from decimal import Decimal
from functools import cached_property
from itertools import islice
from time import perf_counter_ns
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.folds import with_owner, without_frames
from watersmeet._engine.exchange import COUNTED, TIMED, TIMED_CALLS
from watersmeet._engine.keys import KeyGroups, encode_keys, group_keys
from watersmeet._engine.matching import moments_of
from watersmeet._engine.operator import (
    Dropped,
    Events,
    Failed,
    Noted,
    OperatorContext,
    failed_rows,
    operator_table,
)
from watersmeet._engine.operators.process_state import (
    KINDS,
    Present,
    StoreEntries,
    are_one_key,
    checked,
    plain_values,
    sure_type,
)
from watersmeet._engine.operators.process_tables import CurrentRows, GlobalRows, PastRows, tables_by_name
from watersmeet._engine.operators.process_timers import (
    BEFORE_ALL,
    BatchPlace,
    DueTimers,
    StreamTimerClock,
    Timeline,
    Timers,
    WallTimerClock,
)
from watersmeet._engine.row_sizes import Picked, in_pieces
from watersmeet._engine.rows import AT_FIRST, LET_GO, PARTITION_BITS, Int64s, joined, merged, place_of, position_columns
from watersmeet._engine.state.runs import State, Table
from watersmeet._engine.time import BatchTimes, WallClock
from watersmeet._engine.waiting_rows import in_order
from watersmeet._plan.operators.processors import ENTRY, ProcessorSettings, ProcessorStore, ProcessParams
from watersmeet.errors import FunctionError, MissingName
from watersmeet.hints import answering_as
from watersmeet.processors import Context, ListState, MapState, ProcessorMetrics, Record, ValueState

# The records that a processor sends in one slice, as results in order of position.
#
# Records sent for a record, and by timers that fire directly after it, are results of that record, numbered. Records of
# timers that time lets go have the positions of these timers, as all rows have that wait (`waiting_rows.in_order`).

Sent: TypeAlias = list[tuple[Any, Any, Any, int]]
"""Records that were sent, in the order in which they were: place, key, value and timestamp of each.

The place is an event, by its number; or the timer's place, domain, group, and the number of its processor.
"""


@dataclass(frozen=True)
class SentResults:
    """How results are made of what a slice sends."""

    # context, events, times: of the batch
    context: OperatorContext
    events: Events
    times: BatchTimes

    def of(self, sent_by_events: Sent, sent_by_timers: Sent, hashes: Int64s, keys: pa.Array) -> Iterator[pa.Table]:
        """The results, in order of position; `hashes`, `keys`: of the slice's groups."""
        results = self._of_events(sent_by_events), self._of_timers(sent_by_timers, hashes, keys)
        yield from merged(*results, position_columns(self.context.slots))

    def _values(self, key: Sequence[Any], value: Sequence[Any], member: Int64s) -> pa.Array:
        members = self.context.params(ProcessParams).members
        if len(members) == 1:
            return _of_member(members[0], key, value)
        # of several that share stores each has two fields of its own
        parts: dict[str, pa.Array] = {}
        for number, processor in enumerate(members):
            mask = member == number
            columns = (
                [row if selected else None for row, selected in zip(column, mask, strict=True)]
                for column in (key, value)
            )
            parts |= {f"is{number}": pa.array(mask), f"v{number}": _of_member(processor, *columns)}
        return pa.StructArray.from_arrays(list(parts.values()), names=list(parts))

    def _of_events(self, sent: Sent) -> Iterator[pa.Table]:
        if not sent:
            return
        place, key, value, stamp = zip(*sent, strict=True)
        event = np.array(place, dtype=np.int64)
        values = self._values(key, value, self.events.side[event])
        yield from self.of_records(event, values, np.array(stamp, dtype=np.int64))

    def of_records(self, event: Int64s, values: pa.Array, stamp: Int64s) -> Iterator[pa.Table]:
        """The results of records, by the event that each stands behind; those of one event in their order."""
        order = np.argsort(event, kind="stable")
        event, ts = event[order], stamp[order]
        out: dict[str, pa.Array | Picked] = self.events.meta(event, ts)
        operator, rows = self.context.operator, np.arange(len(event), dtype=np.int64)
        fresh = np.append(True, event[1:] != event[:-1])[: len(event)]
        number = rows - np.maximum.accumulate(np.where(fresh, rows, 0))
        out[f"p{operator.slot}"] = pa.array(number * operator.fan)
        yield from in_pieces(out | {"value": Picked(values, order)})

    def _of_timers(self, sent: Sent, hashes: Int64s, keys: pa.Array) -> Iterator[pa.Table]:
        if not sent:
            return
        place, key, value, stamp = zip(*sent, strict=True)
        parts = [np.array(column, dtype=np.int64) for column in zip(*map(_sent_numbers, place), strict=True)]
        event, moment, turn, domain, group, member = parts
        rows = pa.table(
            {
                "ts": pa.array(stamp, pa.int64()),
                "hash": pa.array(hashes[group]),
                "arrival": pa.array(np.arange(len(group), dtype=np.int64)),
                "domain": pa.array(self.times.number(domain)),
                "key": keys.take(pa.array(group)),
            }
        )
        # what the wall clock lets go stands before all of them
        movers = [np.append(at, mover) for at, mover in zip((AT_FIRST, LET_GO, 0), self.times.movers, strict=True)]
        order, out = in_order(self.context, rows, movers, np.where(event == BEFORE_ALL, 0, event + 1), moment, turn)
        yield from in_pieces(out | {"value": Picked(self._values(key, value, member), order)})


def _of_member(member: ProcessorSettings, key: Sequence[Any], value: Sequence[Any]) -> pa.Array:
    values = pa.array(value, member.sent_value)
    if member.sent_key is None:
        return values
    keys = pa.array(key, member.sent_key)
    fields = [pa.field("key", member.sent_key), pa.field("value", member.sent_value)]
    return pa.StructArray.from_arrays([keys, values], fields=fields)


def _sent_numbers(place: tuple[BatchPlace, int, int, int]) -> tuple[Any, ...]:
    (event, moment, turn, _), domain, group, member = place
    return event, moment, turn, domain, group, member


# The arguments of a processor's methods: the record, and the context by which it sends, stores and sets timers.

_LATEST = 2**60 - 1
_METHODS = {"stream": "on_timer", "wall": "on_wall_timer"}
"""What is called when a timer of each clock is due."""
Origin = Callable[[int], tuple[str, int, int, Any]]
"""Of an event, by its number: topic, partition, offset and headers of its source record."""


@answering_as(Record)
class CalledRecord:
    """See `watersmeet.processors.Record`."""

    __slots__ = ("_origin", "_row", "key", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, row: int, origin: Origin) -> None:
        self.key, self.value, self.timestamp, self._row, self._origin = key, value, timestamp, row, origin

    def __repr__(self) -> str:
        return f"Record(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp})"

    @property
    def topic(self) -> str:
        """The topic, or the input's name, of the source record that caused it."""
        return self._origin(self._row)[0]

    @property
    def partition(self) -> int:
        return self._origin(self._row)[1]

    @property
    def offset(self) -> int:
        return self._origin(self._row)[2]

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Its headers, as (name, bytes) pairs."""
        pairs = self._origin(self._row)[3]
        if pairs is None:
            raise FunctionError(
                "The records carry no headers: none of the topology's topics keeps them.",
                hint="Read the topic with its headers: builder.stream(..., headers=True).",
            )
        headers: list[tuple[str, bytes | None]] = pairs
        return headers


@answering_as(ProcessorMetrics)
class CallMetrics:
    """See `watersmeet.processors.ProcessorMetrics`."""

    __slots__ = ("_current", "_processor", "numbers")

    def __init__(self, processor: str, current: Present) -> None:
        self._processor, self._current = processor, current
        self.numbers = Counter[tuple[str, str]]()

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter."""
        if type(number) is not int or number < 0:
            raise FunctionError(
                f"The processor {self._processor} counts what is no number of 0 or more: count({name!r:.80}, "
                f"{number!r:.80}).",
                hint="context.metrics.count('hits') adds 1; a counter never goes down.",
            )
        self._add((COUNTED, self._checked(name)), number)

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        name, start = self._checked(name), perf_counter_ns()
        try:
            yield
        finally:
            self._add((TIMED_CALLS, name), 1)
            self._add((TIMED, name), perf_counter_ns() - start)

    def _checked(self, name: object) -> str:
        if not isinstance(name, str) or not name:
            raise FunctionError(
                f"The name of a metric of the processor {self._processor} must be a text: {name!r:.80}.",
                hint="context.metrics.count('hits').",
            )
        return name

    def _add(self, at: tuple[str, str], number: int) -> None:
        self.numbers[at] += number
        if self._current.journal is not None:
            self._current.journal.append(lambda: self.numbers.subtract({at: number}))


@answering_as(Context)
class CallContext:
    """See `watersmeet.processors.Context`."""

    __slots__ = (
        "_check_key",
        "_check_value",
        "_current",
        "_everywhere",
        "_kind",
        "_params",
        "_place",
        "_sent",
        "_stores",
        "_tables",
        "_timers",
        "_wall",
        "key",
        "metrics",
    )

    def __init__(
        self,
        params: ProcessorSettings,
        stores: Mapping[str, StoreEntries],
        timers: Mapping[str, Timers],
        tables: tuple[Mapping[str, Any], Mapping[str, Any]],
        current: Present,
        wall: int | None,
    ) -> None:
        self._tables, self._everywhere = tables
        self._params, self._stores, self._timers, self._current, self._wall = params, stores, timers, current, wall
        self._check_value = checked(params.sent_value, f"The processor {params.called} sends a value")
        self._kind, kind = sure_type(params.sent_value), params.sent_key
        self._check_key = None if kind is None else checked(kind, f"The processor {params.called} sends a key")
        self._sent: Sent | None = None
        self._place: Any = None
        self.key: Any = None
        self.metrics = CallMetrics(params.called, current)

    @property
    def timestamp(self) -> int:
        """Of the present record, or of the timer, in ms."""
        return self._current.stamp

    @property
    def stream_time(self) -> int:
        """The time of the stream at this place of the sequence, in ms."""
        return self._current.time

    @property
    def wall_clock(self) -> int:
        """The time of the wall clock in this batch, in ms."""
        if self._wall is None:
            raise FunctionError(
                f"The processor {self._params.called} asks for the wall clock, but has no method on_wall_timer.",
                hint="Write def on_wall_timer(self, key, timestamp, context): the query then reads the wall clock.",
            )
        return self._wall

    def at(self, sent: Sent | None, place: Any, key: Any) -> None:
        """The origin of records sent from now on; None: nothing can be sent."""
        self._sent, self._place, self.key = sent, place, key

    def forward(self, record: Any = None, *, key: Any = ..., value: Any = ..., timestamp: Any = ...) -> None:
        """Send a record."""
        sent, current_key = self._sent, self.key
        if sent is None:
            raise FunctionError(
                f"The processor {self._params.called} sends a record outside of process and on_timer.",
                given="forward() in init or close",
                hint="Send in process or on_timer.",
            )
        if record is not None and type(record) is not CalledRecord and not hasattr(record, "timestamp"):
            raise FunctionError(
                f"The processor {self._params.called} sends what is no record: forward({record!r:.80}).",
                hint="Name what is sent: context.forward(value=...), or context.forward(record, value=...).",
            )
        if value is ...:
            value = None if record is None else record.value
        if key is ...:
            key = current_key if record is None else record.key
        if timestamp is ...:
            timestamp = self._current.stamp if record is None else record.timestamp
        if type(timestamp) is not int or not 0 <= timestamp <= _LATEST:
            raise self._no_time("sends a record of", timestamp)
        if self._check_key is not None:
            key = self._check_key(key)
        elif key is not current_key and not are_one_key(key, current_key):
            raise FunctionError(
                f"The processor {self._params.called} sends a record under another key: {key!r:.80}, not "
                f"{current_key!r:.80}.",
                hint="process_values keeps the key; process(...) sends records under keys of the type key=.",
            )
        if type(value) is not self._kind:
            value = self._check_value(value)
        sent.append((self._place, key, value, timestamp))

    def get_store(self, name: str) -> Any:
        """The state of the present key in one of the processor's stores."""
        store = self._stores.get(name)
        if store is None:
            raise FunctionError(
                f"The processor {self._params.called} has no store {name!r:.80}.",
                given=f"its stores: {', '.join(self._stores) or 'none'}",
                hint="Name it where the processor is put in: process(..., stores=[wm.ValueStore('name', 'long')]).",
            )
        return store

    def table(self, name: str) -> Any:
        """A table that a processor reads by the key of its record or timer."""
        return self._read(name, self._tables, "table", "a table")

    def global_table(self, name: str) -> Any:
        return self._read(name, self._everywhere, "global_table", "a global table")

    def _read(self, name: str, tables: Mapping[str, Any], method: str, subject: str) -> Any:
        table = tables.get(name)
        if table is None:
            alternative = {"table": "global_table", "global_table": "table"}[method]
            available = name in (self._everywhere if method == "table" else self._tables)
            raise FunctionError(
                f"The processor {self._params.called} does not read {subject} {name!r:.80}.",
                given=f"those it reads: {', '.join(tables) or 'none'}",
                hint=f"context.{alternative}({name!r})"
                if available
                else "Name it where the processor is put in: process(..., tables={'customers': customers}).",
            )
        return table

    def set_timer(self, timestamp: int, *, clock: str = "stream") -> None:
        """Have `on_timer`, or `on_wall_timer`, called for the present key when the clock reaches this moment."""
        self._checked_timers(timestamp, "sets a timer for", clock).set(timestamp)

    def delete_timer(self, timestamp: int, *, clock: str = "stream") -> None:
        """Forget the present key's timer of this moment."""
        self._checked_timers(timestamp, "deletes a timer of", clock).delete(timestamp)

    def _checked_timers(self, timestamp: Any, does: str, clock: str) -> Timers:
        method = _METHODS.get(clock)
        if method is None:
            raise FunctionError(
                f"The processor {self._params.called} {does} an unknown clock: clock={clock!r:.80}.",
                hint='Take clock="stream", the time of the stream, or clock="wall", the wall clock.',
            )
        timers = self._timers.get(method)
        if timers is None:
            raise FunctionError(
                f"The processor {self._params.called} {does} a time, but has no method {method}.",
                hint=f"Write def {method}(self, key, timestamp, context).",
            )
        if self._sent is None:
            raise FunctionError(
                f"The processor {self._params.called} {does} a time while it has no key.",
                given="in init or close",
                hint="A timer belongs to a key: set it in process, on_timer or on_wall_timer.",
            )
        if type(timestamp) is not int or not 0 <= timestamp <= _LATEST:
            raise self._no_time(does, timestamp)
        return timers

    def _no_time(self, does: str, timestamp: Any) -> FunctionError:
        return FunctionError(
            f"The processor {self._params.called} {does} a wrong time: {timestamp!r:.80}.",
            hint="Give a whole number of ms since 1970.",
        )


def origins(sources: tuple[str, ...], srcpart: list[int], offset: list[int], headers: Callable[[int], Any]) -> Origin:
    """The columns of the origins of events."""

    def origin(row: int) -> tuple[str, int, int, Any]:
        number = srcpart[row] >> PARTITION_BITS
        topic, partition = place_of(srcpart[row])
        name = topic or (sources[number] if number < len(sources) else "")
        return name, partition, offset[row], headers(row)

    return origin


# The processors of an operator in one batch: one, or several that share stores; each with its context and timers.

_CONTAINERS = (dict, list, set, tuple, bytearray, deque, Counter, defaultdict, OrderedDict)
_VALUES = (int, float, str, bytes, bool, Decimal, type(None))
_SHOWN_AS: Mapping[str, type] = {
    "Value": ValueState,
    "MapEntries": MapState,
    "List": ListState,
    "CalledRecord": Record,
    "CallContext": Context,
    "CallMetrics": ProcessorMetrics,
}
"""What users know the arguments of their methods as."""
_LOOKED_AT = 100
"""Elements of a container that are compared: an attribute that is used as state begins empty in each batch."""
_DEPTH = 4


class Member:
    """One processor.

    Parameters
    ----------
    params : its own.
    calls : what its methods get.
    operator : its name in errors.

    Attributes
    ----------
    processor : the user's object.
    """

    def __init__(self, params: ProcessorSettings, calls: CallContext, operator: str) -> None:
        self.params, self.calls, self._operator = params, calls, operator
        try:
            self.processor = params.make()
        except Exception as error:
            raise self.raised(error, "__init__") from None
        self.called("init", calls)
        self._prepared = _attributes(self.processor)

    def close(self) -> None:
        self._refuse_changes()
        self.calls.at(None, None, None)
        self.called("close")

    def _refuse_changes(self) -> None:
        initial, final = self._prepared, _attributes(self.processor)
        changed = [name for name in {**initial, **final} if initial.get(name) != final.get(name)]
        if changed:
            processor, name = self.params.called, changed[0]
            raise with_owner(
                FunctionError(
                    f"The processor {processor} changes its attribute {name!r} after init, which the next "
                    f"batch does not "
                    "have: each batch and shard makes a new object.",
                    hint="Keep what has to last in a store: stores=[wm.ValueStore('total', 'long')], "
                    "self.total = context.get_store('total') in init (docs/processors.md#stores). Make in init what "
                    "all records share.",
                ),
                self._operator,
            )

    def called(self, method: str, *arguments: Any) -> None:
        """Call a method if there is one."""
        function = getattr(self.processor, method, None)
        if function is None:
            return
        try:
            function(*arguments)
        except Exception as error:
            raise self.raised(error, method) from None

    def raised(self, error: Exception, method: str, **key: Any) -> Exception:
        """The error with which the query fails if a method raises; `key`: for which one, if it is called for one."""
        if isinstance(error, FunctionError):
            return with_owner(error, self._operator)
        failure = self.said(error, method)
        at = f"{failure.given}; key {key['key']!r:.120}" if key else failure.given
        return with_owner(
            FunctionError(failure.message, given=at, hint=failure.hint or self._hint(method)), self._operator
        )

    def returned(self, result: Any, method: str) -> FunctionError:
        """The error of a method that returns what nobody takes."""
        return FunctionError(
            f"The processor {self.params.called} returns a value in {method}, which sends nothing: {result!r:.80}.",
            hint="context.forward(value=...) sends a record; a bare return ends the call.",
        )

    def said(self, error: Exception, method: str) -> FunctionError:
        """The error of a method, with its place."""
        if isinstance(error, FunctionError):
            return error
        where, processor = _line(error), self.params.called
        if isinstance(error, MissingName):
            message, hint = error.message, error.hint
        else:
            message, hint = f"{type(error).__name__}: {error!s:.300}", None
            if isinstance(error, TypeError | AttributeError):
                message, hint = _of_misuse(message)
        return FunctionError(
            f"The processor {processor} raises in {method}: {message}", given=f"{processor}.{method}{where}", hint=hint
        )

    def _hint(self, method: str) -> str:
        if method == "process":
            return (
                'To go on without such records: on_error="skip" or on_error=wm.DeadLetter("topic"), of the builder '
                f"or of builder.policies({self._operator!r}, ...). Or catch the exception in process."
            )
        return (
            f"Catch the exception in {method}, and start again: the batch is then repeated. on_error= decides about "
            "records in process alone."
        )


def _of_misuse(message: str) -> tuple[str, str | None]:
    """What Python says of an argument, in the words that users know; and a hint."""
    field = re.search(r"'dict' object has no attribute '(\w+)'", message)
    if field is not None:
        return message, f"A struct is a dictionary: value[{field[1]!r}]."
    name = next((name for name in _SHOWN_AS if re.search(rf"\b{name}\b", message)), None)
    if name is None:
        return message, None
    kind = _SHOWN_AS[name]
    methods = ((each, inspect.signature(member)) for each, member in vars(kind).items() if inspect.isfunction(member))
    uses = [f"{each}({_listed(signature)})" for each, signature in methods if not each.startswith("_")]
    fields = list(getattr(kind, "__annotations__", ()))
    more = "; keys of its own has wm.MapStore('name', key_type='string', value_type='long')" * (name == "Value")
    hint = f"A {kind.__name__} has {', '.join([*fields, *uses])}{more}."
    return re.sub(rf"\b{name}\b", kind.__name__, message), hint


def _listed(signature: inspect.Signature) -> str:
    by_name = inspect.Parameter.KEYWORD_ONLY
    return ", ".join(f"{name}{'=' * (p.kind is by_name)}" for name, p in [*signature.parameters.items()][1:])


def _attributes(processor: Any) -> dict[str, Any]:
    """The attributes of a processor and of its class, in a form that differs once they change."""
    kind, instance = type(processor), getattr(processor, "__dict__", {})
    if kind.__module__.startswith("watersmeet."):
        # the user's object lies in one of ours
        inner = [
            value for value in instance.values() if not type(value).__module__.startswith(("watersmeet.", "builtins"))
        ]
        return {name: form for part in inner for name, form in _attributes(part).items()}
    attributes = {
        name: value for base in reversed(kind.__mro__) for name, value in vars(base).items() if name[:2] != "__"
    }
    computed = {name for name, value in attributes.items() if isinstance(value, cached_property)}
    attributes |= {name: getattr(processor, name) for name in _slots(kind) if hasattr(processor, name)}
    return {name: _form(value, _DEPTH) for name, value in (attributes | instance).items() if name not in computed}


def _slots(kind: type) -> list[str]:
    declared = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    return [name for names in declared for name in ((names,) if isinstance(names, str) else names)]


def _form(value: Any, depth: int) -> Any:
    """A value as it is compared: itself, the first elements of a container, else which object it is."""
    kind = type(value)
    if kind in _VALUES:
        return kind, value
    if depth and is_dataclass(value) and not isinstance(value, type):
        return _Same(value), [_form(field, depth - 1) for field in vars(value).values()]
    if not depth or kind not in _CONTAINERS:
        return _Same(value)
    items = islice(value.items(), _LOOKED_AT) if isinstance(value, dict) else islice(value, _LOOKED_AT)
    elements = [element for pair in items for element in pair] if isinstance(value, dict) else [*items]
    return _Same(value), len(value), [_form(element, depth - 1) for element in elements]


class _Same:
    """Equal to itself alone, whatever its object says; the object stays, so that no other takes its place."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    __hash__ = None  # type: ignore[assignment]


def _is_ours(trace: TracebackType) -> bool:
    return str(trace.tb_frame.f_globals.get("__name__")).startswith("watersmeet.")


def _line(error: Exception) -> str:
    """The user's own line."""
    trace, line = error.__traceback__, ""
    while trace is not None and (not line or not _is_ours(trace)):
        line = f", {trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return line


# process_batch: a user's class called with the records of many keys at once, and their states (docs/processors.md).
#
# Records, entries and results are Arrow tables. All records that a batch has of a key come in one call, together and in
# order; so what is done for each key by itself, in order, does not depend on shards. Batches show: that the result does
# not depend on them either is up to the user's class.


class BulkState:
    """See `watersmeet.processors.BatchState`."""

    def __init__(
        self, store: ProcessorStore, table: Table, hashes: Int64s, keys: pa.Array, last: Int64s, processor: str
    ) -> None:
        self._store, self._table, self._processor = store, table, processor
        self._hashes, self._keys, self._last = hashes, keys, last
        lookup = table.rows(hashes, keys)
        entry_columns = [ENTRY] if store.entry is not None else []
        rows = lookup.take([*entry_columns, "value"])
        columns = {"group": pa.array(lookup.query), "key": keys.take(pa.array(lookup.query))}
        rows = pa.table(columns | {name: rows.column(name) for name in (*entry_columns, "value")})
        self._rows = rows.sort_by([(name, "ascending") for name in ("group", *entry_columns)])
        self._put = False

    def rows(self) -> pa.Table:
        """The entries of the call's keys, as they were before it."""
        return self._rows

    def put(self, rows: pa.Table) -> None:
        """Other entries; a value that is null deletes one."""
        if self._put:
            raise self._unfit("puts rows twice in one call", "Put all rows of a call together.")
        self._put = True
        entry_columns = [ENTRY] if self._store.entry is not None else []
        names = ("group", *entry_columns, "value")
        if not isinstance(rows, pa.Table) or set(rows.column_names) - {"key"} != set(names):
            received = rows.column_names if isinstance(rows, pa.Table) else type(rows).__name__
            raise self._unfit(f"puts {received}", f"Put a pyarrow.Table of the columns {', '.join(names)}.")
        group = _bulk_numbers(rows, "group", len(self._hashes), self._processor)
        columns = {"value": _as(rows, "value", self._store.value, self._processor)}
        if entry_columns:
            columns[ENTRY] = _as(rows, ENTRY, self._store.entry, self._processor)
            if columns[ENTRY].null_count:
                raise self._unfit("puts an entry whose key is null", "Leave it out.")
        deleted, indices = np.asarray(columns["value"].is_null()), self._indices(group, columns)
        exists = indices >= 0
        if len(np.unique(indices[exists])) < exists.sum() or self._repeats(group, columns):
            raise self._unfit("puts one entry twice", "Put of each entry the last value.")
        written = np.flatnonzero(~deleted | exists)
        columns |= {"hash": pa.array(self._hashes[group]), "key": self._keys.take(pa.array(group))}
        columns |= {"ts": pa.array(self._last[group])}
        picked = {name: columns[name].take(pa.array(written)) for name in self._table.schema.names}
        self._table.put(picked, deleted[written])

    def _indices(self, group: Int64s, columns: dict[str, pa.Array]) -> Int64s:
        """Which stored row is each entry's; -1 for none."""
        place = {entry: at for at, entry in enumerate(self._entries(np.asarray(self._rows["group"]), self._rows))}
        return np.array([place.get(entry, -1) for entry in self._entries(group, columns)], dtype=np.int64)

    def _repeats(self, group: Int64s, columns: dict[str, pa.Array]) -> bool:
        return len(set(self._entries(group, columns))) < len(group)

    def _entries(self, group: Int64s, columns: Any) -> list[Any]:
        groups: list[Any] = group.tolist()
        return groups if self._store.entry is None else list(zip(groups, columns[ENTRY].to_pylist(), strict=True))

    def _unfit(self, does: str, hint: str) -> FunctionError:
        return FunctionError(f"The processor {self._processor} {does}, into the store {self._store.name!r}.", hint=hint)


def in_bulk(
    member: Member,
    events: Events,
    rows: Int64s,
    ends: Int64s,
    stores: list[tuple[ProcessorStore, Table]],
    results: SentResults,
) -> Iterator[pa.Table | Dropped]:
    """One call with the records of a slice's keys, and its results.

    Parameters
    ----------
    rows, ends : the records, by key, and where those of each key begin and end.
    stores : the stores, and where they are.
    """
    params, group = member.params, np.repeat(np.arange(len(ends) - 1, dtype=np.int64), np.diff(ends))
    first, last = rows[ends[:-1]], rows[ends[1:] - 1]
    hashes, keys = events.hash[first], events.key.take(pa.array(first))
    states = {
        store.name: BulkState(store, table, hashes, keys, events.ts[last], params.called) for store, table in stores
    }
    records = {
        "group": pa.array(group),
        "key": events.key.take(pa.array(rows)),
        "value": events.tables[0].column("value").take(pa.array(events.own[rows])),
        "timestamp": pa.array(events.ts[rows]),
    }
    try:
        output = member.processor.process_batch(pa.table(records), states)
        sent = None if output is None else _sent(params, output, events.ts[rows])
    except Exception as error:
        raise member.raised(error, "process_batch") from None
    if sent is not None:
        record, values, ts = sent
        yield from results.of_records(rows[record], values, ts)
        reason = getattr(member.processor, "unsent_reason", None)
        if reason is not None and len(record) < len(rows):
            yield Dropped(reason, events.tables[0], np.sort(events.own[np.delete(rows, record)]))


def _sent(params: ProcessorSettings, output: Any, stamps: Int64s) -> tuple[Int64s, pa.Array, Int64s]:
    """Record, value and timestamp of each result."""
    processor, names = params.called, {"record", "value"} | ({"key"} if params.sent_key is not None else set())
    if not isinstance(output, pa.Table) or not names <= set(output.column_names) <= names | {"timestamp"}:
        received = output.column_names if isinstance(output, pa.Table) else type(output).__name__
        raise FunctionError(
            f"The processor {processor} gives {received} for a batch.",
            hint=f"Give a pyarrow.Table of the columns {', '.join(sorted(names))}, perhaps timestamp; or None.",
        )
    record = _bulk_numbers(output, "record", len(stamps), processor)
    values = _as(output, "value", params.sent_value, processor)
    if params.sent_key is not None:
        fields = [pa.field("key", params.sent_key), pa.field("value", params.sent_value)]
        values = pa.StructArray.from_arrays([_as(output, "key", params.sent_key, processor), values], fields=fields)
    if "timestamp" not in output.column_names:
        return record, values, stamps[record]
    return record, values, _bulk_numbers(output, "timestamp", 2**60, processor)


def _as(rows: pa.Table, name: str, kind: pa.DataType, processor: str) -> pa.Array:
    column = rows.column(name)
    try:
        cast = column if column.type == kind else column.cast(kind)
    except pa.ArrowInvalid as error:
        raise _no_type(processor, name, column.type, kind, str(error)) from None
    except pa.ArrowNotImplementedError:
        raise _no_type(processor, name, column.type, kind, None) from None
    return cast.combine_chunks() if isinstance(cast, pa.ChunkedArray) else cast


def _no_type(processor: str, name: str, actual: Any, kind: Any, reason: str | None) -> FunctionError:
    return FunctionError(
        f"The processor {processor} gives a column {name!r} of the type {actual}, which is declared as {kind}.",
        given=None if reason is None else reason[:200],
        hint="Make it one of the declared type, or declare the type that is meant.",
    )


def _bulk_numbers(rows: pa.Table, name: str, end: int, processor: str) -> Int64s:
    column = _as(rows, name, pa.int64(), processor)
    numbers = column.to_numpy(zero_copy_only=False)
    if column.null_count or (len(numbers) and not (numbers.min() >= 0 and numbers.max() < end)):
        raise FunctionError(
            f"The processor {processor} gives a column {name!r} with numbers that are none of those it was given.",
            hint="group and record are numbers of keys and rows of `records`, timestamps are ms since 1970.",
        )
    return np.asarray(numbers, dtype=np.int64)


# The keys of a processors' batch, and the order in which what happens to each is seen.

SLICE_ROWS = 32_768
"""Records, and keys whose timers are due, of a slice, about: those of one key are in one."""


@dataclass(frozen=True)
class BatchKeys:
    """The keys of a batch: those of its records, and those with timers that are due."""

    # hashes, keys: of each event of such a key, in the order in which they are seen, then of each due timer
    hashes: Int64s
    keys: pa.Array
    groups: KeyGroups  # these by key
    events: Int64s | None  # numbers of the events; None: all of them, as they stand
    event_count: int

    @classmethod
    def of(cls, events: Events, timers: Iterable[Timers], members: int) -> BatchKeys:
        """Those of a batch of so many processors."""
        hashes, keys, order = events.hash, events.key, _sequence(events, members)
        if order is not None:
            hashes, keys = hashes[order], keys.take(pa.array(order))
        for source in timers:
            due = source.keys_due()
            hashes = np.concatenate([hashes, due.column("hash").to_numpy()])
            keys = joined([keys, due.column("key")], events.context.key)
        result = cls(hashes, keys, group_keys(hashes, keys), order, len(events))
        return result if order is None else result._active(events, order, members)

    def _active(self, events: Events, order: Int64s, members: int) -> BatchKeys:
        """Without keys of which tables alone have changes: for these nobody is called."""
        calls = np.append(events.side[order] < members, np.ones(len(self.hashes) - self.event_count, dtype=np.bool_))
        active = np.zeros(self.groups.count, dtype=np.bool_)
        active[self.groups.group_of_row[calls]] = True
        rows = np.flatnonzero(active[self.groups.group_of_row])
        if len(rows) == len(self.hashes):
            return self
        hashes, keys = self.hashes[rows], self.keys.take(pa.array(rows))
        left = order[rows[rows < self.event_count]]
        return BatchKeys(hashes, keys, group_keys(hashes, keys), left, len(left))

    def slices(self) -> Iterator[tuple[int, int]]:
        """The groups, in ranges of about `SLICE_ROWS` rows."""
        ends, start = self.groups.starts[1:], 0
        while start < len(ends):
            last = int(ends.searchsorted(self.groups.starts[start] + SLICE_ROWS, side="left"))
            yield start, min(last + 1, len(ends))
            start = last + 1

    def events_of(self, start: int, end: int) -> tuple[Int64s, Int64s]:
        """The events of some groups, in order, and where those of each group begin and end among them."""
        starts = self.groups.starts
        rows = self.groups.order[starts[start] : starts[end]]
        # what no event stands behind is a timer that is due
        is_event = rows < self.event_count
        edges = np.cumsum(np.append(0, is_event))[starts[start : end + 1] - starts[start]]
        rows = rows[is_event]
        return (rows if self.events is None else self.events[rows]), edges


def _sequence(events: Events, members: int) -> Int64s | None:
    """The events in the order in which they are seen; None: as they stand, for no table is read by the present key.

    Where one input record reaches a processor and its table, the table's change is seen from where its store has it.
    """
    if len(events.tables) == members:
        return None
    if not events.context.operator.shared_root:
        return np.arange(len(events), dtype=np.int64)
    updates, looks = moments_of(events)
    return np.argsort(np.where(events.side < members, looks, updates), kind="stable")


_ENDLESS = 1_000_000
"""Timers that fire at once, one after the other, at one place: more are taken for a processor that never ends."""


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Failed | Dropped | Noted]:
    """See `operators.run_operator`."""
    params = context.params(ProcessParams)
    # rows of global tables have keys of another type, and stand in no sequence of a key
    sides = len(params.members) + sum(not read.everywhere for read in params.reads)
    events = Events(context, inputs, sides)
    times = BatchTimes(context, inputs, events, state, sides)
    batch = _Batch(context, inputs, events, times, state)
    yield from batch.run()
    yield from batch.finish()
    times.store(state)


class _Batch:
    """One shard's batch."""

    def __init__(
        self, context: OperatorContext, inputs: Mapping[int, pa.Table], events: Events, times: BatchTimes, state: State
    ) -> None:
        self.context, self.events, self.times, self.state = context, events, times, state
        self.params = params = context.params(ProcessParams)
        self._tracks_places = params.timers or any(store.ttl_ms is not None for store in params.stores)
        self.timeline = Timeline(context, events, times, needs_places=self._tracks_places)
        self.current = Present(self._elsewhere, tolerates_errors=context.tolerates_errors)
        tables = [operator_table(context, state, number) for number in range(len(context.kept))]
        tables_left, owner = iter(tables), f"The processor {params.members[0].called}"
        self._store_tables = list(zip(params.stores, tables, strict=False))
        self.stores = [KINDS[store.kind](store, next(tables_left), self.current, owner) for store in params.stores]
        self.due = DueTimers() if params.timers else None
        self.wall = WallClock(context, state, times.wall) if params.by_wall else None
        self._timers = [self._timers_of(member, number, tables_left) for number, member in enumerate(params.members)]
        self.timers = [timers for group in self._timers for timers in group]
        self.reads = self._reads(tables_left, inputs)
        self.key_tables = [read for read in self.reads if not isinstance(read, GlobalRows)]
        self.members: list[Member] = []
        self.sent_by_events: Sent = []
        self.sent_by_timers: Sent = []
        self.errors: dict[int, Exception] = {}
        self._place: BatchPlace = (0,)

    def _timers_of(self, member: ProcessorSettings, number: int, tables: Iterator[Table]) -> list[Timers]:
        """Those of stream time, and those of the wall clock."""
        timers, arguments = [], (self.times, self.timeline, self.current)
        if self.due is not None and "stream" in member.clocks:
            timers.append(Timers(next(tables), StreamTimerClock(*arguments), self.current, self.due, number))
        if self.due is not None and self.wall is not None and "wall" in member.clocks:
            timers.append(Timers(next(tables), WallTimerClock(self.wall, *arguments), self.current, self.due, number))
        return timers

    def _reads(
        self, tables: Iterator[Table], inputs: Mapping[int, pa.Table]
    ) -> list[CurrentRows | PastRows | GlobalRows]:
        reads: list[CurrentRows | PastRows | GlobalRows] = []
        for side, (read, table) in enumerate(zip(self.params.reads, tables, strict=True), len(self.params.members)):
            if read.everywhere:
                batch = self.events, self.times, inputs
                at = (lambda: self._place) if self._tracks_places else None
                reads.append(GlobalRows(self.context, read, side, batch, table, self.current, at))
            elif read.history_ms is None:
                reads.append(CurrentRows(side, table, self.events))
            else:
                reads.append(PastRows(read, side, table, self.events, self.times, self.current, lambda: self._place))
        return reads

    def run(self) -> Iterator[pa.Table | Failed | Dropped]:
        """The results, and the records that fail or end; state is put before a slice's results come."""
        keys = BatchKeys.of(self.events, self.timers, len(self.params.members))
        if not keys.groups.count:
            return
        self.members = [self._member(number) for number in range(len(self.params.members))]
        if self.current.journal:
            # what `init` has counted no record undoes
            self.current.journal.clear()
        results = SentResults(self.context, self.events, self.times)
        for start, end in keys.slices():
            rows = keys.groups.first[start:end]
            hashes, slice_keys = keys.hashes[rows], keys.keys.take(pa.array(rows))
            if self.members[0].params.in_bulk:
                yield from in_bulk(
                    self.members[0], self.events, *keys.events_of(start, end), self._store_tables, results
                )
                continue
            self._run_slice(keys, start, end, hashes, slice_keys)
            sent = self.sent_by_events, self.sent_by_timers
            self.sent_by_events, self.sent_by_timers = [], []
            yield from results.of(*sent, hashes, slice_keys)
        for member in self.members:
            member.close()
        yield from failed_rows(self.events, self.errors)

    def _member(self, number: int) -> Member:
        params, timers, reads = self.params.members[number], self._timers[number], self.params.reads
        stores = {store.name: store for store in self.stores if store.name in params.stores}
        by_clock = {clock_timers.clock.method: clock_timers for clock_timers in timers}
        read = tuple(tables_by_name(reads, self.reads, number, everywhere=everywhere) for everywhere in (False, True))
        wall = None if self.wall is None or "wall" not in params.clocks else self.wall.now
        calls = CallContext(params, stores, by_clock, (read[0], read[1]), self.current, wall)
        return Member(params, calls, self.context.operator.node)

    def finish(self) -> Iterator[Dropped | Noted]:
        """Changes of the tables that are read are written; expired entries and timers are removed."""
        yield from (Noted(member.calls.metrics.numbers) for member in self.members if member.calls.metrics.numbers)
        for read in self.reads:
            read.store()
        for source in self.key_tables:
            yield from source.dropped()
        for _, table in self._store_tables:
            if table.layout.retained:
                table.expire(self.times.by_domain(self.times.end))
        for timers in self.timers:
            # the wall clock is one for all domains
            by_wall = self.wall is not None and isinstance(timers.clock, WallTimerClock)
            timers.expire({0: self.wall.now} if by_wall and self.wall else self.times.by_domain(self.times.end))
        if self.wall is not None:
            self.wall.store(self.state)

    # -- slices --------------------------------------------------------------------------------------------

    def _run_slice(self, keys: BatchKeys, first: int, end: int, hashes: Int64s, slice_keys: pa.Array) -> None:
        domains, start = self.times.domains, self.times.start
        for store in self.stores:
            store.load(hashes, slice_keys, domains, start)
        encoded = encode_keys(slice_keys).to_pylist() if self.timeline.needs_keys and self.timers else None
        for timers in self.timers:
            timers.load(hashes, slice_keys, encoded)
        for table in self.key_tables:
            table.load(hashes, slice_keys)
        rows, edges = keys.events_of(first, end)
        # A processor is called record by record: that is what it is for.
        records = zip(rows.tolist(), self._values(rows), self.events.ts[rows].tolist(), strict=True)
        with _without_collector():
            self._run_keys(plain_values(slice_keys), edges.tolist(), records)
            for store in self.stores:
                store.write(hashes, slice_keys, domains)
            for timers in self.timers:
                timers.write(hashes, slice_keys)

    def _values(self, events: Int64s) -> list[Any]:
        """The values of some events, as Python has them."""
        tables, indices, side = self.events.tables, self.events.own[events], self.events.side[events]
        if len(tables) == 1:
            return plain_values(tables[0].column("value").take(pa.array(indices)))
        result: list[Any] = [None] * len(events)
        for number, table in enumerate(tables):
            places = np.flatnonzero(side == number)
            values = plain_values(table.column("value").take(pa.array(indices[places])))
            # as above
            for place, value in zip(places.tolist(), values, strict=True):
                result[place] = value
        return result

    def _run_keys(self, keys: list[Any], ends: list[int], records: Iterator[tuple[int, Any, int]]) -> None:
        """The records and timers of a slice's keys, and the changes of its tables, key after key, in order.

        Parameters
        ----------
        keys : the keys.
        ends : where each key's events begin and end.
        records : event, value and timestamp of each.
        """
        current, sent, due, timeline = self.current, self.sent_by_events, self.due, self.timeline
        origin, times, domains = self._origin, timeline.stream_time, timeline.domain
        member, members, tables = self.members[0], self.members, self.key_tables
        process, calls, wall = member.processor.process, member.calls, self.wall
        sides = self.events.side.tolist() if len(self.events.tables) > 1 else None
        entering = [source.enter for source in (*self.stores, *self.timers, *tables)]
        tracks_places = self._tracks_places
        for group, key in enumerate(keys):
            for enter in entering:
                enter(group)
            for row, value, stamp in islice(records, ends[group + 1] - ends[group]):
                if tracks_places:
                    place = timeline.of_event(row)
                    if due is not None and due.heap and due.heap[0] < place:
                        self._fire(group, key, place)
                    self._place = place
                    if wall is not None:
                        current.wall = timeline.wall_of(row, wall.now)
                if sides is not None:
                    if (side := sides[row]) >= len(members):
                        tables[side - len(members)].change(row, value, stamp)
                        continue
                    member = members[side]
                    process, calls = member.processor.process, member.calls
                current.stamp, current.time, current.domain, current.row = stamp, times[row], domains[row], row
                calls.at(sent, row, key)
                if current.journal is None:
                    try:
                        if (result := process(CalledRecord(key, value, stamp, row, origin), calls)) is not None:
                            raise member.returned(result, "process")
                    except Exception as error:
                        raise member.raised(error, "process", key=key) from None
                else:
                    self._process_or_undo(member, CalledRecord(key, value, stamp, row, origin), row)
                if due is not None and due.at_once:
                    self._fire(group, key, self._place)
            if due is not None and due.heap:
                self._fire(group, key, None)

    def _process_or_undo(self, member: Member, record: CalledRecord, row: int) -> None:
        """A record that ends where the processor raises: it has changed nothing then."""
        sent, journal = len(self.sent_by_events), self.current.journal
        assert journal is not None
        try:
            if (result := member.processor.process(record, member.calls)) is not None:
                raise member.returned(result, "process")
        except Exception as error:
            del self.sent_by_events[sent:]
            for undo in reversed(journal):
                undo()
            if self.due is not None:
                # what it has set for now does not fire
                self.due.at_once.clear()
            self.errors[row] = without_frames(member.said(error, "process"))
        journal.clear()

    def _fire(self, group: int, key: Any, limit: BatchPlace | None) -> None:
        """Timers of the key that go before a place; None: all that are due in the batch."""
        assert self.due is not None
        current, count = self.current, 0
        for timers, moment, domain, place in self.due.fire(limit):
            member = self.members[timers.member]
            current.domain, current.stamp, method = domain, moment, timers.clock.method
            if place is not None:
                self._place, count, current.row = place, 0, -1
                if self.wall is not None:
                    current.wall = self.wall.now
                timers.clock.move_to(domain, moment)
                member.calls.at(self.sent_by_timers, (place, domain, group, timers.member), key)
            count += 1
            if count > _ENDLESS:
                raise member.raised(_endless(member.params.called, moment, method), method)
            try:
                if (result := getattr(member.processor, method)(key, moment, member.calls)) is not None:
                    raise member.returned(result, method)
            except Exception as error:
                raise member.raised(error, method, key=key) from None
            if current.journal:
                current.journal.clear()

    @cached_property
    def _origin(self) -> Any:
        events = self.events
        srcpart, offset = events.position[1].tolist(), events.position[2].tolist()

        def headers(row: int) -> Any:
            table = events.tables[int(events.side[row])]
            if "headers" not in table.column_names:
                return None
            pairs = table.column("headers")[int(events.own[row])].as_py() or []
            return [(pair["key"], pair["value"]) for pair in pairs]

        return origins(self.params.sources, srcpart, offset, headers)

    def _elsewhere(self, domain: int) -> int:
        return self.timeline.time_at(domain, self._place)


@contextmanager
def _without_collector() -> Iterator[None]:
    """A slice's records stay until it is done: that the collector goes through them again and again is a fifth."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _endless(processor: str, moment: int, method: str) -> FunctionError:
    return FunctionError(
        f"The processor {processor} sets a timer for now in each call of {method}: {_ENDLESS:,} have fired at one "
        "position.",
        given=f"the moment {moment}",
        hint="Set the next timer for a later moment: context.set_timer(timestamp + interval).",
    )
