"""Stream-table joins: inner and left, versioned tables, grace.

Owns section 8 of the semantics, the repairs of rows 3, 21 and 27 and the rule before KIP-77. Law: only stream records
trigger, and the result has the stream record's key and timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator

from proof.oracle.clock import Clock
from proof.oracle.domains import domain_of
from proof.oracle.graph import EngineFailsError, Node, Place, Topology
from proof.oracle.records import Joiner, Record, StateRow, key_bytes
from proof.oracle.source_time import SourceTime
from proof.oracle.tables.table import Table


class StreamTableJoin(Node):
    """Joins stream records with the table's current value, or with the value of the record's time."""

    stateful = True

    def __init__(
        self,
        topology: Topology,
        stream: Node,
        table: Table,
        how: str,
        joiner: Joiner,
        *,
        grace_ms: int | None = None,
    ) -> None:
        """A grace period (versioned tables only) buffers stream records until stream time has passed them."""
        super().__init__()
        self._semantics = topology.semantics
        self._table = table
        self._left = how == "left"
        self._joiner = joiner
        self._grace_ms = grace_ms
        self._topology = topology
        self.hears_lookups = not grace_ms
        self.goes_by_time = table.versioned
        self._clock = self._made_clock()
        self._buffer: list[tuple[int, bytes, int, Record]] = []
        self._domain_of: dict[int, int] = {}
        self._by_whole_key = self._semantics.repaired(27) if grace_ms is not None else True
        self._arrivals = 0
        table.require_lookup()
        self.look_up(table)
        stream.feed(self)

    def _made_clock(self) -> Clock | SourceTime:
        if self._grace_ms and self._semantics.repaired(21):
            return SourceTime(self._topology, self, self._due, self._let_go, waits=True)
        return Clock(self._topology, self, self._release)

    def receive(self, record: Record, port: int) -> None:
        """Join one stream record, or hold it back for the grace period."""
        if record.value is None and not self._semantics.old:
            return
        if record.key is None and not (self._left and self._semantics.relaxed_null_keys):
            return
        at_once = self._grace_ms == 0 and record.key is not None and self._semantics.repaired(21)
        if self._grace_ms is None or at_once:
            self.advance_time(self._topology, record.ts)
            self._join(record)
        elif record.key is None:
            if not self._semantics.repaired(3):
                raise EngineFailsError("stream-table left join with grace: key cannot be null")
            self.advance_time(self._topology, record.ts)
            self._join(record)
        elif isinstance(self._clock, SourceTime):
            self._clock.move(record.ts, port)
            self._hold_for_sources(record)
        elif record.ts < self._clock.time - self._grace_ms:
            self._join(record)
        else:
            self._hold(record)

    def state_rows(self) -> Iterator[StateRow]:
        """What waits for the end of its grace."""
        return (StateRow("pending left", record.key, record.value, record.ts) for *_, record in self._buffer)

    def held_back(self) -> int:
        """The grace."""
        return self._grace_ms or 0

    def _hold_for_sources(self, record: Record) -> None:
        place = self._place(record)
        passed = self._topology.place is not None and place < self._topology.place
        if passed or place[1] < self._clock.time:
            self._join(record)
        else:
            self._arrivals += 1
            self._domain_of[self._arrivals] = domain_of(self._topology, self)
            self._buffer.append((record.ts, place[3], self._arrivals, record))
            self._buffer.sort(key=lambda entry: entry[:3])

    def _place(self, record: Record) -> Place:
        """Where a record has its turn: at the last moment of its wait."""
        assert isinstance(self._clock, SourceTime)
        last = record.ts + (self._grace_ms or 0) - 1
        return last + self._clock.lag, last, 0, key_bytes(record.key)

    def _due(self) -> Place | None:
        """The next record whose wait has ended, if there is one."""
        assert isinstance(self._clock, SourceTime)
        first = next(self._here(), None)
        place = None if first is None else self._place(self._buffer[first][3])
        return place if place is not None and place[0] < self._clock.of_sources else None

    def _let_go(self, place: Place) -> None:
        self._join(self._buffer.pop(next(self._here()))[3])

    def _here(self) -> Iterator[int]:
        """Places in the buffer of what waits in the present time domain."""
        here = domain_of(self._topology, self)
        return (at for at, entry in enumerate(self._buffer) if self._domain_of[entry[2]] == here)

    def _hold(self, record: Record) -> None:
        assert isinstance(self._clock, Clock)
        self._arrivals += 1
        # The engine's buffer is sorted by bytes in which the arrival number follows the key, whatever its length.
        arrival = b"" if self._by_whole_key else self._arrivals.to_bytes(4, "big")
        self._buffer.append((record.ts, key_bytes(record.key) + arrival, self._arrivals, record))
        self._buffer.sort(key=lambda entry: entry[:3])
        self._clock.move(record.ts)
        self._release()

    def _release(self) -> None:
        assert isinstance(self._clock, Clock)
        grace_ms = self._grace_ms or 0
        while self._buffer and self._buffer[0][0] <= self._clock.time - grace_ms:
            record = self._buffer.pop(0)[3]
            with self._clock.letting_go(record.ts + grace_ms):
                self._join(record)

    def _join(self, record: Record) -> None:
        found = None if record.key is None else self._table.get_as_of(record.key, record.ts)
        if found is not None or self._left:
            value = self._joiner(record.value, None if found is None else found.value)
            self.forward(Record(record.key, value, record.ts))
