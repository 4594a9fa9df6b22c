"""Stream-stream joins: inner, left, outer; current, eager ("spurious") and the generations before.

Owns section 6 of the semantics, section 17's old rules, and the repairs of rows 1, 2 and 14. Law: the left
record l and the right record r meet iff l.ts - before <= r.ts <= l.ts + after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from proof.oracle.clock import Clock
from proof.oracle.graph import Node, Place, Topology
from proof.oracle.records import Joiner, Key, Record, StateRow, Value, key_bytes
from proof.oracle.source_time import SourceTime
from proof.oracle.windows.window_store import JoinStore

LEFT, RIGHT = 0, 1
_NOTHING_PENDING = 2**63 - 1
_Waiting = tuple[int, int, bytes, int]
"""Timestamp, rank of the side, key, and time domain: what waits is let go by the time of its own."""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """The window, how long late partners are waited for, and whether unmatched results come at once."""

    how: str
    before_ms: int
    after_ms: int
    grace_ms: int = 0
    eager: bool = False
    emit_interval_ms: int = 0
    keeps_all: bool = False

    @property
    def retention_ms(self) -> int | None:
        """How long the stores keep a record."""
        return None if self.keeps_all else self.before_ms + self.after_ms + self.grace_ms

    def outer(self, side: int) -> bool:
        """Whether unmatched records of this side give results."""
        return self.how == "outer" or (self.how == "left" and side == LEFT)

    def bounds(self, side: int) -> tuple[int, int]:
        """How far a record of this side looks (back, forward) into the other one."""
        return (self.before_ms, self.after_ms) if side == LEFT else (self.after_ms, self.before_ms)


class StreamStreamJoin(Node):
    """Joins two streams within a window; port 0 is left, port 1 right."""

    stateful = True
    goes_by_time = True

    def __init__(self, topology: Topology, sides: tuple[Node, Node], spec: JoinSpec, joiner: Joiner) -> None:
        """Read both sides, left first where both are the same stream."""
        super().__init__()
        self._topology = topology
        self._semantics = topology.semantics
        self._spec = spec
        self._joiner = joiner
        self._stores = (JoinStore(spec.retention_ms), JoinStore(spec.retention_ms))
        self._eager = spec.eager or self._semantics.eager_only
        self._clock: Clock | SourceTime = (
            SourceTime(topology, self, self._due, self._let_go, waits=spec.how != "inner" and not self._eager)
            if self._semantics.repaired(21)
            else Clock(topology, self, lambda: None)
        )
        self._earliest = _NOTHING_PENDING
        self._next_emit = 0
        self._pending: dict[_Waiting, tuple[Key, list[Value]]] = {}
        for port, side in enumerate(sides):
            side.feed(self, port)

    def receive(self, record: Record, port: int) -> None:
        """Process one record of one side."""
        if self._semantics.old:
            self._receive_old(record, port)
            return
        moved = self._clock.move(record.ts, port)
        repaired = self._semantics.repaired(1)
        if repaired and moved:
            self._emit_closed()
        if record.value is None:
            return
        if record.key is None:
            if self._spec.outer(port) and self._semantics.relaxed_null_keys:
                self._emit(record.key, record.ts, port, record.value, None)
            return
        if not repaired and not self._eager and self._spec.how != "inner" and record.ts == self._clock.time:
            self._scan(port)
        self._join(record, port)
        self._stores[port].put(record.key, record.value, record.ts, self._domain)

    def _receive_old(self, record: Record, port: int) -> None:
        """Before KIP-77: null values look up too, and a left join listens to its left side alone."""
        if record.key is None:
            return
        looks_up = port == LEFT or self._spec.how != "left"
        if looks_up or record.value is not None:
            # it has got somewhere, whether it finds a partner or not
            self.advance_time(self._topology, record.ts, port)
        if looks_up:
            self._join(record, port)
        if record.value is not None:
            self._stores[port].put(record.key, record.value, record.ts, self._domain)

    def _join(self, record: Record, port: int) -> None:
        other = 1 - port
        back, forward = self._spec.bounds(port if self._semantics.swaps_right_window else LEFT)
        shown = self._visible_on(other)
        matches = self._stores[other].fetch(record.key, record.ts - back, record.ts + forward, shown)
        for ts, value, domain in matches:
            self._pending.pop((ts, _rank(other), key_bytes(record.key), domain), None)
            joined = max(record.ts, ts) if self._semantics.max_timestamps else record.ts
            self._emit(record.key, joined, port, record.value, value)
        if not matches and self._spec.outer(port):
            if self._unjoined_at_once(record, port):
                self._emit(record.key, record.ts, port, record.value, None)
            else:
                self._earliest = min(self._earliest, record.ts)
                place = (record.ts, _rank(port), key_bytes(record.key), self._domain)
                self._pending.setdefault(place, (record.key, []))[1].append(record.value)

    def state_rows(self) -> Iterator[StateRow]:
        """What may still find a partner, and what waits to be sent without one."""
        for side, name in enumerate(("left", "right")):
            yield from (StateRow(name, *row) for row in self._stores[side].rows(self._visible_on(side)))
        for (ts, rank, *_), (key, values) in sorted(self._pending.items()):
            yield from (StateRow("pending left" if rank else "pending right", key, value, ts) for value in values)

    def _visible_on(self, side: int) -> Callable[[int], int] | None:
        return (lambda domain: self._visible_from(side, domain)) if self._semantics.repaired(14) else None

    def _visible_from(self, side: int, domain: int) -> int:
        """From which timestamp on a side's records of a domain are seen, since an on-time partner may come."""
        now = self._clock.time
        if domain != self._domain:
            now = max(store.newest(domain) for store in self._stores)
        return now - self._spec.grace_ms - max(self._spec.bounds(side)[1], 0)

    def _unjoined_at_once(self, record: Record, port: int) -> bool:
        if self._eager:
            return True
        end = record.ts + self._spec.bounds(port)[1]
        if self._semantics.repaired(2):
            return end + self._spec.grace_ms < self._clock.time
        return max(0, end) < self._clock.time

    def _scan(self, port: int) -> None:
        """The engine's scan: a remembered minimum decides whether it happens, and it may stop early."""
        limit = self._earliest + self._spec.bounds(port)[1] + self._spec.grace_ms
        if limit <= _NOTHING_PENDING and limit >= self._clock.time:
            return
        if self._topology.wall_clock < self._next_emit:
            return
        self._next_emit = self._topology.wall_clock + self._spec.emit_interval_ms
        self._earliest = _NOTHING_PENDING
        open_sides: set[int] = set()
        for place, (_, values) in sorted(self._pending.items(), key=lambda item: item[0]):
            for _value in list(values):
                self._earliest = place[0]
                if len(open_sides) == 2:
                    return
                if self._closed(place):
                    self._emit_late(place)
                    break
                open_sides.add(place[1])

    def _due(self) -> Place | None:
        """What time lets go of next; the engine's own scan needs a record instead."""
        assert isinstance(self._clock, SourceTime)
        if not self._semantics.repaired(1):
            return None
        now, lag = self._clock.of_sources, self._clock.lag
        mine = (place for place in self._pending if place[3] == self._clock.domain)
        closed = (place for place in mine if self._last_moment(place) + lag < now)
        return min(((min(self._turn(place) + lag, now - 1), *place[:3]) for place in closed), default=None)

    @property
    def _domain(self) -> int:
        return self._clock.domain if isinstance(self._clock, SourceTime) else 0

    def _turn(self, place: _Waiting) -> int:
        if self._spec.how == "outer":
            return place[0] + self._longest_wait()
        return self._last_moment(place)

    def _let_go(self, place: Place) -> None:
        _, ts, rank, key = place
        self._emit_pending((ts, rank, key, self._domain))

    def _emit_closed(self) -> None:
        for place in sorted(self._pending):
            if self._closed(place):
                self._emit_late(place)

    def held_back(self) -> int:
        """An unjoined result comes behind the last moment of its wait: so one below comes a moment later still."""
        if self._spec.how == "inner" or self._eager:
            return 0
        return self._longest_wait() + 1

    def _longest_wait(self) -> int:
        return max(self._spec.before_ms, self._spec.after_ms) + self._spec.grace_ms

    def _last_moment(self, place: _Waiting) -> int:
        """The last time at which a partner may still come."""
        return place[0] + self._spec.bounds(_rank(place[1]))[1] + self._spec.grace_ms

    def _closed(self, place: _Waiting) -> bool:
        return self._last_moment(place) < self._clock.time

    def _emit_pending(self, place: _Waiting) -> None:
        key, values = self._pending.pop(place)
        for value in values:
            self._emit(key, place[0], _rank(place[1]), value, None)

    def _emit_late(self, place: _Waiting) -> None:
        """As the engine does, when a record has come."""
        with self._clock.letting_go(self._last_moment(place)):
            self._emit_pending(place)

    def _emit(self, key: Key, ts: int, port: int, here: Value, there: Value) -> None:
        value = self._joiner(here, there) if port == LEFT else self._joiner(there, here)
        self.forward(Record(key, value, ts))


def _rank(side: int) -> int:
    """The place of a side in the pending store, and back: right entries come before left ones."""
    return 1 - side
