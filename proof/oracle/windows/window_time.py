"""Tumbling and hopping window aggregates.

Owns the time-window parts of sections 13, 14 and 15. Law: a window takes records until its end is reached by
stream time less the grace.
"""

from __future__ import annotations

from dataclasses import dataclass

from proof.oracle.graph import Node, Topology
from proof.oracle.records import Record, Windowed
from proof.oracle.windows.aggregation import Aggregator, Cogrouped
from proof.oracle.windows.window_calendar import CalendarWindows
from proof.oracle.windows.windowed import Emission, WindowAggregate


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows [start, start + size), one every `advance_ms`."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    def starts(self, ts: int) -> range:
        """The starts of the windows that contain this time, ascending."""
        if ts < 0:
            return range(0)
        first = max(0, ts - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, ts + 1, self.advance_ms)

    def end(self, start: int) -> int:
        """The end of the window that starts there."""
        return start + self.size_ms


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window, from a moment on, without an end; it is told by the largest number of 64 bits."""

    start_ms: int = 0
    grace_ms: int = 0

    @property
    def size_ms(self) -> int:
        """As long as there is time."""
        return 2**63 - 1 - self.start_ms

    def starts(self, ts: int) -> range:
        """The one window, for what is not before it."""
        return range(self.start_ms, self.start_ms + (ts >= self.start_ms))

    def end(self, start: int) -> int:
        """See `TimeWindows`."""
        return start + self.size_ms


class TimeWindowAggregate(WindowAggregate):
    """Aggregates each record into every open window that contains it."""

    def __init__(
        self,
        topology: Topology,
        parent: Node,
        aggregator: Aggregator,
        spec: TimeWindows | UnlimitedWindows | CalendarWindows,
        emission: Emission,
        *cogrouped: Cogrouped,
    ) -> None:
        """Read this stream."""
        super().__init__(topology, parent, aggregator, emission, *cogrouped)
        self._spec = spec
        self.closes = not isinstance(spec, UnlimitedWindows)
        self._newest_start = -1
        self._retention = emission.retention_ms
        if self._retention is None:
            self._retention = spec.size_ms + spec.grace_ms
        self._edge = 0 if emission.shows_edge else 1

    def wait_ms(self) -> int:
        """The grace; windows that end at the close time are closed."""
        return self._spec.grace_ms

    def last_moment_ms(self) -> int:
        """One less: a window is closed when stream time is at its end and the grace."""
        return self._spec.grace_ms - 1

    def length_ms(self) -> int:
        """The size."""
        return self._spec.size_ms

    def aggregate(self, record: Record) -> bool:
        """Update the windows that are still open, ascending."""
        for start in self._spec.starts(record.ts):
            window = Windowed(record.key, start, self._spec.end(start))
            if window.end <= self.close():
                continue
            before = self.visible(window)
            self._newest_start = max(self._newest_start, start)
            self.add(window, before, record)
        return True

    def stored(self, window: Windowed) -> bool:
        """The store that serves emission on close shows one millisecond more than the others."""
        assert self._retention is not None
        return window.start >= self._newest_start - self._retention + self._edge

    def closed_now(self) -> list[Windowed]:
        """What closed since the last emission and, faithfully, is still in the store."""
        repaired = self._semantics.repaired(7)
        return [
            window
            for window in self.all_windows()
            if self._last_close < window.end <= self.close() and (repaired or self.stored(window))
        ]
