"""The two clocks that timers go by: stream time, and the wall clock.

A dial has the time for a new timer, the place of a timer that is due, and the columns of its row. A timer of
the wall clock keeps the time domain of the record that has set it beside its own: its records stay in that
partition, and its stores go by that domain's time.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operators.processors.states import Present
from watersmeet._engine.operators.processors.timer_positions import BEFORE_ALL, Place, TimerPositions
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.time import wall
from watersmeet._engine.time.times import Times
from watersmeet._engine.time.wall import WallClock


class Dial(Protocol):
    """A clock."""

    method: str
    """What is called when a timer is due."""
    span: tuple[int, int]
    """First moment that the batch passes, and the end."""

    def waiting(self, rows: pa.Table) -> tuple[Int64s, Bools]:
        """Domain of each stored timer, by its place, and which have not fired."""
        ...

    def has_passed(self, moment: int) -> bool:
        """Whether it is so late already, where the present call is."""
        ...

    def place(self, domain: int, moment: int, key: bytes) -> Place | None:
        """Where a timer stands; None where it is not due in the batch."""
        ...

    def written(self, domain: Int64s) -> dict[str, pa.Array]:
        """The columns of a timer's row beside key and time."""
        ...

    def fires(self, domain: int, moment: int) -> None:
        """It is this moment now."""
        ...

    def same(self, one: int, other: int) -> bool:
        """Whether timers of one moment that were set in these domains have one row."""
        ...


class StreamDial:
    """Stream time, of each domain its own."""

    method = "on_timer"

    def __init__(self, times: Times, places: TimerPositions, now: Present) -> None:
        self._times, self._places, self._now = times, places, now
        self.span = times.passing()

    def waiting(self, rows: pa.Table) -> tuple[Int64s, Bools]:
        """See `Dial`."""
        domain = self._times.index(ints(rows, "domain"))
        return domain, ints(rows, "due") >= self._times.start[domain]

    def has_passed(self, moment: int) -> bool:
        """See `Dial`."""
        return moment <= self._now.time

    def place(self, domain: int, moment: int, key: bytes) -> Place | None:
        """See `Dial`."""
        return self._places.due(domain, moment, key)

    def written(self, domain: Int64s) -> dict[str, pa.Array]:
        """See `Dial`."""
        return {
            "arrival": pa.array(np.zeros(len(domain), dtype=np.int64)),
            "domain": pa.array(self._times.number(domain)),
        }

    def fires(self, domain: int, moment: int) -> None:
        """See `Dial`."""
        self._now.time = moment

    def same(self, one: int, other: int) -> bool:
        """See `Dial`."""
        return one == other


class WallDial:
    """The wall clock, which is one for all."""

    method = "on_wall_timer"

    def __init__(self, clock: WallClock, times: Times, places: TimerPositions, now: Present) -> None:
        self._clock, self._times, self._places, self._now = clock, times, places, now
        self.span = clock.before, clock.now

    def waiting(self, rows: pa.Table) -> tuple[Int64s, Bools]:
        """See `Dial`."""
        return self._times.index(ints(rows, "arrival")), ints(rows, "due") >= self._clock.before

    def has_passed(self, moment: int) -> bool:
        """See `Dial`."""
        return moment <= self._now.wall

    def place(self, domain: int, moment: int, key: bytes) -> Place | None:
        """See `Dial`."""
        return (BEFORE_ALL, moment, wall.TURN, key) if moment <= self._clock.now else None

    def written(self, domain: Int64s) -> dict[str, pa.Array]:
        """See `Dial`."""
        return {
            "arrival": pa.array(self._times.number(domain)),
            "domain": pa.array(np.zeros(len(domain), dtype=np.int64)),
        }

    def fires(self, domain: int, moment: int) -> None:
        """See `Dial`."""
        self._now.wall, self._now.time = moment, self._places.start_of(domain)

    def same(self, one: int, other: int) -> bool:
        """See `Dial`."""
        return True
