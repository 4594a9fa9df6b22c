"""Processors (docs/processors.md): a user's class, its stores under each key, and its timers by stream time.

Owns what their context does, in dictionaries. Laws: a timer of the moment T goes directly before the record that moves
the time of its domain to T, and at once where time is there already; an entry lasts as long as the time of the domain
that it was put in has not passed its end; no key sees another's entries. Processors that share stores work on one
sequence of records and timers. A table that is read is looked up where the record, or the timer, stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from proof.oracle.graph import Node, Place, Topology
from proof.oracle.records import Key, Record, Value, key_bytes
from proof.oracle.source_time import SourceTime
from proof.oracle.tables.global_lookup import Lookup
from proof.oracle.tables.table import Table

FOREVER = 2**62


class _Waiting(dict[tuple[int, Key, int], int]):
    """Domains of timers, by processor, key and moment."""


@dataclass(slots=True)
class _Entry:
    value: Value
    until: int
    domain: int


class Process(Node):
    """A processor; or several that share their stores, each of which reads one parent and has outputs of its own.

    Parameters
    ----------
    stores : kind of each store ("value", "list" or "map"), and for how long its entries last.
    timers : whether it has any of stream time.
    wall_timers : whether it has any of the wall clock.
    tables : tables that it reads by the present key, by name.
    everywhere : global tables.
    others : parents and makers of the processors that share its stores.

    Attributes
    ----------
    parts : what forwards the records of each processor.
    """

    stateful = True
    goes_by_time = True

    def __init__(
        self,
        topology: Topology,
        parent: Node,
        make: Callable[[], Any],
        stores: Mapping[str, tuple[str, int | None]],
        *,
        timers: bool,
        wall_timers: bool = False,
        tables: Mapping[str, Table] | None = None,
        everywhere: Mapping[str, Lookup] | None = None,
        others: Sequence[tuple[Node, Callable[[], Any]]] = (),
    ) -> None:
        """Read these parents."""
        super().__init__()
        self._topology = topology
        self._stores = {name: _STORES[kind](self, ttl) for name, (kind, ttl) in stores.items()}
        self._tables, self._everywhere = dict(tables or {}), dict(everywhere or {})
        self.waits = timers or wall_timers or any(ttl is not None for _, ttl in stores.values())
        self._clock = SourceTime(topology, self, self._due, self._let_go, waits=self.waits)
        self._timers, self._wall_timers = _Waiting(), _Waiting()
        self._now: list[tuple[int, int, str]] = []
        self._number = self._member = 0
        if wall_timers:
            topology.walled.append(self)
        self.key: Key = None
        self.stream_time = self._stamp = 0
        self._context = _Context(self)
        self._processors = [each() for each in (make, *(other for _, other in others))]
        for processor in self._processors:
            processor.init(self._context)
        for table in self._tables.values():
            table.require_lookup()
            self.look_up(table)
        self.parts: list[Node] = [self]
        if others:
            self.parts = [Node() for _ in self._processors]
            for part in self.parts:
                self.feed(part)
        for port, above in enumerate((parent, *(other for other, _ in others))):
            above.feed(self, port)

    def held_back(self) -> int:
        """What timers send has their time: what is behind waits the one moment that all wait behind what waits."""
        return int(self.waits)

    # -- records and timers --------------------------------------------------------------------------------

    def receive(self, record: Record, port: int) -> None:
        """One record; without a key it ends here."""
        if record.key is None:
            return
        self._clock.move(record.ts, port)
        time = self._clock.time
        there, next_moment = self._topology.place, self._place(record.key, time + 1)
        # timers of the next moment, where what lets the record go moves the time of this processor, too
        if there is not None and next_moment[0] == there[0] and next_moment < there:
            time += 1
        self._at(port, record.key, record.ts, time)
        given = SimpleNamespace(key=record.key, value=record.value, timestamp=record.ts)
        self._processors[port].process(given, self._context)
        self._fire_at_once()

    def _at(self, member: int, key: Key, stamp: int, time: int) -> None:
        self._member, self.key, self._stamp, self.stream_time = member, key, stamp, time

    def _fire_at_once(self) -> None:
        while self._now:
            self._now.sort()
            moment, _, clock = self._now.pop(0)
            self._stamp = moment
            self._called(clock)(self.key, moment, self._context)

    def _called(self, clock: str) -> Any:
        processor = self._processors[self._member]
        return processor.on_timer if clock == "stream" else processor.on_wall_timer

    def _place(self, key: Key, moment: int) -> Place:
        last = moment - 1
        return last + self._clock.lag, last, 0, key_bytes(key)

    def _due(self) -> Place | None:
        domain = self._clock.domain
        mine = [self._place(key, moment) for (_, key, moment), of in self._timers.items() if of == domain]
        return min((place for place in mine if place[0] < self._clock.of_sources), default=None)

    def _let_go(self, place: Place) -> None:
        domain = self._clock.domain
        here = [each for each, of in self._timers.items() if of == domain and self._place(*each[1:]) == place]
        # of one place the processor that was declared first
        member, key, moment = min(here, key=lambda timer: timer[0])
        del self._timers[member, key, moment]
        self._at(member, key, moment, moment)
        self._called("stream")(key, moment, self._context)
        self._fire_at_once()

    def due_by_wall(self) -> tuple[int, bytes] | None:
        """Moment and key bytes of the timer of the wall clock that is due next."""
        due = ((moment, key_bytes(key)) for _, key, moment in self._wall_timers if moment <= self._topology.wall)
        return min(due, default=None)

    def let_go_by_wall(self) -> None:
        """That timer."""
        timers = self._wall_timers
        member, key, moment = min(timers, key=lambda each: (each[2], key_bytes(each[1]), timers[each], each[0]))
        domain = timers.pop((member, key, moment))
        if self._clock.has_domains:
            self._topology.partition = domain
        self._at(member, key, moment, self._clock.at_last(domain))
        self._called("wall")(key, moment, self._context)
        self._fire_at_once()

    # -- what a processor may ask and do -------------------------------------------------------------------

    def send(self, options: Mapping[str, Any]) -> None:
        """Send a record."""
        given = {"key": self.key, "value": None, "timestamp": self._stamp, **options}
        self.parts[self._member].forward(Record(given["key"], given["value"], given["timestamp"]))

    def store(self, name: str) -> Any:
        """One of its stores."""
        return self._stores[name]

    def row(self, name: str, as_of: int | None = None) -> Value:
        """The row of the present key in a table; of a versioned one as of a time, the record's if none is given."""
        found = self._tables[name].get_as_of(self.key, self._stamp if as_of is None else as_of)
        return None if found is None else found.value

    def global_row(self, name: str, key: Key) -> Value:
        """Any row of a global table."""
        found = None if key is None else self._everywhere[name].get(key)
        return None if found is None else found.value

    def set_timer(self, moment: int, clock: str = "stream") -> None:
        """Wait for a moment."""
        if moment <= (self.stream_time if clock == "stream" else self._topology.wall_moment):
            self._number += 1
            known = any((when, which) == (moment, clock) for when, _, which in self._now)
            self._now += [] if known else [(moment, self._number, clock)]
        else:
            self._of(clock).setdefault((self._member, self.key, moment), self._clock.domain)

    def delete_timer(self, moment: int, clock: str = "stream") -> None:
        """Wait for it no more."""
        self._now = [each for each in self._now if (each[0], each[2]) != (moment, clock)]
        self._of(clock).pop((self._member, self.key, moment), None)

    def _of(self, clock: str) -> _Waiting:
        return self._timers if clock == "stream" else self._wall_timers

    @property
    def wall(self) -> int:
        """What the wall clock shows."""
        return self._topology.wall

    # -- what its stores ask -------------------------------------------------------------------------------

    def until(self, ttl: int | None) -> int:
        """The last moment of an entry that is put now."""
        return FOREVER if ttl is None else self.stream_time + ttl - 1

    @property
    def domain(self) -> int:
        """The time domain of what is put now."""
        return self._clock.domain

    def lasts(self, entry: _Entry) -> bool:
        """Whether an entry is still there."""
        if entry.domain == self._clock.domain:
            return entry.until >= self.stream_time
        return entry.until >= self._clock.elsewhere(entry.domain)


