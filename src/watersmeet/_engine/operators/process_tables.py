"""The tables that processors read: as a join would see them where the present record, or timer, stands.

A table that is read by the present key comes in as a side of the operator: its changes stand in the key's sequence
among records and timers. A global table has a copy in every shard; a change of it in the batch is seen by what stands
behind it. Both are only read. Laws 1 and 3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.keys import encode_keys, hash_keys
from watersmeet._engine.matching import Ordered, Versions
from watersmeet._engine.operator import Dropped, Events, OperatorContext, SideValues, store_last
from watersmeet._engine.operators.process_state import Present, checked, is_mutable, plain_values
from watersmeet._engine.operators.process_timers import BatchPlace, behind_how_many
from watersmeet._engine.rows import ROOT_POSITION, Int64s, bools, held_together, ints, order_by
from watersmeet._engine.state.runs import Table
from watersmeet._engine.time import BatchTimes
from watersmeet._plan.operators.processors import TableRead
from watersmeet.errors import FunctionError

PlaceOf = Callable[[], BatchPlace]
"""Where the present timer, or what follows it at once, stands."""
_PLAIN = (str, bytes, int)
"""Types in Python of which two keys are one where they are equal."""


class CurrentRows:
    """A table's current values."""

    def __init__(self, side: int, table: Table, events: Events) -> None:
        self._side, self._table, self._events = side, table, events
        self._copy = _copied(events.context.values[side])
        self._index: list[int] = []
        self._values: list[Any] = []
        self._value: Any = None

    def load(self, hashes: Int64s, keys: pa.Array) -> None:
        lookup = self._table.point(hashes, keys, columns=["value"])
        self._index, self._values = lookup.index.tolist(), plain_values(lookup.rows.column("value"))

    def enter(self, group: int) -> None:
        at = self._index[group]
        self._value = self._values[at] if at >= 0 else None

    def change(self, row: int, value: Any, stamp: int) -> None:
        self._value = value

    def get(self) -> Any:
        """The row of the present key; None where there is none."""
        return self._value if self._copy is None else self._copy(self._value)

    def store(self) -> None:
        _store_last(self._events, self._side, self._table)

    def dropped(self) -> Iterator[Dropped]:
        return iter(())


