"""The rows that a windowed join keeps: what a record may meet, and which unmatched records wait.

One table per side (one for both in a self join), with rows that are only appended, sorted by (ts, arrival) within a
key. A row waits when it was unmatched at the end of its batch and its window is still open; that is a flag of the row.
When it is matched in a later batch, its number goes into a small table of its own, since rows are never changed.
Nothing else is ever written, and all of it is dropped by time, each row by that of its own domain (law 3): a partition
that is quiet keeps nothing of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events, OperatorContext, operator_table
from watersmeet._engine.rows.columns import bools, ints, joined
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.search import Hits


@dataclass(frozen=True)
class Book:
    """Rows of one side that records of the other side may meet, stored ones and the batch's.

    Parameters
    ----------
    group, ts, arrival, domain : of each row; `group` is its key group, `domain` its domain's number.
    pointer : its value among `values`.
    row : its event, -1 for a stored row.
    number : what it is known by while it waits, -1 where it does not.
    values : values of the batch's rows of the side, then of the stored rows.
    """

    group: Int64s
    ts: Int64s
    arrival: Int64s
    domain: Int64s
    pointer: Int64s
    row: Int64s
    number: Int64s
    values: pa.Array


@dataclass(frozen=True)
class NumberedRows:
    """Rows that wait, each by the hash of its key and its number: shards that were put together may have numbers twice.

    Parameters
    ----------
    hash, number : of each row.
    """

    hash: Int64s
    number: Int64s

    def among(self, others: NumberedRows) -> Bools:
        """Which of them are among the others."""
        found = np.isin(self.number, others.number)
        # pairs are slow to compare, and few numbers that are there are of another row
        found[found] = np.isin(self._pairs(found), others._pairs(np.isin(others.number, self.number)))
        return found

    def and_of(self, others: NumberedRows) -> NumberedRows:
        """These, and the others."""
        return NumberedRows(
            *(np.concatenate([getattr(each, n) for each in (self, others)]) for n in ("hash", "number"))
        )

    def _pairs(self, wanted: Bools) -> npt.NDArray[np.void]:
        pairs = np.empty(int(wanted.sum()), dtype=[("hash", np.int64), ("number", np.int64)])
        pairs["hash"], pairs["number"] = self.hash[wanted], self.number[wanted]
        return pairs


NOBODY = NumberedRows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class Asked:
    """Key groups that are looked for in a side's stored rows, each with its earliest and latest ts."""

    group: Int64s
    low: Int64s
    high: Int64s


class WindowRows:
    """The state of one windowed join."""

    def __init__(self, context: OperatorContext, state: State) -> None:
        self._context = context
        self._state = state
        stores = sum(kept.shown for kept in context.kept)
        self.shared = stores == 1
        tables = [operator_table(context, state, number) for number in range(len(context.kept))]
        self._tables = [tables[0], tables[stores - 1]]
        self._matched = tables[stores] if len(tables) > stores else None
        self.arrivals = int(state.get_scalar("arrivals", 0))

    def _flags(self, side: int) -> tuple[str, ...]:
        return self._tables[side].declared.due or ()

    def _flag(self, side: int) -> str | None:
        flags = self._flags(side)
        return flags[side if self.shared else 0] if flags else None

    def book(self, side: int, events: Events, rows: Int64s, asked: Asked, domain: Int64s) -> Book:
        """The given events of a side (`domain`: of each) and the stored rows that are asked for."""
        first = events.groups.first[asked.group]
        keys = events.key.take(pa.array(first))
        table = self._tables[side]
        found = table.range(events.hash[first], keys, asked.low, asked.high)
        stored, flag = found.take([name for name in table.schema.names if name != "headers"]), self._flag(side)
        waits = np.zeros(len(stored), dtype=np.bool_) if flag is None else bools(stored, flag)
        number = np.where(waits, ints(stored, "arrival") * 2 + side, -1)
        batch = events.tables[side].column("value")
        count = len(stored)
        group, ts, arrival, domains, pointer, row, known = (
            np.concatenate([asked.group[found.query], events.groups.group_of_row[rows]]),
            np.concatenate([ints(stored, "ts"), events.ts[rows]]),
            np.concatenate([ints(stored, "arrival"), self.arrivals + rows]),
            np.concatenate([ints(stored, "domain"), domain]),
            np.concatenate([len(batch) + np.arange(count, dtype=np.int64), events.own[rows]]),
            np.concatenate([np.full(count, -1, dtype=np.int64), rows]),
            np.concatenate([number, np.full(len(rows), -1, dtype=np.int64)]),
        )
        values = joined([batch, stored.column("value")], self._context.values[side])
        return Book(group, ts, arrival, domains, pointer, row, known, values)

    def unmatched(self, side: int, low: int, high: int) -> Iterator[Hits]:
        """Places of stored rows of a side, with low <= ts < high, that were waiting when they were stored."""
        return self._tables[side].due(low, high, self._flag(side))

    def matched_between(self, low: int, high: int) -> NumberedRows:
        """Stored rows that were matched, of those with a window that closes in [low, high)."""
        assert self._matched is not None
        found = self._matched.gather(list(self._matched.due(low, high)), ["hash", "key"])
        return NumberedRows(ints(found, "hash"), ints(found, "key"))

    def match(self, rows: NumberedRows, closes: Int64s, domain: Int64s) -> None:
        """Remember that these waiting rows, each given once, have been matched; when each closes, in which domain."""
        assert self._matched is not None
        hashes, numbers = rows.hash, rows.number
        before = self._matched.rows(hashes, pa.array(numbers))
        fresh = np.ones(len(numbers), dtype=np.bool_)
        fresh[before.query] = False
        if fresh.any():
            columns = {"hash": hashes, "key": numbers, "closes": closes, "domain": domain}
            self._matched.put({name: pa.array(column[fresh]) for name, column in columns.items()})

    def put(self, side: int, events: Events, rows: Int64s, domain: Int64s, waits: list[Bools]) -> None:
        """Store events of a side; `waits`: one flag each, in a self join also for its right half."""
        if not len(rows):
            return
        batch, own = events.tables[side], events.own[rows]
        columns = {
            "hash": pa.array(events.hash[rows]),
            "key": events.key.take(pa.array(rows)),
            "ts": pa.array(events.ts[rows]),
            "arrival": pa.array(self.arrivals + rows),
            "domain": pa.array(domain),
            "value": Picked(batch.column("value"), own),
        }
        columns |= {name: pa.array(flags) for name, flags in zip(self._flags(side), waits, strict=False)}
        if "headers" in self._tables[side].schema.names:
            columns["headers"] = Picked(batch.column("headers"), np.where(np.logical_or.reduce(waits), own, -1))
        self._tables[side].put(columns)

    def finish(self, events: int, floors: list[dict[int, int]], closed: dict[int, int]) -> None:
        """Count the events, and let go what its domain's time has passed: rows below their floor, numbers."""
        self._state.set_scalar("arrivals", self.arrivals + events)
        for side in range(len(floors)):
            self._tables[side].expire(floors[side])
        if self.shared:
            lowest = {d: min(floor.get(d, f) for floor in floors) for d, f in floors[0].items()}
            self._tables[0].expire(lowest)
        if self._matched is not None:
            self._matched.expire(closed)
