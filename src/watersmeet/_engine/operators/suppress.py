"""Changes that suppress holds back in a buffer with limits (docs/semantics/suppress.md; KIP-328).

The limits hold for each time domain in each shard. State remembers how much waits at most; where a batch may bring more
than there is room for, its rows are looked at one by one (`fill`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.keys import encode_keys, windowed_bytes
from watersmeet._engine.operator import Events, OperatorContext, operator_table
from watersmeet._engine.row_sizes import Picked, in_pieces, value_bytes
from watersmeet._engine.rows import (
    HEADERS,
    Bools,
    Int64s,
    gather,
    ints,
    joined,
    merged,
    position_columns,
    ranks,
    reachable,
    valid,
)
from watersmeet._engine.state.lookups import FoundRows, Hits
from watersmeet._engine.state.runs import State, Table
from watersmeet._engine.time import BatchTimes, moments, moments_at
from watersmeet._engine.waiting_rows import HeldRows, release
from watersmeet._engine.windowing import group_ids, time_of
from watersmeet._plan.operators.aggregates import SuppressParams
from watersmeet.errors import WatersmeetError

# Which rows of a batch fall into which entries of what suppress holds back (docs/semantics/suppress.md).
#
# Rows fall into entries group after group: an entry takes rows until time has passed its due, and the next row begins
# another one. An entry belongs to the partition of the row that began it, and ends by that one's time, whichever
# partitions the rows come in that it takes (row 20).

OWN = -1
"""The domain that ends an entry of a group in one partition: its own."""


@dataclass(frozen=True)
class EntryDomains:
    """The domains that end entries by their time."""

    # the moment (`time.moments`) of each event, by the domain that decides: `OWN`, or for groups in several
    # partitions the place of each of their domains
    moments: Mapping[int, Int64s]
    of_row: Int64s  # the domain that ends the entry that each event would begin
    of_known: Int64s  # the same of each group's entry in state

    @classmethod
    def of(cls, events: Events, times: BatchTimes, group: Int64s, entry_domain: Int64s) -> EntryDomains:
        """Those of groups; `entry_domain`: the domain of each one's entry in state by its place, or -1."""
        row_domain, row_moments = times.of_row, moments(events, times)
        first = np.full(len(entry_domain), -1, dtype=np.int64)
        first[group[::-1]] = row_domain[::-1]
        shared = (entry_domain >= 0) & (entry_domain != first)
        shared[group[row_domain != first[group]]] = True
        rows, by_domain = np.flatnonzero(shared[group]), {OWN: row_moments}
        # one a partition that such keys lie in
        for domain in np.union1d(row_domain[rows], entry_domain[shared & (entry_domain >= 0)]).tolist():
            by_domain[domain] = np.array(row_moments)
            by_domain[domain][rows] = moments_at(events, times, rows, time_of(times, rows, domain))
        return cls(by_domain, np.where(shared[group], row_domain, OWN), np.where(shared, entry_domain, OWN))


@dataclass(frozen=True)
class Entries:
    """Rows that fall into entries, group after group; within a group time does not go back."""

    group: Int64s  # of each row, ascending from 0
    # moments, judge: see `EntryDomains`
    moments: Mapping[int, Int64s]
    judge: Int64s
    due: Int64s  # when an entry is due that begins with the row

    @classmethod
    def of(cls, group: Int64s, judges: EntryDomains, due: Int64s, order: Int64s) -> Entries:
        by_judge = {judge: moment[order] for judge, moment in judges.moments.items()}
        return cls(group[order], by_judge, judges.of_row[order], due[order])

    def cut(self, entry_due: Int64s, judge: Int64s) -> tuple[Int64s, Bools]:
        """(first row of each entry, whether it goes on with a known one).

        Parameters
        ----------
        entry_due, judge : of groups, when known entries are due, and by which domain's time.
        """
        count = len(self.group)
        group_start = np.searchsorted(self.group, np.arange(len(entry_due)))
        ends = np.append(group_start[1:], count)[: len(entry_due)]
        start = self._first_later(np.arange(len(entry_due)), entry_due, judge)
        following = np.maximum(self._first_later(self.group, self.due, self.judge), np.arange(count) + 1)
        following = np.where(following < ends[self.group], following, count)
        begins = reachable(start[start < ends], following)
        first = begins.copy()
        first[group_start[start > group_start]] = True
        first_rows = np.flatnonzero(first)
        return first_rows, ~begins[first_rows]

    def _first_later(self, group: Int64s, due: Int64s, judge: Int64s) -> Int64s:
        """For groups and times, the first row of the group that comes later than the time, else the group's end."""
        result = np.empty(len(group), dtype=np.int64)
        # one, or one a partition that keys of several lie in
        for domain in np.unique(judge).tolist():
            rows = np.flatnonzero(judge == domain)
            result[rows] = self._first_later_of_domain(group[rows], due[rows], self.moments[domain])
        return result

    def _first_later_of_domain(self, group: Int64s, due: Int64s, moment: Int64s) -> Int64s:
        """The same by one time."""
        asking = np.repeat([False, True], [len(self.group), len(group)])
        merged_order = np.lexsort((asking, np.concatenate([moment, 2 * due]), np.concatenate([self.group, group])))
        asks = asking[merged_order]
        result = np.empty(len(group), dtype=np.int64)
        result[merged_order[asks] - len(self.group)] = np.cumsum(~asks)[asks]
        return result


