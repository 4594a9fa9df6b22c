"""filter and filterNot of a table.

Owns the rule that a change from nothing to nothing is silent only where old values are known. Law: the
predicate never sees a null.
"""

from __future__ import annotations

from collections.abc import Callable

from proof.oracle.graph import Topology
from proof.oracle.records import Key, Record, Stored, Value
from proof.oracle.tables.stores import PlainStore
from proof.oracle.tables.table import Table


class TableFilter(Table):
    """Keeps the rows for which the predicate holds (or does not, when negated)."""

    def __init__(
        self,
        parent: Table,
        predicate: Callable[[Key, Value], bool],
        *,
        negate: bool = False,
        materialized: bool = False,
        topology: Topology | None = None,
    ) -> None:
        """Ask the parent for old values without force: only an already materialised one gives them.

        With a topology, records count for its time (row 21) where they are materialised here, dropped or not.
        """
        super().__init__()
        self._topology = topology if materialized else None
        self._parent = parent
        self._predicate = predicate
        self._negate = negate
        self._store = PlainStore() if materialized else None
        self.send_old = parent.require_old(force=False)
        self._suppresses = not parent.versioned
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
        """The current value if it passes."""
        return self._store.get(key) if self._store is not None else self._passed(key, self._parent.get(key))

    def get_as_of(self, key: Key, ts: int) -> Stored | None:
        """The value of that time if it passes."""
        if self._store is not None:
            return self._store.get(key)
        return self._passed(key, self._parent.get_as_of(key, ts))

    def receive(self, record: Record, port: int) -> None:
        """Filter both halves of a change."""
        if self._topology is not None:
            self.advance_time(self._topology, record.ts, port)
        new = self._keep(record.key, record.value)
        old = self._old(record)
        if self._suppresses and self.send_old and old is None and new is None:
            return
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
            return self._keep(record.key, record.old)
        stored = self._store.get(record.key)
        return None if stored is None else stored.value

    def _keep(self, key: Key, value: Value) -> Value:
        return value if value is not None and self._predicate(key, value) != self._negate else None

    def _passed(self, key: Key, stored: Stored | None) -> Stored | None:
        return stored if stored is not None and self._keep(key, stored.value) is not None else None
