"""Changes that suppress holds back in a buffer with limits (docs/semantics, section 22; KIP-328).

The limits hold for each time domain in each shard. State remembers how much waits at most; where a batch may bring more
than there is room for, its rows are looked at one by one (`buffers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.windows.windowed import numbered
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keys import encode_keys
from watersmeet._engine.operators.suppress.buffers import NONE, BufferEntries, Filling, Limits, fill
from watersmeet._engine.operators.suppress.held_changes import NEVER, Going, HeldChanges
from watersmeet._engine.rows.columns import gather, ints, joined
from watersmeet._engine.rows.position import ranks
from watersmeet._engine.rows.sizes import Picked, value_bytes
from watersmeet._engine.rows.types import HEADERS
from watersmeet._engine.state.lookups import FoundRows
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.search import Hits
from watersmeet._engine.time.held_rows import HeldRows
from watersmeet.errors import WatersmeetError

_AT_MOST = "held"
_FOREVER = 1 << 62


class Limited:
    """The changes of a batch, held back in buffers with limits."""

    def __init__(self, changes: HeldChanges, state: State) -> None:
        self._changes, self._state = changes, state
        self._events, self._times = changes.events, changes.times
        self._domains = range(len(self._times.domains))
        buffer = changes.params.buffer
        self._limits = Limits(
            float("inf") if buffer.most_records is None else buffer.most_records,
            float("inf") if buffer.most_bytes is None else buffer.most_bytes,
            refuses=buffer.is_strict,
        )

    def hold(self, held: HeldRows) -> Going:
        """Hold back what waits; what does not, and what there is no room for."""
        known, names = self._state.get_scalar(_AT_MOST, {}), [str(d) for d in self._times.domains]
        brought = zip(names, *self._brought(), strict=True)
        most = {d: [sum(both) for both in zip(known.get(d, (0, 0)), more, strict=True)] for d, *more in brought}
        room = all(records <= self._limits.records and size <= self._limits.size for records, size in most.values())
        filled = [] if room else [self._fill(number) for number in self._domains]
        most |= {names[each.domain]: list(each.entries.held) for each in filled}
        self._state.set_scalar(_AT_MOST, most)
        return self._changes.hold(held) if room else self._settle(held, _LimitedEntries.of(filled))

    def _brought(self) -> tuple[list[int], list[int]]:
        """Of each domain how many entries its rows may begin, and their bytes."""
        of_row, count = self._times.of_row, len(self._domains)
        pairs = np.unique(self._events.groups.group_of_row * count + of_row)
        sizes = np.zeros(count, dtype=np.int64)
        np.add.at(sizes, of_row, self._sizes)
        return np.bincount(pairs % count, minlength=count).tolist() if count else [], sizes.tolist()

    @cached_property
    def _keys(self) -> pa.Array:
        """The serialized key of each row."""
        return encode_keys(self._changes.keys(np.arange(len(self._events))))

    @cached_property
    def _sizes(self) -> Int64s:
        """Bytes of key and value of each row."""
        values = value_bytes(self._changes.batch.column("value"))
        return np.asarray(value_bytes(self._keys) + values[self._events.own])

    @cached_property
    def _waiting(self) -> tuple[FoundRows, Int64s, Int64s]:
        """The waiting rows in state, when they are due, and their domains."""
        times, table, hits = self._times, self._changes.table, []
        for hit in table.due(int(times.start.min(initial=0)), _FOREVER):
            domain, due = (ints(hit.batch, name)[hit.rows] for name in ("domain", "due"))
            rows = hit.rows[due >= times.start[times.index(domain)]]
            hits.append(Hits(hit.batch, rows, rows))
        count = sum(len(hit.rows) for hit in hits)
        found = FoundRows(np.arange(count), None, hits, table.schema)
        numbers = found.take(["due", "domain"])
        return found, ints(numbers, "due"), times.index(ints(numbers, "domain"))

    def _fill(self, domain: int) -> _Filled:
        """The result of a domain's rows in its buffer."""
        found, due, of = self._waiting
        rows, mine = np.flatnonzero(self._times.of_row == domain), np.flatnonzero(of == domain)
        stored = self._reached(rows, mine)
        keys = encode_keys(found.take(["key"], stored).column("key"))
        place = ranks(pa.concat_arrays([keys, self._keys.take(pa.array(rows))]))
        sizes = np.zeros(len(stored), dtype=np.int64)
        if self._limits.size < float("inf"):
            sizes = value_bytes(keys) + value_bytes(found.take(["value"], stored).column("value"))
        entries = fill(
            self._limits,
            Filling(place[: len(stored)], due[stored], sizes),
            len(mine) - len(stored),
            Filling(place[len(stored) :], self._changes.begun[rows], self._sizes[rows]),
            self._changes.moment[rows],
        )
        if entries.refused:
            self._refuse(entries)
        return _Filled(domain, rows, stored, entries)

    def _reached(self, rows: Int64s, mine: Int64s) -> Int64s:
        """Of what waits in a domain what its rows may change, send or see let go."""
        found, due, _ = self._waiting
        past = int((2 * due[mine] < self._changes.moment[rows].max(initial=2 * NEVER)).sum())
        most = len(rows) + past + int(max(0, len(mine) - self._limits.records))
        if self._limits.size < float("inf") or most >= len(mine) or not most:
            return mine
        near = due[mine] <= np.partition(due[mine], most - 1)[most - 1]
        hashes = ints(found.take(["hash"], mine), "hash")
        return np.asarray(mine[near | np.isin(hashes, self._events.hash[rows])])

    def _refuse(self, entries: BufferEntries) -> None:
        records, size = entries.held
        early = "" if self._changes.params.until_close else ", emit_early_when_full()"
        raise WatersmeetError(
            f"The buffer of {self._events.context.operator.node!r} is full.",
            given=f"{records:,} changes held back, {size:,} bytes; {self._changes.params.buffer} is the limit",
            hint=f"Take a larger limit{early}, or BufferConfig.unbounded(): what is held back lies in state, on disk.",
        )

    def _settle(self, held: HeldRows, whole: _LimitedEntries) -> Going:
        """Hold back what stays; what goes, in order."""
        changes, events, count = self._changes, self._events, len(self._changes.batch)
        state = self._waiting[0].take(changes.table.schema.names, whole.stored[whole.stored >= 0])
        pointer = np.where(whole.stored >= 0, np.cumsum(whole.stored >= 0) - 1 + count, -1)
        before = np.where(whole.begin >= 0, np.append(events.own, -1)[whole.begin], pointer)
        stay = np.flatnonzero((whole.gone < 0) & (whole.last >= 0))
        last = whole.last[stay]
        changes.put(held, self._times.of_row[last], last, state.column("old"), before[stay], whole.due[stay])
        left = pointer[(whole.gone >= 0) & (pointer >= 0) & ~whole.replaced] - count
        held.drop(state.take(pa.array(left)))
        goes = np.flatnonzero(whole.gone >= 0)
        goes = goes[np.lexsort((whole.place[goes], whole.gone[goes]))]
        return self._going(whole, goes, state, pointer[goes] - count, before[goes])

    def _going(self, whole: _LimitedEntries, goes: Int64s, state: pa.Table, stored: Int64s, before: Int64s) -> Going:
        """Columns of the batch's rows, from the batch or from state."""
        events, batch, operator = self._events, self._changes.batch, self._events.context.operator
        last = whole.last[goes]
        own = np.where(last >= 0, np.append(events.own, -1)[last], stored + len(batch))
        row = np.where(last >= 0, last, stored + len(events))
        named = "windowed" if "windowed" in state.column_names else "key"
        value = events.context.values[0]
        columns: dict[str, pa.Array | Picked] = {
            "ts": pa.array(np.concatenate([events.ts, ints(state, "ts")])[row]),
            "hash": pa.array(np.concatenate([events.hash, ints(state, "hash")])[row]),
            "key": gather(joined([events.key, state.column(named)], events.context.key), row),
            "value": Picked(joined([batch.column("value"), state.column("value")], value), own),
            "old": Picked(joined([batch.column("old"), state.column("old")], value), before),
            f"p{operator.slot}": pa.array(whole.place[goes] * operator.fan),
        }
        if events.context.headers:
            columns["headers"] = Picked(joined([batch.column("headers"), state.column("headers")], HEADERS), own)
        return Going(whole.gone[goes], columns)


