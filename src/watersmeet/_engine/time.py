"""Stream time inside an operator: per time domain, at each row, at the start and at the end of the batch.

Law 3: the time of a domain at a record is the largest order_ts so far, less what the operators above hold back; no
shard needs to hear of another's records for it. A shard must get the time at the end of the batch
(`exchange.Watermark`); where results are held back, or come that were, every record that moves time
(`OperatorTime.every`); and, since stored rows disappear as their own side moves on (stream_stream.md), how far
the timestamps of each side reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import keys as form
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.rows import (
    AT_LAST,
    HELD_KEY,
    LET_GO,
    PARTITION_BITS,
    ROOT_POSITION,
    Bools,
    Int64s,
    array,
    as_differences,
    held_keys,
    held_together,
    ints,
    let_go,
    of_differences,
    order_by,
    partitions,
    position_columns,
    valid,
)
from watersmeet._engine.state.runs import State
from watersmeet._plan.physical import TIME_SIDE, bounds_side

# The rows of time of a shard in a batch: of each source partition the last time, or every record that moves it.
#
# In a test driver all inputs are one partition and order_ts is the number of the piped record, so that records are
# processed as they were piped; then times come beside.

_PARTITION = (1 << PARTITION_BITS) - 1
_NEVER = -(2**62)


def last_times(rows: pa.Table) -> pa.Table:
    """Of each source partition of a frame the last time."""
    order_ts, srcpart = ints(rows, "order_ts"), ints(rows, "srcpart")
    order = np.lexsort((order_ts, srcpart))
    order_ts, srcpart = order_ts[order], srcpart[order]
    last = np.append(srcpart[1:] != srcpart[:-1], True)
    return pa.table({"srcpart": pa.array(srcpart[last]), "order_ts": pa.array(order_ts[last])})


def time_moves(rows: pa.Table) -> pa.Table:
    """Of each source partition of a frame every record that moves its time: a row with the first, and differences."""
    names = [name for name in ("order_ts", "offset", "time") if name in rows.column_names]
    columns = {name: ints(rows, name) for name in names}
    srcpart, time = ints(rows, "srcpart"), ints(rows, names[-1] if "time" in names else "order_ts")
    tables = []
    for part in np.unique(srcpart):
        indices = np.flatnonzero(srcpart == part)
        indices = indices[order_by([columns["order_ts"][indices], columns["offset"][indices]])]
        reached = np.maximum.accumulate(time[indices])
        indices = indices[np.append(True, reached[1:] > reached[:-1])]
        steps = {name: column[indices] for name, column in columns.items()}
        row = {
            "srcpart": pa.array([part]),
            "order_ts": pa.array(steps["order_ts"][-1:]),
            "count": pa.array([len(indices)]),
        }
        tables.append(pa.table(row | as_differences(steps)))
    return pa.concat_tables(tables)


def last_time_by_partition(table: pa.Table | None, lag: int) -> tuple[Int64s, Int64s]:
    """(partition, the operator's last time of it) of what the rows of `TIME_SIDE` say, but for the wall clock's.

    Rows for every record that moves time are not unpacked for it, except in a test driver.
    """
    if table is None or not len(table) or "time_first" in table.column_names:
        updates = TimeUpdates.of(table, lag)
        return updates.partition, updates.time
    return ints(table, "srcpart") & _PARTITION, ints(table, "order_ts") - lag


@dataclass(frozen=True)
class TimeUpdates:
    """The rows of time of a shard, in order of position."""

    # of the records that move time, and of the wall clock's moment: order_ts, srcpart, offset
    position: tuple[Int64s, ...]
    partition: Int64s  # of the source
    time: Int64s  # the operator's time from there on; within a domain it never falls
    number: Int64s  # of the record among the different ones, in order
    lag: int  # what the operators above hold back
    piped: bool  # whether order_ts is the number of a piped record, and time a matter of its own

    @classmethod
    def of(cls, table: pa.Table | None, lag: int) -> TimeUpdates:
        """The rows of `TIME_SIDE`, except the wall clock's."""
        if table is None or not len(table):
            nothing = np.zeros(0, dtype=np.int64)
            return cls((nothing,) * len(ROOT_POSITION), nothing, nothing, nothing, lag, piped=False)
        srcpart, piped = ints(table, "srcpart"), "time_first" in table.column_names
        if "count" in table.column_names:
            count = ints(table, "count")
            order, offset = (of_differences(table, name, count) for name in ("order_ts", "offset"))
            time = of_differences(table, "time", count) if piped else order
            srcpart = np.repeat(srcpart, count)
        else:
            order, offset, time = ints(table, "order_ts"), np.zeros(len(table), dtype=np.int64), ints(table, "order_ts")
        rows = order_by([order, srcpart, offset])
        position = (order[rows], srcpart[rows], offset[rows])
        reached = np.maximum.accumulate(time[rows]) if piped else time[rows]
        return cls(position, position[1] & _PARTITION, reached - lag, _numbered(position), lag, piped)

    def only(self, mask: Bools) -> TimeUpdates:
        """Some of it."""
        position = tuple(column[mask] for column in self.position)
        return replace(
            self,
            position=position,
            partition=self.partition[mask],
            time=self.time[mask],
            number=self.number[mask],
        )

    @cached_property
    def movers(self) -> list[Int64s]:
        first = np.flatnonzero(np.append(True, self.number[1:] != self.number[:-1])[: len(self.number)])
        return [column[first] for column in self.position]

    def time_at(self, order_ts: Int64s) -> Int64s:
        """The operator's time at records of the sources."""
        if not self.piped:
            return order_ts - self.lag
        times = np.append(_NEVER, self.time)
        return times[np.searchsorted(self.position[0], order_ts, side="right")]

    def around(self, places: Sequence[Int64s], start: int) -> tuple[Int64s, Int64s]:
        """The times right before and right behind what stands at these positions, `start` before the batch."""
        positions = [np.concatenate(pair) for pair in zip(self.position, places, strict=True)]
        asks = np.repeat(np.array([0, 1]), [len(self.time), len(places[0])])
        times = np.maximum.accumulate(np.append(start, self.time))
        return times[_updates_before(positions, asks, 1 - asks)], times[_updates_before(positions, asks, asks)]

    def behind(self, partition: Int64s, time: Int64s) -> TimeUpdates:
        """With times that no record told, but the wall clock: those of domains that rest."""
        if not len(time):
            return self
        clock = (AT_LAST, LET_GO, 0)
        position = tuple(
            np.append(column, np.full(len(time), at)) for column, at in zip(self.position, clock, strict=True)
        )
        return replace(
            self,
            position=position,
            partition=np.append(self.partition, partition),
            time=np.append(self.time, time),
            number=_numbered(position),
        )


def _numbered(position: Sequence[Int64s]) -> Int64s:
    fresh = np.zeros(len(position[0]), dtype=np.bool_)
    for column in position:
        fresh[1:] |= column[1:] != column[:-1]
    return np.cumsum(fresh)


def _updates_before(positions: Sequence[Int64s], asks: Int64s, last: Int64s) -> Int64s:
    """How many that tell stand before each that asks; of those at one position `last` has 0 for the first."""
    order = np.lexsort((last, *reversed(positions)))
    so_far = np.cumsum(1 - asks[order])
    counts = np.empty(len(order), dtype=np.int64)
    counts[order] = so_far
    return np.asarray(counts[asks > 0])


# Reach: how far the timestamps of an edge's rows go, told to every shard of a windowed join, or of a
# versioned table.
#
# A stored row disappears when its own side has moved on by the retention, whatever the key (docs/semantics,
# section 6), so every shard must know exactly at which positions a side gets further. In an orderly stream that
# is every millisecond that has a record: so positions travel as differences (`rows.as_differences`), and are read only
# where a late record asks. Law 3: the result does not depend on the shards.


def bounds_by_case(
    rows: pa.Table, cases: Int64s | None, slots: int, *, nulls: bool = False
) -> Iterator[tuple[int, pa.Table]]:
    """(case, rows for every shard) of the time bounds of rows with key and value; `nulls`: with a key."""
    mask = valid(rows.column("key"))
    mask = mask if nulls else mask & valid(rows.column("value"))
    cases = np.zeros(len(rows), dtype=np.int64) if cases is None else cases
    for case in np.unique(cases[mask]):
        indices = pa.array(np.flatnonzero(mask & (cases == case)))
        yield int(case), _bounds_table(rows.take(indices), position_columns(slots))


def _bounds_table(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    columns, row_keys = [ints(rows, name) for name in names], held_keys(rows)
    order = order_by(columns, row_keys)
    part = partitions(columns)
    tables = []
    for number in np.unique(part):
        indices = order[part[order] == number]
        reach = np.maximum.accumulate(ints(rows, "ts")[indices])
        fresh = np.append(True, reach[1:] > reach[:-1])
        steps = {name: column[indices][fresh] for name, column in zip(names, columns, strict=True)}
        keys = None if row_keys is None else row_keys.take(pa.array(indices[fresh]))
        tables.append(_bounds_row(int(number), steps, reach[fresh], keys))
    return pa.concat_tables(tables)


def _bounds_row(part: int, steps: dict[str, Int64s], reach: Int64s, keys: pa.Array | None) -> pa.Table:
    """One row: the partition, its last reach, and the steps, with the keys that they were held back under."""
    columns: dict[str, pa.Array] = {"partition": pa.array([part]), "reach": pa.array(reach[-1:])}
    columns["count"] = pa.array([len(reach)])
    # As a rule the reach is the order_ts, and so their difference nothing.
    columns |= as_differences(steps | {"behind": steps["order_ts"] - reach})
    if keys is not None:
        columns[HELD_KEY] = pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), keys)
    return pa.table(columns)


