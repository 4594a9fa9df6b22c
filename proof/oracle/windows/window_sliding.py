"""Sliding window aggregates.

Owns the sliding parts of sections 14 and 15 and the repair of row 16. Law: windows are [start, start +
difference], both ends inclusive, and exist only where a record begins or ends one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proof.oracle.graph import EngineFailsError, Node, Topology
from proof.oracle.records import Record, Stored, Windowed
from proof.oracle.windows.aggregation import Aggregator, Cogrouped
from proof.oracle.windows.windowed import Emission, WindowAggregate


@dataclass(slots=True)
class _Found:
    """What the look at existing windows tells about the windows to be made."""

    starts: set[int] = field(default_factory=set)
    left_source: Stored | None = None
    right_source: Stored | None = None
    left_exists: bool = False
    right_exists: bool = False
    previous_ts: int | None = None


class SlidingWindowAggregate(WindowAggregate):
    """Aggregates each record into its left window and every window that contains it."""

    skips_null_values = True

    def __init__(
        self,
        topology: Topology,
        parent: Node,
        aggregator: Aggregator,
        emission: Emission,
        *cogrouped: Cogrouped,
        difference_ms: int,
        grace_ms: int,
        ascending: bool = False,
    ) -> None:
        """Read this stream. `ascending` is for stores that cannot be read backwards."""
        super().__init__(topology, parent, aggregator, emission, *cogrouped)
        self._difference = difference_ms
        self._grace = grace_ms
        self._ascending = ascending
        self._newest_start = -1
        self._retention = emission.retention_ms
        if self._retention is None:
            self._retention = 2 * difference_ms + grace_ms

    def wait_ms(self) -> int:
        """The grace; windows that end before the close time are closed."""
        return self._grace

    def length_ms(self) -> int:
        """The difference."""
        return self._difference

    def aggregate(self, record: Record) -> bool:
        """Update and create the windows of one record."""
        if self._difference == 0:
            raise EngineFailsError("sliding windows of difference 0: the window's end must be after its start")
        if record.ts + self._difference < self.close():
            return False
        if record.ts < self._difference:
            self._aggregate_early(record)
            return False
        found = self._update_existing(record)
        previous = found.previous_ts
        if previous is not None and previous + 1 not in found.starts and previous + 1 + self._difference >= record.ts:
            self._add(previous + 1, None, record)
        if not found.left_exists:
            inside = previous is not None and record.ts - self._difference <= previous
            source = found.left_source if inside else None
            left = None if source is None else Stored(source.value, record.ts)
            self._add(record.ts - self._difference, left, record)
        self._create_right(found, record)
        return True

    def _update_existing(self, record: Record) -> _Found:
        """Existing windows from the latest start downwards, until one that ends before the record."""
        found = _Found()
        updates: list[tuple[int, Stored]] = []
        for start, end, stored in reversed(self._candidates(record)):
            found.starts.add(start)
            if start == record.ts + 1:
                found.right_exists = True
            elif end > record.ts:
                found.right_source = found.right_source or stored
                updates.append((start, stored))
            elif end == record.ts:
                found.left_exists = True
                if stored.ts < record.ts:
                    found.previous_ts = stored.ts
                updates.append((start, stored))
            else:
                found.left_source = stored
                found.previous_ts = stored.ts
                break
        for start, stored in sorted(updates) if self._ascending else updates:
            self._add(start, stored, record)
        return found

    def _aggregate_early(self, record: Record) -> None:
        """All records earlier than the difference share the window that starts at 0."""
        found = _Found()
        combined: Stored | None = None
        for start, _, stored in self._candidates(record):
            found.starts.add(start)
            if start == 0:
                combined = stored
                if stored.ts < record.ts:
                    found.previous_ts = stored.ts
            elif start <= record.ts:
                found.right_source = stored
                self._add(start, stored, record)
            else:
                found.right_exists = True
        found.right_source = found.right_source or combined
        self._create_right(found, record)
        if found.previous_ts is not None and found.previous_ts + 1 not in found.starts:
            self._add(found.previous_ts + 1, None, record)
        self._add(0, combined, record)

    def _candidates(self, record: Record) -> list[tuple[int, int, Stored]]:
        first = max(0, record.ts - 2 * self._difference)
        return [
            window
            for window in self.windows(record.key)
            if first <= window[0] <= record.ts + 1
            and self._visible(window[0])
            and not self.closed_elsewhere(Windowed(record.key, *window[:2]))
        ]

    def _visible(self, start: int) -> bool:
        return self._stored_start(start) or (
            self._semantics.repaired(16) and start >= self.clock.time - self._grace - 3 * self._difference
        )

    def stored(self, window: Windowed) -> bool:
        """The store that serves emission on close shows one millisecond more than the others."""
        return self._stored_start(window.start)

    def _stored_start(self, start: int) -> bool:
        assert self._retention is not None
        oldest = self._newest_start - self._retention
        return start > oldest or (self._emission.shows_edge and start == oldest)

    def _create_right(self, found: _Found, record: Record) -> None:
        source = found.right_source
        if not found.right_exists and source is not None and source.ts > record.ts:
            start = record.ts + 1
            self._newest_start = max(self._newest_start, start)
            self.put(Windowed(record.key, start, start + self._difference), source.value, source.ts)

    def _add(self, start: int, stored: Stored | None, record: Record) -> None:
        """Add the record to a window, unless the window has closed."""
        window = Windowed(record.key, start, start + self._difference)
        if window.end < self.close():
            return
        self._newest_start = max(self._newest_start, start)
        self.add(window, stored, record)

    def closed_now(self) -> list[Windowed]:
        """What closed since the last emission and, faithfully, is still in the store."""
        repaired = self._semantics.repaired(7)
        lowest = 0 if self._last_close == -1 else max(0, self._last_close - self._difference)
        return [
            window
            for window in self.all_windows()
            if window.end < self.close()
            and (window.end >= self._last_close if repaired else window.start >= lowest and self.stored(window))
        ]
