"""The arguments of a processor's methods: the record, and the context by which it sends, stores and sets timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from watersmeet._engine.operators.processors.sent import Sent
from watersmeet._engine.operators.processors.states import Present, StoreEntries
from watersmeet._engine.operators.processors.timers import Timers
from watersmeet._engine.operators.processors.values import are_one_key, checked, own_type
from watersmeet._engine.rows.columns import PARTITION_BITS
from watersmeet._engine.rows.topic_slots import place_of
from watersmeet._plan.operators.process import MemberParams
from watersmeet.errors import FunctionError

_LATEST = 2**60 - 1
_METHODS = {"stream": "on_timer", "wall": "on_wall_timer"}
"""What is called when a timer of each clock is due."""
Origin = Callable[[int], tuple[str, int, int, Any]]
"""Of an event, by its number: topic, partition, offset and headers of its source record."""


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
        """The partition of that source record."""
        return self._origin(self._row)[1]

    @property
    def offset(self) -> int:
        """The offset of that source record."""
        return self._origin(self._row)[2]

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Its headers, as (name, bytes) pairs."""
        given = self._origin(self._row)[3]
        if given is None:
            raise FunctionError(
                "The records carry no headers: none of the topology's topics keeps them.",
                hint="Read the topic with its headers: builder.stream(..., headers=True).",
            )
        found: list[tuple[str, bytes | None]] = given
        return found


class CallContext:
    """See `watersmeet.processors.Context`."""

    __slots__ = (
        "_check_key",
        "_check_value",
        "_everywhere",
        "_kind",
        "_now",
        "_params",
        "_place",
        "_sent",
        "_stores",
        "_tables",
        "_timers",
        "_wall",
        "key",
    )

    def __init__(
        self,
        params: MemberParams,
        stores: Mapping[str, StoreEntries],
        timers: Mapping[str, Timers],
        tables: tuple[Mapping[str, Any], Mapping[str, Any]],
        now: Present,
        wall: int | None,
    ) -> None:
        self._tables, self._everywhere = tables
        self._params, self._stores, self._timers, self._now, self._wall = params, stores, timers, now, wall
        self._check_value = checked(params.sent_value, f"The processor {params.called} sends a value")
        self._kind, kind = own_type(params.sent_value), params.sent_key
        self._check_key = None if kind is None else checked(kind, f"The processor {params.called} sends a key")
        self._sent: Sent | None = None
        self._place: Any = None
        self.key: Any = None

    @property
    def timestamp(self) -> int:
        """Of the present record, or of the timer, in ms."""
        return self._now.stamp

    @property
    def stream_time(self) -> int:
        """The time of the stream at this place of the sequence, in ms."""
        return self._now.time

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
        sent, own = self._sent, self.key
        if sent is None:
            raise FunctionError(
                f"The processor {self._params.called} sends a record outside of process and on_timer.",
                given="forward() in init or close",
                hint="Send in process or on_timer.",
            )
        if value is ...:
            value = None if record is None else record.value
        if key is ...:
            key = own if record is None else record.key
        if timestamp is ...:
            timestamp = self._now.stamp if record is None else record.timestamp
        if type(timestamp) is not int or not 0 <= timestamp <= _LATEST:
            raise self._no_time("sends a record of", timestamp)
        if self._check_key is not None:
            key = self._check_key(key)
        elif key is not own and not are_one_key(key, own):
            raise FunctionError(
                f"The processor {self._params.called} sends a record under another key: {key!r:.80}, not {own!r:.80}.",
                hint="process_values keeps the key; process(...) sends records under keys of the type key=.",
            )
        if type(value) is not self._kind:
            value = self._check_value(value)
        sent.append((self._place, key, value, timestamp))

    def get_store(self, name: str) -> Any:
        """The state of the present key in one of the processor's stores."""
        found = self._stores.get(name)
        if found is None:
            raise FunctionError(
                f"The processor {self._params.called} has no store {name!r:.80}.",
                given=f"its stores: {', '.join(self._stores) or 'none'}",
                hint="Name it where the processor is put in: process(..., stores=[wm.ValueStore('name', 'long')]).",
            )
        return found

    def table(self, name: str) -> Any:
        """A table that a processor reads by the key of its record or timer."""
        return self._read(name, self._tables, "table", "a table")

    def global_table(self, name: str) -> Any:
        """A global table."""
        return self._read(name, self._everywhere, "global_table", "a global table")

    def _read(self, name: str, tables: Mapping[str, Any], method: str, what: str) -> Any:
        found = tables.get(name)
        if found is None:
            other = {"table": "global_table", "global_table": "table"}[method]
            there = name in (self._everywhere if method == "table" else self._tables)
            raise FunctionError(
                f"The processor {self._params.called} does not read {what} {name!r:.80}.",
                given=f"those it reads: {', '.join(tables) or 'none'}",
                hint=f"context.{other}({name!r})"
                if there
                else "Name it where the processor is put in: process(..., tables={'customers': customers}).",
            )
        return found

    def set_timer(self, timestamp: int, *, clock: str = "stream") -> None:
        """Have `on_timer`, or `on_wall_timer`, called for the present key when the clock reaches this moment."""
        self._waiting(timestamp, "sets a timer for", clock).set(timestamp)

    def delete_timer(self, timestamp: int, *, clock: str = "stream") -> None:
        """Forget the present key's timer of this moment."""
        self._waiting(timestamp, "deletes a timer of", clock).delete(timestamp)

    def _waiting(self, timestamp: Any, does: str, clock: str) -> Timers:
        method = _METHODS.get(clock)
        if method is None:
            raise FunctionError(
                f"The processor {self._params.called} {does} an unknown clock: clock={clock!r:.80}.",
                hint='Take clock="stream", the time of the stream, or clock="wall", the wall clock.',
            )
        found = self._timers.get(method)
        if found is None:
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
        return found

    def _no_time(self, does: str, given: Any) -> FunctionError:
        return FunctionError(
            f"The processor {self._params.called} {does} a wrong time: {given!r:.80}.",
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