class Steps:
    """The steps of one side of a batch, unpacked.

    Attributes
    ----------
    position : columns of their positions, most significant first.
    reach : how far the rows of the partition reach from there on.
    held : serialized keys that the steps' rows were held back under, null where one was not; None: none was.
    partition : number of the partition.
    """

    def __init__(self, table: pa.Table, slots: int) -> None:
        count = ints(table, "count")
        self.position = [of_differences(table, name, count) for name in position_columns(slots)]
        self.reach = self.position[0] - of_differences(table, "behind", count)
        self.partition = np.repeat(ints(table, "partition"), count)
        self.held = _step_keys(table, count)


def _step_keys(table: pa.Table, count: Int64s) -> pa.Array | None:
    if HELD_KEY not in table.column_names:
        return None
    return held_together([keys.values if keys.is_valid else None for keys in array(table, HELD_KEY)], count.tolist())


def furthest_before(steps: Int64s, reach: Int64s, events: Int64s, start: int) -> Int64s:
    """How far it went before each event: steps and events are given by their ranks in one order."""
    order = np.argsort(steps)
    furthest = np.maximum.accumulate(np.append(start, reach[order]))
    result: Int64s = furthest[np.searchsorted(steps[order], events)]
    return result


# Time that goes on while the input rests, where the option `idle_after` asks for it.
#
# A domain rests when for so long no record has told its time. From then on its time is the last one that
# records told, plus the wall clock that has gone by since. That clock comes in rows of a source of the query, with
# offsets in the checkpoint, and never from a worker's clock: so a replayed batch gives the same. Written by the packs,
# read by `times`.

