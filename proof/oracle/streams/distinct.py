"""The first record of each key within a while (docs/semantics/distinct.md).

Owns what is a duplicate. Laws: a record that passes makes those of its key duplicates for a while, by the time of the
domain in which it came; a duplicate changes nothing; a record without a key passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proof.oracle.graph import MapRecord, Node, Topology
from proof.oracle.records import Key, Record, Value
from proof.oracle.source_time import SourceTime


@dataclass(frozen=True, slots=True)
class _First:
    """The record that has passed last: the time it came at, and in which domain."""

    time: int
    domain: int


class Distinct(Node):
    """The first record of each key; `within` is in ms of stream time, None for ever."""

    stateful = True

    def __init__(self, topology: Topology, parent: Node, within: int | None) -> None:
        """Read this stream."""
        super().__init__()
        self._topology, self._within = topology, within
        self.goes_by_time = within is not None
        self._clock: SourceTime | None = None
        if within is not None:
            self._clock = SourceTime(topology, self, lambda: None, lambda place: None, waits=False)
        self._passed: dict[Key, _First] = {}
        parent.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Pass a record on, unless one of its key is in force."""
        if self._clock is None:
            self.advance_time(self._topology, record.ts, port)
        else:
            self._clock.move(record.ts, port)
        if record.key is not None:
            if self._is_duplicate(record.key):
                return
            clock = self._clock
            self._passed[record.key] = _First(0, 0) if clock is None else _First(clock.time, clock.domain)
        self.forward(record)

    def _is_duplicate(self, key: Key) -> bool:
        first = self._passed.get(key)
        if first is None or self._clock is None or self._within is None:
            return first is not None
        here = first.domain == self._clock.domain
        now = self._clock.time if here else self._clock.time_of(first.domain)
        return now - first.time < self._within


def distinct(topology: Topology, parent: Node, within: int | None, key: Callable[[Value], Key] | None) -> Node:
    """By the records' own keys, or by what a function makes of their values."""
    if key is None:
        return Distinct(topology, parent, within)
    # beside what it is told apart by, a record takes its own key along
    told = MapRecord(parent, lambda r: Record(key(r.value), (r.key, r.value), r.ts)).moves()
    passed = Distinct(topology, told, within)
    return MapRecord(passed, lambda r: Record(r.value[0], r.value[1], r.ts)).moves()
