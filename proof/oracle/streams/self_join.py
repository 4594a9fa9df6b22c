"""The optimised self join: one store for a stream joined with itself.

Owns section 7 of the semantics. Law: the same pairs in the same order as the ordinary join of a stream with
itself, except for row 8 (one millisecond stricter, the self pair even with a negative bound) and for null
keys, which this variant drops. With row 8 repaired the ordinary join is built instead.
"""

from __future__ import annotations

from proof.oracle.graph import Node, Topology
from proof.oracle.records import Joiner, Record
from proof.oracle.streams.stream_stream import JoinSpec
from proof.oracle.windows.window_store import JoinStore


class SelfJoin(Node):
    """Joins a stream with itself out of one store, whatever the type of the join."""

    stateful = True

    def __init__(self, topology: Topology, parent: Node, spec: JoinSpec, joiner: Joiner) -> None:
        """Read this stream."""
        super().__init__()
        self._spec = spec
        self._joiner = joiner
        self._store = JoinStore(spec.retention_ms)
        self._topology = topology
        self._time = -1
        parent.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Join one record with what came before, in both roles, and with itself."""
        if record.key is None or record.value is None:
            return
        self.advance_time(self._topology, record.ts)
        self._time = max(self._time, record.ts)
        before, after = self._spec.before_ms, self._spec.after_ms
        for ts, value, _ in self._store.fetch(record.key, record.ts - before, record.ts + after):
            self.forward(Record(record.key, self._joiner(record.value, value), max(ts, record.ts)))
        paired = not self._meets_itself(record)
        for ts, value, _ in self._store.fetch(record.key, record.ts - after, record.ts + before):
            if ts > record.ts and not paired:
                self._pair(record)
                paired = True
            self.forward(Record(record.key, self._joiner(value, record.value), max(ts, record.ts)))
        if not paired:
            self._pair(record)
        self._store.put(record.key, record.value, record.ts)

    def _meets_itself(self, record: Record) -> bool:
        # Even a window that does not contain the record itself (a negative bound) gives the pair.
        retention = self._spec.retention_ms
        return retention is not None and record.ts > self._time - retention + 1

    def _pair(self, record: Record) -> None:
        self.forward(Record(record.key, self._joiner(record.value, record.value), record.ts))
