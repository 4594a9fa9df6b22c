"""Stream time inside an operator: per time domain, at each row, at the start and at the end of the batch.

Law 3: the time of a domain at a record is the largest order_ts so far, less what the operators above hold
back; no shard needs to hear of another's records for it. A shard must get (`watermark`) the time at the end of the
batch; where results are held back, or come that were, every record that moves time (`told`); and, since stored rows
disappear as their own side moves on (docs/semantics, section 6), how far the timestamps of each side reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.rows.columns import LET_GO, ROOT_POSITION, held_together, ints, let_go, partitions
from watersmeet._engine.rows.position import order_by
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.idle import Quiet, split
from watersmeet._engine.time.partition_times import TimeUpdates, last_time_by_partition
from watersmeet._engine.time.time_bounds import Steps, furthest_before
from watersmeet._engine.time.turns import turns
from watersmeet._plan.physical import TIME_SIDE, bounds_side

Ranked = Callable[[list[Int64s], list[Int64s]], Int64s]
"""Gives how many of some places stand before each of others, or at it."""
TIME, REACH = "time", "reach"
"""Scalars: the time of each domain, and of each side how far its rows reach in each domain."""
_UNHEARD = -(2**62)
"""Time of a domain that no record has told any."""


class Times:
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
        told, wall = split(inputs.get(TIME_SIDE))
        self.wall = wall
        self._rows_told, lag = told, context.time.hold_back
        partition, last = last_time_by_partition(told, lag)
        told_domain = self._domain(partition)
        stored = {int(d): t for d, t in state.get_scalar(TIME, {}).items()}
        mine = self._domain(partitions(events.position))
        self._told_reach = [inputs.get(bounds_side(s)) for s in range(sides)]
        reaching = [self._domain(ints(told, "partition")) for told in self._told_reach if told is not None]
        known = np.array(sorted(stored), dtype=np.int64)
        self.domains = np.unique(np.concatenate([mine, told_domain, known, *reaching]))
        self.of_row = self.index(mine)
        self.start = np.array([stored.get(int(d), -1) for d in self.domains], dtype=np.int64)
        gone = let_go(events.position)
        piped = told is not None and "time_first" in told.column_names
        order_ts = events.position[0]
        self.now = TimeUpdates.of(told, lag).time_at(order_ts) if piped else order_ts - lag
        self.end = np.array(self.start)
        np.maximum.at(self.end, self.of_row[~gone], self.now[~gone])
        np.maximum.at(self.end, self.index(told_domain), last)
        self._rests = np.zeros(0, dtype=np.int64)
        self._quiet = self._rest(state, wall, told_domain, last) if context.time.idle_after_ms else None
        self.now[gone] = self._let_go(np.flatnonzero(gone))
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
        told = TimeUpdates.of(self._rows_told, self._context.time.hold_back)
        return told.behind(self.domains[self._rests], self.end[self._rests])

    def _rest(self, state: State, wall: int | None, told_domain: Int64s, last: Int64s) -> Quiet:
        """Moves the time of the domains that rest on."""
        fresh = np.zeros(len(self.domains), dtype=np.bool_)
        fresh[self.index(told_domain)] = True
        # what has heard of no time has none to go on from
        quiet = Quiet.of(state, self.domains, np.where(self.end < 0, _UNHEARD, self.end))
        quiet = quiet.after(fresh, self._heard(quiet, told_domain, last), wall)
        end = quiet.moved(self.end, wall, self._context.time.idle_after_ms)
        self._rests = np.flatnonzero(end > self.end)
        self.end = end
        return quiet

    def _heard(self, quiet: Quiet, told_domain: Int64s, last: Int64s) -> Int64s:
        """The time of each domain that records have told, from which a rest goes on.

        It is before 0 where the operators above may hold back longer than it is since time 0; `end` has -1 there, from
        which a rest would reach each moment too early.
        """
        heard = np.full(len(self.domains), _UNHEARD)
        np.maximum.at(heard, self.index(told_domain), last)
        before = np.where(quiet.since >= 0, np.maximum(quiet.time, heard), heard)
        return np.where(self.end < 0, before, self.end)

    def _let_go(self, rows: Int64s) -> Int64s:
        """The time at rows that operators above have let go.

        It is the time at which they were, but not less than the records before have made it, nor more than the record
        or the clock does before which they stand.
        """
        at = self._events.position[len(ROOT_POSITION)][rows] + LET_GO - self._context.time.hold_back
        domain, place = self.of_row[rows], [column[rows] for column in self._events.position[: len(ROOT_POSITION)]]
        told_domain = self.index(self._domain(self._updates.partition))
        for d in np.unique(domain):
            own, mine = self._updates.only(told_domain == d), np.flatnonzero(domain == d)
            before, through = own.around([column[mine] for column in place], int(self.start[d]))
            at[mine] = np.minimum(np.maximum(at[mine], before), through)
        return at

    def index(self, domains: Int64s) -> Int64s:
        """Where these domains stand in `domains`."""
        return np.searchsorted(self.domains, domains)

    def number(self, row_index: Int64s) -> Int64s:
        """Numbers of domains from their places."""
        return self.domains[row_index]

    def by_domain(self, times: Int64s) -> dict[int, int]:
        """A time of each domain, by the domain's number."""
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
        stands, latest = np.zeros(len(close), dtype=np.int64), np.zeros(len(close), dtype=np.int64)
        told_domain = self.index(self._domain(self._updates.partition))
        for d in np.unique(domain):
            own, rows = self._updates.only(told_domain == d), np.flatnonzero(domain == d)
            at = np.searchsorted(own.time, close[rows], side="right")
            stands[rows], latest[rows] = own.number[at], own.time[at] - 1 + self._context.time.hold_back
        return stands, latest

    def moves(self, domain: int) -> tuple[Int64s, Int64s]:
        """(time, number in `movers`) of all that moves the time of a domain, by its place in `domains`, in order."""
        own = self._updates.only(self.index(self._domain(self._updates.partition)) == domain)
        return own.time, own.number

    def elsewhere(self, rows: Int64s, domain: Int64s) -> Int64s:
        """The time of another domain than its own, when each of these events is processed.

        Only if the shard gets every record that moves time (`told`). Where the wall clock moves several domains, rows
        that an operator above has let go come at their own time in all of them.
        """
        now, told_domain = np.empty(len(rows), dtype=np.int64), self.index(self._domain(self._updates.partition))
        place = [column[rows] for column in self._events.position[: len(ROOT_POSITION)]]
        moment = self._moment(rows)
        for d in np.unique(domain):
            own, mine = self._updates.only(told_domain == d), np.flatnonzero(domain == d)
            before, through = own.around([column[mine] for column in place], int(self.start[d]))
            now[mine] = np.minimum(np.maximum(moment[mine], before), through)
        return now

    def _moment(self, rows: Int64s) -> Int64s:
        """The time at which rows were let go that operators above have let go; of others the least one."""
        gone = let_go(self._events.position)[rows]
        at = self._events.position[len(ROOT_POSITION)][rows] + LET_GO - self._context.time.hold_back
        return np.where(gone, at, np.iinfo(np.int64).min)

    def side_time_before(self, side: int, rows: Int64s, domain: Int64s) -> Int64s:
        """How far the rows of a side, in a domain, reached before each of these events; -1 for not at all."""
        result = self._reached[side][domain]
        if self._told_reach[side] is None:
            return result
        steps, step_rank, event_rank = self._steps[side], self._ranks[side], self._ranks[-1]
        step_domain = self.index(self._domain(steps.partition))
        for d in np.unique(domain):
            own, asking = np.flatnonzero(step_domain == d), np.flatnonzero(domain == d)
            start = int(self._reached[side][d])
            result[asking] = furthest_before(step_rank[own], steps.reach[own], event_rank[rows[asking]], start)
        return result

    def side_time_at(self, side: int, domain: int, ranked: Ranked, mover: int) -> int:
        """How far the rows of a side, in a domain, reach directly before a record that moves time.

        Parameters
        ----------
        ranked : gives how many records that move time stand before some places, or at them.
        mover : the record's number in `movers`.
        """
        reached = int(self._reached[side][domain])
        if self._told_reach[side] is None:
            return reached
        steps = self._steps[side]
        own = self.index(self._domain(steps.partition)) == domain
        seen = own & (ranked(self.movers, steps.position[: len(ROOT_POSITION)]) <= mover)
        return int(steps.reach[seen].max(initial=reached))

    def side_time_at_end(self, side: int) -> Int64s:
        """How far the rows of a side reach in each domain after the batch; -1 for not at all."""
        result = np.array(self._reached[side])
        told = self._told_reach[side]
        if told is not None:
            np.maximum.at(result, self.index(self._domain(ints(told, "partition"))), ints(told, "reach"))
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
        return {side: Steps(told, slots) for side, told in enumerate(self._told_reach) if told is not None}

    @cached_property
    def _ranks(self) -> dict[int, Int64s]:
        """Places of the sides' steps, and as side -1 of all events, in one order of position."""
        parts = [self._events.position, *(self._steps[s].position for s in sorted(self._steps))]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        counts = [len(position[0]) for position in parts]
        held = held_together([self._events.held, *(self._steps[s].held for s in sorted(self._steps))], counts)
        rank = np.empty(len(columns[0]), dtype=np.int64)
        rank[order_by(columns, held)] = np.arange(len(rank))
        events, *ranks = np.split(rank, np.cumsum(counts)[:-1])
        return dict(zip(sorted(self._steps), ranks, strict=True)) | {-1: events}


def moments(events: Events, times: Times) -> Int64s:
    """Twice the time that each row comes at; one more, where it stands behind what an operator lets go then.

    That is where an operator above has let it go at that time: what goes at one time has its turn (`time.held`), and
    what an operator lets go at a time t has the turn 2t.
    """
    return moments_at(events, times, np.arange(len(events)), times.at_row)


def moments_at(events: Events, times: Times, rows: Int64s, time: Int64s) -> Int64s:
    """The same of some rows, by a time that is not their own."""
    now = 2 * time
    if events.held is None:
        return now
    there = events.position[len(ROOT_POSITION)][rows] + LET_GO == time + events.context.time.hold_back
    gone = let_go(events.position)[rows]
    return np.asarray(now + (gone & there & (turns(events.held.take(pa.array(rows))) > now)))
