"""Stream time inside an operator: per time domain, at each row, at the start and at the end of the batch.

Law 3: the time of a domain at a record is the largest order_ts so far, less what the operators above hold
back; no shard needs to hear of another's records for it. What a shard must be told (`heartbeat`) is the time
at the end of the batch and, since stored rows disappear as their own side moves on (semantics.md, section 6),
how far the timestamps of each side reach. Called by the operators that keep time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa

from millpond._engine.columns import LET_GO, PARTITION_BITS, Int64s, ints, partitions
from millpond._engine.idle import Quiet, split
from millpond._engine.operator import Events, Setting
from millpond._engine.position import order_by
from millpond._engine.reach import Steps, furthest_before
from millpond._engine.runs import State
from millpond._plan.physical import TIME_SIDE, reach_side

_TIME, _REACH = "time", "reach"


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
        self, setting: Setting, inputs: Mapping[int, pa.Table], events: Events, state: State, sides: int
    ) -> None:
        self._setting = setting
        self._events = events
        self._sides = sides
        order_ts, srcpart, offset = events.position[:3]
        told, wall = split(inputs.get(TIME_SIDE))
        told_domain = self._domain(ints(told, "srcpart") & _PARTITION) if told is not None else _NONE
        told_time = ints(told, "order_ts") - setting.operator.hold_back if told is not None else _NONE
        stored = {int(d): t for d, t in state.get_scalar(_TIME, {}).items()}
        mine = self._domain(partitions(events.position))
        self.domains = np.unique(np.concatenate([mine, told_domain, np.array(sorted(stored), dtype=np.int64)]))
        self.of_row = self.index(mine)
        self.start = np.array([stored.get(int(d), -1) for d in self.domains], dtype=np.int64)
        self.now = np.where(srcpart >= LET_GO, offset, order_ts) - setting.operator.hold_back
        self.at_row = np.maximum(self.now, self.start[self.of_row])
        self.end = np.array(self.start)
        np.maximum.at(self.end, self.of_row, self.now)
        np.maximum.at(self.end, self.index(told_domain), told_time)
        self._told = (self.index(told_domain), told_time)
        self._quiet = self._rest(state, wall) if setting.operator.idle_after_ms else None
        reached = state.get_scalar(_REACH, [{} for _ in range(sides)])
        self._reached = [
            np.array([reached[s].get(str(d), -1) for d in self.domains], dtype=np.int64) for s in range(sides)
        ]
        self._told_reach = [inputs.get(reach_side(s)) for s in range(sides)]

    def _rest(self, state: State, wall: int | None) -> Quiet:
        """Moves the time of the domains that rest on."""
        fresh = np.zeros(len(self.domains), dtype=np.bool_)
        fresh[self._told[0]] = True
        quiet = Quiet.of(state, self.domains, self.end).after(fresh, self.end, wall)
        end = quiet.moved(self.end, wall, self._setting.operator.idle_after_ms)
        rests = np.flatnonzero(end > self.end)
        self._told = np.concatenate([self._told[0], rests]), np.concatenate([self._told[1], end[rests]])
        self.end = end
        return quiet

    def index(self, domains: Int64s) -> Int64s:
        """Where these domains stand in `domains`."""
        return np.searchsorted(self.domains, domains)

    def number(self, row_index: Int64s) -> Int64s:
        """Numbers of domains from their places."""
        return self.domains[row_index]

    def first_after(self, domain: Int64s, time: Int64s) -> Int64s:
        """The first time of each domain in this batch that is later than `time`, as far as it was told."""
        told_domain, told_time = self._told
        result = np.array(time) + 1
        # One turn per time domain.
        for d in np.unique(domain):
            steps = np.unique(told_time[told_domain == d])
            rows = np.flatnonzero(domain == d)
            at = np.searchsorted(steps, time[rows], side="right")
            known = at < len(steps)
            result[rows[known]] = steps[at[known]]
        return result

    def reach_before(self, side: int, rows: Int64s, domain: Int64s) -> Int64s:
        """How far the rows of a side, in a domain, reached before each of these events; -1 for not at all."""
        result = self._reached[side][domain]
        if self._told_reach[side] is None:
            return result
        steps, step_rank, event_rank = self._steps[side], self._ranks[side], self._ranks[-1]
        step_domain = self.index(self._domain(steps.partition))
        # One turn per time domain.
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
        state.set_scalar(_REACH, reached)
        if self._quiet is not None:
            self._quiet.store(state, self.domains)

    def _domain(self, partition: Int64s) -> Int64s:
        return partition if self._setting.operator.domains else np.zeros(len(partition), dtype=np.int64)

    @cached_property
    def _steps(self) -> dict[int, Steps]:
        """The steps of each side that was told any, unpacked for late records only."""
        slots = self._setting.slots
        return {side: Steps(told, slots) for side, told in enumerate(self._told_reach) if told is not None}

    @cached_property
    def _ranks(self) -> dict[int, Int64s]:
        """Places of the sides' steps, and as side -1 of all events, in one order of position."""
        parts = [self._events.position, *(self._steps[s].position for s in sorted(self._steps))]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        rank = np.empty(len(columns[0]), dtype=np.int64)
        rank[order_by(columns)] = np.arange(len(rank))
        events, *ranks = np.split(rank, np.cumsum([len(position[0]) for position in parts])[:-1])
        return dict(zip(sorted(self._steps), ranks, strict=True)) | {-1: events}


_PARTITION = (1 << PARTITION_BITS) - 1
_NONE = np.zeros(0, dtype=np.int64)