@dataclass(frozen=True)
class _Filled:
    """The result of one domain's rows in its buffer.

    Parameters
    ----------
    domain : its place among the domains.
    rows : its rows.
    stored : of the entries that waited, their places among all that waits in state.
    """

    domain: int
    rows: Int64s
    stored: Int64s
    entries: BufferEntries


@dataclass(frozen=True)
class _LimitedEntries:
    """The entries of all domains that rows have changed or sent, and as entries what never waited.

    Parameters
    ----------
    begin, last, gone : rows of the events; `NONE` as in `BufferEntries`.
    place, due : as in `BufferEntries`.
    stored : place among all that waits in state; `NONE`: of none.
    replaced : whether another entry takes its place in state.
    """

    begin: Int64s
    last: Int64s
    gone: Int64s
    place: Int64s
    due: Int64s
    stored: Int64s
    replaced: Bools

    @classmethod
    def of(cls, filled: Sequence[_Filled]) -> _LimitedEntries:
        """Those of all domains."""
        parts = [cls._of_one(each) for each in filled]
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @staticmethod
    def _of_one(filled: _Filled) -> tuple[Int64s, ...]:
        entries, rows = filled.entries, np.append(filled.rows, NONE)
        begin, last, gone = (rows[each] for each in (entries.begin, entries.last, entries.gone))
        new = np.full(len(begin) - len(filled.stored), NONE)
        stored = np.append(filled.stored, new)
        number = numbered(entries.due, entries.key)
        replaced = np.isin(number, number[(entries.gone < 0) & (entries.begin >= 0)])
        touched = (entries.last >= 0) | (entries.gone >= 0)
        at_once = filled.rows[entries.at_once]
        none = np.full(len(at_once), NONE)
        ends = (at_once, at_once, at_once, np.zeros_like(at_once), none, none, none >= 0)
        columns = (begin, last, gone, entries.place, entries.due, stored, replaced)
        return tuple(np.append(mine[touched], more) for mine, more in zip(columns, ends, strict=True))
