"""Table-table joins on the primary key: inner, left, outer, of every generation.

Owns section 10 of the semantics and the rules before KIP-77. Law: each change is joined with the CURRENT
value of the other side, and the result carries the larger of the two timestamps (the trigger's in the old
generations).
"""

from __future__ import annotations

from proof.oracle.graph import Topology
from proof.oracle.records import Joiner, Key, Record, Stored, Value
from proof.oracle.tables.multi_join import MultiJoin
from proof.oracle.tables.stores import PlainStore
from proof.oracle.tables.table import MisleadingLookup, Table


def table_table_join(
    topology: Topology, sides: tuple[Table, Table], how: str, joiner: Joiner, *, materialized: bool = False
) -> Table:
    """The join of two tables; if one record can reach both sides, by arrival (row 48)."""
    left, right = sides
    forked = bool(left.sources() & right.sources())
    if forked and not topology.semantics.eager_only and topology.semantics.repaired(48):
        return MultiJoin(sides, [how], joiner)
    return TableTableJoin(topology, sides, how, joiner, materialized=materialized)


class TableTableJoin(Table):
    """Joins two tables with equal keys; port 0 is left, port 1 right."""

    def __init__(
        self,
        topology: Topology,
        sides: tuple[Table, Table],
        how: str,
        joiner: Joiner,
        *,
        materialized: bool = False,
    ) -> None:
        """Ask for old values where an outer side needs them, then announce lookups on both sides."""
        super().__init__()
        self._sides = sides
        self._told = [MisleadingLookup(side, topology.semantics) for side in sides]
        self._outer = (how in ("left", "outer"), how == "outer")
        self._joiner = joiner
        self._semantics = topology.semantics
        self._store = PlainStore() if materialized else None
        for side, outer in zip(sides, self._outer, strict=True):
            if outer:
                side.require_old(force=True)
        for port, side in enumerate(sides):
            side.require_lookup()
            side.feed(self, port)

    def require_old(self, *, force: bool) -> bool:
        """Old results are computed from old values of both sides."""
        for side in self._sides:
            side.require_old(force=True)
        self.send_old = True
        return True

    def require_lookup(self) -> None:
        """Announced to both sides when the join was built."""

    def get(self, key: Key) -> Stored | None:
        """The current result, from the own store or from both sides."""
        if self._store is not None:
            return self._store.get(key)
        left, right = (side.get(key) for side in self._sides)
        if (left is None and not self._outer[1]) or (right is None and not self._outer[0]):
            return None
        present = [stored for stored in (left, right) if stored is not None]
        if not present:
            return None
        value = self._joiner(left and left.value, right and right.value)
        return Stored(value, max(stored.ts for stored in present))

    def receive(self, record: Record, port: int) -> None:
        """Join one change with the other side's current value."""
        if record.key is None or (self._sides[port].versioned and not record.latest):
            return
        before = self._told[port].old(record) if self._outer[port] or self.send_old else None
        other = self._sides[1 - port].get(record.key)
        if not self._semantics.old and self._silent(port, record.value, before, other):
            return
        ts = record.ts
        if other is not None and self._semantics.max_timestamps:
            ts = max(ts, other.ts)
        there = None if other is None else other.value
        new = self._join(port, record.value, there)
        old = self._join(port, before, there) if self.send_old else None
        if self._store is None:
            self.forward(Record(record.key, new, ts, old))
            return
        stored = self._store.get(record.key)
        self._store.put(record.key, new, ts)
        self.emit(Record(record.key, new, ts, old), None if stored is None else stored.value)

    def _silent(self, port: int, new: Value, before: Value, other: Stored | None) -> bool:
        if other is not None:
            return False
        if not self._outer[port]:
            return True
        return new is None and before is None

    def _join(self, port: int, here: Value, there: Value) -> Value:
        if (here is None and not self._outer[1 - port]) or (there is None and not self._outer[port]):
            return None
        if here is None and there is None:
            return None
        return self._joiner(here, there) if port == 0 else self._joiner(there, here)
