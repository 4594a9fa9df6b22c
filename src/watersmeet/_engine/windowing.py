"""Parts of aggregates by window: contributions, results, closing windows, partitions with their own times, calendars.

Where records make the windows (sliding, sessions), those of the batch's keys that stand are read before the first
record, carried from stretch to stretch, and written last. Law 3: windows close by the time of their domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import chain
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.contributions import (
    Contributions,
    Meta,
    changed_aggregates,
    grown,
    refuse_large,
    sizes_of,
)
from watersmeet._engine.aggregates.folds import FoldKernel, Work
from watersmeet._engine.keys import encode_keys
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.row_sizes import Picked, in_pieces, row_bytes
from watersmeet._engine.rows import Bools, Int64s, array, array_of, gather, ints, joined, order_of, valid
from watersmeet._engine.state.lookups import Lookup
from watersmeet._engine.state.runs import Table
from watersmeet._engine.time import BatchTimes
from watersmeet._engine.waiting_rows import Bound, WaitingRows, release
from watersmeet.windows import DAY_MS, WEEKDAYS, CalendarWindows

# The common part of windowed aggregates: rows by key and window, results under both, and domains of windows.

_DENSE = 4
"""Of so many numbers for each row all are marked that are there, instead of sorted."""
_MOST_CODES = 2**62
Ends = Callable[[Int64s], Int64s]
"""The ends of windows that begin at these times."""


def in_windows(events: Events, row: Int64s, at: Int64s, column: str) -> Contributions:
    """Each of these rows, which ascend, changes the aggregate of its key and of a window.

    Parameters
    ----------
    at, column : what tells windows apart, and what it is called: "start" or "end".
    """
    key = events.groups.group_of_row[row]
    group = group_ids(at, key)
    row_of_group = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int64)
    row_of_group[group] = np.arange(len(group))
    first = events.groups.first[key[row_of_group]]
    identity = {
        "hash": pa.array(events.hash[first]),
        "key": events.key.take(pa.array(first)),
        column: pa.array(at[row_of_group]),
    }
    return Contributions(events, row, group, identity)


def meta_of(rows: Contributions, bounds: Callable[[Int64s], tuple[Int64s, Int64s]]) -> Meta:
    """Metadata columns of results: those of the rows that caused them, under key and window, each in its place.

    `bounds` gives starts and ends of windows by what tells them apart.
    """
    events, window_ids = rows.events, rows.at

    def meta(indices: Int64s, ts: Int64s) -> dict[str, pa.Array | Picked]:
        row, (start, end) = rows.row[indices], bounds(window_ids[rows.group[indices]])
        place = indices - np.searchsorted(rows.row, row)
        return under_windows(events, row, start, end, place, ts)

    return meta


def under_windows(
    events: Events, row: Int64s, start: Int64s, end: Int64s, place: Int64s, ts: Int64s
) -> dict[str, pa.Array | Picked]:
    """Metadata columns of results that these events bring, under key and window, each in its place of its event."""
    operator = events.context.operator
    out: dict[str, pa.Array | Picked] = events.meta(row, ts)
    del out["hash"]
    out["key"] = windowed(events.key.take(pa.array(row)), start, end)
    out[f"p{operator.slot}"] = pa.array(place * operator.fan)
    return out


def windowed(keys: pa.Array, start: Int64s, end: Int64s) -> pa.Array:
    return pa.StructArray.from_arrays([keys, pa.array(start), pa.array(end)], ["key", "start", "end"])


def domains(rows: Contributions, counts: Bools, lookup: Lookup, of_row: Int64s) -> Int64s:
    """The time domain that lets each aggregate go: that of the record that began it.

    It stays, so that all versions of a row in state go together.

    Parameters
    ----------
    counts : which contributions change their aggregates.
    """
    result = np.zeros(len(rows.keys), dtype=np.int64)
    latest_first = np.flatnonzero(counts)[::-1]
    result[rows.group[latest_first]] = of_row[rows.row[latest_first]]
    matched = lookup.found
    result[matched] = ints(lookup.rows, "domain")[lookup.index[matched]]
    return result


def latest_headers(rows: Contributions, counts: Bools, lookup: Lookup) -> Picked:
    """The headers of the record that changed each aggregate last, which is in state where none of the batch has.

    Parameters
    ----------
    counts : which contributions change their aggregates.
    """
    last = np.full(len(rows.keys), -1, dtype=np.int64)
    np.maximum.at(last, rows.group[counts], rows.row[counts])
    matched = np.flatnonzero(lookup.found)
    matched = matched[last[matched] < 0]
    last[matched] = len(rows.events) + lookup.index[matched]
    return rows.events.headers(last, lookup.rows.column("headers"))


def group_ids(*columns: Int64s) -> Int64s:
    """A number for each row, the same where all columns are; they ascend with the columns, the last one first."""
    count = len(columns[0])
    code, codes = _packed(columns)
    if codes <= _DENSE * count:
        present = np.zeros(codes, dtype=np.bool_)
        present[code] = True
        dense: Int64s = (np.cumsum(present) - 1)[code]
        return dense
    order = np.argsort(code) if codes < _MOST_CODES else np.lexsort(columns)
    fresh = np.zeros(count, dtype=np.int64)
    for column in (code,) if codes < _MOST_CODES else columns:
        fresh[1:] |= np.diff(column[order]) != 0
    number = np.empty(count, dtype=np.int64)
    number[order] = np.cumsum(fresh)
    return number


def _packed(columns: Sequence[Int64s]) -> tuple[Int64s, int]:
    """One number for each row that orders rows as the columns do, and how many such numbers there may be.

    Times of windows are multiples of their advance, so that a few numbers are enough. Of `_MOST_CODES` and more the
    numbers say nothing.
    """
    code, codes = np.zeros(len(columns[0]), dtype=np.int64), min(1, len(columns[0]))
    for column in columns if codes else ():
        low, high = int(column.min()), int(column.max())
        if (high - low) * codes >= _MOST_CODES:
            return code, _MOST_CODES
        above = column - low
        step = max(1, int(np.gcd.reduce(above)))
        code += (above if step == 1 else above // step) * codes
        codes *= (high - low) // step + 1
    return code, codes


# Emission on window close (KIP-825; docs/semantics/emit_on_close.md): due windows give their one result.
#
# The changes of the batch are not in state yet: those windows come with their new states, and their old rows in state,
# or those of merged sessions, do not count.


@dataclass(frozen=True)
class Closing:
    """The windows of a shard that close in a batch; a `waiting_rows.HeldSource`."""

    # context, times: of the operator
    context: OperatorContext
    times: BatchTimes
    table: Table  # what the last commit knows of windows
    due: str  # the column of the time at which they close
    wait: int  # from that time on until a window is closed, in ms
    # rows of the windows that the batch has changed, as the table is to have them, and of those that others have
    # replaced since they were closed
    fresh: Sequence[Mapping[str, pa.Array | Picked]]
    stale: pa.Table  # columns key and `due` of the windows of which state has something else

    @property
    def columns(self) -> Mapping[str, tuple[str, pa.DataType]]:
        names = ("start", self.due, "value", *(("headers",) if self.context.headers else ()))
        return {name: (name, self.table.schema.field(name).type) for name in names}

    def results(self, fold: FoldKernel, ends: Ends | None = None) -> Iterator[pa.Table]:
        """One result for each window that closes; `ends` gives ends where the table does not have them."""
        for rows in release(self.context, self.times, [self]):
            start = ints(rows, "start")
            end = ints(rows, "end") if ends is None else ends(start)
            value = fold.finish(array(rows, "value"))
            out = rows.drop_columns(["hash", "key", "value", *dict.fromkeys(("start", self.due))])
            out = out.append_column("key", windowed(array(rows, "key"), start, end)).append_column("value", value)
            yield (
                out.append_column("old", pa.nulls(len(out), value.type))
                if "old" in self.context.operator.emits
                else out
            )

    def waiting(self, bound: Bound) -> Iterator[WaitingRows]:
        """See `waiting_rows.HeldSource`."""
        first, end = self.times.passing()
        for hits in self.table.due(first - self.wait + 1, end - self.wait + 1):
            rows = hits.rows[~self._stale(hits.batch, hits.rows)]
            yield self._closing(hits.batch, rows)
        for piece in chain.from_iterable(map(in_pieces, self.fresh)):
            for batch in piece.to_batches():
                yield self._closing(batch, np.arange(len(batch)))

    def left(self, picked: Sequence[WaitingRows]) -> Sequence[WaitingRows]:
        return picked

    def _closing(self, batch: pa.RecordBatch, rows: Int64s) -> WaitingRows:
        times = self.times
        domain = times.index(ints(batch, "domain")[rows])
        close = ints(batch, self.due)[rows] + self.wait - 1
        passed = times.passes(domain, close)
        rows, domain, close = rows[passed], domain[passed], close[passed]
        mover, latest = times.release_positions(domain, close)
        time = np.minimum(close + self.context.time.hold_back, latest)
        return WaitingRows(_with_release_columns(batch, self.due), rows, mover, time, 2 * ints(batch, "start")[rows])

    def _stale(self, batch: pa.RecordBatch, rows: Int64s) -> Bools:
        """Which of these rows the batch has changed."""
        due = ints(batch, self.due)[rows]
        mask = np.isin(due, ints(self.stale, self.due))
        candidates = np.flatnonzero(mask)
        if len(candidates):
            at = pa.array(rows[candidates])
            keys = _encoded(batch.column("key").take(at), due[candidates])
            mask[candidates] = pc.is_in(keys, value_set=self._encoded).to_numpy(zero_copy_only=False)
        return mask

    @cached_property
    def _encoded(self) -> pa.Array:
        return _encoded(array(self.stale, "key"), ints(self.stale, self.due))


def _encoded(keys: pa.Array, due: Int64s) -> pa.Array:
    return encode_keys(pa.StructArray.from_arrays([keys, pa.array(due)], ["key", "due"]))


def _with_release_columns(batch: pa.RecordBatch, due: str) -> pa.RecordBatch:
    """The rows with all that rows have which wait: no two windows of a key close alike, so nothing is arrival's."""
    if "ts" not in batch.schema.names:
        batch = batch.append_column("ts", batch.column(due))
    return batch.append_column("arrival", pa.array(np.zeros(len(batch), dtype=np.int64)))


