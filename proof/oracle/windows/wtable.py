"""WTables: what is live, and what a change of a windowed table means to a join.

Owns the common part of section 20 of the semantics (no release of the engine has WTables). Law: a window
joins while its end, grace and keep have not passed; what is not live is as absent and sends nothing, not
even a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from proof.oracle.graph import Node, Place, Topology
from proof.oracle.records import Joiner, Key, Record, Stored, Value, Windowed
from proof.oracle.source_time import SourceTime
from proof.oracle.tables.table import Table

DAY_MS = 86_400_000


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


def _nothing(_: Place) -> None:
    return None


class KeptJoin(Table):
    """A join that keeps both sides and its results; subclasses say which rows meet."""

    stateful = True
    goes_by_time = True

    def __init__(self, topology: Topology, sides: tuple[Node, Node], how: str, joiner: Joiner) -> None:
        super().__init__()
        self._time = JoinTime(topology, self)
        self._outer = (how in ("left", "outer"), how == "outer")
        self._joiner = joiner
        self._parent = sides[0]
        self._tables = sides
        self._rows: tuple[dict[Key, Stored], dict[Key, Stored]] = ({}, {})
        self._results: dict[Key, Stored] = {}
        for port, side in enumerate(sides):
            side.feed(self, port)

    def require_old(self, *, force: bool) -> bool:
        """Known: results are kept."""
        self.send_old = True
        return True

    def require_lookup(self) -> None:
        """Results are kept."""

    def get(self, key: Key) -> Stored | None:
        """The standing result."""
        return self._results.get(key)

    def is_late(self, record: Record, port: int) -> bool:
        """Whether it is a change of a versioned table that is not the latest of its key: such ones join nothing."""
        return getattr(self._tables[port], "versioned", False) and not record.latest

    def keep(self, record: Record, port: int) -> Stored | None:
        """Store a change of one side; what was there before."""
        self._time.move(record.ts, port)
        before = self._rows[port].pop(record.key, None)
        if record.value is not None:
            self._rows[port][record.key] = Stored(record.value, record.ts)
        return before

    def meet(self, key: Key, port: int, record: Record, before: Value, other: Stored | None) -> None:
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
        """Keep and forward a result or a tombstone."""
        standing = self._results.pop(key, None)
        if value is not None:
            self._results[key] = Stored(value, ts)
        old = standing.value if standing is not None and self.send_old else None
        self.forward(Record(key, value, ts, old))
