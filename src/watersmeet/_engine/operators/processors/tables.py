"""The tables that processors read: as a join would see them where the present record, or timer, stands.

A table that is read by the present key comes in as a side of the operator: its changes stand in the key's sequence
among records and timers. A global table has a copy in every shard; a change of it in the batch is seen by what stands
behind it. Both are only read. Laws 1 and 3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import encode_keys, hash_keys
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.matching.versions import Versions
from watersmeet._engine.operator import Dropped, Events, OperatorContext, SideValues, store_last
from watersmeet._engine.operators.processors.states import Present
from watersmeet._engine.operators.processors.timer_positions import Place, behind_how_many
from watersmeet._engine.operators.processors.values import checked, is_mutable, plain_values
from watersmeet._engine.rows.columns import ROOT_POSITION, bools, held_together, ints
from watersmeet._engine.rows.position import order_by
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times
from watersmeet._plan.nodes.processors import TableRead
from watersmeet.errors import FunctionError

PlaceOf = Callable[[], Place]
"""Where the present timer, or what follows it at once, stands."""
_PLAIN = (str, bytes, int)
"""Types in Python of which two keys are one where they are equal."""


class KeyedTable(Protocol):
    """A table that processors read by the present key: its part in each batch."""

    def load(self, hashes: Int64s, keys: pa.Array) -> None:
        """Read what is stored of the keys of a slice."""
        ...

    def enter(self, group: int) -> None:
        """The next key."""
        ...

    def change(self, row: int, value: Any, stamp: int) -> None:
        """One of the key's changes, an event."""
        ...

    def store(self) -> None:
        """Write the batch's changes."""
        ...

    def dropped(self) -> Iterator[Dropped]:
        """Changes that end here."""
        ...


class CurrentRows:
    """A table's current values."""

    def __init__(self, side: int, table: Table, events: Events) -> None:
        self._side, self._table, self._events = side, table, events
        self._copy = _copied(events.context.values[side])
        self._index: list[int] = []
        self._stored: list[Any] = []
        self._now: Any = None

    def load(self, hashes: Int64s, keys: pa.Array) -> None:
        """See `KeyedTable`."""
        found = self._table.point(hashes, keys, columns=["value"])
        self._index, self._stored = found.index.tolist(), plain_values(found.rows.column("value"))

    def enter(self, group: int) -> None:
        """See `KeyedTable`."""
        at = self._index[group]
        self._now = self._stored[at] if at >= 0 else None

    def change(self, row: int, value: Any, stamp: int) -> None:
        """See `KeyedTable`."""
        self._now = value

    def get(self) -> Any:
        """The row of the present key; None where there is none."""
        return self._now if self._copy is None else self._copy(self._now)

    def store(self) -> None:
        """See `KeyedTable`."""
        _store_last(self._events, self._side, self._table)

    def dropped(self) -> Iterator[Dropped]:
        """See `KeyedTable`."""
        return iter(())


class PastRows:
    """A versioned table's values, each as of a time."""

    def __init__(
        self, read: TableRead, side: int, table: Table, events: Events, times: Times, now: Present, at: PlaceOf
    ) -> None:
        assert read.history_ms is not None
        self._name, self._side, self._table, self._events = read.name, side, table, events
        self._times, self._now, self._at, self._history = times, now, at, read.history_ms
        self._versions = Versions(events, side, table, times, read.history_ms)
        self._puts = frozenset(self._versions.puts.tolist())
        self._copy = _copied(events.context.values[side])
        self._reached: dict[int, list[int]] = {}
        self._starts: list[int] = []
        self._stored: list[tuple[int, Any, int]] = []
        self._stamps: list[int] = []
        self._own: list[tuple[int, Any, int]] = []

    def load(self, hashes: Int64s, keys: pa.Array) -> None:
        """See `KeyedTable`."""
        found = self._table.rows(hashes, keys)
        rows = found.take(["ts", "value", "domain", "deleted"])
        order = np.lexsort((ints(rows, "ts"), found.query))
        self._starts = np.searchsorted(found.query[order], np.arange(len(hashes) + 1)).tolist()
        rows = rows.take(pa.array(order))
        values = pa.array([None] * len(rows)) if not len(rows) else rows.column("value")
        values = [
            None if gone else value for value, gone in zip(plain_values(values), bools(rows, "deleted"), strict=True)
        ]
        domains = self._times.index(ints(rows, "domain")).tolist()
        self._stored = list(zip(ints(rows, "ts").tolist(), values, domains, strict=True))

    def enter(self, group: int) -> None:
        """See `KeyedTable`."""
        self._own = self._stored[self._starts[group] : self._starts[group + 1]]
        self._stamps = [ts for ts, _, _ in self._own]

    def change(self, row: int, value: Any, stamp: int) -> None:
        """See `KeyedTable`; one that is older than the history is none."""
        if row not in self._puts:
            return
        at = bisect_right(self._stamps, stamp)
        version = (stamp, value, int(self._times.of_row[row]))
        if at and self._stamps[at - 1] == stamp:
            self._own[at - 1] = version
        else:
            self._own.insert(at, version)
            self._stamps.insert(at, stamp)

    def get(self, as_of: int | None = None) -> Any:
        """The row of the present key, as of a time; None where there is none, or where the history does not reach."""
        moment = self._now.stamp if as_of is None else as_of
        if type(moment) is not int:
            raise FunctionError(
                f"as_of={as_of!r:.80} of the table {self._name!r} is no time.",
                hint="Times are whole numbers, ms since 1970.",
            )
        at = bisect_right(self._stamps, moment) - 1
        if at < 0:
            return None
        _, value, domain = self._own[at]
        # out of reach of the history only the latest version can answer
        if at < len(self._own) - 1 and moment < self._latest_time(domain) - self._history:
            return None
        return value if self._copy is None else self._copy(value)

    def _latest_time(self, domain: int) -> int:
        """The latest time of the table's changes of a domain at the present place."""
        row = self._now.row
        if row < 0:
            return self._times.side_time_at(self._side, domain, behind_how_many, int(self._at()[0]))
        if domain not in self._reached:
            rows = np.arange(len(self._events), dtype=np.int64)
            reached = self._times.side_time_before(self._side, rows, np.full(len(rows), domain, dtype=np.int64))
            self._reached[domain] = reached.tolist()
        return self._reached[domain][row]

    def store(self) -> None:
        """See `KeyedTable`."""
        self._versions.write()

    def dropped(self) -> Iterator[Dropped]:
        """See `KeyedTable`."""
        yield self._versions.dropped()


