"""The rows of a side of a join with windows that a batch is about: those of state, and those that it brings.

Integers first: a row is its number, windows are two columns of numbers, 0 where rows have none. Values are read from
state no sooner than a result needs them (law 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.windows.windowed import numbered
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events
from watersmeet._engine.operators.wtables.belonging import Belonging, Clocks
from watersmeet._engine.rows.columns import array_of, ints, joined
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.lookups import FoundRows
from watersmeet._engine.state.table import Table

NONE = -(2**63)
"""In place of a window's ends, where there is none."""
LAST = 2**63 - 1
ENDS = ("start", "end")


@dataclass(frozen=True)
class Span:
    """Of each key group the windows that are asked for, by their ends: from `low` to `high`, both included."""

    low: Int64s
    high: Int64s

    @classmethod
    def none(cls, groups: int) -> Span:
        """Of no group any."""
        return cls(np.full(groups, LAST), np.full(groups, NONE))

    def take_in(self, group: Int64s, end: Int64s, last: Int64s | None = None) -> None:
        """Ask for these ends of these groups, too; for all from `end` to `last`."""
        np.minimum.at(self.low, group, end)
        np.maximum.at(self.high, group, end if last is None else last)


@dataclass(frozen=True)
class SideRows:
    """Rows of a side: first those of state, then those of the batch in order of position.

    Parameters
    ----------
    events : the batch.
    side : which of its sides.
    found : the rows of state.
    group, start, end : key group and window of each.
    event : the event that brings it, -1 of those of state.
    present : whether it has a value.
    ts : its timestamp.
    told_domain : the domain that those of state belong to, and of others that of their event, by its place.
    clocks : times of the domains.
    live : how long behind its window's end a row joins, in ms; None: it has no window, and always does.
    """

    events: Events
    side: int
    found: FoundRows
    group: Int64s
    start: Int64s
    end: Int64s
    event: Int64s
    present: Bools
    ts: Int64s
    told_domain: Int64s
    clocks: Clocks
    live: int | None

    @classmethod
    def of(
        cls, events: Events, side: int, table: Table | None, span: Span | None, clocks: Clocks, live: int | None
    ) -> SideRows:
        """The side's rows in the batch, and of state those of the span, or of all the batch's keys if it is None."""
        found, group = _stored(events, table, span)
        windowed = span is not None
        numbers = found.take(["start", "end", "ts", "domain"] if windowed else ["ts"] if table is not None else [])
        known, at = len(group), np.flatnonzero(events.side == side)
        nothing = np.zeros(known, dtype=np.int64)
        start, end = ([ints(numbers, name) if windowed else nothing, events.numbers(name)[at]] for name in ENDS)
        domain = clocks.times.index(ints(numbers, "domain")) if windowed else nothing
        return cls(
            events,
            side,
            found,
            np.concatenate([group, events.groups.group_of_row[at]]),
            np.concatenate(start),
            np.concatenate(end),
            np.concatenate([np.full(known, -1), at]),
            np.concatenate([np.ones(known, dtype=np.bool_), events.present[at]]),
            np.concatenate([ints(numbers, "ts") if known else nothing, events.ts[at]]),
            np.concatenate([domain, clocks.of_event[at]]),
            clocks,
            live,
        )

    def __len__(self) -> int:
        return len(self.group)

    @property
    def stored(self) -> int:
        """How many are of state."""
        return len(self.found)

    @cached_property
    def number(self) -> Int64s:
        """A number for each row, the same for all versions of one: of one key and window."""
        return numbered(self.start, self.end, self.group)

    @cached_property
    def _belonging(self) -> Belonging:
        if self.live is None:
            return Belonging(self.told_domain, np.zeros(len(self), dtype=np.bool_))
        rows = (self.number, self.event, self.told_domain, self.present)
        return Belonging.of(self.clocks, *rows, passed=self.end, live=self.live)

    @property
    def domain(self) -> Int64s:
        """The domain that each row belongs to, by its place."""
        return self._belonging.domain

    def joins(self, rows: Int64s, event: Int64s) -> Bools:
        """Whether these rows, -1 for none, join when these events come, so far as time goes."""
        if self.live is None:
            return np.ones(len(rows), dtype=np.bool_)
        domain = np.where(rows >= 0, np.append(self.domain, 0)[rows], self.clocks.of_event[event])
        return np.asarray(np.append(self.end, NONE)[rows] >= self.clocks.at(domain, event) - self.live)

    @cached_property
    def _chain(self) -> tuple[Int64s, Int64s]:
        order = np.lexsort((self.event, self.number))
        follows = np.diff(self.number[order]) == 0
        before, after = np.full(len(order), -1, dtype=np.int64), np.full(len(order), -1, dtype=np.int64)
        before[order[1:][follows]] = order[:-1][follows]
        after[order[:-1][follows]] = order[1:][follows]
        before[self._belonging.begins] = -1
        return before, after

    def has(self, rows: Int64s) -> Bools:
        """Which of these rows, -1 for none, have a value."""
        flags: Bools = np.append(self.present, False)[rows]
        return flags

    @property
    def before(self) -> Int64s:
        """The version before each, -1 for none that time has not passed."""
        return self._chain[0]

    @cached_property
    def until(self) -> Int64s:
        """The event that brings the version after each; behind all events where there is none."""
        after = self._chain[1]
        return np.where(after >= 0, self.event[after], len(self.events))

    def picked(self, rows: Int64s, further: Further | None = None) -> Picked:
        """The values of these rows, null for -1; numbers behind the last row are those of `further` ones."""
        known, count = self.stored, len(self)
        used = np.unique(rows[(rows >= 0) & (rows < known)])
        stored = self.found.take(["value"], used).column("value")
        batch = self.events.tables[self.side].column("value")
        parts = [stored, batch]
        own = self.events.own[self.event[known:]]
        pointers = np.full(len(rows), -1, dtype=np.int64)
        mine = (rows >= 0) & (rows < known)
        pointers[mine] = np.searchsorted(used, rows[mine])
        mine = (rows >= known) & (rows < count)
        pointers[mine] = len(used) + own[rows[mine] - known]
        if further is not None:
            mine = rows >= count
            wanted = np.unique(rows[mine])
            parts.append(further.values(wanted - count))
            pointers[mine] = len(used) + len(batch) + np.searchsorted(wanted, rows[mine])
        return Picked(joined(parts, self.events.context.values[self.side]), pointers)

    def put(self, table: Table, more: dict[str, Int64s]) -> None:
        """Write the last version of each row; a delete of what is nowhere is not written.

        `more`: further columns, of each row.
        """
        known = np.zeros(int(self.number.max(initial=-1)) + 1, dtype=np.bool_)
        known[self.number[: self.stored]] = True
        last = (self._chain[1] < 0) & (self.event >= 0) & (self.present | known[self.number])
        rows = np.flatnonzero(last)
        event = self.event[rows]
        numbers = {"start": self.start, "end": self.end, "ts": self.ts, **more}
        columns: dict[str, pa.Array | Picked] = {
            name: pa.array(column[rows]) for name, column in numbers.items() if name in table.schema.names
        }
        if "domain" in table.schema.names:
            columns["domain"] = pa.array(self.clocks.times.number(self.domain[rows]))
        columns |= {"hash": pa.array(self.events.hash[event]), "key": self.events.key.take(pa.array(event))}
        batch = self.events.tables[self.side].column("value")
        table.put(columns | {"value": Picked(batch, self.events.own[event])}, ~self.present[rows])