class _Context:
    """What the processor is given."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.get_store = process.store
        self.set_timer, self.delete_timer = process.set_timer, process.delete_timer
        self.row, self.global_row = process.row, process.global_row

    @property
    def key(self) -> Key:
        return self._process.key

    @property
    def stream_time(self) -> int:
        return self._process.stream_time

    @property
    def wall_clock(self) -> int:
        return self._process.wall

    def forward(self, **options: Any) -> None:
        self._process.send(options)


class _Store:
    """The entries of all keys."""

    def __init__(self, process: Process, ttl: int | None) -> None:
        self._process, self._ttl = process, ttl
        self._kept: dict[Key, dict[Any, _Entry]] = {}

    def _here(self) -> dict[Any, Value]:
        mine = self._kept.setdefault(self._process.key, {})
        return {each: mine[each].value for each in sorted(mine) if self._process.lasts(mine[each])}

    def _set(self, each: Any, value: Value) -> None:
        mine = self._kept.setdefault(self._process.key, {})
        if value is None:
            mine.pop(each, None)
        else:
            mine[each] = _Entry(value, self._process.until(self._ttl), self._process.domain)


class _Value(_Store):
    def get(self) -> Value:
        return self._here().get(0)

    def put(self, value: Value) -> None:
        self._set(0, value)

    def delete(self) -> None:
        self._set(0, None)


class _Map(_Store):
    def get(self, key: Any) -> Value:
        return self._here().get(key)

    def put(self, key: Any, value: Value) -> None:
        self._set(key, value)

    def delete(self, key: Any) -> None:
        self._set(key, None)

    def range(self, low: Any, high: Any) -> list[tuple[Any, Value]]:
        return [(key, value) for key, value in self._here().items() if low <= key <= high]

    def all(self) -> list[tuple[Any, Value]]:
        return list(self._here().items())


class _List(_Store):
    _count = 0

    def get(self) -> list[Value]:
        return list(self._here().values())

    def append(self, value: Value) -> None:
        self._count += 1
        self._set(self._count, value)

    def put(self, values: list[Value]) -> None:
        self._kept[self._process.key] = {}
        for value in values:
            self.append(value)


_STORES: dict[str, type[_Store]] = {"value": _Value, "list": _List, "map": _Map}