# Chains of additions: each adds a record to what the one before it made, so that a chain is folded at once.
#
# A chain begins with a stored state, with nothing, or with what other chains have made: those are of lower levels.


@dataclass(frozen=True)
class Links:
    """Additions, in their order."""

    state: Int64s  # number of the state that each makes
    record: Int64s  # what it adds
    head: Int64s  # what is the same for all of its chain, and where the chain is asked what it begins with
    level: Int64s  # of its chain
    ts: Int64s  # timestamp of what it makes


@dataclass
class States:
    """States by number, stored ones and those that additions make, as pointers into a pool (-1: null)."""

    pool: pa.Array | pa.ChunkedArray
    pointer: Int64s
    kind: pa.DataType = field(kw_only=True)

    @classmethod
    def of_stored(cls, fold: FoldKernel, states: pa.Array, spare: int) -> States:
        """The stored ones, and room for more."""
        pointer = np.where(valid(states), np.arange(len(states)), -1)
        return cls(states, np.concatenate([pointer, np.full(spare, -1, dtype=np.int64)]), kind=fold.state)

    def pointers(self, numbers: Int64s) -> Int64s:
        """Where these are in the pool; -1 for those that are null, and for the number -1."""
        return np.where(numbers >= 0, self.pointer[numbers], -1)

    def of(self, numbers: Int64s) -> pa.Array:
        """These states; null for the number -1."""
        return array_of(gather(self.pool, self.pointers(numbers)), self.kind)

    def add(self, numbers: Int64s, states: pa.Array | pa.ChunkedArray, at: Int64s) -> None:
        """Further states, `states[at]`; -1: null."""
        self.pointer[numbers] = np.where(at >= 0, at + len(self.pool), -1)
        self.pool = joined([self.pool, states], self.kind)