CLOCK = -1
"""srcpart of what the wall clock tells, among the times of the sources."""

_QUIET = "quiet"


def clock_row(wall: int, *, piped: bool = False) -> pa.Table:
    """The wall clock for every shard of an operator that keeps time, in ms; `piped`: in a test driver."""
    names = ("order_ts", "time") if piped else ("order_ts",)
    return pa.table({"srcpart": pa.array([CLOCK])} | {name: pa.array([wall]) for name in names})


def split(table: pa.Table | None) -> tuple[pa.Table | None, int | None]:
    """The times of the sources, and what the wall clock shows; None where there are none."""
    if table is None:
        return None, None
    clock = ints(table, "srcpart") == CLOCK
    if not clock.any():
        return table, None
    return table.filter(pa.array(~clock)), int(ints(table, "order_ts")[clock].max())


@dataclass(frozen=True)
class Quiet:
    """Since when each domain is quiet."""

    since: Int64s  # what the wall clock showed when records last told the domain's time; -1 until it is known
    time: Int64s  # the domain's time then

    @classmethod
    def of(cls, state: State, domains: Int64s, time: Int64s) -> Quiet:
        """As the last batch left it; `time` for domains that are new."""
        entries = state.get_scalar(_QUIET, {})
        # one a domain
        rows = [entries.get(str(d), [-1, t]) for d, t in zip(domains, time.tolist(), strict=True)]
        since, times = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        return cls(since, times)

    def after(self, fresh: Bools, time: Int64s, wall: int | None) -> Quiet:
        """After a batch in which records told `time` to the `fresh` domains and the clock showed `wall`."""
        clock = -1 if wall is None else wall
        since = np.where(fresh | (self.since < 0), clock, self.since)
        return Quiet(since, np.where(fresh, time, self.time))

    def moved(self, end: Int64s, wall: int | None, idle_after: int) -> Int64s:
        """The domains' times after the batch, those that rest moved on."""
        if wall is None:
            return end
        passed = wall - self.since
        return np.where((self.since >= 0) & (passed >= idle_after), np.maximum(end, self.time + passed), end)

    def store(self, state: State, domains: Int64s) -> None:
        """Keep it for the next batch."""
        pairs = np.stack([self.since, self.time], axis=1).tolist()
        # one a domain
        state.set_scalar(_QUIET, {str(d): pair for d, pair in zip(domains.tolist(), pairs, strict=True)})


