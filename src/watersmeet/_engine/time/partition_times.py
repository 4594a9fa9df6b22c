"""The rows of time of a shard in a batch: of each source partition the last time, or every record that moves it.

In a test driver all inputs are one partition and order_ts is the number of the piped record, so that records are
processed as they were piped; then times come beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import AT_LAST, LET_GO, PARTITION_BITS, ROOT_POSITION, ints
from watersmeet._engine.rows.narrow import packed, unpacked
from watersmeet._engine.rows.position import order_by

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
    told = []
    for part in np.unique(srcpart):
        mine = np.flatnonzero(srcpart == part)
        mine = mine[order_by([columns["order_ts"][mine], columns["offset"][mine]])]
        reached = np.maximum.accumulate(time[mine])
        mine = mine[np.append(True, reached[1:] > reached[:-1])]
        own = {name: column[mine] for name, column in columns.items()}
        row = {"srcpart": pa.array([part]), "order_ts": pa.array(own["order_ts"][-1:]), "count": pa.array([len(mine)])}
        told.append(pa.table(row | packed(own)))
    return pa.concat_tables(told)


def last_time_by_partition(told: pa.Table | None, lag: int) -> tuple[Int64s, Int64s]:
    """(partition, the operator's last time of it) of what the rows of `TIME_SIDE` say, but for the wall clock's.

    Rows for every record that moves time are not unpacked for it, except in a test driver.
    """
    if told is None or not len(told) or "time_first" in told.column_names:
        every = TimeUpdates.of(told, lag)
        return every.partition, every.time
    return ints(told, "srcpart") & _PARTITION, ints(told, "order_ts") - lag


@dataclass(frozen=True)
class TimeUpdates:
    """The rows of time of a shard, in order of position.

    Parameters
    ----------
    position : of the records that move time, and of the wall clock's moment: order_ts, srcpart, offset.
    partition : of the source.
    time : the operator's time from there on; within a domain it never falls.
    number : of the record among the different ones, in order.
    lag : what the operators above hold back.
    piped : whether order_ts is the number of a piped record, and time a matter of its own.
    """

    position: tuple[Int64s, ...]
    partition: Int64s
    time: Int64s
    number: Int64s
    lag: int
    piped: bool

    @classmethod
    def of(cls, told: pa.Table | None, lag: int) -> TimeUpdates:
        """The rows of `TIME_SIDE`, except the wall clock's."""
        if told is None or not len(told):
            nothing = np.zeros(0, dtype=np.int64)
            return cls((nothing,) * len(ROOT_POSITION), nothing, nothing, nothing, lag, piped=False)
        srcpart, piped = ints(told, "srcpart"), "time_first" in told.column_names
        if "count" in told.column_names:
            count = ints(told, "count")
            order, offset = (unpacked(told, name, count) for name in ("order_ts", "offset"))
            time = unpacked(told, "time", count) if piped else order
            srcpart = np.repeat(srcpart, count)
        else:
            order, offset, time = ints(told, "order_ts"), np.zeros(len(told), dtype=np.int64), ints(told, "order_ts")
        rows = order_by([order, srcpart, offset])
        position = (order[rows], srcpart[rows], offset[rows])
        reached = np.maximum.accumulate(time[rows]) if piped else time[rows]
        return cls(position, position[1] & _PARTITION, reached - lag, _numbered(position), lag, piped)

    def only(self, wanted: Bools) -> TimeUpdates:
        """Some of it."""
        position = tuple(column[wanted] for column in self.position)
        return replace(
            self,
            position=position,
            partition=self.partition[wanted],
            time=self.time[wanted],
            number=self.number[wanted],
        )

    @cached_property
    def movers(self) -> list[Int64s]:
        """Positions of the different records."""
        first = np.flatnonzero(np.append(True, self.number[1:] != self.number[:-1])[: len(self.number)])
        return [column[first] for column in self.position]

    def time_at(self, order_ts: Int64s) -> Int64s:
        """The operator's time at records of the sources."""
        if not self.piped:
            return order_ts - self.lag
        known = np.append(_NEVER, self.time)
        return known[np.searchsorted(self.position[0], order_ts, side="right")]

    def around(self, places: Sequence[Int64s], start: int) -> tuple[Int64s, Int64s]:
        """The times right before and right behind what stands at these positions, `start` before the batch."""
        both = [np.concatenate(pair) for pair in zip(self.position, places, strict=True)]
        asks = np.repeat(np.array([0, 1]), [len(self.time), len(places[0])])
        known = np.maximum.accumulate(np.append(start, self.time))
        return known[_updates_before(both, asks, 1 - asks)], known[_updates_before(both, asks, asks)]

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


def _updates_before(both: Sequence[Int64s], asks: Int64s, last: Int64s) -> Int64s:
    """How many that tell stand before each that asks; of those at one position `last` has 0 for the first."""
    order = np.lexsort((last, *reversed(both)))
    so_far = np.cumsum(1 - asks[order])
    found = np.empty(len(order), dtype=np.int64)
    found[order] = so_far
    return np.asarray(found[asks > 0])
