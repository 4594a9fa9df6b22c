"""Where timers stand in the sequence of a batch's records, and what time it is at each record.

A timer of the moment T is held until the last moment before it, T - 1, and stands where `time.held` puts what waits so
long: directly before the record that moves the time of its domain to T, in the order (time that operators see, turn,
serialized key). A timer goes before those records of its key that stand behind that place. Law 3.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import encode_keys
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.rows.columns import AT_FIRST, LET_GO, ROOT_POSITION, let_go
from watersmeet._engine.time.times import Times
from watersmeet._engine.time.turns import TURN_BYTES, with_turns

Place: TypeAlias = tuple[int | bytes, ...]
"""Number of the record that it stands before, the time that operators see, turn, serialized key; a record of the
sources has the number of the first record behind it alone."""
BEFORE_ALL = -2
"""Number of the record that what the wall clock lets go stands before: none has it. -1 is that of a row which an
operator above has let go while the input rested, in a batch without records."""


class TimerPositions:
    """The places of one batch; domains are meant by their places in `Times.domains`.

    Parameters
    ----------
    placed : whether anybody asks for places: timers, or entries that last for a while.

    Attributes
    ----------
    end : the time of each domain after the batch.
    stream_time : the time at each event, of its domain.
    domain : of each event.
    """

    def __init__(self, context: OperatorContext, events: Events, times: Times, *, placed: bool) -> None:
        self._times = times
        self._lag = context.time.hold_back
        self.end: list[int] = times.end.tolist()
        self._start: list[int] = times.start.tolist()
        self.domain: list[int] = times.of_row.tolist()
        gone = np.flatnonzero(let_go(events.position))
        self.keyed = placed and len(gone) > 0
        """Whether places need keys: operators above have let rows go, whose turns may be those of timers."""
        behind = np.zeros(len(events), dtype=np.int64)
        # the time at a row does not depend on whether timers are declared
        if len(gone):
            behind[gone] = self._fires_before(events, gone)
        self.stream_time: list[int] = (times.at_row + behind).tolist()
        roots = events.position[: len(ROOT_POSITION)]
        self._rank: list[int] = (behind_how_many(times.movers, roots) if placed else np.zeros_like(behind)).tolist()
        self._released = dict(zip(gone.tolist(), self._of_released(events, gone), strict=True)) if self.keyed else {}
        self._moves: dict[int, tuple[list[int], list[int]]] = {}

    def _fires_before(self, events: Events, gone: Int64s) -> Int64s:
        """Whether timers of the next moment, which are due at the present one, stand before rows that were let go."""
        now = self._times.at_row[gone]
        there = events.position[len(ROOT_POSITION)][gone] + LET_GO == now + self._lag
        rows, own = pa.array(gone), with_turns(2 * now, encode_keys(events.key.take(pa.array(gone))))
        assert events.held is not None
        # few: rows that operators above have let go of
        pairs = zip(events.held.take(rows).to_pylist(), own.to_pylist(), strict=True)
        return np.asarray(there & np.array([held > mine for held, mine in pairs]))

    def _of_released(self, events: Events, gone: Int64s) -> list[Place]:
        """The places of rows that operators above have let go of."""
        assert events.held is not None
        held = events.held.take(pa.array(gone)).to_pylist()
        seen = (events.position[len(ROOT_POSITION)][gone] + LET_GO).tolist()
        # few, as above
        parts = zip((self._rank[row] for row in gone.tolist()), seen, held, strict=True)
        wall = (events.position[0][gone] == AT_FIRST).tolist()
        return [
            (BEFORE_ALL if first else rank - 1, now, *_turn_and_key(bytes(each)))
            for first, (rank, now, each) in zip(wall, parts, strict=True)
        ]

    def of_event(self, row: int) -> Place:
        """Where an event stands."""
        return self._released.get(row) or (self._rank[row],)

    def due(self, domain: int, moment: int, key: bytes) -> Place | None:
        """Where a timer of a moment stands; None where no record of the batch moves time there."""
        last = moment - 1
        if last >= self.end[domain]:
            return None
        times, numbers = self._time_moves(domain)
        at = bisect_right(times, last)
        return (numbers[at], last + self._lag, 2 * last, key)

    def time_at(self, domain: int, place: Place) -> int:
        """The time of a domain at a place."""
        times, numbers = self._time_moves(domain)
        # what stands before a record does not know the time that it makes
        at = bisect_left(numbers, int(place[0]))
        return max(self._start[domain], times[at - 1] if at else -1)

    def start_of(self, domain: int) -> int:
        """The time of a domain before the batch."""
        return self._start[domain]

    def wall_of(self, row: int, now: int) -> int:
        """The wall clock at an event: if an operator above has let it go by that clock, its time."""
        place = self._released.get(row)
        return int(place[1]) if place is not None and place[0] == BEFORE_ALL else now

    def _time_moves(self, domain: int) -> tuple[list[int], list[int]]:
        if domain not in self._moves:
            times, numbers = self._times.moves(domain)
            self._moves[domain] = times.tolist(), numbers.tolist()
        return self._moves[domain]

    def number(self, domain: int) -> int:
        """A domain's number."""
        return int(self._times.domains[domain])


def behind_how_many(movers: list[Int64s], places: list[Int64s]) -> Int64s:
    """How many records that move time stand before each of these places, or at it."""
    both = [np.concatenate(pair) for pair in zip(movers, places, strict=True)]
    asks = np.repeat(np.array([0, 1]), [len(movers[0]), len(places[0])])
    order = np.lexsort((asks, *reversed(both)))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.cumsum(1 - asks[order])
    return np.asarray(found[asks > 0])


def _turn_and_key(held: bytes) -> tuple[int, bytes]:
    """What `with_turns` has put together."""
    return int.from_bytes(held[:TURN_BYTES], "big") - (1 << 63), held[TURN_BYTES:]