def fold_chains(
    fold: FoldKernel,
    links: Links,
    states: States,
    keys: pa.Array,
    values: pa.Array,
    initial_states: Callable[[Int64s], pa.Array],
    resumes: Bools | None = None,
    ends: Bools | None = None,
) -> dict[int, Exception]:
    """Fold all chains, level by level; the states that they make come to the others.

    Returns the records for which a function raises, where that is tolerated, and what.

    Parameters
    ----------
    keys, values : of each record.
    initial_states : the states that chains begin with, by their heads.
    resumes : of each head, see `Work`.
    ends : of each record, see `Work`.
    """
    failed: dict[int, Exception] = {}
    for level in range(int(links.level.max(initial=-1)) + 1):
        indices = np.flatnonzero(links.level == level)
        indices = indices[np.argsort(links.head[indices], kind="stable")]
        starts = np.flatnonzero(np.diff(links.head[indices], prepend=-1))
        heads = links.head[indices[starts]]
        work = Work(
            keys=keys.take(pa.array(links.record[indices[starts]])),
            starts=np.append(starts, len(indices)),
            values=values.take(pa.array(links.record[indices])),
            ts=links.ts[indices],
            prior=initial_states(heads),
            prior_ts=links.ts[indices[starts]],
            resumes=None if resumes is None else resumes[heads],
            ends=None if ends is None else ends[links.record[indices]],
        )
        done = fold.run_by_policy(work)
        states.add(links.state[indices], done.states, done.after)
        for at in sorted(done.failed):
            failed.setdefault(int(links.record[indices[at]]), done.failed[at])
    return failed


