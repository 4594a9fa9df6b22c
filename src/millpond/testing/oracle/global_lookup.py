"""Joins of a stream with a global table.

Owns section 9 of the semantics, with the rule before 4.0.1 (row 9). Law: only stream records trigger; the
result keeps the stream record's key and timestamp, whatever key was looked up. Called by the topologies.
"""

from __future__ import annotations

from collections.abc import Callable

from millpond.testing.oracle.graph import Node, Topology
from millpond.testing.oracle.records import Joiner, Key, Record, Stored, Value
from millpond.testing.oracle.stores import PlainStore


class GlobalTable(Node):
    """A fully replicated table: updates are stored and forwarded nowhere."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._store = PlainStore()

    def receive(self, record: Record, port: int) -> None:
        """Store one update."""
        if record.key is not None:
            self._store.put(record.key, record.value, record.ts)

    def get(self, key: Key) -> Stored | None:
        """The current value."""
        return self._store.get(key)


class GlobalLookup(Node):
    """Joins stream records with the global row of a mapped key."""

    def __init__(
        self,
        topology: Topology,
        stream: Node,
        table: GlobalTable,
        how: str,
        key_mapper: Callable[[Key, Value], Key],
        joiner: Joiner,
    ) -> None:
        """Read this stream."""
        super().__init__()
        semantics = topology.semantics
        self._table = table
        self._left = how == "left"
        self._keeps_unmapped = semantics.global_null_fixed or semantics.repaired(9)
        self._key_mapper = key_mapper
        self._joiner = joiner
        stream.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Look one stream record up."""
        if record.value is None:
            return
        mapped = self._key_mapper(record.key, record.value)
        if mapped is None and not (self._left and (self._keeps_unmapped or record.key is None)):
            return
        found = None if mapped is None else self._table.get(mapped)
        if found is not None or self._left:
            value = self._joiner(record.value, None if found is None else found.value)
            self.forward(Record(record.key, value, record.ts))
