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

from millpond._engine.columns import PARTITION_BITS, Int64s, ints, position_columns
from millpond._engine.operator import Events, Setting
from millpond._engine.runs import State
from millpond._plan.physical import TIME_SIDE, reach_side

LET_GO = 2**62
"""srcpart of results that time brings about starts here: after all records of the time they stand at."""

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
        told = inputs.get(TIME_SIDE)
        told_domain = self._domain(ints(told, "srcpart")) if told is not None else _NONE
        told_time = ints(told, "order_ts") - setting.operator.hold_back if told is not None else _NONE
        stored = {int(d): t for d, t in state.get_scalar(_TIME, {}).items()}
        mine = self._domain(srcpart)
        self.domains = np.unique(
            np.concatenate([mine, told_domain, np.array(sorted(stored), dtype=np.int64)])
        )
        self.of_row = self.index(mine)
        self.start = np.array([stored.get(int(d), -1) for d in self.domains], dtype=np.int64)
        self.now = np.where(srcpart >= LET_GO, offset, order_ts) - setting.operator.hold_back
        self.at_row = np.maximum(self.now, self.start[self.of_row])
        self.end = np.array(self.start)
        np.maximum.at(self.end, self.of_row, self.now)
        np.maximum.at(self.end, self.index(told_domain), told_time)
        self._told = (self.index(told_domain), told_time)
        reached = state.get_scalar(_REACH, [{} for _ in range(sides)])
        self._reached = [
            np.array([reached[s].get(str(d), -1) for d in self.domains], dtype=np.int64) for s in range(sides)
        ]
        self._steps = [inputs.get(reach_side(s)) for s in range(sides)]

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
        steps = self._steps[side]
        if steps is None:
            return result
        step_rank, event_rank = self._ranks[side], self._ranks[-1]
        step_domain = self.index(self._domain(ints(steps, "srcpart")))
        reach = ints(steps, "reach")
        # One turn per time domain.
        for d in np.unique(domain):
            own = np.flatnonzero(step_domain == d)
            own = own[np.argsort(step_rank[own])]
            furthest = np.concatenate([self._reached[side][d : d + 1], reach[own]])
            furthest = np.maximum.accumulate(furthest)
            asking = np.flatnonzero(domain == d)
            result[asking] = furthest[np.searchsorted(step_rank[own], event_rank[rows[asking]])]
        return result

    def reach_end(self, side: int) -> Int64s:
        """How far the rows of a side reach in each domain after the batch; -1 for not at all."""
        result = np.array(self._reached[side])
        steps = self._steps[side]
        if steps is not None:
            np.maximum.at(result, self.index(self._domain(ints(steps, "srcpart"))), ints(steps, "reach"))
        return result

    def store(self, state: State) -> None:
        """Keep what the next batch starts with."""
        names = [str(d) for d in self.domains]
        state.set_scalar(_TIME, dict(zip(names, self.end.tolist(), strict=True)))
        reached = [dict(zip(names, self.reach_end(s).tolist(), strict=True)) for s in range(self._sides)]
        state.set_scalar(_REACH, reached)

    def _domain(self, srcpart: Int64s) -> Int64s:
        if not self._setting.operator.domains:
            return np.zeros(len(srcpart), dtype=np.int64)
        return srcpart & ((1 << PARTITION_BITS) - 1)

    @cached_property
    def _ranks(self) -> list[Int64s]:
        """Places of all sides' steps, and last of all events, in one order of position."""
        names = position_columns(self._setting.slots)
        tables = [steps for steps in self._steps if steps is not None]
        columns = [
            np.concatenate([own, *(ints(table, name) for table in tables)])
            for name, own in zip(names, self._events.position, strict=True)
        ]
        rank = np.empty(len(columns[0]), dtype=np.int64)
        rank[np.lexsort(tuple(reversed(columns)))] = np.arange(len(rank))
        cuts = np.cumsum([len(self._events), *(0 if t is None else len(t) for t in self._steps)])
        parts = np.split(rank, cuts)
        return [*parts[1 : 1 + self._sides], parts[0]]


_NONE = np.zeros(0, dtype=np.int64)
