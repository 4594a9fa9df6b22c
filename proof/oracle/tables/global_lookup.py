"""Joins with a global table: of a stream, and (KIP-99, in no release) of a table, and of two global tables.

Owns section 9 of the semantics, with the rule before 4.0.1 (row 9). Law: only the left
side triggers; the result keeps its key and timestamp, whatever key was looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from proof.oracle.graph import Node, Topology
from proof.oracle.records import Joiner, Key, Record, StateRow, Stored, Value
from proof.oracle.tables.stores import PlainStore
from proof.oracle.tables.table import StandingResults, Table, TableSource

KeyMapper = Callable[[Key, Value], Key]


class Lookup(Protocol):
    """What can be looked up: a global table, or a view of two."""

    def get(self, key: Key) -> Stored | None:
        """The current value."""
        ...


class GlobalTable(Node):
    """A fully replicated table: updates are stored, and forwarded to stores of views alone."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._store = PlainStore()
        self._rows: TableSource | None = None

    def receive(self, record: Record, port: int) -> None:
        """Store one update."""
        if record.key is not None:
            self._store.put(record.key, record.value, record.ts)
        self.forward(record)

    def rows(self, topology: Topology) -> TableSource:
        """Its rows as a table, for the store of a view."""
        if self._rows is None:
            self._rows = TableSource(topology)
            self.feed(self._rows)
        return self._rows

    def state_rows(self) -> Iterator[StateRow]:
        """The rows."""
        return (StateRow("row", *row) for row in self._store.rows())

    def get(self, key: Key) -> Stored | None:
        """The current value."""
        return self._store.get(key)


class GlobalLookup(Node):
    """Joins stream records with the global row of a mapped key."""

    keeps_partition = False

    def __init__(
        self,
        topology: Topology,
        stream: Node,
        table: Lookup,
        how: str,
        key_mapper: KeyMapper,
        joiner: Joiner,
    ) -> None:
        """Read this stream."""
        super().__init__()
        semantics = topology.semantics
        self._topology = topology
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
        self.advance_time(self._topology, record.ts, port)
        found = None if mapped is None else self._table.get(mapped)
        if found is not None or self._left:
            value = self._joiner(record.value, None if found is None else found.value)
            self.forward(Record(record.key, value, record.ts))


class GlobalTableLookup(StandingResults):
    """A table joined with a global one: driven by the table alone, the last result per key is kept."""

    keeps_partition = False

    def __init__(
        self,
        topology: Topology,
        left: Table,
        table: Lookup,
        how: str,
        key_mapper: KeyMapper,
        joiner: Joiner,
    ) -> None:
        """Read this table; inner or left."""
        super().__init__()
        self._topology = topology
        self._table = table
        self._left_join = how == "left"
        self._key_mapper = key_mapper
        self._joiner = joiner
        self._skips_late = left.versioned
        left.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Join one change, or end a standing result."""
        if record.key is None or (self._skips_late and not record.latest):
            return
        self.advance_time(self._topology, record.ts)
        value = None if record.value is None else self._joined(record)
        standing = self._results.get(record.key)
        if value is None and standing is None:
            return
        if value is None:
            del self._results[record.key]
        else:
            self._results[record.key] = Stored(value, record.ts)
        old = standing.value if standing is not None and self.send_old else None
        self.forward(Record(record.key, value, record.ts, old))

    def _joined(self, record: Record) -> Value:
        mapped = self._key_mapper(record.key, record.value)
        found = None if mapped is None else self._table.get(mapped)
        if found is None and not self._left_join:
            return None
        return self._joiner(record.value, None if found is None else found.value)


class GlobalView:
    """Two global tables joined: resolved at each lookup, it never emits."""

    def __init__(self, left: Lookup, right: Lookup, how: str, key_mapper: KeyMapper, joiner: Joiner) -> None:
        """A view keyed like the left table; inner or left."""
        self._left = left
        self._right = right
        self._left_join = how == "left"
        self._key_mapper = key_mapper
        self._joiner = joiner

    def get(self, key: Key) -> Stored | None:
        """The joined value of this moment."""
        row = self._left.get(key)
        if row is None:
            return None
        mapped = self._key_mapper(key, row.value)
        found = None if mapped is None else self._right.get(mapped)
        if found is None and not self._left_join:
            return None
        return Stored(self._joiner(row.value, None if found is None else found.value), row.ts)
