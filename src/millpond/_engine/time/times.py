"""Stream time inside an operator: per time domain, at each row, at the start and at the end of the batch.

Law 3: the time of a domain at a record is the largest order_ts so far, less what the operators above hold
back; no shard needs to hear of another's records for it. What a shard must be told (`watermark`) is the time
at the end of the batch and, since stored rows disappear as their own side moves on (docs/semantics, section 6),
how far the timestamps of each side reach.

In a test driver all inputs are one partition and order_ts is the number of the piped record, so that records
are processed as they were piped; then every shard is told which records moved the operator's time, and to what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from millpond._engine.arrays import Bools, Int64s
from millpond._engine.operators.operator import Events, OperatorContext
from millpond._engine.rows.columns import LET_GO, PARTITION_BITS, held_together, ints, partitions
from millpond._engine.rows.position import order_by
from millpond._engine.state.runs import State
from millpond._engine.time.idle import Quiet, split
from millpond._engine.time.reach import Steps, furthest_before
from millpond._plan.physical import TIME_SIDE, reach_side

_TIME, REACH = "time", "reach"
"""Scalars: the time of each domain, and of each side how far its rows reach in each domain."""


class Times:
    """The times of one operator in one batch; arrays over domains are in the order of `domains`.

    Attributes
    ----------
    domains : numbers of the domains that are known.
    of_row : index of each event's domain in them.
    now : the operator's time that each event stands at.
    at_row : the time of each event's domain when it is processed.
    start, end : time of each domain before and after the batch, -1 where none is known.
    """

    def __init__(
        self, context: OperatorContext, inputs: Mapping[int, pa.Table], events: Events, state: State, sides: int
    ) -> None:
        self._context = context
        self._events = events
        self._sides = sides
        told, wall = split(inputs.get(TIME_SIDE))
        self._told = told = _Told.of(told, context.time.hold_back)
        told_domain = self._domain(told.partition)
        stored = {int(d): t for d, t in state.get_scalar(_TIME, {}).items()}
        mine = self._domain(partitions(events.position))
        self._told_reach = [inputs.get(reach_side(s)) for s in range(sides)]
        reaching = [self._domain(ints(told, "partition")) for told in self._told_reach if told is not None]
        known = np.array(sorted(stored), dtype=np.int64)
        self.domains = np.unique(np.concatenate([mine, told_domain, known, *reaching]))
        self.of_row = self.index(mine)
        self.start = np.array([stored.get(int(d), -1) for d in self.domains], dtype=np.int64)
        order_ts, srcpart = events.position[:2]
        told_at = told.time_at(order_ts)
        self.now = np.where(srcpart >= LET_GO, srcpart - LET_GO - context.time.hold_back, told_at)
        self.at_row = np.maximum(self.now, self.start[self.of_row])
        self.end = np.array(self.start)
        np.maximum.at(self.end, self.of_row, self.now)
        np.maximum.at(self.end, self.index(told_domain), told.time)
        self._quiet = self._rest(state, wall) if context.time.idle_after_ms else None
        reached = state.get_scalar(REACH, [{} for _ in range(sides)])
        self._reached = [
            np.array([reached[s].get(str(d), -1) for d in self.domains], dtype=np.int64) for s in range(sides)
        ]

    def _rest(self, state: State, wall: int | None) -> Quiet:
        """Moves the time of the domains that rest on."""
        fresh = np.zeros(len(self.domains), dtype=np.bool_)
        fresh[self.index(self._domain(self._told.partition))] = True
        quiet = Quiet.of(state, self.domains, self.end).after(fresh, self.end, wall)
        end = quiet.moved(self.end, wall, self._context.time.idle_after_ms)
        rests = np.flatnonzero(end > self.end)
        self._told = self._told.behind(self.domains[rests], end[rests])
        self.end = end
        return quiet

    def index(self, domains: Int64s) -> Int64s:
        """Where these domains stand in `domains`."""
        return np.searchsorted(self.domains, domains)

    def number(self, row_index: Int64s) -> Int64s:
        """Numbers of domains from their places."""
        return self.domains[row_index]

    @property
    def stands_at_close(self) -> bool:
        """Whether results that time lets go stand at their own times, and not where a record moved time."""
        return not self._context.time.every and not self._told.by_record

    def by_domain(self, times: Int64s) -> dict[int, int]:
        """A time of each domain, by the domain's number."""
        return dict(zip(self.domains.tolist(), times.tolist(), strict=True))

    def passing(self, stands: int) -> tuple[int, int]:
        """(first, end) of the moments that this batch passes in some domain; what stands before `stands` left out."""
        first, end = int(self.start.min(initial=2**62)), int(self.end.max(initial=-1))
        return (max(first, stands - self._context.time.hold_back) if self.stands_at_close else first), end

    def passes(self, domain: Int64s, close: Int64s) -> Bools:
        """Which of these moments the batch passes, each in its domain, by its place in `domains`."""
        return np.asarray((close >= self.start[domain]) & (close < self.end[domain]))

    def stands(self, domain: Int64s, close: Int64s) -> tuple[Int64s, Int64s]:
        """Where results stand that are let go when the time of their domain is past `close`.

        Returns order_ts of the records that they stand behind, and the time of the sources just before they go.
        """
        lag = self._context.time.hold_back
        if self.stands_at_close:
            return close + lag, close + lag
        stands, latest = close + lag, close + lag
        told_domain = self.index(self._domain(self._told.partition))
        for d in np.unique(domain):
            own, rows = np.flatnonzero(told_domain == d), np.flatnonzero(domain == d)
            at = np.searchsorted(self._told.time[own], close[rows], side="right")
            known = at < len(own)
            stands[rows[known]] = self._told.order[own[at[known]]] - 1
            latest[rows[known]] = self._told.time[own[at[known]]] - 1 + lag
        return stands, latest

    def reach_before(self, side: int, rows: Int64s, domain: Int64s) -> Int64s:
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

    def reach_end(self, side: int) -> Int64s:
        """How far the rows of a side reach in each domain after the batch; -1 for not at all."""
        result = np.array(self._reached[side])
        told = self._told_reach[side]
        if told is not None:
            np.maximum.at(result, self.index(self._domain(ints(told, "partition"))), ints(told, "reach"))
        return result

    def store(self, state: State) -> None:
        """Keep what the next batch starts with."""
        names = [str(d) for d in self.domains]
        state.set_scalar(_TIME, dict(zip(names, self.end.tolist(), strict=True)))
        reached = [dict(zip(names, self.reach_end(s).tolist(), strict=True)) for s in range(self._sides)]
        state.set_scalar(REACH, reached)
        if self._quiet is not None:
            self._quiet.store(state, self.domains)

    def _domain(self, partition: Int64s) -> Int64s:
        return partition if self._context.time.domains else np.zeros(len(partition), dtype=np.int64)

    @cached_property
    def _steps(self) -> dict[int, Steps]:
        """The steps of each side that was told any, unpacked for late records only."""
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

    That is where an operator above has let it go: what goes at one time has its turn (`time.held`), and what an
    operator lets go at a time t has the turn 2t.
    """
    _, srcpart, turn, *_ = events.position
    now = 2 * times.at_row
    return np.asarray(now + ((srcpart >= LET_GO) & (turn > now)))


_PARTITION = (1 << PARTITION_BITS) - 1
_NEVER = -(2**62)
_AT_LAST = 2**61
"""Place, among the numbers of piped records, of what the wall clock lets go: behind all of them."""


@dataclass(frozen=True)
class _Told:
    """What a shard is told of time in a batch, in an order in which `time` never falls within a partition.

    Parameters
    ----------
    partition : of the source.
    order : order_ts of the record that moved time.
    time : the operator's time from there on.
    lag : what the operators above hold back.
    by_record : whether order_ts is the number of a piped record, and time a matter of its own.
    """

    partition: Int64s
    order: Int64s
    time: Int64s
    lag: int
    by_record: bool

    @classmethod
    def of(cls, told: pa.Table | None, lag: int) -> _Told:
        """What the rows of `TIME_SIDE` say."""
        if told is None:
            nothing = np.zeros(0, dtype=np.int64)
            return cls(nothing, nothing, nothing, lag, by_record=False)
        by_record = "time" in told.column_names
        rows = np.argsort(ints(told, "order_ts"), kind="stable")
        order, time = ints(told, "order_ts")[rows], ints(told, "time" if by_record else "order_ts")[rows]
        time = np.maximum.accumulate(time) if by_record else time
        return cls(ints(told, "srcpart")[rows] & _PARTITION, order, time - lag, lag, by_record)

    def time_at(self, order_ts: Int64s) -> Int64s:
        """The operator's time at records of the sources."""
        if not self.by_record:
            return order_ts - self.lag
        known = np.append(_NEVER, self.time)
        return known[np.searchsorted(self.order, order_ts, side="right")]

    def behind(self, partition: Int64s, time: Int64s) -> _Told:
        """With times that no record told: those of domains that rest."""
        order = np.full(len(time), _AT_LAST) if self.by_record else time + self.lag
        return replace(
            self,
            partition=np.concatenate([self.partition, partition]),
            order=np.concatenate([self.order, order]),
            time=np.concatenate([self.time, time]),
        )