# Changes that suppress holds back: which rows of a batch fall into which entries (docs/semantics/suppress.md).
#
# A key has one entry at a time. The first change that it holds back says when it is due; later ones take that one's
# place (`HeldEntries`). A change that comes when its wait is over goes at once.

NEVER = -(2**62)


@dataclass(frozen=True)
class HeldChanges:
    """The changes of a batch, and what state holds back of their keys."""

    params: SuppressParams
    events: Events
    times: BatchTimes
    table: Table

    def hold(self, buffer: HeldRows) -> SentChanges:
        """Hold back what waits; what does not."""
        events, times = self.events, self.times
        numbers, group = np.unique(self._numbers(events.groups.group_of_row, times.of_row), return_inverse=True)
        order = np.argsort(group, kind="stable")
        state_entries = self.stored(numbers)
        judges = EntryDomains.of(events, times, group, state_entries.domain)
        entries = Entries.of(group, judges, self.begun, order)
        first, continues = entries.cut(state_entries.due, judges.of_known)
        end = np.append(first[1:], len(order))[: len(first)]
        of_group = entries.group[first]
        due = np.where(continues, state_entries.due[of_group], entries.due[first])
        first_row, last = order[first], order[end - 1]
        pending = continues | (2 * due >= self.moment[first_row])
        pointers = np.where(continues, len(self.batch) + state_entries.place[of_group], events.own[first_row])
        domain = np.where(continues, state_entries.domain[of_group], times.of_row[first_row])
        self.put(buffer, domain[pending], last[pending], state_entries.old, pointers[pending], due[pending])
        return SentChanges(np.sort(last[~pending]))

    def _numbers(self, group: Int64s, domain: Int64s) -> Int64s:
        """The unit of entries: a key, or with limits for each time domain a key in each domain (row 33)."""
        return group * len(self.times.domains) + domain if self.params.buffer.is_limited else group

    def results(self, going: SentChanges) -> Iterator[pa.Table]:
        """Columns of the batch's rows, in their order."""
        events, rows = self.events, going.row
        if not len(rows):
            return
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
        if going.columns is None:
            out |= {name: Picked(self.batch.column(name), events.own[rows]) for name in ("value", "old")}
        yield from in_pieces(out | dict(going.columns or {}))

    def put(
        self, buffer: HeldRows, domain: Int64s, last: Int64s, old: pa.ChunkedArray, pointers: Int64s, due: Int64s
    ) -> None:
        """Entries, of time domains by their places: what came last in each, and the value before what came first."""
        events, domain = self.events, self.times.number(domain)
        keys, context = self.keys(last), events.context
        headers = {"headers": Picked(self.batch.column("headers"), events.own[last])} if context.headers else {}
        buffer.hold(
            {
                "hash": pa.array(events.hash[last]),
                "key": keys,
                "windowed": events.key.take(pa.array(last)),
                "ts": pa.array(events.ts[last]),
                "arrival": pa.array(domain),
                "value": Picked(self.batch.column("value"), events.own[last]),
                "old": Picked(joined([self.batch.column("old"), old], context.values[0]), pointers),
                **headers,
            },
            due,
            domain,
        )

    def stored(self, numbers: Int64s) -> HeldEntries:
        """The number of each of these in state (`_numbers`)."""
        events, times, groups = self.events, self.times, self.events.groups
        due, place, of = (np.full(len(numbers), none, dtype=np.int64) for none in (NEVER, -1, -1))
        first = groups.first
        low = np.full(len(first), times.start.min(initial=-NEVER))
        matches = self.table.range(events.hash[first], self.keys(first), low, np.full(len(first), -NEVER))
        rows = matches.take(["due", "domain", "old"])
        domain = times.index(ints(rows, "domain"))
        number = self._numbers(matches.query, domain)
        pending = np.flatnonzero((ints(rows, "due") >= times.start[domain]) & np.isin(number, numbers))
        at = np.searchsorted(numbers, number[pending])
        due[at], place[at], of[at] = ints(rows, "due")[pending], pending, domain[pending]
        return HeldEntries(due, place, of, rows.column("old"))

    def keys(self, rows: Int64s) -> pa.Array:
        """Keys as they are held back under."""
        keys = self.events.key.take(pa.array(rows))
        if not self.params.suffix:
            return keys
        parts = {field: pc.struct_field(keys, field) for field in ("key", *self.params.suffix)}
        return windowed_bytes(parts["key"], [parts[field] for field in self.params.suffix])

    @property
    def begun(self) -> Int64s:
        """When the entry is due that each row would begin."""
        if not self.params.until_close:
            return self.events.ts + self.params.wait - 1
        ends: Int64s = pc.struct_field(self.events.key, "end").to_numpy(zero_copy_only=False)
        return ends + self.params.wait - 1

    @cached_property
    def moment(self) -> Int64s:
        return moments(self.events, self.times)

    @cached_property
    def batch(self) -> pa.Table:
        batch, kind = self.events.tables[0], self.events.context.values[0]
        return batch if "old" in batch.column_names else batch.append_column("old", pa.nulls(len(batch), kind))


