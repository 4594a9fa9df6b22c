"""Joins of several tables by their common key.

Owns section 27 of the semantics. Law: a result stands exactly while all tables have a row that are needed, and one
does; only a standing result gets a tombstone. Kafka Streams has no such operator, so no row of section A touches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from proof.oracle.records import Key, Record, StateRow, Stored, Value
from proof.oracle.tables.table import StandingResults, Table


class MultiJoin(StandingResults):
    """Joins the rows of several tables that have one key."""

    def __init__(self, sides: Sequence[Table], hows: Sequence[str], joiner: Callable[..., Value]) -> None:
        """The joiner gets the values in the order of the tables; `hows` are of all tables but the first."""
        super().__init__()
        outer = "outer" in hows
        self._needed = [] if outer else [0, *(port for port, how in enumerate(hows, start=1) if how == "inner")]
        self._joiner = joiner
        self._kept: list[dict[Key, Stored]] = [{} for _ in sides]
        self._parents_versioned = [side.versioned for side in sides]
        for port, side in enumerate(sides):
            side.require_lookup()
            side.feed(self, port)

    def get(self, key: Key) -> Stored | None:
        """The standing result; a joiner's null is none."""
        result = super().get(key)
        return None if result is None or result.value is None else result

    def state_rows(self) -> Iterator[StateRow]:
        """The standing results; the rows of all sides stand in their tables."""
        return (StateRow("result", str(key), *stored) for key, stored in self._results.items())

    def receive(self, record: Record, port: int) -> None:
        """Join one change with the current rows of all other tables."""
        if record.key is None or (self._parents_versioned[port] and not record.latest):
            return
        rows = self._kept[port]
        if record.value is None:
            if rows.pop(record.key, None) is None:
                return
        else:
            rows[record.key] = Stored(record.value, record.ts)
        found = [each.get(record.key) for each in self._kept]
        before = self._results.pop(record.key, None)
        ts = max([record.ts, *(row.ts for row in found if row is not None)])
        value = None
        if any(found) and all(found[needed] for needed in self._needed):
            value = self._joiner(*(row and row.value for row in found))
            self._results[record.key] = Stored(value, ts)
        elif before is None:
            return
        self.forward(Record(record.key, value, ts, before.value if before is not None and self.send_old else None))
