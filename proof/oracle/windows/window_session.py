"""Session window aggregates.

Owns the session parts of sections 14 and 15 and the repairs of rows 15 and 29. Law: a session is [first, last] of its
records, and sessions that come within the gap of each other become one.
"""

from __future__ import annotations

from proof.oracle.graph import Node, Topology
from proof.oracle.records import Record, Value, Windowed, key_bytes, session_bytes
from proof.oracle.windows.aggregation import Aggregator, Cogrouped
from proof.oracle.windows.windowed import Emission, WindowAggregate

_SHORTEST_SEGMENT_MS = 60_000


class SessionWindowAggregate(WindowAggregate):
    """Aggregates each record into the session it belongs to, merging those it connects."""

    def __init__(
        self,
        topology: Topology,
        parent: Node,
        aggregator: Aggregator,
        emission: Emission,
        *cogrouped: Cogrouped,
        gap_ms: int,
        grace_ms: int,
    ) -> None:
        """Read this stream."""
        super().__init__(topology, parent, aggregator, emission, *cogrouped)
        self._gap = gap_ms
        self._grace = grace_ms
        self._newest_end = -1
        self._retention = emission.retention_ms
        if self._retention is None:
            self._retention = gap_ms + grace_ms

    def wait_ms(self) -> int:
        """The grace and the gap; sessions that end before the close time are closed."""
        return self._grace + self._gap

    def length_ms(self) -> int:
        """None: a session's result has the timestamp of its end."""
        return 0

    def aggregate(self, record: Record) -> bool:
        """Merge what the record connects, unless even the merged session has closed."""
        merged = [
            Windowed(record.key, start, end)
            for start, end, _ in sorted(self.windows(record.key), key=lambda window: (window[1], window[0]))
            if end >= record.ts - self._gap and start <= record.ts + self._gap
        ]
        merged = [window for window in merged if self._visible(window)]
        session = Windowed(
            record.key,
            min([record.ts, *(window.start for window in merged)]),
            max([record.ts, *(window.end for window in merged)]),
        )
        if session.end < self.close():
            return True
        aggregate = self._merged(merged)
        # a session that grows stays where it is; of several the last one decides
        domain = self._domain_of.get(merged[-1]) if merged else None
        if (session.start, session.end) != (record.ts, record.ts):
            for window in merged:
                self.put(window, None, window.end)
        self._newest_end = max(self._newest_end, session.end)
        told = self._semantics.repaired(29) if self.send_old else True
        value = self._aggregator.added(aggregate, record.value)
        self.put(session, value, session.end, tells_old=told, domain=domain)
        return True

    def _merged(self, sessions: list[Windowed]) -> Value:
        merge, initial = self._aggregator.merge, self._aggregator.initial
        assert merge is not None, "a session aggregate needs a merger"
        aggregate: Value = None if initial is None else initial()
        for session in sessions:
            stored = self._rows[session.key][session.start, session.end]
            aggregate = stored.value if aggregate is None else merge(aggregate, stored.value)
        return aggregate

    def stored(self, window: Windowed) -> bool:
        """Whether the session ended within the retention of the latest one."""
        assert self._retention is not None
        return window.end > self._newest_end - self._retention

    def _visible(self, window: Windowed) -> bool:
        """Whether a record may merge it; where time moves on without records of its own (row 21), while it is open."""
        if self._is_elsewhere(window):
            return not self.closed_elsewhere(window)
        if self._semantics.repaired(15) and window.end >= self.close():
            return True
        return self.stored(window) and not self._semantics.repaired(21)

    @staticmethod
    def serialized(window: Windowed) -> bytes:
        """Sessions: key, end, start."""
        return session_bytes(window)

    @staticmethod
    def emission_order(window: Windowed) -> tuple[int | bytes, ...]:
        """The order of the store: sessions by end, then start."""
        return (window.end, window.start, key_bytes(window.key))

    def closed_now(self) -> list[Windowed]:
        """What closed since the last emission and, faithfully, whose store segment has not expired."""
        repaired = self._semantics.repaired(7)
        lowest = max(0, self._last_close)
        return [
            window
            for window in self.all_windows()
            if lowest <= window.end < self.close() and (repaired or self._segment_lives(window.end))
        ]

    def _segment_lives(self, end: int) -> bool:
        assert self._retention is not None
        if self._emission.in_memory:
            return end > self._newest_end - self._retention
        segment = max(self._retention // 2, _SHORTEST_SEGMENT_MS)
        return end // segment >= (self._newest_end - self._retention) // segment
