"""Windowed joins of each left record with one right record (docs/semantics/stream_match.md).

Owns section 26 of the semantics. Laws: a left record is joined when the time of its domain has passed its window and
the grace, once, with one of the right records of its window that have come by then; and only the pair's distance or the
right record's timestamp, then timestamp, then arrival decide which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from proof.oracle.graph import Node, Place, Topology
from proof.oracle.records import Joiner, Record, StateRow, key_bytes
from proof.oracle.source_time import SourceTime

LEFT, RIGHT = 0, 1
BETTER: dict[str, Callable[[int, int], int]] = {
    "first": lambda _left, right: right,
    "nearest": lambda left, right: abs(left - right),
}
"""By what right records are compared, given the timestamps of left and right; the smaller one is better."""


@dataclass(frozen=True, slots=True)
class MatchSpec:
    """The window, how long it stays open, and which right record is taken."""

    how: str
    before_ms: int
    after_ms: int
    grace_ms: int
    match: str

    @property
    def wait_ms(self) -> int:
        """How long a left record waits."""
        return max(self.after_ms, 0) + self.grace_ms

    @property
    def retention_ms(self) -> int:
        """How long a right record can be met."""
        return max(self.before_ms, 0) + self.wait_ms


class StreamMatch(Node):
    """Joins each record of port 0 with one of port 1."""

    stateful = True
    goes_by_time = True

    def __init__(self, topology: Topology, sides: tuple[Node, Node], spec: MatchSpec, joiner: Joiner) -> None:
        """Read both sides, left first where both are the same stream."""
        super().__init__()
        self._topology, self._spec, self._joiner = topology, spec, joiner
        self._clock = SourceTime(topology, self, self._due, self._let_go, waits=True)
        self._waiting: list[tuple[int, Record]] = []
        self._partners: list[tuple[int, Record]] = []
        self._furthest: dict[int, int] = {}
        for port, side in enumerate(sides):
            side.feed(self, port)

    def receive(self, record: Record, port: int) -> None:
        """Keep one record, of either side."""
        self._clock.move(record.ts, port)
        if record.value is None:
            return
        if port == RIGHT and record.key is not None:
            self._furthest[self._domain] = max(self._furthest.get(self._domain, -1), record.ts)
            if record.ts + self._spec.retention_ms >= self._clock.time:
                self._partners.append((self._domain, record))
        elif port == LEFT and record.key is not None:
            place = self._place(record)
            passed = self._topology.place is not None and place < self._topology.place
            if not passed and place[1] >= self._clock.time:
                self._waiting.append((self._domain, record))
        elif port == LEFT and self._spec.how == "left":
            self.forward(Record(None, self._joiner(record.value, None), record.ts))

    def state_rows(self) -> Iterator[StateRow]:
        """Right records that can still be met, and left ones that wait."""
        told = (
            ("right", [r for d, r in self._partners if self._reached(d, r)]),
            ("pending left", [r for _, r in self._waiting]),
        )
        return (StateRow(what, record.key, record.value, record.ts) for what, records in told for record in records)

    def held_back(self) -> int:
        """A result comes behind the last moment of the wait."""
        return self._spec.wait_ms + 1

    @property
    def _domain(self) -> int:
        return self._clock.domain

    def _place(self, record: Record) -> Place:
        last = record.ts + self._spec.wait_ms
        return last + self._clock.lag, last, 0, key_bytes(record.key)

    def _here(self) -> Iterator[tuple[Place, int]]:
        """Place and number of what waits in the present time domain."""
        return ((self._place(r), n) for n, (domain, r) in enumerate(self._waiting) if domain == self._domain)

    def _due(self) -> Place | None:
        place, _ = min(self._here(), default=(None, 0))
        return place if place is not None and place[0] < self._clock.of_sources else None

    def _let_go(self, _place: Place) -> None:
        _, left = self._waiting.pop(min(self._here())[1])
        better = BETTER[self._spec.match]
        met = [r for domain, r in self._partners if r.key == left.key and self._meets(left, domain, r)]
        if met:
            right = min(met, key=lambda r: (better(left.ts, r.ts), r.ts))
            self.forward(Record(left.key, self._joiner(left.value, right.value), max(left.ts, right.ts)))
        elif self._spec.how == "left":
            self.forward(Record(left.key, self._joiner(left.value, None), left.ts))

    def _meets(self, left: Record, domain: int, right: Record) -> bool:
        inside = left.ts - self._spec.before_ms <= right.ts <= left.ts + self._spec.after_ms
        # a record of another partition is there as long as that one's time says
        return inside and (domain == self._domain or self._reached(domain, right))

    def _reached(self, domain: int, right: Record) -> bool:
        """Whether a left record that is in time may still come for it."""
        return right.ts + self._spec.retention_ms >= self._furthest[domain]
