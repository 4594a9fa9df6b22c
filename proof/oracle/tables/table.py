"""Tables: the base of every table node, the record cache, and the table source.

Owns the two questions a table asks its parent while the topology is built: "send me old values" and "I will
look values up". Law: materialisation is decided in order of construction, never later. A cached table (row
12: off by default) forwards at the commit that follows each record.
"""

from __future__ import annotations

from collections.abc import Iterator

from proof.oracle.domains import domain_of
from proof.oracle.graph import Node, Topology
from proof.oracle.records import Key, Record, StateRow, Stored, Value
from proof.oracle.semantics import Semantics
from proof.oracle.tables.stores import PlainStore, Store, VersionedStore


class Table(Node):
    """A node that forwards changes and whose current values can be looked up."""

    versioned = False
    send_old = False
    misleads = False
    """Whether the old value of a change may not be what was sent before: behind a suppress of a versioned table."""

    def __init__(self) -> None:
        """Start uncached."""
        super().__init__()
        self._dirty: dict[Key, tuple[Record, Value]] | None = None

    def enable_cache(self, topology: Topology) -> None:
        """Hold changes back until the commit that follows each record."""
        self._dirty = {}
        topology.on_commit(self._flush)

    def require_old(self, *, force: bool) -> bool:
        """Ask for old values; without force only an already materialised source agrees."""
        raise NotImplementedError

    def require_lookup(self) -> None:
        """Announce lookups: what has no store of its own passes this on to its parents."""
        raise NotImplementedError

    def get(self, key: Key) -> Stored | None:
        """The current value."""
        raise NotImplementedError

    def get_as_of(self, key: Key, ts: int) -> Stored | None:
        """The value at a time; only versioned tables know the past."""
        return self.get(key)

    def emit(self, record: Record, before: Value) -> None:
        """Forward a change of a stored table; `before` is what the store held."""
        if self._dirty is None:
            self.forward(record)
            return
        if record.key in self._dirty:
            before = self._dirty.pop(record.key)[1]
        self._dirty[record.key] = record, before

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty or {}, {}
        for record, before in dirty.values():
            if record.value is not None or before is not None:
                old = before if self.send_old else None
                self.forward(Record(record.key, record.value, record.ts, old, record.latest))


class TableStep(Table):
    """Base of the tables that make each row of one row of another: in a store of their own, or at each lookup.

    With a topology, records count for its time (row 21) where they are materialised here, dropped or not.
    """

    _suppresses = False
    """Whether a change from nothing to nothing is silent, where old values are known."""

    def __init__(self, parent: Table, *, materialized: bool, topology: Topology | None) -> None:
        """Stand behind this parent."""
        super().__init__()
        self._topology = topology if materialized else None
        self._parent = parent
        self._store = PlainStore() if materialized else None
        self.versioned = parent.versioned and not materialized
        self.misleads = parent.misleads
        parent.feed(self)

    def changed(self, key: Key, value: Value) -> Value:
        """The value of a row; none of none."""
        raise NotImplementedError

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
        """The current value."""
        return self._store.get(key) if self._store is not None else self._made(key, self._parent.get(key))

    def get_as_of(self, key: Key, ts: int) -> Stored | None:
        """The value of that time."""
        return self._store.get(key) if self._store is not None else self._made(key, self._parent.get_as_of(key, ts))

    def receive(self, record: Record, port: int) -> None:
        """Make both halves of a change."""
        if self._topology is not None:
            self.advance_time(self._topology, record.ts, port)
        new = self.changed(record.key, record.value)
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
            return self.changed(record.key, record.old)
        stored = self._store.get(record.key)
        return None if stored is None else stored.value

    def _made(self, key: Key, stored: Stored | None) -> Stored | None:
        value = None if stored is None else self.changed(key, stored.value)
        return None if stored is None or value is None else Stored(value, stored.ts)


class StandingResults(Table):
    """Base of the tables that keep what they have sent last of each key, whatever time has passed it."""

    stateful = True

    def __init__(self) -> None:
        """Nothing stands yet."""
        super().__init__()
        self._results: dict[Key, Stored] = {}

    def require_old(self, *, force: bool) -> bool:
        """Known: results are kept."""
        self.send_old = True
        return True

    def require_lookup(self) -> None:
        """Results are kept."""

    def get(self, key: Key) -> Stored | None:
        """The standing result."""
        return self._results.get(key)


class MisleadingLookup:
    """What a join was told of a table that misleads, row by row (row 35)."""

    def __init__(self, table: Table, semantics: Semantics) -> None:
        """Nothing so far."""
        self._misleads = table.misleads and semantics.repaired(35)
        self._values: dict[Key, Value] = {}

    def old(self, record: Record) -> Value:
        """The old value of a change; its new one is what is told by it."""
        if not self._misleads:
            return record.old
        before, self._values[record.key] = self._values.get(record.key), record.value
        return before


class TableSource(Table):
    """A topic or a stream read as a table: builder.table, toTable, the result of a foreign-key join."""

    def __init__(
        self,
        topology: Topology,
        *,
        materialized: bool = False,
        history_ms: int | None = None,
        cached: bool = False,
    ) -> None:
        """Materialised by name, or later by need; a history makes it versioned and uncached."""
        super().__init__()
        self._topology = topology
        self.history_ms = history_ms
        self._store: Store | None = None
        if history_ms is not None:
            remember = topology.semantics.repaired(18)
            self._store = VersionedStore(
                history_ms, remember_tombstones=remember, domain=lambda: domain_of(topology, self)
            )
            self.goes_by_time = True
            self.versioned = True
        else:
            self._store = PlainStore() if materialized else None
            if cached:
                self.enable_cache(topology)

    @property
    def stateful(self) -> bool:  # type: ignore[override]
        """Only what is materialised remembers."""
        return self._store is not None

    def require_old(self, *, force: bool) -> bool:
        """A source without a store gets one only when forced."""
        if self._store is None and not force:
            return False
        self.require_lookup()
        self.send_old = True
        return True

    def require_lookup(self) -> None:
        """Materialise."""
        if self._store is None:
            self._store = PlainStore()

    def get(self, key: Key) -> Stored | None:
        """The stored value."""
        assert self._store is not None, "looked up before it was announced"
        return self._store.get(key)

    def get_as_of(self, key: Key, ts: int) -> Stored | None:
        """The version of that time, or the current value of a plain store."""
        return self._store.get_as_of(key, ts) if isinstance(self._store, VersionedStore) else self.get(key)

    def state_rows(self) -> Iterator[StateRow]:
        """The rows, or their versions; none where nothing is stored."""
        what = "version" if self.versioned else "row"
        return (StateRow(what, *row) for row in (() if self._store is None else self._store.rows()))

    def receive(self, record: Record, port: int) -> None:
        """Store and forward a change; only a cache hides the tombstone of an unknown key."""
        if record.key is None:
            return
        if self._store is None:
            self.forward(Record(record.key, record.value, record.ts))
            return
        self.advance_time(self._topology, record.ts)
        stored = self._store.get(record.key)
        latest = self._store.put(record.key, record.value, record.ts)
        if latest is None:
            return
        before = None if stored is None else stored.value
        old = before if self.send_old else None
        self.emit(Record(record.key, record.value, record.ts, old, latest), before)
