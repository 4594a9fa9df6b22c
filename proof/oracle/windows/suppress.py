"""suppress (KIP-328): hold changes back for a time, or until their window closes.

Owns section 22 of the semantics and the repairs of rows 17, 28, 30, 33 and 37. Law: one pending entry per key, the
latest change, at the time of the first, and by the time of the domain in which this one came (row 20); with limits one
per key and domain. With rows 21 and 28 repaired what is due is let go before the record that moves time past it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proof.oracle.clock import Clock
from proof.oracle.graph import EngineFailsError, Place, Topology
from proof.oracle.records import Key, Record, Stored, Value, Windowed, key_bytes
from proof.oracle.source_time import SourceTime
from proof.oracle.tables.table import Table


@dataclass(slots=True)
class _Pending:
    time: int
    record: Record
    before: Value
    topic: str
    """Of the input record that caused the change."""
    domain: int
    """Time domain of the change that began it."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much is held back at most (KIP-328's BufferConfig).

    `size_of` gives the bytes of a key, serialized, and a value. With `refuses` it is an error if there is more; else
    the oldest are sent early.
    """

    records: float
    size: float = float("inf")
    refuses: bool = False
    size_of: Callable[[bytes, Value], int] = lambda key, value: len(key) + len(str(value or "").encode())


def _estimated(key: bytes, held: _Pending) -> int:
    """What the engine takes an entry of texts to need in memory, behind an input without headers."""
    change, told_once = held.record, held.before == held.record.old
    values = (held.before, None if told_once else change.old, change.value)
    context = 8 + 8 + len(held.topic) + 4  # timestamp, offset, topic, partition
    return 8 + len(key) + sum(len(str(value).encode()) for value in values if value is not None) + context


class Suppress(Table):
    """Holds the latest change of each key back until `wait_ms` after the time of the first one."""

    stateful = True
    goes_by_time = True

    def __init__(
        self,
        topology: Topology,
        parent: Table,
        wait_ms: int,
        *,
        window_ms: int | None = None,
        key_order: Callable[[Key], bytes] = key_bytes,
        room: Room | None = None,
    ) -> None:
        """Ask the parent for old values, with force. With `window_ms`, until windows of this length close."""
        super().__init__()
        self._topology = topology
        self._parent = parent
        self._wait_ms = wait_ms
        self._window_close = window_ms is not None
        self._window_ms = window_ms or 0
        self._key_order = key_order
        self._room = room
        self._before = topology.semantics.repaired(28)
        self._clock = self._made_clock()
        self._pending: dict[tuple[int | None, Key], _Pending] = {}
        self._sent: dict[Key, int] = {}
        self._shown: dict[Key, Stored] | None = None
        if parent.versioned or isinstance(self._clock, SourceTime):
            self._shown = {}
        self.misleads = parent.versioned or parent.misleads
        parent.require_old(force=True)
        parent.feed(self)

    def _made_clock(self) -> Clock | SourceTime:
        if self._before and self._topology.semantics.repaired(21):
            return SourceTime(self._topology, self, self._due, self._let_go, waits=True)
        return Clock(self._topology, self, self._release)

    def require_old(self, *, force: bool) -> bool:
        """The old value of what is emitted is the one before the first held back change."""
        self.send_old = self._parent.require_old(force=force)
        return self.send_old

    def held_back(self) -> int:
        """A change waits from its own time, or its window's end."""
        return self._wait_ms + self._window_ms

    def require_lookup(self) -> None:
        """Lookups see what has been emitted, which the parent's old values tell."""
        self._parent.require_lookup()

    def get(self, key: Key) -> Stored | None:
        """What has been emitted so far: the value before the held back change, else the parent's.

        Behind a versioned table it is kept: what comes late there is sent here, and stands in a table without a past.
        So it is where partitions have times of their own, as a key may wait in several of them.
        """
        if self._shown is not None:
            return self._shown.get(key)
        pending = self._pending.get(self._slot(key))
        if pending is None:
            return self._parent.get(key)
        ts = self._sent.get(key, -1) if self._topology.semantics.repaired(30) else -1
        return None if pending.before is None else Stored(pending.before, ts)

    def receive(self, record: Record, port: int) -> None:
        """Hold a change back, then let go of what is due; with row 28 repaired what its time ends goes before it."""
        self._clock.move(record.ts, port)
        if self._before:
            self._release()
        held = self._pending.get(self._slot(record.key))
        if held is None:
            time = record.ts
            if self._window_close:
                assert isinstance(record.key, Windowed)
                time = record.key.end
            begun = _Pending(time, record, record.old, self._topology.topic, self._domain)
            self._pending[self._slot(record.key)] = begun
        else:
            held.record, held.topic = record, self._topology.topic
        self._release()
        while self._here() and self._is_full():
            if self._room is not None and self._room.refuses:
                raise EngineFailsError("the buffer is full")
            self._send(min(self._here(), key=lambda entry: (entry[1].time, self._key_order(entry[0])))[0])

    def _is_full(self) -> bool:
        room = self._room
        if room is None:
            return False
        if len(self._here()) > room.records or room.size == float("inf"):
            return len(self._here()) > room.records
        estimated = not self._topology.semantics.repaired(33)
        sizes = (
            _estimated(self._key_order(key), held)
            if estimated
            else room.size_of(self._key_order(key), held.record.value)
            for key, held in self._here()
        )
        return sum(sizes) > room.size

    def _release(self) -> None:
        due = [
            (held.time, self._key_order(key), key)
            for key, held in self._here()
            if held.time <= self._clock.time - self._wait_ms or self._is_behind(key, held)
        ]
        for time, _, key in sorted(due):
            if isinstance(self._clock, SourceTime):
                self._send(key)
                continue
            with self._clock.letting_go(time + self._wait_ms):
                self._send(key)

    def _is_behind(self, key: Key, held: _Pending) -> bool:
        """Whether an entry comes, with what an operator above lets go, when its own turn has passed."""
        if not isinstance(self._clock, SourceTime) or self._topology.place is None:
            return False
        return self._place(key, held) < self._topology.place

    @property
    def _domain(self) -> int:
        return self._clock.domain if isinstance(self._clock, SourceTime) else 0

    def _here(self) -> list[tuple[Key, _Pending]]:
        """What is held back in the present time domain."""
        return [(key, held) for (_, key), held in self._pending.items() if held.domain == self._domain]

    def _slot(self, key: Key) -> tuple[int | None, Key]:
        """What has one entry: a key, but where limits hold for each time domain a key in each (row 33)."""
        return None if self._room is None else self._domain, key

    def _place(self, key: Key, held: _Pending) -> Place:
        """Where an entry has its turn: at the last moment of its wait."""
        assert isinstance(self._clock, SourceTime)
        last = held.time + self._wait_ms - 1
        return last + self._clock.lag, last, 0, self._key_order(key)

    def _due(self) -> Place | None:
        """The next entry whose wait has ended, if there is one."""
        assert isinstance(self._clock, SourceTime)
        places = (self._place(key, held) for key, held in self._here())
        return min((place for place in places if place[0] < self._clock.of_sources), default=None)

    def _let_go(self, place: Place) -> None:
        for key, held in self._here():
            if self._place(key, held) == place:
                self._send(key)
                return

    def _send(self, key: Key) -> None:
        held = self._pending.pop(self._slot(key))
        change = held.record
        if change.value is not None or not self._window_close:
            told = held.before if self._topology.semantics.repaired(37) else change.old
            old = told if self.send_old else None
            self._sent[key] = change.ts
            self._show(key, change)
            # what is held back is not known to be out of order any more
            self.forward(Record(key, change.value, change.ts, old))

    def _show(self, key: Key, change: Record) -> None:
        if self._shown is None:
            return
        if change.value is None:
            self._shown.pop(key, None)
        else:
            self._shown[key] = Stored(change.value, change.ts)