class PastRows:
    """A versioned table's values, each as of a time."""

    def __init__(
        self, read: TableRead, side: int, table: Table, events: Events, times: BatchTimes, current: Present, at: PlaceOf
    ) -> None:
        assert read.history_ms is not None
        self._name, self._side, self._table, self._events = read.name, side, table, events
        self._times, self._current, self._at, self._history = times, current, at, read.history_ms
        self._versions = Versions(events, side, table, times, read.history_ms)
        self._puts = frozenset(self._versions.puts.tolist())
        self._copy = _copied(events.context.values[side])
        self._reached: dict[int, list[int]] = {}
        self._starts: list[int] = []
        self._state_versions: list[tuple[int, Any, int]] = []
        self._stamps: list[int] = []
        self._key_versions: list[tuple[int, Any, int]] = []

    def load(self, hashes: Int64s, keys: pa.Array) -> None:
        """The versions in state of these keys."""
        lookup = self._table.rows(hashes, keys)
        rows = lookup.take(["ts", "value", "domain", "deleted"])
        order = np.lexsort((ints(rows, "ts"), lookup.query))
        self._starts = np.searchsorted(lookup.query[order], np.arange(len(hashes) + 1)).tolist()
        rows = rows.take(pa.array(order))
        values = pa.array([None] * len(rows)) if not len(rows) else rows.column("value")
        values = [
            None if deleted else value
            for value, deleted in zip(plain_values(values), bools(rows, "deleted"), strict=True)
        ]
        domains = self._times.index(ints(rows, "domain")).tolist()
        self._state_versions = list(zip(ints(rows, "ts").tolist(), values, domains, strict=True))

    def enter(self, group: int) -> None:
        self._key_versions = self._state_versions[self._starts[group] : self._starts[group + 1]]
        self._stamps = [ts for ts, _, _ in self._key_versions]

    def change(self, row: int, value: Any, stamp: int) -> None:
        """One of the present key's changes; one that is older than the history is none."""
        if row not in self._puts:
            return
        at = bisect_right(self._stamps, stamp)
        version = (stamp, value, int(self._times.of_row[row]))
        if at and self._stamps[at - 1] == stamp:
            self._key_versions[at - 1] = version
        else:
            self._key_versions.insert(at, version)
            self._stamps.insert(at, stamp)

    def get(self, as_of: int | None = None) -> Any:
        """The row of the present key, as of a time; None where there is none, or where the history does not reach."""
        moment = self._current.stamp if as_of is None else as_of
        if type(moment) is not int:
            raise FunctionError(
                f"as_of={as_of!r:.80} of the table {self._name!r} is no time.",
                hint="Times are whole numbers, ms since 1970.",
            )
        at = bisect_right(self._stamps, moment) - 1
        if at < 0:
            return None
        _, value, domain = self._key_versions[at]
        # out of reach of the history only the latest version can answer
        if at < len(self._key_versions) - 1 and moment < self._latest_time(domain) - self._history:
            return None
        return value if self._copy is None else self._copy(value)

    def _latest_time(self, domain: int) -> int:
        """The latest time of the table's changes of a domain at the present place."""
        row = self._current.row
        if row < 0:
            return self._times.side_time_at(self._side, domain, behind_how_many, int(self._at()[0]))
        if domain not in self._reached:
            rows = np.arange(len(self._events), dtype=np.int64)
            reached = self._times.side_time_before(self._side, rows, np.full(len(rows), domain, dtype=np.int64))
            self._reached[domain] = reached.tolist()
        return self._reached[domain][row]

    def store(self) -> None:
        self._versions.write()

    def dropped(self) -> Iterator[Dropped]:
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
        batch: tuple[Events, BatchTimes, Mapping[int, pa.Table]],
        table: Table,
        current: Present,
        at: PlaceOf | None,
    ) -> None:
        events, times, inputs = batch
        self._read, self._table, self._current, self._at = read, table, current, at
        kind = context.values[side]
        self._key = checked(read.key, f"The global table {read.name!r} is asked for a key")
        self._copy = _copied(kind)
        self._cache: dict[Any, tuple[Any, list[tuple[int, int, Any]]]] = {}
        self._changes: dict[bytes, list[tuple[int, int, Any]]] = {}
        self._updates: Events | None = None
        if side in inputs:
            plain = replace(context.operator, shared_root=False, emits=context.operator.emits - {"visible"})
            table_context = replace(context, operator=plain, key=read.key, values=(kind,))
            self._updates = Events(table_context, {0: inputs[side]}, sides=1)
            self._note(self._updates, events, times)

    def _note(self, updates: Events, events: Events, times: BatchTimes) -> None:
        """The batch's changes by key, each with the first event that sees it, and what timers see it by."""
        columns = [np.concatenate(pair) for pair in zip(events.position, updates.position, strict=True)]
        turns = held_together([events.held, updates.held], [len(events), len(updates)])
        rank = np.empty(len(columns[0]), dtype=np.int64)
        rank[order_by(columns, turns)] = np.arange(len(rank))
        first_events = np.searchsorted(rank[: len(events)], rank[len(events) :]).tolist()
        moves = (
            behind_how_many(times.movers, updates.position[: len(ROOT_POSITION)]).tolist() if self._at else first_events
        )
        values = plain_values(updates.tables[0].column("value").take(pa.array(updates.own)))
        # a turn a change, of which a global table has few
        for key, *change in zip(encode_keys(updates.key).to_pylist(), first_events, moves, values, strict=True):
            self._changes.setdefault(key, []).append((change[0], change[1], change[2]))

    def get(self, key: Any) -> Any:
        """The row of a key; None where there is none, and for the key None."""
        if key is None:
            return None
        key = self._key(key)
        entry = self._cache.get(key) if type(key) in _PLAIN else None
        if entry is None:
            entry = self._looked_up(key)
        value, changes = entry
        row, place = self._current.row, 1
        if row < 0:
            assert self._at is not None, "timers have places"
            row, place = int(self._at()[0]), 2
        for change in reversed(changes):
            if change[place - 1] <= row:
                value = change[2]
                break
        return value if self._copy is None else self._copy(value)

    def _looked_up(self, key: Any) -> tuple[Any, list[tuple[int, int, Any]]]:
        keys = pa.array([key], self._read.key)
        encoded = encode_keys(keys)[0].as_py()
        cache_key = key if type(key) in _PLAIN else (encoded,)
        if cache_key not in self._cache:
            rows = self._table.point(hash_keys(keys), keys, columns=["value"])
            value = plain_values(rows.rows.column("value"))[int(rows.index[0])] if rows.index[0] >= 0 else None
            self._cache[cache_key] = value, self._changes.get(encoded, [])
        return self._cache[cache_key]

    def store(self) -> None:
        if self._updates is not None:
            _store_last(self._updates, 0, self._table)


def _store_last(events: Events, side: int, table: Table) -> None:
    values = SideValues(events, side, table)
    store_last(events, side, Ordered(events.groups).last_of_each(events.side == side), values.prior, table)


def _copied(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """A function that copies a value for each reader, where values can be changed in place; None: they cannot."""
    return checked(kind, "") if is_mutable(kind) else None


def tables_by_name(
    reads: Sequence[TableRead], tables: Sequence[Any], member: int, *, everywhere: bool
) -> dict[str, Any]:
    """The tables that one of the processors reads, by the names that it gives them."""
    return {
        read.name: table
        for read, table in zip(reads, tables, strict=True)
        if read.member == member and read.everywhere == everywhere
    }