# Windows of keys with records in several partitions, each with a time of its own (docs/decisions/order.md; row 20).
#
# A window belongs to the partition of the record that began it, and is closed by the time of that partition, also if
# others add to it. Until then records of all partitions see it. Later a record that is in time in its own partition
# does not: it begins the window anew, for its own partition. So a window has at most one row in state, and what is
# replaced has been let go.


@dataclass(frozen=True)
class Partitions:
    """The windows that records of such keys see."""

    several: Bools  # of each key group, whether it has records or windows of several partitions
    domain: Int64s  # of each event, number of its time domain
    # of each domain that such keys have, the least time at which a window of it is still open, at each event; of
    # other keys' events it says nothing
    closes: Mapping[int, Int64s]

    @classmethod
    def of(cls, events: Events, times: BatchTimes, key: Int64s, domain: Int64s, wait: int) -> Partitions | None:
        """None where each key lies in one partition.

        Parameters
        ----------
        key, domain : of each window in state that the batch's records may see, its key group and time domain.
        wait : how far time is behind what is still open.
        """
        if len(times.domains) < 2:
            return None
        group, row_domain = events.groups.group_of_row, times.of_row
        first, window_domain = row_domain[events.groups.first], times.index(domain)
        shared = np.zeros(len(first), dtype=np.bool_)
        shared[group[row_domain != first[group]]] = True
        shared[key[window_domain != first[key]]] = True
        if not shared.any():
            return None
        rows = np.flatnonzero(shared[group])
        closes = {}
        for index in np.union1d(row_domain[rows], window_domain[shared[key]]):
            time = np.zeros(len(group), dtype=np.int64)
            time[rows] = time_of(times, rows, int(index))
            closes[int(times.domains[index])] = time - wait
        return cls(shared, times.number(row_domain), closes)

    def stretch(self, start: int, end: int) -> Partitions:
        """The same of some events in succession, numbered from 0."""
        closes = {domain: column[start:end] for domain, column in self.closes.items()}
        return replace(self, domain=self.domain[start:end], closes=closes)


def time_of(times: BatchTimes, rows: Int64s, domain: int) -> Int64s:
    """The time of a domain, by its place, when these events are processed."""
    time, foreign = times.at_row[rows], times.of_row[rows] != domain
    if foreign.any():
        asking = rows[foreign]
        time[foreign] = times.elsewhere(asking, np.full(len(asking), domain, dtype=np.int64))
    return time


_ALWAYS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class StandingWindows:
    """Windows that stand, in order of (key, time)."""

    key: Int64s  # key group of each
    # columns of the table that are numbers, the time by which windows are found first. Where it has headers,
    # `headers` is where those of a window are: the number of the event that changed it last, and from the number of
    # events on that of a stored row
    numbers: Mapping[str, Int64s]
    fresh: Bools  # which ones are not in state as they are
    states: pa.Array  # their states

    def __len__(self) -> int:
        return len(self.key)

    @property
    def time(self) -> Int64s:
        return next(iter(self.numbers.values()))

    def among(self, windows: StandingWindows, mask: Bools) -> Bools:
        """Which have key and time of one of others, of those that count."""
        times = np.concatenate([self.time, windows.time])
        number = group_ids(np.concatenate([self.key, windows.key]), times)
        return np.isin(number[: len(self)], number[len(self) :][mask])


@dataclass(frozen=True)
class WindowChanges:
    """Changes of windows, in order of position."""

    row: Int64s  # the event that brings each
    place: Int64s  # the how manieth of its event it is
    # start, end, ts: of the window: its ends, and the timestamp of the result
    start: Int64s
    end: Int64s
    ts: Int64s
    # new, old: its states after and before, by number; -1: none
    new: Int64s
    old: Int64s


