"""Joins with WTables: of streams, of tables, and of WTables with tables and with each other.

Owns the table of joins in section 20 of the semantics. Law: one result per pair of rows that meet, in
ascending order of window start and end where one change meets several.
"""

from __future__ import annotations

from dataclasses import replace

from proof.oracle.graph import Node, Topology
from proof.oracle.records import Joiner, Key, Record, Stored, Windowed
from proof.oracle.windows.wtable import (
    LEFT,
    RIGHT,
    JoinTime,
    Shift,
    SideRows,
    WindowedSide,
    WindowOf,
    WTableJoin,
    window_of,
)


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
        self._left_join = how == "left"
        self._names = names
        self._joiner = joiner
        self._rows = SideRows(self._time, right)
        stream.feed(self, LEFT)
        right.table.feed(self, RIGHT)

    def receive(self, record: Record, port: int) -> None:
        """Keep a window, or look one up."""
        if port == RIGHT:
            self._time.move(record.ts, port)
            self._rows.put(record.key, None if record.value is None else Stored(record.value, record.ts))
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
        return None if window is None else self._rows.get(Windowed(record.key, *window))


class TableWTableJoin(WTableJoin):
    """A table's row points at a window of its key; the result is a table by key."""

    def __init__(
        self, topology: Topology, left: Node, right: WindowedSide, how: str, names: WindowOf, joiner: Joiner
    ) -> None:
        """Both sides trigger; inner or left."""
        super().__init__(topology, (left, right), how, joiner)
        self._names = names

    def receive(self, record: Record, port: int) -> None:
        """Join one change."""
        if self.is_late(record, port):
            return
        before, live = self.keep(record, port)
        if port == LEFT:
            self._receive_left(record, before)
            return
        row = self._rows[LEFT].get(record.key.key)
        if row is not None and live and self._names(record.key.key, row.value) == window_of(record.key):
            self.meet(record.key.key, RIGHT, record, before, row)

    def _receive_left(self, record: Record, before: Stored | None) -> None:
        old = None if before is None else self._pointed(record.key, before)
        new = None if record.value is None else self._pointed(record.key, Stored(record.value, record.ts))
        has_new = record.value is not None and (new is not None or self._outer[LEFT])
        had_old = before is not None and (old is not None or self._outer[LEFT])
        if has_new:
            ts = record.ts if new is None else max(record.ts, new.ts)
            self.tell(record.key, self._joiner(record.value, None if new is None else new.value), ts)
        elif had_old:
            self.tell(record.key, None, record.ts if old is None else max(record.ts, old.ts))

    def _pointed(self, key: Key, row: Stored) -> Stored | None:
        window = self._names(key, row.value)
        return None if window is None else self._rows[RIGHT].get(Windowed(key, *window))


class WTableTableJoin(WTableJoin):
    """Every window of a key meets the table's row of that key; the result is a WTable."""

    def __init__(self, topology: Topology, left: WindowedSide, right: Node, how: str, joiner: Joiner) -> None:
        """Both sides trigger; inner or left."""
        super().__init__(topology, (left, right), how, joiner)

    def receive(self, record: Record, port: int) -> None:
        """Join one change of a window, or of the row that all live windows of a key meet."""
        if self.is_late(record, port):
            return
        before, live = self.keep(record, port)
        if port == LEFT:
            if live:
                self.meet(record.key, LEFT, record, before, self._rows[RIGHT].get(record.key.key))
            return
        for key, row in self._rows[LEFT].windows_of(record.key):
            self.meet(key, RIGHT, record, before, row)


class WTableWTableJoin(WTableJoin):
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
        super().__init__(topology, (left, right), how, joiner)
        self._shift = shift

    def receive(self, record: Record, port: int) -> None:
        """Join one change of a window."""
        before, live = self.keep(record, port)
        if not live:
            return
        if self._shift is None:
            self.meet(record.key, port, record, before, self._rows[1 - port].get(record.key))
        elif port == LEFT:
            window = self._shift(window_of(record.key))
            other = None if window is None else self._rows[RIGHT].get(Windowed(record.key.key, *window))
            self.meet(record.key, LEFT, record, before, other)
        else:
            for key, row in self._rows[LEFT].windows_of(record.key.key):
                if self._shift(window_of(key)) == window_of(record.key):
                    self.meet(key, RIGHT, record, before, row)


def to_stream_by_key(record: Record) -> Record:
    """A WTable's change as a stream record under the key alone."""
    return replace(record, key=record.key.key, old=None, latest=True)
