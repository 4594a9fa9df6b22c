"""Joins of windowed tables, and as of a time: the rows of a side that a batch is about, of state or brought by it.

Integers first: a row is its number, windows are two columns of numbers, 0 where rows have none. Values are read from
state no sooner than a result needs them (law 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.operator import Events, OperatorContext, operator_table
from watersmeet._engine.operators.stream_join import interval_bounds, pairs_of
from watersmeet._engine.row_sizes import Picked, cut, in_pieces
from watersmeet._engine.rows import Bools, Int64s, array_of, ints, joined
from watersmeet._engine.state.lookups import FoundRows
from watersmeet._engine.state.runs import State, Table
from watersmeet._engine.time import BatchTimes
from watersmeet._engine.windowing import group_ids, windowed
from watersmeet._plan.operators.joins import NAMED, POINTER, WindowJoinParams

# The partition that judges rows of WTables with keys in several partitions (docs/decisions/order.md; row 20).
#
# A row by key and window belongs to the partition of the change that begins it, also if others change it later. It
# joins until the time of that partition has passed it. A later change begins it anew, for its own partition, without a
# previous row.


@dataclass(frozen=True)
class Clocks:
    """The time of each domain when an event comes."""

    times: BatchTimes  # of the operator
    ahead: int  # how much later than the operator's time that is, in ms: what the operators above hold back
    _foreign_times: dict[int, Int64s] = field(default_factory=dict)

    @property
    def of_event(self) -> Int64s:
        """Domain of each event, by its place among the domains."""
        return self.times.of_row

    @property
    def own(self) -> Int64s:
        return self.times.at_row + self.ahead

    @property
    def least(self) -> Int64s:
        if len(self.times.domains) < 2:
            return self.own
        return np.full(len(self.of_event), int(self.times.start.min()) + self.ahead)

    def at(self, domain: Int64s, event: Int64s) -> Int64s:
        """The time of these domains, by their places, when these events come."""
        times = self.own[event]
        foreign = np.flatnonzero(domain != self.of_event[event])
        # one a partition that such rows belong to
        for foreign_domain in np.unique(domain[foreign]).tolist():
            rows = foreign[domain[foreign] == foreign_domain]
            times[rows] = self._of(foreign_domain)[event[rows]]
        return times

    def one_at(self, domain: int, event: int) -> int:
        return int((self.own if domain == self.of_event[event] else self._of(domain))[event])

    def _of(self, domain: int) -> Int64s:
        """The time of a domain when each event comes that is not of its own."""
        if domain not in self._foreign_times:
            times, foreign = self.own.copy(), np.flatnonzero(self.of_event != domain)
            times[foreign] = self.times.elsewhere(foreign, np.full(len(foreign), domain)) + self.ahead
            self._foreign_times[domain] = times
        return self._foreign_times[domain]


@dataclass(frozen=True)
class WindowDomains:
    """Of versions of rows, to which domain each belongs, and which begin their row anew."""

    domain: Int64s  # of each, by its place among the domains
    begins: Bools  # whether it is the first that is seen of its row, since time has passed the version before it

    @classmethod
    def of(
        cls,
        clocks: Clocks,
        number: Int64s,
        event: Int64s,
        domain: Int64s,
        present: Bools,
        *,
        window_end: Int64s,
        live: int,
    ) -> WindowDomains:
        """Those of versions.

        Parameters
        ----------
        number, event : of each what row it is of, and the event that brings it; -1: it stood before.
        domain : of those that stood before the one that they belong to, of others that of their event.
        present : whether it has a value.
        window_end, live : end of each one's window, and how long behind it a row joins.
        """
        whose, begins = domain.copy(), np.zeros(len(domain), dtype=np.bool_)
        order = np.lexsort((event, number))
        same = np.diff(number[order]) == 0
        foreign = order[1:][same & (np.diff(domain[order]) != 0)]
        if not len(foreign):
            return cls(whose, begins)
        rows = order[np.isin(number[order], number[foreign])]
        of, owner, exists = -1, -1, False
        columns = (rows, number[rows], event[rows], domain[rows], present[rows], window_end[rows])
        # to whom a row belongs depends on all its versions before; of keys that lie in several partitions alone
        for row, row_number, at, event_domain, has_value, end in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if row_number != of:
                of, exists = row_number, False
            elif exists and end < clocks.one_at(owner, at) - live:
                begins[row], exists = True, False
            owner = owner if exists else event_domain
            whose[row], exists = owner, has_value
        return cls(whose, begins)


NO_TIME = -(2**63)
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
        return cls(np.full(groups, LAST), np.full(groups, NO_TIME))

    def take_in(self, group: Int64s, end: Int64s, last: Int64s | None = None) -> None:
        """Ask for these ends of these groups, too; for all from `end` to `last`."""
        np.minimum.at(self.low, group, end)
        np.maximum.at(self.high, group, end if last is None else last)


@dataclass(frozen=True)
class SideRows:
    """Rows of a side: first those of state, then those of the batch in order of position."""

    events: Events  # the batch
    side: int  # which of its sides
    found: FoundRows  # the rows of state
    # group, start, end: key group and window of each
    group: Int64s
    start: Int64s
    end: Int64s
    event: Int64s  # the event that brings it, -1 of those of state
    present: Bools  # whether it has a value
    ts: Int64s  # its timestamp
    told_domain: Int64s  # the domain that those of state belong to, and of others that of their event, by its place
    clocks: Clocks  # times of the domains
    live: int | None  # how long behind its window's end a row joins, in ms; None: it has no window, and always does

    @classmethod
    def of(
        cls, events: Events, side: int, table: Table | None, span: Span | None, clocks: Clocks, live: int | None
    ) -> SideRows:
        """The side's rows in the batch, and of state those of the span, or of all the batch's keys if it is None."""
        matches, group = _state_rows(events, table, span)
        windowed = span is not None
        numbers = matches.take(["start", "end", "ts", "domain"] if windowed else ["ts"] if table is not None else [])
        count, at = len(group), np.flatnonzero(events.side == side)
        nothing = np.zeros(count, dtype=np.int64)
        start, end = ([ints(numbers, name) if windowed else nothing, events.numbers(name)[at]] for name in ENDS)
        domain = clocks.times.index(ints(numbers, "domain")) if windowed else nothing
        return cls(
            events,
            side,
            matches,
            np.concatenate([group, events.groups.group_of_row[at]]),
            np.concatenate(start),
            np.concatenate(end),
            np.concatenate([np.full(count, -1), at]),
            np.concatenate([np.ones(count, dtype=np.bool_), events.present[at]]),
            np.concatenate([ints(numbers, "ts") if count else nothing, events.ts[at]]),
            np.concatenate([domain, clocks.of_event[at]]),
            clocks,
            live,
        )

    def __len__(self) -> int:
        return len(self.group)

    @property
    def stored(self) -> int:
        return len(self.found)

    @cached_property
    def number(self) -> Int64s:
        """A number for each row, the same for all versions of one: of one key and window."""
        return group_ids(self.start, self.end, self.group)

    @cached_property
    def _window_domains(self) -> WindowDomains:
        if self.live is None:
            return WindowDomains(self.told_domain, np.zeros(len(self), dtype=np.bool_))
        rows = (self.number, self.event, self.told_domain, self.present)
        return WindowDomains.of(self.clocks, *rows, window_end=self.end, live=self.live)

    @property
    def domain(self) -> Int64s:
        return self._window_domains.domain

    def joins(self, rows: Int64s, event: Int64s) -> Bools:
        """Whether these rows, -1 for none, join when these events come, so far as time goes."""
        if self.live is None:
            return np.ones(len(rows), dtype=np.bool_)
        domain = np.where(rows >= 0, np.append(self.domain, 0)[rows], self.clocks.of_event[event])
        return np.asarray(np.append(self.end, NO_TIME)[rows] >= self.clocks.at(domain, event) - self.live)

    @cached_property
    def _chain(self) -> tuple[Int64s, Int64s]:
        order = np.lexsort((self.event, self.number))
        follows = np.diff(self.number[order]) == 0
        previous, following = np.full(len(order), -1, dtype=np.int64), np.full(len(order), -1, dtype=np.int64)
        previous[order[1:][follows]] = order[:-1][follows]
        following[order[:-1][follows]] = order[1:][follows]
        previous[self._window_domains.begins] = -1
        return previous, following

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
        following = self._chain[1]
        return np.where(following >= 0, self.event[following], len(self.events))

    def picked(self, rows: Int64s, further: LazyColumn | None = None) -> Picked:
        """The values of these rows, null for -1; numbers behind the last row are those of `further` ones."""
        offset, count = self.stored, len(self)
        used = np.unique(rows[(rows >= 0) & (rows < offset)])
        state_values = self.found.take(["value"], used).column("value")
        batch = self.events.tables[self.side].column("value")
        parts = [state_values, batch]
        batch_rows = self.events.own[self.event[offset:]]
        pointers = np.full(len(rows), -1, dtype=np.int64)
        mask = (rows >= 0) & (rows < offset)
        pointers[mask] = np.searchsorted(used, rows[mask])
        mask = (rows >= offset) & (rows < count)
        pointers[mask] = len(used) + batch_rows[rows[mask] - offset]
        if further is not None:
            mask = rows >= count
            extra_rows = np.unique(rows[mask])
            parts.append(further.values(extra_rows - count))
            pointers[mask] = len(used) + len(batch) + np.searchsorted(extra_rows, rows[mask])
        return Picked(joined(parts, self.events.context.values[self.side]), pointers)

    def put(self, table: Table, extra_columns: dict[str, Int64s]) -> None:
        """Write the last version of each row; a delete of what is nowhere is not written.

        `extra_columns`: further columns, of each row.
        """
        exists = np.zeros(int(self.number.max(initial=-1)) + 1, dtype=np.bool_)
        exists[self.number[: self.stored]] = True
        last = (self._chain[1] < 0) & (self.event >= 0) & (self.present | exists[self.number])
        rows = np.flatnonzero(last)
        event = self.event[rows]
        numbers = {"start": self.start, "end": self.end, "ts": self.ts, **extra_columns}
        columns: dict[str, pa.Array | Picked] = {
            name: pa.array(column[rows]) for name, column in numbers.items() if name in table.schema.names
        }
        if "domain" in table.schema.names:
            columns["domain"] = pa.array(self.clocks.times.number(self.domain[rows]))
        columns |= {"hash": pa.array(self.events.hash[event]), "key": self.events.key.take(pa.array(event))}
        batch = self.events.tables[self.side].column("value")
        table.put(columns | {"value": Picked(batch, self.events.own[event])}, ~self.present[rows])


@dataclass(frozen=True)
class LazyColumn:
    """LazyColumn values, in a column of rows that were found."""

    found: FoundRows
    column: str

    def values(self, rows: Int64s) -> pa.ChunkedArray:
        return self.found.take([self.column], rows).column(self.column)


def _state_rows(events: Events, table: Table | None, span: Span | None) -> tuple[FoundRows, Int64s]:
    """(rows of state, their key groups)."""
    if table is None:
        nothing = np.zeros(0, dtype=np.int64)
        return FoundRows(nothing, None, (), pa.schema([("value", events.context.values[0])])), nothing
    first = events.groups.first
    if span is None:
        matches = table.rows(events.hash[first], events.key.take(pa.array(first)))
        return matches, matches.query
    groups = np.flatnonzero(span.low <= span.high)
    first = first[groups]
    keys = events.key.take(pa.array(first))
    matches = table.range(events.hash[first], keys, span.low[groups], span.high[groups])
    return matches, groups[matches.query]


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
        matches = (at >= 0) & (number >= 0) & (self._number[at] == number)
        return np.where(matches, self._order[at], -1)


def struct_numbers(events: Events, side: int, name: str, rows: Int64s) -> Sequence[Int64s]:
    """The ends of the windows in a column of a side, of these events of it; `NO_TIME` where there is no window."""
    table = events.tables[side]
    if name not in table.column_names:
        return [np.full(len(rows), NO_TIME), np.full(len(rows), NO_TIME)]
    structs = array_of(table.column(name), pa.struct([(end, pa.int64()) for end in ENDS]))
    fields = [structs.field(place) for place in range(2)]
    valid = structs.is_valid().to_numpy(zero_copy_only=False)
    for member in fields:
        valid = valid & member.is_valid().to_numpy(zero_copy_only=False)
    numbers = [np.where(valid, member.fill_null(0).to_numpy(zero_copy_only=False), NO_TIME) for member in fields]
    return [column[events.own[rows]] for column in numbers]


# Results of a join with windows as numbers of rows, and what of them stands: the old values of later ones.


@dataclass(frozen=True)
class WindowResults:
    """Results as numbers."""

    event: Int64s  # the event that causes each
    # start, end: its window; 0 where results have none
    start: Int64s
    end: Int64s
    # left, right: the row of each side that it shows, -1 for none
    left: Int64s
    right: Int64s
    joined: Bools  # whether it is a joined value; else a tombstone
    ts: Int64s  # its timestamp

    def where(self, selection: Bools | Int64s) -> WindowResults:
        return WindowResults(*(getattr(self, member.name)[selection] for member in fields(self)))

    @staticmethod
    def together(parts: Sequence[WindowResults]) -> WindowResults:
        return WindowResults(
            *(np.concatenate([getattr(part, member.name) for part in parts]) for member in fields(WindowResults))
        )

    def ordered(self) -> WindowResults:
        return self.where(np.lexsort((self.end, self.start, self.event)))


class LastResults:
    """The last result of each key and window: what stood before a batch, and what each of its results replaces."""

    def __init__(self, events: Events, table: Table, span: Span, left: SideRows, right: SideRows) -> None:
        """`span`: the windows that may get results, of each key group.

        A result belongs where its left row does, or, if it shows none, its right one; and stands as long.
        """
        self._events, self._table, self._sides = events, table, (left, right)
        groups = np.flatnonzero(span.low <= span.high)
        first = events.groups.first[groups]
        keys = events.key.take(pa.array(first))
        self._matches = table.range(events.hash[first], keys, span.low[groups], span.high[groups])
        self._group = groups[self._matches.query]
        numbers = self._matches.take(["start", "end", "domain"])
        self._start, self._end = ints(numbers, "start"), ints(numbers, "end")
        self._domain = left.clocks.times.index(ints(numbers, "domain"))

    def replaced(self, results: WindowResults) -> dict[str, pa.Array | Picked]:
        """The old results that these replace, which come with all of their keys, and are kept from now on."""
        old_count, count = len(self._group), len(results.event)
        group = np.concatenate([self._group, self._events.groups.group_of_row[results.event]])
        start, end = (np.concatenate(columns) for columns in ((self._start, results.start), (self._end, results.end)))
        number = group_ids(start, end, group)
        order = np.lexsort((np.arange(old_count + count), number))
        follows = np.diff(number[order]) == 0
        previous = np.full(old_count + count, -1, dtype=np.int64)
        previous[order[1:][follows]] = order[:-1][follows]
        replaced = previous[old_count:]
        joined = np.concatenate([np.ones(old_count, dtype=np.bool_), results.joined])
        of_results = self._domain_of(results)
        is_joined = np.append(joined, False)[replaced]
        is_joined &= self._was_sent(np.concatenate([self._domain, of_results, [0]])[replaced], results)
        out: dict[str, pa.Array | Picked] = {"old_joined": pa.array(is_joined)}
        for rows, name, numbers in zip(self._sides, ("left", "right"), (results.left, results.right), strict=True):
            pointers = np.concatenate([len(rows) + np.arange(old_count), numbers])
            old_rows = np.where(is_joined, np.append(pointers, -1)[replaced], -1)
            out[f"old_{name}"] = rows.picked(old_rows, LazyColumn(self._matches, name))
        last = np.ones(old_count + count, dtype=np.bool_)
        last[order[:-1][follows]] = False
        self._keep(results.where(last[old_count:]), of_results[last[old_count:]])
        return out

    def _domain_of(self, results: WindowResults) -> Int64s:
        """The domain that each result belongs to, by its place."""
        left, right = self._sides
        left_domain, right_domain = np.append(left.domain, 0)[results.left], np.append(right.domain, 0)[results.right]
        event_domain = left.clocks.of_event[results.event]
        return np.where(results.left >= 0, left_domain, np.where(results.right >= 0, right_domain, event_domain))

    def _was_sent(self, domain: Int64s, results: WindowResults) -> Bools:
        """Whether what these results replace stands when they come, if it belongs to these domains."""
        left = self._sides[0]
        assert left.live is not None
        return np.asarray(results.end >= left.clocks.at(domain, results.event) - left.live)

    def _keep(self, results: WindowResults, domain: Int64s) -> None:
        event = results.event
        columns: dict[str, pa.Array | Picked] = {
            "hash": pa.array(self._events.hash[event]),
            "key": self._events.key.take(pa.array(event)),
            "start": pa.array(results.start),
            "end": pa.array(results.end),
            "domain": pa.array(self._sides[0].clocks.times.number(domain)),
        }
        for rows, name, numbers in zip(self._sides, ("left", "right"), (results.left, results.right), strict=True):
            columns[name] = rows.picked(numbers)
        self._table.put(columns, ~results.joined)


# Joins of which a side is a table by key and window (docs/semantics/wtable.md).
#
# All are of one kind: a row of the left side points at a row of the right side of the same key, by its window (the same
# one, the one a distance earlier, or the one that a function names) or, where the right side has no windows, by its key
# alone. A change of a left row looks up what it points at; a change of a right row is met by all live rows that point
# at it. A **version** is a left row from the change that brings it to the next one: so a right change meets the
# versions that stand when it comes, and a batch is matched by counting.

LEFT, RIGHT = 0, 1
PAIRS = 262_144
"""Results that are made at a time, about; those of a key are never parted."""
_NOWHERE = np.zeros(0, dtype=np.int64)


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    params = context.params(WindowJoinParams)
    events = Events(context, inputs, sides=2)
    times = BatchTimes(context, inputs, events, state, sides=2)
    tables = [operator_table(context, state, number) for number in range(len(context.kept))]
    if len(events):
        join = _WindowJoin(params, events, Clocks(times, context.time.hold_back), tables)
        for results in join.results():
            yield from _result_tables(events, join, results)
        join.store()
    for table, live in zip(tables, (*_lives(params), params.lives[LEFT]), strict=False):
        if live is not None:
            # what the sources' time has passed joins no more, however late a record above is let go
            table.expire(times.by_domain(times.end + context.time.hold_back - live))
    times.store(state)


def _lives(params: WindowJoinParams) -> tuple[int | None, ...]:
    return params.lives if params.stored else params.lives[RIGHT:]


class _WindowJoin:
    """One batch of one shard.

    Attributes
    ----------
    left, right : their rows.
    standing : the last results, where old values are asked for.
    """

    def __init__(self, params: WindowJoinParams, events: Events, clocks: Clocks, tables: list[Table]) -> None:
        self._params, self._events, self._clocks = params, events, clocks
        self._tables = tables[: len(_lives(params))]
        spans = self._left_span()
        self.left = self._rows(LEFT, self._tables[0] if params.stored else None, spans)
        self._to = self._pointed()
        self.right = self._rows(RIGHT, self._tables[-1], self._right_span())
        self._meet()
        sides = self.left, self.right
        result_tables = tables[len(self._tables) :]
        self.standing = (
            LastResults(events, result_tables[0], spans, *sides) if result_tables and spans is not None else None
        )

    # -- what is read ----------------------------------------------------------------------------------------

    def _rows(self, side: int, table: Table | None, span: Span | None) -> SideRows:
        return SideRows.of(self._events, side, table, span, self._clocks, self._params.lives[side])

    def _left_span(self) -> Span | None:
        events, params = self._events, self._params
        live = params.lives[LEFT]
        if live is None:
            return None
        span, group, end = Span.none(events.groups.count), events.groups.group_of_row, events.numbers("end")
        at, right_rows = (np.flatnonzero(events.side == side) for side in (LEFT, RIGHT))
        span.take_in(group[at], end[at])
        if params.names or params.lives[RIGHT] is None:
            span.take_in(group[right_rows], self._clocks.least[right_rows] - live, np.full(len(right_rows), LAST))
        else:
            span.take_in(group[right_rows], np.minimum(end[right_rows], LAST - params.distance) + params.distance)
        return span

    def _right_span(self) -> Span | None:
        events = self._events
        if self._params.lives[RIGHT] is None:
            return None
        span, at = Span.none(events.groups.count), np.flatnonzero(events.side == RIGHT)
        span.take_in(events.groups.group_of_row[at], events.numbers("end")[at])
        rows = np.flatnonzero(self._to[1] != NO_TIME)
        span.take_in(self.left.group[rows], self._to[1][rows])
        return span

    def _pointed(self) -> tuple[Int64s, Int64s]:
        """Start and end of the window that each left row points at; `NO_TIME` where there is none."""
        params, left = self._params, self.left
        if params.names:
            brought = struct_numbers(self._events, LEFT, NAMED, left.event[left.stored :])
            table = left.found.take([name for name, _ in POINTER]) if left.stored else None
            old = [_NOWHERE if table is None else ints(table, name) for name, _ in POINTER]
            start, end = (np.concatenate(pair) for pair in zip(old, brought, strict=True))
            return start, end
        if params.lives[RIGHT] is None:
            nothing = np.zeros(len(left), dtype=np.int64)
            return nothing, nothing
        exists = left.start >= params.distance
        return (
            np.where(exists, left.start - params.distance, NO_TIME),
            np.where(exists, left.end - params.distance, NO_TIME),
        )

    def _meet(self) -> None:
        """Numbers the right rows, and gives each left row that of the one that it points at, -1 for none."""
        left, right = self.left, self.right
        start, end = self._to
        rows = np.flatnonzero(end != NO_TIME)
        columns = ((right.start, start), (right.end, end), (right.group, left.group))
        number = group_ids(*(np.concatenate([of_right, of_left[rows]]) for of_right, of_left in columns))
        self._number = number[: len(right)]
        self._meets = np.full(len(left), -1, dtype=np.int64)
        self._meets[rows] = number[len(right) :]
        self._as_of = AsOf(self._number, right.event, len(self._events))

    # -- what meets ------------------------------------------------------------------------------------------

    def results(self) -> Iterator[WindowResults]:
        """The results, those of a key together and in their order."""
        left, right = self.left, self.right
        brought = np.arange(right.stored, len(right))
        brought = brought[right.joins(brought, right.event[brought])]
        brought = brought[np.lexsort((right.event[brought], self._number[brought]))]
        waiting = np.flatnonzero(left.present & (self._meets >= 0)) if self._params.stored else _NOWHERE
        waiting = waiting[np.argsort(left.group[waiting], kind="stable")]
        start, end = interval_bounds(
            self._number[brought],
            right.event[brought],
            self._meets[waiting],
            left.event[waiting] + 1,
            left.until[waiting] - 1,
        )
        of_left = np.arange(left.stored, len(left))
        group = np.concatenate([left.group[of_left], right.group[brought]])
        count = np.bincount(group, minlength=self._events.groups.count)
        count += np.bincount(left.group[waiting], weights=end - start, minlength=len(count)).astype(np.int64)
        for first, last in cut(count, PAIRS):
            section = slice(*np.searchsorted(left.group[waiting], [first, last]))
            matched = self._results_of_rights(waiting[section], brought, start[section], end[section])
            right_rows = brought[(right.group[brought] >= first) & (right.group[brought] < last)]
            left_rows = of_left[(left.group[of_left] >= first) & (left.group[of_left] < last)]
            parts = [self._of_left(left_rows), matched, *self._unmatched(right_rows, matched)]
            yield WindowResults.together(parts).ordered()

    def _of_left(self, rows: Int64s) -> WindowResults:
        """Results of changes of left rows: one each, at most."""
        params, left = self._params, self.left
        event = left.event[rows]
        rows = rows[left.joins(rows, event)]
        event, previous = left.event[rows], left.before[rows]
        new, old = left.present[rows], left.has(previous)
        partner = self._partners(rows, event)
        outer = params.how != "inner"
        if not params.stored:
            emitted = (partner >= 0) | outer
            is_joined, right_rows, ts = new, partner, left.ts[rows]
        elif params.lives[LEFT] is None:
            old_partner = np.where(old, self._partners(previous, event), -1)
            is_joined, had = new & ((partner >= 0) | outer), old & ((old_partner >= 0) | outer)
            emitted, right_rows = is_joined | had, np.where(is_joined, partner, old_partner)
            ts = np.maximum(left.ts[rows], np.append(self.right.ts, NO_TIME)[right_rows])
        else:
            emitted = (partner >= 0) | (outer & (new | old))
            is_joined, right_rows = (
                np.where(new, (partner >= 0) | outer, (partner >= 0) & (params.how == "outer")),
                partner,
            )
            ts = np.maximum(left.ts[rows], np.append(self.right.ts, NO_TIME)[right_rows])
        right_rows = np.where(is_joined, right_rows, -1)
        results = WindowResults(
            event, left.start[rows], left.end[rows], np.where(is_joined & new, rows, -1), right_rows, is_joined, ts
        )
        return results.where(emitted)

    def _partners(self, rows: Int64s, event: Int64s) -> Int64s:
        """The right row that each of these left rows finds when the event comes; -1: none."""
        partner = self._as_of.before(np.append(self._meets, -1)[rows], event)
        return np.where(self.right.has(partner) & self.right.joins(partner, event), partner, -1)

    def _results_of_rights(self, waiting: Int64s, brought: Int64s, start: Int64s, end: Int64s) -> WindowResults:
        """Results of changes of right rows: one for each live left row that points at them."""
        left, right = self.left, self.right
        pairs = list(pairs_of(start, end, PAIRS))
        rows = waiting[np.concatenate([_NOWHERE, *(block.query for block in pairs)])]
        right_rows = brought[np.concatenate([_NOWHERE, *(block.place for block in pairs)])]
        event = right.event[right_rows]
        live = left.joins(rows, event)
        rows, right_rows, event = rows[live], right_rows[live], event[live]
        present = right.present[right_rows]
        is_joined = present | (self._params.how != "inner")
        ts = np.maximum(right.ts[right_rows], left.ts[rows])
        partner = np.where(present, right_rows, -1)
        return WindowResults(
            event, left.start[rows], left.end[rows], np.where(is_joined, rows, -1), partner, is_joined, ts
        )

    def _unmatched(self, brought: Int64s, matched: WindowResults) -> Iterator[WindowResults]:
        """Results of changes of unmatched right rows, in an outer join."""
        if self._params.how != "outer":
            return
        right = self.right
        rows = brought[~np.isin(right.event[brought], matched.event)]
        rows = rows[right.present[rows] | right.has(right.before[rows])]
        present, event = right.present[rows], right.event[rows]
        nothing = np.full(len(rows), -1, dtype=np.int64)
        right_rows = np.where(present, rows, -1)
        yield WindowResults(event, right.start[rows], right.end[rows], nothing, right_rows, present, right.ts[rows])

    # -- state -----------------------------------------------------------------------------------------------

    def store(self) -> None:
        """Write what has changed."""
        if self._params.stored:
            pointer = dict(zip((name for name, _ in POINTER), self._to, strict=True))
            self.left.put(self._tables[0], pointer)
        self.right.put(self._tables[-1], {})


def _result_tables(events: Events, join: _WindowJoin, results: WindowResults) -> Iterator[pa.Table]:
    """Results as the next stage reads them."""
    if not len(results.event):
        return
    operator = events.context.operator
    out: dict[str, pa.Array | Picked] = events.meta(results.event, results.ts)
    if operator.fan:
        del out["hash"]
        keys = events.key.take(pa.array(results.event))
        out["key"] = windowed(keys, results.start, results.end)
        place = np.arange(len(results.event)) - np.searchsorted(results.event, results.event)
        out[f"p{operator.slot}"] = pa.array(place * operator.fan)
    out["left"], out["right"] = join.left.picked(results.left), join.right.picked(results.right)
    out["joined"] = pa.array(results.joined)
    if join.standing is not None:
        out |= join.standing.replaced(results)
    yield from in_pieces(out)