@dataclass(frozen=True)
class SentChanges:
    """Changes that go with rows of the batch: those that do not wait, and what a full buffer sends early."""

    row: Int64s  # the row of each, ascending
    # columns of their results that are not the rows' own; None: each is its row's change
    columns: Mapping[str, pa.Array | Picked] | None = None


@dataclass(frozen=True)
class HeldEntries:
    """Entries in state, one or none of each key, or of a key in each domain."""

    due: Int64s  # when each is due; `NEVER` where there is none
    place: Int64s  # of each, its row in `old`
    domain: Int64s  # the time domain that each belongs to, by its place; -1 where there is none
    old: pa.ChunkedArray  # values before the changes


# Buffers with limits: which entries a full one sends early (KIP-328; docs/semantics/suppress.md).
#
# Numbers alone, of one time domain of a shard. An entry that is sent early begins anew with its key's next row. So rows
# are processed one by one, at some microseconds each; entries that are not sent cost nothing.

NO_ROW = -1


@dataclass(frozen=True)
class Limits:
    """The limits of a buffer."""

    # records, size: entries, and their bytes
    records: float
    size: float
    refuses: bool  # whether it is an error if there are more; else the oldest go


@dataclass(frozen=True)
class Filling:
    """Entries that wait, or rows in order of position, each of which may begin an entry."""

    key: Int64s  # its serialized key's place among all of both
    due: Int64s  # the last moment of its wait
    size: Int64s  # its bytes


@dataclass(frozen=True)
class BufferEntries:
    """All entries, the ones that waited first, in their order."""

    # begin, last: the first and last row of each; `NO_ROW`: what began it, or all that it has, is in state
    begin: Int64s
    last: Int64s
    # key, due: as in `Filling`
    key: Int64s
    due: Int64s
    # gone, place: the row that sent it early, and the how manieth of that row it was; `NO_ROW`: none did
    gone: Int64s
    place: Int64s
    at_once: Int64s  # rows that never waited
    held: tuple[int, int]  # number and bytes of what the buffer holds behind the last row
    refused: bool  # whether that is too much