class Shard:
    """The windows of one shard in one batch.

    Attributes
    ----------
    sizes, domain : of each event, bytes of its value and its time domain.
    standing : what stands now.
    partitions : what records of keys see that lie in several partitions; None: there are none.
    """

    def __init__(
        self, events: Events, times: BatchTimes, fold: FoldKernel, table: Table, reach: int, wait: int
    ) -> None:
        """Read what is stored.

        Parameters
        ----------
        reach : how far back from its timestamp a record looks for windows, in ms.
        wait : how far time is behind the least end of a window that is still open, in ms.
        """
        self.events = events
        self.fold = fold
        self._times = times
        self._table = table
        self._first = events.groups.first
        self.domain = times.number(times.of_row)
        self.sizes = sizes_of(events)
        self.standing = self._initial = self._load(reach)
        self._replaced: list[StandingWindows] = []
        windows = self.standing
        self.partitions = Partitions.of(events, times, windows.key, windows.numbers["domain"], wait)

    def _load(self, reach: int) -> StandingWindows:
        """The stored windows of the batch's keys near its records."""
        events, first = self.events, self._first
        earliest = np.full(len(first), _ALWAYS)
        np.minimum.at(earliest, events.groups.group_of_row, events.ts)
        keys = events.key.take(pa.array(first))
        matches = self._table.range(events.hash[first], keys, earliest - reach, np.full(len(first), _ALWAYS))
        names = [name for name in self._table.schema.names if name not in ("hash", "key")]
        rows = matches.take(names)
        numbers = {name: ints(rows, name) for name in names if name not in ("value", "headers")}
        if "headers" in names:
            self._headers = rows.column("headers")
            numbers["headers"] = len(events) + np.arange(len(rows), dtype=np.int64)
        return StandingWindows(matches.query, numbers, np.zeros(len(rows), dtype=np.bool_), array(rows, "value"))

    def growth(self, start: int, end: int) -> int:
        """About how many bytes the states after each of these events have."""
        if not self.fold.grows:
            return 0
        groups = self.events.groups
        largest = np.zeros(groups.count, dtype=np.int64)
        np.maximum.at(largest, self.standing.key, row_bytes(self.standing.states))
        return grown(groups.group_of_row[start:end], largest, self.sizes[start:end])

    def settle(self, key: Int64s, numbers: Mapping[str, Int64s], fresh: Bools, states: pa.Array) -> None:
        """The windows after a stretch, in any order."""
        order = order_of([key, next(iter(numbers.values()))])
        key, left = key[order], states.take(pa.array(order))
        refuse_large(self.events, left, lambda at: self.events.key[int(self._first[key[at]])])
        self.standing = StandingWindows(
            key, {name: column[order] for name, column in numbers.items()}, fresh[order], left
        )

    def let_go(self, key: Int64s, numbers: Mapping[str, Int64s], states: pa.Array) -> None:
        """Closed windows that others have replaced: they are not stored any more."""
        self._replaced.append(StandingWindows(key, numbers, np.ones(len(key), dtype=np.bool_), states))

    def results(self, changes: WindowChanges, states: States) -> Iterator[pa.Table]:
        """The changes as results; with the record cache each window's last."""
        events, all_of = self.events, np.arange(len(changes.row))
        window = group_ids(events.groups.group_of_row[changes.row], changes.start, changes.end)
        pointers = states.pointers(changes.new), states.pointers(changes.old)

        def meta(indices: Int64s, ts: Int64s) -> dict[str, pa.Array | Picked]:
            row, start, end = changes.row[indices], changes.start[indices], changes.end[indices]
            return under_windows(events, row, start, end, changes.place[indices], ts)

        operator = events.context.operator
        yield from changed_aggregates(operator, self.fold, window, all_of, states.pool, pointers, changes.ts, meta)

    def closing(self, wait: int, ends: Ends | None = None) -> Iterator[pa.Table]:
        """Results of the windows that close in the batch; see `Closing`."""
        current, initial, time = self.standing, self._initial, next(iter(self.standing.numbers))
        fresh = [self._rows(current, np.flatnonzero(current.fresh))]
        fresh += [self._rows(windows, np.arange(len(windows))) for windows in self._replaced]
        changed = self._rows(initial, np.flatnonzero(~initial.among(current, ~current.fresh)))
        stale = pa.table({name: changed[name] for name in ("key", time)})
        closing = Closing(self.events.context, self._times, self._table, time, wait, fresh, stale)
        yield from closing.results(self.fold, ends)

    def write(self, retention: int) -> None:
        """Store what stands, delete what does not any more; let go what is `retention` ms behind its domain's time."""
        current, initial = self.standing, self._initial
        deleted = np.flatnonzero(~initial.among(current, np.ones(len(current), dtype=np.bool_)))
        self._table.put(self._rows(current, np.flatnonzero(current.fresh)))
        self._table.put(self._rows(initial, deleted), np.ones(len(deleted), dtype=np.bool_))
        self._table.expire(self._times.by_domain(self._times.end - retention))

    def _rows(self, standing: StandingWindows, rows: Int64s) -> dict[str, pa.Array | Picked]:
        """Some windows as the table has them."""
        first = self._first[standing.key[rows]]
        columns: dict[str, pa.Array | Picked] = {
            "hash": pa.array(self.events.hash[first]),
            "key": self.events.key.take(pa.array(first)),
            "value": Picked(standing.states, rows),
        }
        numbers = {name: column[rows] for name, column in standing.numbers.items()}
        if "headers" in numbers:
            columns["headers"] = self.events.headers(numbers.pop("headers"), self._headers)
        return columns | {name: pa.array(column) for name, column in numbers.items()}


