"""One-to-many joins with a combined key (KIP-213's first proposal).

Owns section 21 of the semantics. Law: the result of (foreign key, many's key) stands exactly while both
rows exist, and only a standing result gets a tombstone. No release of the engine has it, so no row of
section A touches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proof.oracle.graph import Topology
from proof.oracle.records import CombinedKey, Joiner, Key, Record, StateRow, Stored, Value, key_bytes
from proof.oracle.tables.table import StandingResults, Table

MANY, ONE = 0, 1


class OneToManyJoin(StandingResults):
    """Joins each row of "many" with the row of "one" that it refers to; inner."""

    keeps_partition = False

    def __init__(
        self,
        topology: Topology,
        many: Table,
        one: Table,
        foreign_key: Callable[[Value], Key],
        joiner: Joiner,
        *,
        result_key: Callable[[CombinedKey], Key] = lambda key: key,
    ) -> None:
        """The joiner gets the row of "one" first."""
        super().__init__()
        self._topology = topology
        self._foreign_key = foreign_key
        self._joiner = joiner
        self._result_key = result_key
        self._many: dict[Key, Stored] = {}
        self._one: dict[Key, Stored] = {}
        self._parents_versioned = (many.versioned, one.versioned)
        many.require_old(force=True)
        many.require_lookup()
        one.require_lookup()
        one.feed(self, ONE)
        many.feed(self, MANY)

    def state_rows(self) -> Iterator[StateRow]:
        """The standing results; the rows of both sides stand in their tables."""
        return (StateRow("result", f"{key.prefix}/{key.suffix}", *stored) for key, stored in self._results.items())

    def receive(self, record: Record, port: int) -> None:
        """Join one change of either side."""
        if record.key is None or (self._parents_versioned[port] and not record.latest):
            return
        self.advance_time(self._topology, record.ts, port)
        if port == MANY:
            self._receive_many(record)
        else:
            self._receive_one(record)

    def _receive_many(self, record: Record) -> None:
        before = self._many.get(record.key)
        _store(self._many, record)
        old_key = None if before is None else self._foreign_key(before.value)
        new_key = None if record.value is None else self._foreign_key(record.value)
        if old_key is not None and old_key != new_key:
            self._settle(CombinedKey(old_key, record.key), None, record.ts)
        if new_key is not None:
            self._settle(CombinedKey(new_key, record.key), self._many[record.key], record.ts)

    def _receive_one(self, record: Record) -> None:
        _store(self._one, record)
        referring = [key for key, row in self._many.items() if self._foreign_key(row.value) == record.key]
        for key in sorted(referring, key=key_bytes):
            self._settle(CombinedKey(record.key, key), self._many[key], record.ts)

    def _settle(self, combined: CombinedKey, many: Stored | None, ts: int) -> None:
        """Emit the result, or the tombstone of a standing one; a tombstone's time covers what it ends."""
        key = self._result_key(combined)
        one, standing = self._one.get(combined.prefix), self._results.get(key)
        if many is not None and one is not None:
            result = Stored(self._joiner(one.value, many.value), max(one.ts, many.ts, ts))
            self._results[key] = result
            self._tell(key, result.value, result.ts, standing)
        elif standing is not None:
            del self._results[key]
            sides = [row.ts for row in (one, many) if row is not None]
            self._tell(key, None, max(ts, *sides), standing)

    def _tell(self, key: Key, value: Value, ts: int, before: Stored | None) -> None:
        old = before.value if before is not None and self.send_old else None
        self.forward(Record(key, value, ts, old))


def _store(rows: dict[Key, Stored], record: Record) -> None:
    if record.value is None:
        rows.pop(record.key, None)
    else:
        rows[record.key] = Stored(record.value, record.ts)
