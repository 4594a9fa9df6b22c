"""mapValues of a table.

Owns the mapping of both halves of a change. Law: the mapper never sees a null and may return one (a delete);
nothing is ever held back.
"""

from __future__ import annotations

from collections.abc import Callable

from proof.oracle.graph import Topology
from proof.oracle.records import Key, Record, Stored, Value
from proof.oracle.tables.stores import PlainStore
from proof.oracle.tables.table import Table


class TableMapValues(Table):
    """Maps every value; the key stays."""

    def __init__(
        self,
        parent: Table,
        mapper: Callable[[Value], Value],
        *,
        materialized: bool = False,
        topology: Topology | None = None,
    ) -> None:
        """Stand behind this parent.

        With a topology, records count for its time (row 21) where they are materialised here.
        """
        super().__init__()
        self._topology = topology if materialized else None
        self._parent = parent
        self._mapper = mapper
        self._store = PlainStore() if materialized else None
        self.versioned = parent.versioned and not materialized
        self.misleads = parent.misleads
        parent.feed(self)

    def require_old(self, *, force: bool) -> bool:
        """Known from the own store, else asked of the parent."""
        if self._store is not None or self._parent.require_old(force=force):
            self.send_old = True
        return self.send_old

    def require_lookup(self) -> None:
        """The own store answers, else the parent's."""
        if self._store is None:
            self._parent.require_lookup()

    def get(self, key: Key) -> Stored | None:
        """The current mapped value."""
        return self._store.get(key) if self._store is not None else self._mapped(self._parent.get(key))

    def get_as_of(self, key: Key, ts: int) -> Stored | None:
        """The mapped value of that time."""
        return self._store.get(key) if self._store is not None else self._mapped(self._parent.get_as_of(key, ts))

    def receive(self, record: Record, port: int) -> None:
        """Map both halves of a change."""
        if self._topology is not None:
            self.advance_time(self._topology, record.ts, port)
        new = self._map(record.value)
        old = self._old(record)
        if self._store is None:
            self.forward(Record(record.key, new, record.ts, old, record.latest))
            return
        before = self._store.get(record.key)
        self._store.put(record.key, new, record.ts)
        self.emit(Record(record.key, new, record.ts, old), None if before is None else before.value)

    def _old(self, record: Record) -> Value:
        if not self.send_old:
            return None
        if self._store is None:
            return self._map(record.old)
        stored = self._store.get(record.key)
        return None if stored is None else stored.value

    def _map(self, value: Value) -> Value:
        return None if value is None else self._mapper(value)

    def _mapped(self, stored: Stored | None) -> Stored | None:
        value = None if stored is None else self._map(stored.value)
        return None if stored is None or value is None else Stored(value, stored.ts)