# Turn and serialized key of a row that time lets go, as bytes of their order: what `held_key` holds.

TURN_BYTES = 8
_SIGN = np.uint64(1 << 63)


def with_turns(turn: Int64s, encoded: pa.Array) -> pa.Array:
    """Each key behind its turn, as bytes of the same order."""
    words = (turn.view(np.uint64) ^ _SIGN).astype(">u8")
    offsets = np.arange(0, TURN_BYTES * (len(turn) + 1), TURN_BYTES, dtype=np.int32)
    first = pa.Array.from_buffers(pa.binary(), len(turn), [None, pa.py_buffer(offsets), pa.py_buffer(words)])
    # By Arrow, which copies the bytes: a number for each of them would take many times their room.
    keys, nothing = encoded.cast(pa.binary()), pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(first, keys, nothing, null_handling="replace", null_replacement="")


def turns(keys: pa.Array) -> Int64s:
    """The turns of rows that were let go; 0 of those that were not."""
    starts, lengths, content = form.spans(keys.fill_null(bytes(TURN_BYTES)))
    padded = np.zeros(len(content) + TURN_BYTES, dtype=np.uint8)
    padded[: len(content)] = content
    words = np.ndarray((len(content) + 1,), ">u8", buffer=padded, strides=(1,))[starts].astype(np.uint64)
    return np.where(lengths > 0, (words ^ _SIGN).view(np.int64), 0)


Ranked = Callable[[list[Int64s], list[Int64s]], Int64s]
"""Gives how many of some places stand before each of others, or at it."""
TIME, REACH = "time", "reach"
"""Scalars: the time of each domain, and of each side how far its rows reach in each domain."""
_UNHEARD = -(2**62)
"""Time of a domain that no record has told any."""