def fill(limits: Limits, waiting: Filling, untouched: int, rows: Filling, moment: Int64s) -> BufferEntries:
    """The result of rows in a buffer.

    Parameters
    ----------
    waiting : entries that rows may change or send.
    untouched : number of those that none will reach.
    moment : twice the time that each row comes at, and one more where it stands behind what goes then.
    """
    buffer = _Buffer(limits, waiting, untouched)
    columns = (rows.key, rows.due, rows.size, moment)
    # What a row sends early decides what the next one of its key begins.
    for row, (key, due, size, time) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        buffer.pass_to(time)
        buffer.take(row, key, due, size, pending=2 * due >= time)
        if buffer.overflows and limits.refuses:
            break
        buffer.shrink(row)
    return buffer.entries()


class _Buffer:
    """The waiting entries, the oldest first: (due, serialized key)."""

    def __init__(self, limits: Limits, waiting: Filling, untouched: int) -> None:
        self._limits = limits
        self._key, self._due, self._size = (column.tolist() for column in (waiting.key, waiting.due, waiting.size))
        self._queue = list(zip(self._due, self._key, range(len(self._key)), strict=True))
        heapify(self._queue)
        self._count = untouched + len(self._key)
        self._bytes = sum(self._size)
        self._of_key = {key: number for number, key in enumerate(self._key)}
        count = len(self._key)
        self._first, self._last, self._evicted_by, self._place = ([NO_ROW] * count for _ in range(4))
        self._at_once: list[int] = []

    @property
    def overflows(self) -> bool:
        return self._count > self._limits.records or self._bytes > self._limits.size

    def pass_to(self, moment: int) -> None:
        """Let go what waits until before a moment."""
        while self._queue and 2 * self._queue[0][0] < moment:
            self._pop()

    def take(self, row: int, key: int, due: int, size: int, *, pending: bool) -> None:
        """Hold a row back, if it waits or others of its key do."""
        number = self._of_key.get(key, NO_ROW)
        if number == NO_ROW and not pending:
            self._at_once.append(row)
            return
        if number == NO_ROW:
            number = self._of_key[key] = len(self._key)
            heappush(self._queue, (due, key, number))
            self._count += 1
            news = ((self._key, key), (self._due, due), (self._size, 0), (self._first, row))
            for column, value in (*news, (self._last, row), (self._evicted_by, NO_ROW), (self._place, NO_ROW)):
                column.append(value)
        self._bytes += size - self._size[number]
        self._size[number], self._last[number] = size, row

    def shrink(self, row: int) -> None:
        """Send the oldest early until it holds no more than it may."""
        place = 0
        while self._queue and self.overflows:
            number = self._pop()
            self._evicted_by[number], self._place[number] = row, place
            place += 1

    def _pop(self) -> int:
        number = heappop(self._queue)[2]
        self._count -= 1
        self._bytes -= self._size[number]
        del self._of_key[self._key[number]]
        return number

    def entries(self) -> BufferEntries:
        """The state of all entries."""
        columns = (self._first, self._last, self._key, self._due, self._evicted_by, self._place, self._at_once)
        first, last, key, due, evicted_by, place, at_once = (np.array(column, dtype=np.int64) for column in columns)
        usage = (self._count, self._bytes)
        return BufferEntries(first, last, key, due, evicted_by, place, at_once, usage, self.overflows)


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

    def hold(self, buffer: HeldRows) -> SentChanges:
        """Hold back what waits; what does not, and what there is no room for."""
        totals, names = self._state.get_scalar(_AT_MOST, {}), [str(d) for d in self._times.domains]
        brought = zip(names, *self._brought(), strict=True)
        most = {
            d: [sum(pair) for pair in zip(totals.get(d, (0, 0)), increments, strict=True)] for d, *increments in brought
        }
        room = all(records <= self._limits.records and size <= self._limits.size for records, size in most.values())
        filled = [] if room else [self._fill(number) for number in self._domains]
        most |= {names[part.domain]: list(part.entries.held) for part in filled}
        self._state.set_scalar(_AT_MOST, most)
        return self._changes.hold(buffer) if room else self._settle(buffer, _LimitedEntries.of(filled))

    def _brought(self) -> tuple[list[int], list[int]]:
        """Of each domain how many entries its rows may begin, and their bytes."""
        of_row, count = self._times.of_row, len(self._domains)
        pairs = np.unique(self._events.groups.group_of_row * count + of_row)
        sizes = np.zeros(count, dtype=np.int64)
        np.add.at(sizes, of_row, self._sizes)
        return np.bincount(pairs % count, minlength=count).tolist() if count else [], sizes.tolist()

    @cached_property
    def _keys(self) -> pa.Array:
        return encode_keys(self._changes.keys(np.arange(len(self._events))))

    @cached_property
    def _sizes(self) -> Int64s:
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
        matches = FoundRows(np.arange(count), None, hits, table.schema)
        numbers = matches.take(["due", "domain"])
        return matches, ints(numbers, "due"), times.index(ints(numbers, "domain"))

    def _fill(self, domain: int) -> _Filled:
        """The result of a domain's rows in its buffer."""
        matches, due, of = self._waiting
        rows, candidates = np.flatnonzero(self._times.of_row == domain), np.flatnonzero(of == domain)
        reachable = self._reached(rows, candidates)
        keys = encode_keys(matches.take(["key"], reachable).column("key"))
        place = ranks(pa.concat_arrays([keys, self._keys.take(pa.array(rows))]))
        sizes = np.zeros(len(reachable), dtype=np.int64)
        if self._limits.size < float("inf"):
            sizes = value_bytes(keys) + value_bytes(matches.take(["value"], reachable).column("value"))
        entries = fill(
            self._limits,
            Filling(place[: len(reachable)], due[reachable], sizes),
            len(candidates) - len(reachable),
            Filling(place[len(reachable) :], self._changes.begun[rows], self._sizes[rows]),
            self._changes.moment[rows],
        )
        if entries.refused:
            self._refuse(entries)
        return _Filled(domain, rows, reachable, entries)

    def _reached(self, rows: Int64s, candidates: Int64s) -> Int64s:
        """Of what waits in a domain what its rows may change, send or see let go."""
        matches, due, _ = self._waiting
        past = int((2 * due[candidates] < self._changes.moment[rows].max(initial=2 * NEVER)).sum())
        most = len(rows) + past + int(max(0, len(candidates) - self._limits.records))
        if self._limits.size < float("inf") or most >= len(candidates) or not most:
            return candidates
        near = due[candidates] <= np.partition(due[candidates], most - 1)[most - 1]
        hashes = ints(matches.take(["hash"], candidates), "hash")
        return np.asarray(candidates[near | np.isin(hashes, self._events.hash[rows])])

    def _refuse(self, entries: BufferEntries) -> None:
        records, size = entries.held
        alternative = "" if self._changes.params.until_close else ", emit_early_when_full()"
        raise WatersmeetError(
            f"The buffer of {self._events.context.operator.node!r} is full.",
            given=f"{records:,} changes held back, {size:,} bytes; {self._changes.params.buffer} is the limit",
            hint=(
                f"Take a larger limit{alternative}, or BufferConfig.unbounded(): what is held back lies "
                f"in state, on disk."
            ),
        )

    def _settle(self, buffer: HeldRows, entries: _LimitedEntries) -> SentChanges:
        """Hold back what stays; what goes, in order."""
        changes, events, count = self._changes, self._events, len(self._changes.batch)
        state = self._waiting[0].take(changes.table.schema.names, entries.stored[entries.stored >= 0])
        pointer = np.where(entries.stored >= 0, np.cumsum(entries.stored >= 0) - 1 + count, -1)
        old_pointer = np.where(entries.begin >= 0, np.append(events.own, -1)[entries.begin], pointer)
        stay = np.flatnonzero((entries.gone < 0) & (entries.last >= 0))
        last = entries.last[stay]
        changes.put(buffer, self._times.of_row[last], last, state.column("old"), old_pointer[stay], entries.due[stay])
        left = pointer[(entries.gone >= 0) & (pointer >= 0) & ~entries.replaced] - count
        buffer.drop(state.take(pa.array(left)))
        evictions = np.flatnonzero(entries.gone >= 0)
        evictions = evictions[np.lexsort((entries.place[evictions], entries.gone[evictions]))]
        return self._going(entries, evictions, state, pointer[evictions] - count, old_pointer[evictions])

    def _going(
        self, entries: _LimitedEntries, evictions: Int64s, state: pa.Table, state_rows: Int64s, old_pointer: Int64s
    ) -> SentChanges:
        """Columns of the batch's rows, from the batch or from state."""
        events, batch, operator = self._events, self._changes.batch, self._events.context.operator
        last = entries.last[evictions]
        pointers = np.where(last >= 0, np.append(events.own, -1)[last], state_rows + len(batch))
        row = np.where(last >= 0, last, state_rows + len(events))
        key_name = "windowed" if "windowed" in state.column_names else "key"
        value = events.context.values[0]
        columns: dict[str, pa.Array | Picked] = {
            "ts": pa.array(np.concatenate([events.ts, ints(state, "ts")])[row]),
            "hash": pa.array(np.concatenate([events.hash, ints(state, "hash")])[row]),
            "key": gather(joined([events.key, state.column(key_name)], events.context.key), row),
            "value": Picked(joined([batch.column("value"), state.column("value")], value), pointers),
            "old": Picked(joined([batch.column("old"), state.column("old")], value), old_pointer),
            f"p{operator.slot}": pa.array(entries.place[evictions] * operator.fan),
        }
        if events.context.headers:
            columns["headers"] = Picked(joined([batch.column("headers"), state.column("headers")], HEADERS), pointers)
        return SentChanges(entries.gone[evictions], columns)


