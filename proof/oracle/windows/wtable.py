"""WTables: what is live, and what a change of a windowed table means to a join.

Owns the common part of section 20 of the semantics (no release of the engine has WTables). Law: a window
joins while its end, grace and keep have not passed; what is not live is as absent and sends nothing, not
even a tombstone. A row belongs to the partition of the change that began it, whoever changes it then, and is judged by
that one's time; what comes when this has passed begins it anew (row 20).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from proof.oracle.graph import Node, Place, Topology
from proof.oracle.records import Joiner, Key, Record, Stored, Value, Windowed
from proof.oracle.source_time import SourceTime
from proof.oracle.tables.table import StandingResults

DAY_MS = 86_400_000
LEFT, RIGHT = 0, 1


class Window(NamedTuple):
    """A window without its key."""

    start: int
    end: int


WindowOf: TypeAlias = Callable[[Key, Value], Window | None]
Shift: TypeAlias = Callable[[Window], Window | None]


@dataclass(frozen=True, slots=True)
class WindowedSide:
    """A WTable as a side of a join: how long its windows wait (grace, session gap) and are kept."""

    table: Node
    wait_ms: int
    keep_ms: int = DAY_MS

    def live(self, window: Window, now: int) -> bool:
        """Whether a window still joins at this time of the sources."""
        return window.end + self.wait_ms + self.keep_ms >= now


def previous(count: int, step_ms: int) -> Shift:
    """The shift to the window so many sizes (tumbling) or advances (hopping) earlier."""

    def earlier(window: Window) -> Window | None:
        start = window.start - count * step_ms
        return None if start < 0 else Window(start, window.end - count * step_ms)

    return earlier


def window_of(key: Windowed) -> Window:
    """The window of a windowed key."""
    return Window(key.start, key.end)


class JoinTime:
    """The time of the sources that reach a join, at the record that it is about; nothing waits for it."""

    def __init__(self, topology: Topology, node: Node) -> None:
        self._clock = SourceTime(topology, node, lambda: None, _nothing, waits=False)

    def move(self, ts: int, port: int) -> None:
        """A record has come."""
        self._clock.move(ts, port)

    @property
    def now(self) -> int:
        """That time, whatever the operators above hold back: what they let go stands where its time came."""
        return self._clock.time + self._clock.lag

    @property
    def domain(self) -> int:
        """The time domain of the record that it is about."""
        return self._clock.domain

    def of(self, domain: int) -> int:
        """The time of any domain, at that record."""
        return self.now if domain == self.domain else self._clock.time_of(domain) + self._clock.lag


def _nothing(_: Place) -> None:
    return None


class SideRows:
    """The rows of one side of a join, or its results; of a windowed one (`side`) only live rows are seen."""

    def __init__(self, time: JoinTime, side: WindowedSide | None) -> None:
        self._time = time
        self._side = side
        self._rows: dict[Key, tuple[Stored, int]] = {}

    def live(self, key: Key, domain: int) -> bool:
        """Whether a row that belongs to this domain still joins."""
        return self._side is None or self._side.live(window_of(key), self._time.of(domain))

    def get(self, key: Key) -> Stored | None:
        """The live row of a key."""
        return self._standing(key)[0]

    def domain_of(self, key: Key) -> int:
        """The domain that the live row of a key belongs to; that of the present record where there is none."""
        return self._standing(key)[1]

    def put(self, key: Key, row: Stored | None, domain: int | None = None) -> tuple[Stored | None, bool]:
        """Write or delete a row; (the live one before, whether this one is live).

        `domain`: which it belongs to; None: to that of the row before, or else to that of the present record.
        """
        before, standing = self._standing(key)
        domain = standing if domain is None else domain
        self._rows.pop(key, None)
        if row is not None:
            self._rows[key] = row, domain
        return before, self.live(key, domain)

    def windows_of(self, key: Key) -> list[tuple[Windowed, Stored]]:
        """The live windows of a key, ascending by start, then end."""
        live = [(windowed, self.get(windowed)) for windowed in self._rows if windowed.key == key]
        found = [(windowed, row) for windowed, row in live if row is not None]
        return sorted(found, key=lambda entry: window_of(entry[0]))

    def _standing(self, key: Key) -> tuple[Stored | None, int]:
        row, domain = self._rows.get(key, (None, self._time.domain))
        return (row, domain) if self.live(key, domain) else (None, self._time.domain)


class WTableJoin(StandingResults):
    """A join that keeps both sides and its results; subclasses say which rows meet."""

    goes_by_time = True

    def __init__(
        self, topology: Topology, sides: tuple[Node | WindowedSide, Node | WindowedSide], how: str, joiner: Joiner
    ) -> None:
        super().__init__()
        self._time = JoinTime(topology, self)
        self._outer = (how in ("left", "outer"), how == "outer")
        self._joiner = joiner
        tables = [side.table if isinstance(side, WindowedSide) else side for side in sides]
        windows = [side if isinstance(side, WindowedSide) else None for side in sides]
        self._parent = tables[0]
        self._tables = tables
        self._rows = (SideRows(self._time, windows[0]), SideRows(self._time, windows[1]))
        self._standing = SideRows(self._time, windows[0])
        for port, table in enumerate(tables):
            table.feed(self, port)

    def is_late(self, record: Record, port: int) -> bool:
        """Whether it is a change of a versioned table that is not the latest of its key: such ones join nothing."""
        return getattr(self._tables[port], "versioned", False) and not record.latest

    def keep(self, record: Record, port: int) -> tuple[Stored | None, bool]:
        """Store a change of one side; (the row that was there before, whether the change joins)."""
        self._time.move(record.ts, port)
        row = None if record.value is None else Stored(record.value, record.ts)
        return self._rows[port].put(record.key, row)

    def meet(self, key: Key, port: int, record: Record, before: Stored | None, other: Stored | None) -> None:
        """As for table-table: join a change of one side with the other side's row, or with its absence."""
        if other is None and (not self._outer[port] or (record.value is None and before is None)):
            return
        there = None if other is None else other.value
        ts = record.ts if other is None else max(record.ts, other.ts)
        self.tell(key, self.joined(port, record.value, there), ts)

    def joined(self, port: int, here: Value, there: Value) -> Value:
        """The result of two values, either of which may be absent; None when they give none."""
        if here is None and there is None:
            return None
        if (here is None and not self._outer[1 - port]) or (there is None and not self._outer[port]):
            return None
        return self._joiner(here, there) if port == 0 else self._joiner(there, here)

    def tell(self, key: Key, value: Value, ts: int) -> None:
        """Keep and forward a result or a tombstone: it belongs where its left row does, or else its right one."""
        alone = self._outer[RIGHT] and self._rows[LEFT].get(key) is None
        domain = self._rows[RIGHT if alone else LEFT].domain_of(key)
        row = None if value is None else Stored(value, ts)
        standing, _ = self._standing.put(key, row, domain)
        self._results.pop(key, None)
        if row is not None:
            self._results[key] = row
        old = standing.value if standing is not None and self.send_old else None
        self.forward(Record(key, value, ts, old))
