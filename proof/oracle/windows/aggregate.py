"""Aggregates without windows: of a grouped stream, and of a grouped table.

Owns section 12 of the semantics. Law: a table aggregate subtracts the old value before it adds the new one;
the result's timestamp never goes back while an aggregate stands. Owns the repair of row 34: what stands is told by the
records alone, not by the versions that are remembered of it.
"""

from __future__ import annotations

from collections.abc import Callable

from proof.oracle.domains import domain_of
from proof.oracle.graph import EngineFailsError, Node, Repartition, Topology
from proof.oracle.records import Key, Record, Stored, Value
from proof.oracle.tables.stores import PlainStore, Store, VersionedStore
from proof.oracle.tables.table import Table
from proof.oracle.windows.aggregation import Aggregator, Cogrouped, FoldRaisesError


class _Aggregate(Table):
    """What both aggregates share: a materialised result."""

    stateful = True

    def __init__(
        self,
        topology: Topology,
        parent: Node,
        aggregator: Aggregator,
        *cogrouped: Cogrouped,
        history_ms: int | None = None,
    ) -> None:
        """A history makes the result versioned."""
        super().__init__()
        self._topology = topology
        self._aggregator = aggregator
        self._aggregators = (aggregator, *(other for _, other in cogrouped))
        self.history_ms = history_ms
        self.versioned = self.goes_by_time = history_ms is not None
        self._store: Store = PlainStore()
        self._current: Store = self._store
        if history_ms is not None:
            remember = topology.semantics.repaired(18)
            self._store = VersionedStore(
                history_ms, remember_tombstones=remember, domain=lambda: domain_of(topology, self)
            )
            self._current = PlainStore() if topology.semantics.repaired(34) else self._store
        for port, node in enumerate((parent, *(stream for stream, _ in cogrouped))):
            node.feed(self, port)

    def require_old(self, *, force: bool) -> bool:
        """Always known: the result is stored."""
        self.send_old = True
        return True

    def require_lookup(self) -> None:
        """Always stored."""

    def get(self, key: Key) -> Stored | None:
        """The current aggregate."""
        return self._store.get(key)

    def get_as_of(self, key: Key, ts: int) -> Stored | None:
        """The version of that time, or the current aggregate of a plain store."""
        return self._store.get_as_of(key, ts) if isinstance(self._store, VersionedStore) else self.get(key)

    def _write(self, key: Key, new: Value, ts: int, began: Value = None) -> None:
        """Store and forward an aggregate; `began`: what the first one of a key has as its old value (row 43)."""
        known = self._store.get(key)
        latest = self._store.put(key, new, ts)
        if latest is None:
            return
        if self._current is not self._store:
            self._current.put(key, new, ts)
        old = None if known is None else known.value
        told = began if known is None else old
        self.emit(Record(key, new, ts, told if self.send_old else None, latest), old)


class StreamAggregate(_Aggregate):
    """groupByKey and aggregate, reduce or count; of several streams (cogroup), each with an aggregator of its own."""

    def receive(self, record: Record, port: int) -> None:
        """Add one record."""
        if record.key is None or record.value is None:
            return
        self.advance_time(self._topology, record.ts, port)
        before = self._current.get(record.key)
        aggregate, ts = (before.value, max(record.ts, before.ts)) if before is not None else (None, record.ts)
        try:
            new = self._aggregators[port].added(aggregate, record.value)
        except FoldRaisesError as error:
            if isinstance(self._store, VersionedStore) and self._store.is_expired(ts):
                # what has expired is not folded: nothing reads what the fold would give
                return
            if not self._topology.tolerates_errors or self.versioned:
                raise EngineFailsError(str(error)) from error
            self._topology.ended += 1
            return
        first = self._aggregators[port].initial
        began = None if first is None or self._topology.semantics.repaired(43) else first()
        self._write(record.key, new, ts, began)


class GroupTable(Node):
    """groupBy of a table: each change becomes an add, a subtract, or both, under the groups' keys."""

    def __init__(self, topology: Topology, parent: Table, selector: Callable[[Key, Value], tuple[Key, Value]]) -> None:
        """Ask for old values with force; the repartition topic stands behind this node."""
        super().__init__()
        self._selector = selector
        self._skips_late = parent.versioned
        self._one_message = topology.semantics.joins_group_messages
        parent.require_old(force=True)
        parent.feed(self)
        self.topic = Repartition(topology, self)

    def receive(self, record: Record, port: int) -> None:
        """Split one change into the groups it touches: old first, one message when the group stays."""
        if self._skips_late and not record.latest:
            return
        old, new = self._pair(record.key, record.old), self._pair(record.key, record.value)
        if self._one_message and old is not None and new is not None and old[0] == new[0]:
            self.forward(Record(new[0], new[1], record.ts, old[1]))
            return
        if old is not None:
            self.forward(Record(old[0], None, record.ts, old[1]))
        if new is not None:
            self.forward(Record(new[0], new[1], record.ts))

    def _pair(self, key: Key, value: Value) -> tuple[Key, Value] | None:
        pair = None if value is None else self._selector(key, value)
        return None if pair is None or pair[0] is None or pair[1] is None else pair


class TableAggregate(_Aggregate):
    """groupBy and aggregate, reduce or count of a table."""

    keeps_partition = False

    def receive(self, record: Record, port: int) -> None:
        """Subtract the old value, then add the new one."""
        before = self._current.get(record.key)
        aggregate, ts = (before.value, before.ts) if before is not None else (None, record.ts)
        if record.old is not None and aggregate is not None:
            assert self._aggregator.subtract is not None, "a table aggregate needs a subtractor"
            aggregate = self._aggregator.subtract(aggregate, record.old)
            ts = max(ts, record.ts)
        if record.value is not None:
            try:
                aggregate = self._aggregator.added(aggregate, record.value)
            except FoldRaisesError as error:
                # the next change would take away what was never added
                raise EngineFailsError(str(error)) from error
            ts = max(ts, record.ts)
        self._write(record.key, aggregate, ts)