@dataclass(frozen=True)
class _Filled:
    """The result of one domain's rows in its buffer."""

    domain: int  # its place among the domains
    rows: Int64s  # its rows
    stored: Int64s  # of the entries that waited, their places among all that waits in state
    entries: BufferEntries


@dataclass(frozen=True)
class _LimitedEntries:
    """The entries of all domains that rows have changed or sent, and as entries what never waited."""

    # begin, last, gone: rows of the events; `NO_ROW` as in `BufferEntries`
    begin: Int64s
    last: Int64s
    gone: Int64s
    # place, due: as in `BufferEntries`
    place: Int64s
    due: Int64s
    stored: Int64s  # place among all that waits in state; `NO_ROW`: of none
    replaced: Bools  # whether another entry takes its place in state

    @classmethod
    def of(cls, filled: Sequence[_Filled]) -> _LimitedEntries:
        parts = [cls._of_one(part) for part in filled]
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @staticmethod
    def _of_one(filled: _Filled) -> tuple[Int64s, ...]:
        entries, rows = filled.entries, np.append(filled.rows, NO_ROW)
        first, last, evicted_by = (rows[pointers] for pointers in (entries.begin, entries.last, entries.gone))
        new = np.full(len(first) - len(filled.stored), NO_ROW)
        state_places = np.append(filled.stored, new)
        number = group_ids(entries.due, entries.key)
        replaced = np.isin(number, number[(entries.gone < 0) & (entries.begin >= 0)])
        touched = (entries.last >= 0) | (entries.gone >= 0)
        at_once = filled.rows[entries.at_once]
        none = np.full(len(at_once), NO_ROW)
        ends = (at_once, at_once, at_once, np.zeros_like(at_once), none, none, none >= 0)
        columns = (first, last, evicted_by, entries.place, entries.due, state_places, replaced)
        return tuple(np.append(column[touched], extra) for column, extra in zip(columns, ends, strict=True))


