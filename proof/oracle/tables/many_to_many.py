"""Many-to-many join: two tables by equal values, keyed by both keys.

Owns section 28 of the semantics. Law: the result of a pair stands exactly while both rows do under one value, and that
of a row alone, in a left or outer join, while no row of the other side stands under its value. No release of the engine
has it, so no row of section A touches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proof.oracle.graph import Topology
from proof.oracle.records import CombinedKey, Joiner, Key, Record, StateRow, Stored, Value, key_bytes
from proof.oracle.tables.table import StandingResults, Table

Compared = Callable[[Value], Value]


class ManyToManyJoin(StandingResults):
    """Joins each row of either table with all rows of the other that have the same value compared."""

    keeps_partition = False

    def __init__(
        self,
        topology: Topology,
        left: Table,
        right: Table,
        how: str,
        compared: tuple[Compared, Compared],
        joiner: Joiner,
        *,
        result_key: Callable[[CombinedKey], Key] = lambda key: key,
    ) -> None:
        """`compared` gives of either side's values what must be equal; None equals nothing."""
        super().__init__()
        self._topology, self._joiner, self._compared, self._result_key = topology, joiner, compared, result_key
        self._alone = how in ("left", "outer"), how == "outer"
        self._rows: tuple[dict[Key, Stored], dict[Key, Stored]] = {}, {}
        self._parents_versioned = (left.versioned, right.versioned)
        for side, table in enumerate((left, right)):
            table.require_old(force=True)
            table.require_lookup()
            table.feed(self, side)

    def state_rows(self) -> Iterator[StateRow]:
        """The standing results; the rows of both sides stand in their tables."""
        return (StateRow("result", f"{key.prefix}/{key.suffix}", *stored) for key, stored in self._results.items())

    def receive(self, record: Record, port: int) -> None:
        """Take the row from the value that it had, then put it under the one that it has."""
        if record.key is None or (self._parents_versioned[port] and not record.latest):
            return
        self.advance_time(self._topology, record.ts, port)
        own = self._rows[port]
        before = own.get(record.key)
        after = None if record.value is None else Stored(record.value, record.ts)
        had, has = (row is not None and self._compared[port](row.value) for row in (before, after))
        if before is not None and (after is None or had != has):
            del own[record.key]
            self._leave(port, record, had)
        if after is not None:
            fresh = record.key not in own
            own[record.key] = after
            self._come(port, record, has, fresh=fresh)

    def _leave(self, side: int, record: Record, value: object) -> None:
        others, last = self._meeting(1 - side, value), not self._meeting(side, value)
        for key in others:
            self._settle(side, record.key, key, None, record.ts)
            if last and self._alone[1 - side]:
                self._settle(1 - side, key, None, (self._rows[1 - side][key], None), record.ts)
        if not others and self._alone[side]:
            self._settle(side, record.key, None, None, record.ts)

    def _come(self, side: int, record: Record, value: object, *, fresh: bool) -> None:
        others, first = self._meeting(1 - side, value), fresh and len(self._meeting(side, value)) == 1
        row = self._rows[side][record.key]
        for key in others:
            if first and self._alone[1 - side]:
                self._settle(1 - side, key, None, None, record.ts)
            self._settle(side, record.key, key, (row, self._rows[1 - side][key]), record.ts)
        if not others and self._alone[side]:
            self._settle(side, record.key, None, (row, None), record.ts)

    def _meeting(self, side: int, value: object) -> list[Key]:
        """The keys of a side's rows with this value, in byte order."""
        rows, compared = self._rows[side], self._compared[side]
        keys = (key for key, row in rows.items() if value is not None and compared(row.value) == value)
        return sorted(keys, key=key_bytes)

    def _settle(self, side: int, key: Key, other: Key, rows: tuple[Stored, Stored | None] | None, ts: int) -> None:
        """Emit the result of a side's row with one of the other, or none; a tombstone where there are no rows."""
        combined = CombinedKey(*((key, other) if side == 0 else (other, key)))
        result_key = self._result_key(combined)
        standing = self._results.get(result_key)
        sides = ((side, key), (1 - side, other))
        at = max(ts, *(self._rows[place][each].ts for place, each in sides if each in self._rows[place]), ts)
        value: Value = None
        if rows is None:
            self._results.pop(result_key, None)
        else:
            values = [None if row is None else row.value for row in (rows if side == 0 else rows[::-1])]
            value = self._joiner(*values)
            self._results[result_key] = Stored(value, at)
        old = standing.value if standing is not None and self.send_old else None
        self.forward(Record(result_key, value, at, old))