class BatchTimes:
    """The times of one operator in one batch; arrays over domains are in the order of `domains`.

    Attributes
    ----------
    domains : numbers of the domains that are known.
    of_row : index of each event's domain in them.
    now : the operator's time that each event stands at.
    at_row : the time of each event's domain when it is processed.
    start, end : time of each domain before and after the batch, -1 where none is known.
    wall : what the wall clock shows, in ms; None where the batch is not told.
    """

    def __init__(
        self, context: OperatorContext, inputs: Mapping[int, pa.Table], events: Events, state: State, sides: int
    ) -> None:
        self._context = context
        self._events = events
        self._sides = sides
        table, wall = split(inputs.get(TIME_SIDE))
        self.wall = wall
        self._time_rows, lag = table, context.time.hold_back
        partition, last = last_time_by_partition(table, lag)
        update_domains = self._domain(partition)
        start_times = {int(d): t for d, t in state.get_scalar(TIME, {}).items()}
        row_domains = self._domain(partitions(events.position))
        self._side_reach = [inputs.get(bounds_side(s)) for s in range(sides)]
        reaching = [self._domain(ints(table, "partition")) for table in self._side_reach if table is not None]
        state_domains = np.array(sorted(start_times), dtype=np.int64)
        self.domains = np.unique(np.concatenate([row_domains, update_domains, state_domains, *reaching]))
        self.of_row = self.index(row_domains)
        self.start = np.array([start_times.get(int(d), -1) for d in self.domains], dtype=np.int64)
        released = let_go(events.position)
        piped = table is not None and "time_first" in table.column_names
        order_ts = events.position[0]
        self.now = TimeUpdates.of(table, lag).time_at(order_ts) if piped else order_ts - lag
        self.end = np.array(self.start)
        np.maximum.at(self.end, self.of_row[~released], self.now[~released])
        np.maximum.at(self.end, self.index(update_domains), last)
        self._idle = np.zeros(0, dtype=np.int64)
        self._quiet = self._advance_idle(state, wall, update_domains, last) if context.time.idle_after_ms else None
        self.now[released] = self._let_go(np.flatnonzero(released))
        self.at_row = np.maximum(self.now, self.start[self.of_row])
        reached = state.get_scalar(REACH, [{} for _ in range(sides)])
        # a processor may have fewer sides in the batch before
        reached = [*reached, *({} for _ in range(sides - len(reached)))]
        self._reached = [
            np.array([reached[s].get(str(d), -1) for d in self.domains], dtype=np.int64) for s in range(sides)
        ]

    @cached_property
    def _updates(self) -> TimeUpdates:
        """Every record that moves time, and the wall clock where domains rest; unpacked where somebody asks."""
        updates = TimeUpdates.of(self._time_rows, self._context.time.hold_back)
        return updates.behind(self.domains[self._idle], self.end[self._idle])

    def _advance_idle(self, state: State, wall: int | None, update_domains: Int64s, last: Int64s) -> Quiet:
        """Moves the time of the domains that rest on."""
        fresh = np.zeros(len(self.domains), dtype=np.bool_)
        fresh[self.index(update_domains)] = True
        # what has heard of no time has none to go on from
        quiet = Quiet.of(state, self.domains, np.where(self.end < 0, _UNHEARD, self.end))
        quiet = quiet.after(fresh, self._heard(quiet, update_domains, last), wall)
        end = quiet.moved(self.end, wall, self._context.time.idle_after_ms)
        self._idle = np.flatnonzero(end > self.end)
        self.end = end
        return quiet

    def _heard(self, quiet: Quiet, update_domains: Int64s, last: Int64s) -> Int64s:
        """The time of each domain that records have told, from which a rest goes on.

        It is before 0 where the operators above may hold back longer than it is since time 0; `end` has -1 there, from
        which a rest would reach each moment too early.
        """
        heard = np.full(len(self.domains), _UNHEARD)
        np.maximum.at(heard, self.index(update_domains), last)
        previous = np.where(quiet.since >= 0, np.maximum(quiet.time, heard), heard)
        return np.where(self.end < 0, previous, self.end)

    def _let_go(self, rows: Int64s) -> Int64s:
        """The time at rows that operators above have let go.

        It is the time at which they were, but not less than the records before have made it, nor more than the record
        or the clock does before which they stand.
        """
        return self._bounded(rows, self.of_row[rows], self._release_time(rows))

    def _release_time(self, rows: Int64s) -> Int64s:
        return self._events.position[len(ROOT_POSITION)][rows] + LET_GO - self._context.time.hold_back

    def _bounded(self, rows: Int64s, domain: Int64s, moment: Int64s) -> Int64s:
        """Moments at rows, each between the times of its domain around the row."""
        time, update_domains = np.empty(len(rows), dtype=np.int64), self.index(self._domain(self._updates.partition))
        place = [column[rows] for column in self._events.position[: len(ROOT_POSITION)]]
        for d in np.unique(domain):
            updates, indices = self._updates.only(update_domains == d), np.flatnonzero(domain == d)
            lower, upper = updates.around([column[indices] for column in place], int(self.start[d]))
            time[indices] = np.minimum(np.maximum(moment[indices], lower), upper)
        return time

    def index(self, domains: Int64s) -> Int64s:
        return np.searchsorted(self.domains, domains)

    def number(self, row_index: Int64s) -> Int64s:
        return self.domains[row_index]

    def by_domain(self, times: Int64s) -> dict[int, int]:
        return dict(zip(self.domains.tolist(), times.tolist(), strict=True))

    def passing(self) -> tuple[int, int]:
        """(first, end) of the moments that this batch passes in some domain."""
        return int(self.start.min(initial=2**62)), int(self.end.max(initial=-1))

    def passes(self, domain: Int64s, close: Int64s) -> Bools:
        """Which of these moments the batch passes, each in its domain, by its place in `domains`."""
        return np.asarray((close >= self.start[domain]) & (close < self.end[domain]))

    @property
    def movers(self) -> list[Int64s]:
        """Positions of the records that move time in this batch, in order; the wall clock's moment is the last."""
        return self._updates.movers

    def release_positions(self, domain: Int64s, close: Int64s) -> tuple[Int64s, Int64s]:
        """Where results stand that are let go when the time of their domain is past `close`, in this batch.

        Returns the number of the record in `movers` that each stands before, and the last moment of the sources before
        that record.
        """
        mover, latest = np.zeros(len(close), dtype=np.int64), np.zeros(len(close), dtype=np.int64)
        update_domains = self.index(self._domain(self._updates.partition))
        for d in np.unique(domain):
            updates, rows = self._updates.only(update_domains == d), np.flatnonzero(domain == d)
            at = np.searchsorted(updates.time, close[rows], side="right")
            mover[rows], latest[rows] = updates.number[at], updates.time[at] - 1 + self._context.time.hold_back
        return mover, latest

    def moves(self, domain: int) -> tuple[Int64s, Int64s]:
        """(time, number in `movers`) of all that moves the time of a domain, by its place in `domains`, in order."""
        updates = self._updates.only(self.index(self._domain(self._updates.partition)) == domain)
        return updates.time, updates.number

    def elsewhere(self, rows: Int64s, domain: Int64s) -> Int64s:
        """The time of another domain than its own, when each of these events is processed.

        Only if the shard gets every record that moves time (`OperatorTime.every`). Where the wall clock moves several
        domains, rows that an operator above has let go come at their own time in all of them.
        """
        # of rows that no operator has let go the bounds alone count
        released = let_go(self._events.position)[rows]
        moment = np.where(released, self._release_time(rows), np.iinfo(np.int64).min)
        return self._bounded(rows, domain, moment)

    def side_time_before(self, side: int, rows: Int64s, domain: Int64s) -> Int64s:
        """How far the rows of a side, in a domain, reached before each of these events; -1 for not at all."""
        result = self._reached[side][domain]
        if self._side_reach[side] is None:
            return result
        steps, step_rank, event_rank = self._steps[side], self._ranks[side], self._ranks[-1]
        step_domain = self.index(self._domain(steps.partition))
        for d in np.unique(domain):
            step_indices, asking = np.flatnonzero(step_domain == d), np.flatnonzero(domain == d)
            start = int(self._reached[side][d])
            result[asking] = furthest_before(
                step_rank[step_indices], steps.reach[step_indices], event_rank[rows[asking]], start
            )
        return result

    def side_time_at(self, side: int, domain: int, ranked: Ranked, mover: int) -> int:
        """How far the rows of a side, in a domain, reach directly before a record that moves time.

        Parameters
        ----------
        ranked : gives how many records that move time stand before some places, or at them.
        mover : the record's number in `movers`.
        """
        reached = int(self._reached[side][domain])
        if self._side_reach[side] is None:
            return reached
        steps = self._steps[side]
        in_domain = self.index(self._domain(steps.partition)) == domain
        passed = in_domain & (ranked(self.movers, steps.position[: len(ROOT_POSITION)]) <= mover)
        return int(steps.reach[passed].max(initial=reached))

    def side_time_at_end(self, side: int) -> Int64s:
        """How far the rows of a side reach in each domain after the batch; -1 for not at all."""
        result = np.array(self._reached[side])
        table = self._side_reach[side]
        if table is not None:
            np.maximum.at(result, self.index(self._domain(ints(table, "partition"))), ints(table, "reach"))
        return result

    def store(self, state: State) -> None:
        """Keep what the next batch starts with."""
        names = [str(d) for d in self.domains]
        state.set_scalar(TIME, dict(zip(names, self.end.tolist(), strict=True)))
        reached = [dict(zip(names, self.side_time_at_end(s).tolist(), strict=True)) for s in range(self._sides)]
        state.set_scalar(REACH, reached)
        if self._quiet is not None:
            self._quiet.store(state, self.domains)

    def _domain(self, partition: Int64s) -> Int64s:
        return partition if self._context.time.domains else np.zeros(len(partition), dtype=np.int64)

    @cached_property
    def _steps(self) -> dict[int, Steps]:
        """The steps of each side that has any, unpacked for late records only."""
        slots = self._context.slots
        return {side: Steps(table, slots) for side, table in enumerate(self._side_reach) if table is not None}

    @cached_property
    def _ranks(self) -> dict[int, Int64s]:
        """Places of the sides' steps, and as side -1 of all events, in one order of position."""
        parts = [self._events.position, *(self._steps[s].position for s in sorted(self._steps))]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        counts = [len(position[0]) for position in parts]
        keys = held_together([self._events.held, *(self._steps[s].held for s in sorted(self._steps))], counts)
        rank = np.empty(len(columns[0]), dtype=np.int64)
        rank[order_by(columns, keys)] = np.arange(len(rank))
        events, *ranks = np.split(rank, np.cumsum(counts)[:-1])
        return dict(zip(sorted(self._steps), ranks, strict=True)) | {-1: events}