# Windows by the calendar: where days, weeks and months of a time zone begin, as moments.
#
# The rules of zones are Python's `zoneinfo`; it is asked once for each period that records of a batch lie near, and
# remembered. A beginning that clocks skip is the moment at which they show as much later as they were put forward; of
# one that they show twice it is the first (PEP 495, as java.time has it).

_EPOCH = datetime(1970, 1, 1)
_MONDAY = -3
"""1970-01-01 was a Thursday: the Monday before is three days earlier."""
_CYCLE_DAYS = 146_097
"""After 400 years the calendar is the same again, days of the week included."""
_CYCLE = {"day": _CYCLE_DAYS, "week": _CYCLE_DAYS // 7, "month": 4_800}
_CYCLES_FROM = 1_000
"""From how many years behind 1970 on it is taken for so: rules are given for ever by then, and Python's years end."""
_NEAR = np.arange(-2, 3)
"""The periods around one within which the window lies that holds a moment, by the clock of whatever zone."""


class Calendar:
    """The windows of a definition."""

    def __init__(self, windows: CalendarWindows) -> None:
        self._windows = windows

    def around(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """(start, end) of the window that holds each of these moments; none begins before 1970."""
        periods = np.unique(self._periods(ts))
        near = np.unique(periods[:, None] + _NEAR)
        # rules may skip a day: then two periods begin in one moment
        starts = np.unique(np.array([_period_start(self._windows, period) for period in near.tolist()], dtype=np.int64))
        at = starts.searchsorted(ts, side="right")
        if not len(ts):
            return ts, ts
        return np.maximum(0, starts[at - 1]), starts[at]

    def earlier(self, start: int, count: int) -> tuple[int, int] | None:
        """(start, end) of the window that lies so many windows before the one that begins then; None: before 1970."""
        end = start
        for _ in range(count):
            if start <= 0:
                return None
            starts, ends = self.around(np.array([start - 1]))
            start, end = int(starts[0]), int(ends[0])
        return start, end

    def _periods(self, ts: Int64s) -> Int64s:
        if self._windows.period == "month":
            return ts.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
        days = ts // DAY_MS
        return (days - _MONDAY) // 7 if self._windows.period == "week" else days


@lru_cache(maxsize=65_536)
def _period_start(windows: CalendarWindows, period: int) -> int:
    """The moment at which a period begins, by its number since 1970, in ms."""
    cycle = _CYCLE[windows.period]
    cycles = max(0, period - _CYCLES_FROM * cycle // 400) // cycle
    wall = _EPOCH + timedelta(days=_first_day(windows, period - cycles * cycle), milliseconds=windows.offset_ms)
    moment = wall.replace(tzinfo=ZoneInfo(windows.zone)).astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(milliseconds=1) + cycles * _CYCLE_DAYS * DAY_MS


def _first_day(windows: CalendarWindows, period: int) -> int:
    if windows.period == "month":
        return (datetime(1970 + period // 12, 1 + period % 12, 1) - _EPOCH).days
    return _MONDAY + WEEKDAYS.index(windows.week_starts) + 7 * period if windows.period == "week" else period
