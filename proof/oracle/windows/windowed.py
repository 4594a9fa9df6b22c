"""What all windowed aggregates share: their store, their clock, and emission when windows close.

Owns sections 14 and 15 of the semantics where they do not depend on the kind of window, and the repair of
row 7. Law: stream time is moved by every record that passes the null check, before the record is judged. With
row 21 repaired what closes is emitted before the record that moves time past it, at the last moment at which the
window was open. A window belongs to the partition of the record that began it, whoever adds to it; once that one's time
has closed it, records of other partitions do not see it, and begin it anew (row 20).
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from proof.oracle.clock import Clock
from proof.oracle.graph import EngineFailsError, Node, Place, Topology
from proof.oracle.records import Key, Record, Stored, Value, Windowed, key_bytes
from proof.oracle.source_time import SourceTime
from proof.oracle.tables.table import Table
from proof.oracle.windows.aggregation import Aggregator, Cogrouped, FoldRaisesError


@dataclass(frozen=True, slots=True)
class Emission:
    """Whether results come with every update or when windows close, and how long the store keeps windows."""

    on_close: bool = False
    interval_ms: int = 0
    retention_ms: int | None = None
    in_memory: bool = False
    lookups_cached: bool = False
    """A cache above the store of emission on close answers lookups of windows the store has forgotten."""

    @property
    def shows_edge(self) -> bool:
        """The persistent store that serves emission on close shows one millisecond more than the others."""
        return self.on_close and not self.in_memory


class WindowAggregate(Table):
    """A windowed aggregate: a table keyed by windows, materialised, with its own stream time."""

    skips_null_values = False
    stateful = True
    closes = True
    """Whether its windows end."""
    goes_by_time = True

    def __init__(
        self, topology: Topology, parent: Node, aggregator: Aggregator, emission: Emission, *cogrouped: Cogrouped
    ) -> None:
        """Read this stream, which must be grouped by its key, and perhaps others together with it."""
        super().__init__()
        self._topology = topology
        self._semantics = topology.semantics
        self._aggregator = aggregator
        self._aggregators = (aggregator, *(other for _, other in cogrouped))
        self._emission = emission
        self._rows: dict[Key, dict[tuple[int, int], Stored]] = {}
        # row 36: in the engine a processor, and with it a time, for each cogrouped stream
        apart = bool(cogrouped) and not self._semantics.repaired(36)
        self._clocks = [self._own_clock() for _ in self._aggregators] if apart else [self._made_clock()]
        self.clock = self._clocks[0]
        self._emitted: set[Windowed] = set()
        self._final: dict[Windowed, Stored] = {}
        self._domain_of: dict[Windowed, int] = {}
        self._last_close = -1
        self._next_emit = 0
        for port, node in enumerate((parent, *(stream for stream, _ in cogrouped))):
            node.feed(self, port)

    def _made_clock(self) -> Clock | SourceTime:
        if self._semantics.repaired(21):
            return SourceTime(self._topology, self, self._due, self._let_go, waits=self._emission.on_close)
        return self._own_clock()

    def _own_clock(self) -> Clock | SourceTime:
        return Clock(self._topology, self, self._emit_closed)

    def require_old(self, *, force: bool) -> bool:
        """Always known: the result is stored."""
        self.send_old = True
        return True

    def require_lookup(self) -> None:
        """Always stored."""

    def get(self, key: Key) -> Stored | None:
        """The aggregate of one window, as the store shows it; repaired, what has been sent (rows 31 and 32)."""
        final_only = self._emission.on_close and self._semantics.repaired(31)
        if final_only and (key not in self._final or self._semantics.repaired(32)):
            return self._final.get(key)
        return self._stored(key) if self._semantics.repaired(32) else self.visible(key)

    def visible(self, key: Windowed) -> Stored | None:
        """The aggregate of one window, if the store still shows it."""
        if not self.stored(key) and not self._emission.lookups_cached and not self._still_open(key):
            return None
        return None if self.closed_elsewhere(key) else self._stored(key)

    def _stored(self, key: Windowed) -> Stored | None:
        return self._rows.get(key.key, {}).get((key.start, key.end))

    def _still_open(self, window: Windowed) -> bool:
        """Whether a window is seen since it may still change: an operator's time may run behind its windows."""
        return self._semantics.repaired(21) and self._last_moment(window) >= self.clock.time

    def closed_elsewhere(self, window: Windowed) -> bool:
        """Whether the window belongs to another partition than the present record's, whose time has closed it."""
        if not isinstance(self.clock, SourceTime) or not self._is_elsewhere(window):
            return False
        return self._last_moment(window) < self.clock.time_of(self._domain_of[window])

    def _is_elsewhere(self, window: Windowed) -> bool:
        if not isinstance(self.clock, SourceTime):
            return False
        return self._domain_of.get(window, self.clock.domain) != self.clock.domain

    def stored(self, window: Windowed) -> bool:
        """Whether the engine's store still shows a window."""
        raise NotImplementedError

    def receive(self, record: Record, port: int) -> None:
        """Check for nulls, move time, aggregate, and emit what closed."""
        skips = self.skips_null_values or self._semantics.repaired(10)
        if record.key is None or (record.value is None and skips):
            return
        self.clock = self._clocks[port if len(self._clocks) > 1 else 0]
        self.clock.move(record.ts, port)
        self._aggregator = self._aggregators[port]
        if self._raises(record) or self.aggregate(record):
            self._emit_closed()

    def _raises(self, record: Record) -> bool:
        """Whether a record ends, in all its windows alike, since a function raises for it."""
        if not self._aggregator.raises:
            return False
        try:
            deepcopy(self).aggregate(record)
        except FoldRaisesError as error:
            if not self._topology.tolerates_errors:
                raise EngineFailsError(str(error)) from error
            self._topology.ended += 1
            return True
        return False

    def aggregate(self, record: Record) -> bool:
        """Put one record into its windows; False when the engine then does not look for closed ones."""
        raise NotImplementedError

    def close(self) -> int:
        """The time before which windows are closed."""
        return self.clock.time - self.wait_ms()

    def wait_ms(self) -> int:
        """How long a window waits after its end."""
        raise NotImplementedError

    def held_back(self) -> int:
        """An emission on close stands behind the last moment at which its window is open."""
        return self.length_ms() + self.last_moment_ms() + 1 if self._emission.on_close else 0

    def last_moment_ms(self) -> int:
        """How long after its end a window is open for the last time."""
        return self.wait_ms()

    def length_ms(self) -> int:
        """How far the end of a window may be from the timestamp of its result."""
        raise NotImplementedError

    def closed_now(self) -> list[Windowed]:
        """The windows the engine emits now, given `_last_close`; unordered. Repaired: all that closed."""
        raise NotImplementedError

    @staticmethod
    def serialized(window: Windowed) -> bytes:
        """The bytes that order windows where they are held back."""
        return key_bytes(window)

    @staticmethod
    def emission_order(window: Windowed) -> tuple[int | bytes, ...]:
        """The order of the store: time windows by start."""
        return (window.start, key_bytes(window.key))

    def put(
        self,
        window: Windowed,
        value: Value,
        ts: int,
        *,
        tells_old: bool = True,
        began: Value = None,
        domain: int | None = None,
    ) -> None:
        """Write one window and forward the change, with its old value where that is asked for and told.

        `domain`: of which time domain it is, if it begins with others than this record.
        """
        gone = self.closed_elsewhere(window)
        before = self._rows.setdefault(window.key, {}).pop((window.start, window.end), None)
        if before is None or gone:
            before = None
            self._emitted.discard(window)
            if isinstance(self.clock, SourceTime):
                self._domain_of[window] = self.clock.domain if domain is None else domain
        if value is None:
            self._domain_of.pop(window, None)
        else:
            self._rows[window.key][window.start, window.end] = Stored(value, ts)
        if not self._emission.on_close:
            old = None if before is None else before.value
            told = old if began is None or not self.send_old or self._semantics.repaired(38) else began
            self.emit(Record(window, value, ts, told if self.send_old and tells_old else None), old)

    def add(self, window: Windowed, stored: Stored | None, record: Record) -> None:
        """Add a record to what a window has, or begins with; the engine tells that as its old value (row 38)."""
        fold = self._aggregator
        aggregate, ts = (None, record.ts) if stored is None else (stored.value, max(stored.ts, record.ts))
        began = fold.initial() if aggregate is None and fold.initial is not None else aggregate
        self.put(window, fold.added(aggregate, record.value), ts, began=began)

    def windows(self, key: Key) -> list[tuple[int, int, Stored]]:
        """All windows of a key as (start, end, aggregate), by start."""
        return [(start, end, stored) for (start, end), stored in sorted(self._rows.get(key, {}).items())]

    def all_windows(self) -> list[Windowed]:
        """All windows of all keys."""
        return [Windowed(key, *window) for key, rows in self._rows.items() for window in rows]

    def _due(self) -> Place | None:
        """The next window whose time has come, if there is one."""
        assert isinstance(self.clock, SourceTime)
        if not self._emission.on_close:
            return None
        now, lag = self.clock.of_sources, self.clock.lag
        return min(
            (
                (self._last_moment(window) + lag, window.start, 0, key_bytes(window.key))
                for window in self._waiting()
                if self._last_moment(window) + lag < now
            ),
            default=None,
        )

    def _waiting(self) -> list[Windowed]:
        """The windows of the present time domain that have not been emitted."""
        assert isinstance(self.clock, SourceTime)
        here = self.clock.domain
        return [each for each in self.all_windows() if each not in self._emitted and self._domain_of[each] == here]

    def _let_go(self, place: Place) -> None:
        assert isinstance(self.clock, SourceTime)
        for window in self._waiting():
            here = (self._last_moment(window) + self.clock.lag, window.start, 0, key_bytes(window.key))
            if here == place:
                self._emitted.add(window)
                stored = self._final[window] = self._rows[window.key][window.start, window.end]
                self.forward(Record(window, stored.value, stored.ts))

    def _last_moment(self, window: Windowed) -> int:
        return window.end + self.last_moment_ms()

    def _emit_closed(self) -> None:
        if isinstance(self.clock, SourceTime):
            return
        if not self._emission.on_close or self._topology.wall_clock < self._next_emit:
            return
        self._next_emit = self._topology.wall_clock + self._emission.interval_ms
        if self._last_close != -1 and self._last_close >= self.close():
            return
        for window in sorted(self.closed_now(), key=self.emission_order):
            stored = self._final[window] = self._rows[window.key][window.start, window.end]
            with self.clock.letting_go(self._last_moment(window)):
                self._emitted.add(window)
                self.forward(Record(window, stored.value, stored.ts))
        self._last_close = self.close()