def moments(events: Events, times: BatchTimes) -> Int64s:
    """Twice the time that each row comes at; one more, where it stands behind what an operator lets go then.

    Rows that operators above let go at one time stand there in order of turns (`waiting_rows.in_order`); a row that an
    operator lets go at a time t has the turn 2t.
    """
    return moments_at(events, times, np.arange(len(events)), times.at_row)


def moments_at(events: Events, times: BatchTimes, rows: Int64s, time: Int64s) -> Int64s:
    """The same of some rows, by a time that is not their own."""
    moment = 2 * time
    if events.held is None:
        return moment
    at_time = events.position[len(ROOT_POSITION)][rows] + LET_GO == time + events.context.time.hold_back
    released = let_go(events.position)[rows]
    return np.asarray(moment + (released & at_time & (turns(events.held.take(pa.array(rows))) > moment)))


# The wall clock as an operator knows it that has timers of it.
#
# It comes in rows of a source of the query (`clock_row`), with offsets in the checkpoint, and never from a worker's
# clock: a replayed batch gives the same. A batch gets it at its beginning: rows due by it are at the time `AT_FIRST`,
# before all records of the batch.

_WALL = "wall"
TURN = -(2**62)
"""Turn of what the wall clock lets go: less than any of stream time, which nothing is to take it for."""


class WallClock:
    """Its time before a batch and in it, in ms; it never goes back.

    Attributes
    ----------
    before, now : as of the batch before, and in this one.
    """

    def __init__(self, context: OperatorContext, state: State, wall: int | None) -> None:
        self.before: int = state.get_scalar(_WALL, context.time.wall_ms)
        self.now = self.before if wall is None else max(self.before, wall)

    def store(self, state: State) -> None:
        """Keep it for the next batch."""
        state.set_scalar(_WALL, self.now)
