"""Joins with WTables: of streams, of tables, and of WTables with tables and with each other.

Owns the table of joins in section 20 of the semantics. Law: one result per pair of rows that meet, in
ascending order of window start and end where one change meets several.
"""

from __future__ import annotations

from dataclasses import replace

from proof.oracle.graph import Node, Topology
from proof.oracle.records import Joiner, Key, Record, Stored, Windowed
from proof.oracle.windows.wtable import (
    JoinTime,
    KeptJoin,
    Shift,
    Window,
    WindowedSide,
    WindowOf,
    window_of,
)

LEFT, RIGHT = 0, 1


class StreamWTableJoin(Node):
    """A stream looks up the window that its record names, as it is now."""

    stateful = True
    goes_by_time = True

    def __init__(
        self,
        topology: Topology,
        stream: Node,
        right: WindowedSide,
        how: str,
        names: WindowOf,
        joiner: Joiner,
    ) -> None:
        """Only stream records trigger."""
        super().__init__()
        self._time = JoinTime(topology, self)
        self._right = right
        self._left_join = how == "left"
        self._names = names
        self._joiner = joiner
        self._rows: dict[Windowed, Stored] = {}
        stream.feed(self, LEFT)
        right.table.feed(self, RIGHT)

    def receive(self, record: Record, port: int) -> None:
        """Keep a window, or look one up."""
        if port == RIGHT:
            self._time.move(record.ts, port)
            if record.value is None:
                self._rows.pop(record.key, None)
            else:
                self._rows[record.key] = Stored(record.value, record.ts)
            return
        if record.value is None or (record.key is None and not self._left_join):
            return
        self._time.move(record.ts, port)
        found = self._find(record)
        if found is not None or self._left_join:
            value = self._joiner(record.value, None if found is None else found.value)
            self.forward(Record(record.key, value, record.ts))

    def _find(self, record: Record) -> Stored | None:
        window = None if record.key is None else self._names(record.key, record.value)
        if window is None or not self._right.live(window, self._time.now):
            return None
        return self._rows.get(Windowed(record.key, *window))


class TableWTableJoin(KeptJoin):
    """A table's row points at a window of its key; the result is a table by key."""

    def __init__(
        self, topology: Topology, left: Node, right: WindowedSide, how: str, names: WindowOf, joiner: Joiner
    ) -> None:
        """Both sides trigger; inner or left."""
        super().__init__(topology, (left, right.table), how, joiner)
        self._right = right
        self._names = names

    def receive(self, record: Record, port: int) -> None:
        """Join one change."""
        if self.is_late(record, port):
            return
        before = self.keep(record, port)
        if port == LEFT:
            self._receive_left(record, before)
            return
        window = window_of(record.key)
        row = self._rows[LEFT].get(record.key.key)
        if row is None or not self._right.live(window, self._time.now):
            return
        if self._names(record.key.key, row.value) == window:
            self.meet(record.key.key, RIGHT, record, None if before is None else before.value, row)

    def _receive_left(self, record: Record, before: Stored | None) -> None:
        old = None if before is None else self._pointed(record.key, before)
        new = None if record.value is None else self._pointed(record.key, self._rows[LEFT][record.key])
        has_new = record.value is not None and (new is not None or self._outer[LEFT])
        had_old = before is not None and (old is not None or self._outer[LEFT])
        if has_new:
            ts = record.ts if new is None else max(record.ts, new.ts)
            self.tell(record.key, self._joiner(record.value, None if new is None else new.value), ts)
        elif had_old:
            self.tell(record.key, None, record.ts if old is None else max(record.ts, old.ts))

    def _pointed(self, key: Key, row: Stored) -> Stored | None:
        window = self._names(key, row.value)
        if window is None or not self._right.live(window, self._time.now):
            return None
        return self._rows[RIGHT].get(Windowed(key, *window))


class WTableTableJoin(KeptJoin):
    """Every window of a key meets the table's row of that key; the result is a WTable."""

    def __init__(self, topology: Topology, left: WindowedSide, right: Node, how: str, joiner: Joiner) -> None:
        """Both sides trigger; inner or left."""
        super().__init__(topology, (left.table, right), how, joiner)
        self._left = left

    def receive(self, record: Record, port: int) -> None:
        """Join one change of a window, or of the row that all live windows of a key meet."""
        if self.is_late(record, port):
            return
        kept = self.keep(record, port)
        before = None if kept is None else kept.value
        if port == LEFT:
            if self._left.live(window_of(record.key), self._time.now):
                self.meet(record.key, LEFT, record, before, self._rows[RIGHT].get(record.key.key))
            return
        for key, row in _windows_of(self._rows[LEFT], record.key, self._left, self._time.now):
            self.meet(key, RIGHT, record, before, row)


class WTableWTableJoin(KeptJoin):
    """Windows meet: equal ones, or the left one and the one its shift names; keyed by the left window."""

    def __init__(
        self,
        topology: Topology,
        left: WindowedSide,
        right: WindowedSide,
        how: str,
        joiner: Joiner,
        *,
        shift: Shift | None = None,
    ) -> None:
        """Both sides trigger; with a shift an outer join has no key for an unmatched right row."""
        if shift is not None and how == "outer":
            raise ValueError("an outer join of WTables takes no shift. Hint: use left, or join without shift")
        super().__init__(topology, (left.table, right.table), how, joiner)
        self._sides = (left, right)
        self._shift = shift

    def receive(self, record: Record, port: int) -> None:
        """Join one change of a window."""
        kept = self.keep(record, port)
        before = None if kept is None else kept.value
        now = self._time.now
        if not self._sides[port].live(window_of(record.key), now):
            return
        if self._shift is None:
            self.meet(record.key, port, record, before, self._rows[1 - port].get(record.key))
        elif port == LEFT:
            self.meet(record.key, LEFT, record, before, self._shifted(record.key, now))
        else:
            for key, row in _windows_of(self._rows[LEFT], record.key.key, self._sides[LEFT], now):
                if self._shift(window_of(key)) == window_of(record.key):
                    self.meet(key, RIGHT, record, before, row)

    def _shifted(self, key: Windowed, now: int) -> Stored | None:
        assert self._shift is not None
        window = self._shift(window_of(key))
        if window is None or not self._sides[RIGHT].live(window, now):
            return None
        return self._rows[RIGHT].get(Windowed(key.key, *window))


def _windows_of(rows: dict[Key, Stored], key: Key, side: WindowedSide, now: int) -> list[tuple[Windowed, Stored]]:
    """The live windows of a key, ascending by start, then end."""
    found = [(windowed, row) for windowed, row in rows.items() if windowed.key == key]
    live = [(windowed, row) for windowed, row in found if side.live(window_of(windowed), now)]
    return sorted(live, key=lambda entry: Window(entry[0].start, entry[0].end))


def to_stream_by_key(record: Record) -> Record:
    """A WTable's change as a stream record under the key alone."""
    return replace(record, key=record.key.key, old=None, latest=True)