class GlobalRows:
    """A global table, read by any key.

    A key that is asked for in a batch is looked for once.
    """

    def __init__(
        self,
        context: OperatorContext,
        read: TableRead,
        side: int,
        given: tuple[Events, Times, Mapping[int, pa.Table]],
        table: Table,
        now: Present,
        at: PlaceOf | None,
    ) -> None:
        events, times, inputs = given
        self._read, self._table, self._now, self._at = read, table, now, at
        kind = context.values[side]
        self._key = checked(read.key, f"The global table {read.name!r} is asked for a key")
        self._copy = _copied(kind)
        self._found: dict[Any, tuple[Any, list[tuple[int, int, Any]]]] = {}
        self._changes: dict[bytes, list[tuple[int, int, Any]]] = {}
        self._own: Events | None = None
        if side in inputs:
            plain = replace(context.operator, shared_root=False, emits_visible=False)
            own = replace(context, operator=plain, key=read.key, values=(kind,))
            self._own = Events(own, {0: inputs[side]}, sides=1)
            self._note(self._own, events, times)

    def _note(self, own: Events, events: Events, times: Times) -> None:
        """The batch's changes by key, each with the first event that sees it, and what timers see it by."""
        columns = [np.concatenate(pair) for pair in zip(events.position, own.position, strict=True)]
        held = held_together([events.held, own.held], [len(events), len(own)])
        rank = np.empty(len(columns[0]), dtype=np.int64)
        rank[order_by(columns, held)] = np.arange(len(rank))
        before = np.searchsorted(rank[: len(events)], rank[len(events) :]).tolist()
        moves = behind_how_many(times.movers, own.position[: len(ROOT_POSITION)]).tolist() if self._at else before
        values = plain_values(own.tables[0].column("value").take(pa.array(own.own)))
        # a turn a change, of which a global table has few
        for key, *change in zip(encode_keys(own.key).to_pylist(), before, moves, values, strict=True):
            self._changes.setdefault(key, []).append((change[0], change[1], change[2]))

    def get(self, key: Any) -> Any:
        """The row of a key; None where there is none, and for the key None."""
        if key is None:
            return None
        key = self._key(key)
        found = self._found.get(key) if type(key) in _PLAIN else None
        if found is None:
            found = self._looked_up(key)
        value, changes = found
        row, place = self._now.row, 1
        if row < 0:
            assert self._at is not None, "timers have places"
            row, place = int(self._at()[0]), 2
        for change in reversed(changes):
            if change[place - 1] <= row:
                value = change[2]
                break
        return value if self._copy is None else self._copy(value)

    def _looked_up(self, key: Any) -> tuple[Any, list[tuple[int, int, Any]]]:
        asked = pa.array([key], self._read.key)
        encoded = encode_keys(asked)[0].as_py()
        called = key if type(key) in _PLAIN else (encoded,)
        if called not in self._found:
            rows = self._table.point(hash_keys(asked), asked, columns=["value"])
            stored = plain_values(rows.rows.column("value"))[int(rows.index[0])] if rows.index[0] >= 0 else None
            self._found[called] = stored, self._changes.get(encoded, [])
        return self._found[called]

    def store(self) -> None:
        """Write the batch's changes."""
        if self._own is not None:
            _store_last(self._own, 0, self._table)


def _store_last(events: Events, side: int, table: Table) -> None:
    values = SideValues(events, side, table)
    store_last(events, side, Ordered(events.groups).last_of_each(events.side == side), values.prior, table)


def _copied(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """A function that copies a value for each reader, where values can be changed in place; None: they cannot."""
    return checked(kind, "") if is_mutable(kind) else None


def named(reads: Sequence[TableRead], tables: Sequence[Any], member: int, *, everywhere: bool) -> dict[str, Any]:
    """The tables that one of the processors reads, by the names that it gives them."""
    return {
        read.name: table
        for read, table in zip(reads, tables, strict=True)
        if read.member == member and read.everywhere == everywhere
    }