@dataclass(frozen=True)
class Further:
    """Further values, in a column of rows that were found."""

    found: FoundRows
    column: str

    def values(self, rows: Int64s) -> pa.ChunkedArray:
        """Those of these rows."""
        return self.found.take([self.column], rows).column(self.column)


def _stored(events: Events, table: Table | None, span: Span | None) -> tuple[FoundRows, Int64s]:
    """(rows of state, their key groups)."""
    if table is None:
        nothing = np.zeros(0, dtype=np.int64)
        return FoundRows(nothing, None, (), pa.schema([("value", events.context.values[0])])), nothing
    first = events.groups.first
    if span is None:
        found = table.rows(events.hash[first], events.key.take(pa.array(first)))
        return found, found.query
    asked = np.flatnonzero(span.low <= span.high)
    first = first[asked]
    keys = events.key.take(pa.array(first))
    found = table.range(events.hash[first], keys, span.low[asked], span.high[asked])
    return found, asked[found.query]


class AsOf:
    """Versions of rows, and which one stands when an event comes.

    Parameters
    ----------
    number : of each version, what row it is of.
    event : the event that brings it; -1: it stood before.
    count : how many events there are.
    """

    def __init__(self, number: Int64s, event: Int64s, count: int) -> None:
        self._width = count + 1
        codes = number * self._width + event + 1
        self._order = np.argsort(codes)
        self._codes, self._number = codes[self._order], number[self._order]

    def before(self, number: Int64s, event: Int64s) -> Int64s:
        """The version of each of these rows that stands when the event comes; -1: none."""
        if not len(self._codes):
            return np.full(len(number), -1, dtype=np.int64)
        at = np.searchsorted(self._codes, number * self._width + event, side="right") - 1
        found = (at >= 0) & (number >= 0) & (self._number[at] == number)
        return np.where(found, self._order[at], -1)


def struct_numbers(events: Events, side: int, name: str, rows: Int64s) -> Sequence[Int64s]:
    """The ends of the windows in a column of a side, of these events of that side; `NONE` where there is no window."""
    table = events.tables[side]
    if name not in table.column_names:
        return [np.full(len(rows), NONE), np.full(len(rows), NONE)]
    structs = array_of(table.column(name), pa.struct([(end, pa.int64()) for end in ENDS]))
    fields = [structs.field(place) for place in range(2)]
    whole = structs.is_valid().to_numpy(zero_copy_only=False)
    for field in fields:
        whole = whole & field.is_valid().to_numpy(zero_copy_only=False)
    numbers = [np.where(whole, field.fill_null(0).to_numpy(zero_copy_only=False), NONE) for field in fields]
    return [column[events.own[rows]] for column in numbers]