# suppress: of the changes of a key that are held back the last one is sent, when time lets it go (suppress.md).
#
# Results are those of the rows of the batch at which changes go (`HeldChanges`; those of a full buffer: `Limited`), and
# of what time lets go (`HeldRows`), in order of position.


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    params = context.params(SuppressParams)
    events = Events(context, inputs, sides=1)
    times = BatchTimes(context, inputs, events, state, sides=1)
    table = operator_table(context, state)
    results = {"value": "value", "old": "old"} | ({"windowed": "windowed"} if params.suffix else {})
    results |= {"headers": "headers"} if context.headers else {}
    buffer = HeldRows(context, table, times, results)
    changes = HeldChanges(params, events, times, table)
    going = Limited(changes, state).hold(buffer) if params.buffer.is_limited else changes.hold(buffer)
    buffer.finish()
    times.store(state)
    ordered = replace(context, key=table.schema.field("key").type)
    released = (_under_windows(rows) if params.suffix else rows for rows in release(ordered, times, [buffer]))
    tables = merged(changes.results(going), released, position_columns(context.slots))
    for rows in tables:
        rows = rows if "old" in context.operator.emits else rows.drop_columns(["old"])
        yield rows.filter(pa.array(valid(rows.column("value")))) if params.until_close else rows


def _under_windows(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["key"]).rename_columns(
        ["key" if name == "windowed" else name for name in rows.column_names if name != "key"]
    )
