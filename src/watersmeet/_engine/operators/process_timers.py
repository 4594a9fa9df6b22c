"""The timers of a processor in one batch: those of a slice of keys are read, fire in order, and are written in bulk.

A timer is a held row without a value (`held_schema`): due at the last moment before its own, one of each key and
moment. Those that fire are not deleted: their time is below the floor then. A clock has the time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from watersmeet._engine import time
from watersmeet._engine.keys import encode_keys
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.operators.process_state import Present
from watersmeet._engine.rows import AT_FIRST, LET_GO, ROOT_POSITION, Bools, Int64s, ints, let_go
from watersmeet._engine.state.runs import Table
from watersmeet._engine.time import TURN_BYTES, BatchTimes, WallClock, with_turns

# Where timers stand in the sequence of a batch's records, and what time it is at each record.
#
# A timer of the moment T waits until the last moment before it, T - 1, and stands where `waiting_rows.release` puts
# what waits so long: directly before the record that moves its domain's time to T, in the order (time that operators
# see, turn, serialized key). A timer goes before those records of its key that stand behind that place. Law 3.

BatchPlace: TypeAlias = tuple[int | bytes, ...]
"""Where a timer or a record stands: number of the record that it stands before, the time that operators see, turn,
serialized key; a record of the sources has the number of the first record behind it alone."""
BEFORE_ALL = -2
"""Number of the record that what the wall clock lets go stands before: none has it. -1 is that of a row which an
operator above has let go while the input rested, in a batch without records."""


class Timeline:
    """The sequence of one batch: where its records and timers stand, and what time it is there.

    Domains are meant by their places in `BatchTimes.domains`.

    Parameters
    ----------
    needs_places : whether anybody asks for places: timers, or entries that last for a while.

    Attributes
    ----------
    end : the time of each domain after the batch.
    stream_time : the time at each event, of its domain.
    domain : of each event.
    """

    def __init__(self, context: OperatorContext, events: Events, times: BatchTimes, *, needs_places: bool) -> None:
        self._times = times
        self._lag = context.time.hold_back
        self.end: list[int] = times.end.tolist()
        self._start: list[int] = times.start.tolist()
        self.domain: list[int] = times.of_row.tolist()
        released_rows = np.flatnonzero(let_go(events.position))
        self.needs_keys = needs_places and len(released_rows) > 0
        """Whether places need keys: operators above have let rows go, whose turns may be those of timers."""
        advance = np.zeros(len(events), dtype=np.int64)
        # the time at a row does not depend on whether timers are declared
        if len(released_rows):
            advance[released_rows] = self._fires_before(events, released_rows)
        self.stream_time: list[int] = (times.at_row + advance).tolist()
        roots = events.position[: len(ROOT_POSITION)]
        self._rank: list[int] = (
            behind_how_many(times.movers, roots) if needs_places else np.zeros_like(advance)
        ).tolist()
        self._released = (
            dict(zip(released_rows.tolist(), self._of_released(events, released_rows), strict=True))
            if self.needs_keys
            else {}
        )
        self._moves: dict[int, tuple[list[int], list[int]]] = {}

    def _fires_before(self, events: Events, released_rows: Int64s) -> Int64s:
        """Whether timers of the next moment, which are due at the present one, stand before rows that were let go."""
        stream_time = self._times.at_row[released_rows]
        current = events.position[len(ROOT_POSITION)][released_rows] + LET_GO == stream_time + self._lag
        rows, timer_keys = (
            pa.array(released_rows),
            with_turns(2 * stream_time, encode_keys(events.key.take(pa.array(released_rows)))),
        )
        assert events.held is not None
        # few: rows that operators above have let go of
        pairs = zip(events.held.take(rows).to_pylist(), timer_keys.to_pylist(), strict=True)
        return np.asarray(current & np.array([turn_key > timer_key for turn_key, timer_key in pairs]))

    def _of_released(self, events: Events, released_rows: Int64s) -> list[BatchPlace]:
        """The places of rows that operators above have let go of."""
        assert events.held is not None
        turn_keys = events.held.take(pa.array(released_rows)).to_pylist()
        times = (events.position[len(ROOT_POSITION)][released_rows] + LET_GO).tolist()
        # few, as above
        parts = zip((self._rank[row] for row in released_rows.tolist()), times, turn_keys, strict=True)
        wall = (events.position[0][released_rows] == AT_FIRST).tolist()
        return [
            (BEFORE_ALL if first else rank - 1, moment, *_turn_and_key(bytes(turn_key)))
            for first, (rank, moment, turn_key) in zip(wall, parts, strict=True)
        ]

    def of_event(self, row: int) -> BatchPlace:
        return self._released.get(row) or (self._rank[row],)

    def due(self, domain: int, moment: int, key: bytes) -> BatchPlace | None:
        """Where a timer of a moment stands; None where no record of the batch moves time there."""
        last = moment - 1
        if last >= self.end[domain]:
            return None
        times, numbers = self._time_moves(domain)
        at = bisect_right(times, last)
        return (numbers[at], last + self._lag, 2 * last, key)

    def time_at(self, domain: int, place: BatchPlace) -> int:
        """The time of a domain at a place."""
        times, numbers = self._time_moves(domain)
        # what stands before a record does not know the time that it makes
        at = bisect_left(numbers, int(place[0]))
        return max(self._start[domain], times[at - 1] if at else -1)

    def start_of(self, domain: int) -> int:
        return self._start[domain]

    def wall_of(self, row: int, wall_time: int) -> int:
        """The wall clock at an event: if an operator above has let it go by that clock, its time."""
        place = self._released.get(row)
        return int(place[1]) if place is not None and place[0] == BEFORE_ALL else wall_time

    def _time_moves(self, domain: int) -> tuple[list[int], list[int]]:
        if domain not in self._moves:
            times, numbers = self._times.moves(domain)
            self._moves[domain] = times.tolist(), numbers.tolist()
        return self._moves[domain]


def behind_how_many(movers: list[Int64s], places: list[Int64s]) -> Int64s:
    """How many records that move time stand before each of these places, or at it."""
    columns = [np.concatenate(pair) for pair in zip(movers, places, strict=True)]
    asks = np.repeat(np.array([0, 1]), [len(movers[0]), len(places[0])])
    order = np.lexsort((asks, *reversed(columns)))
    counts = np.empty(len(order), dtype=np.int64)
    counts[order] = np.cumsum(1 - asks[order])
    return np.asarray(counts[asks > 0])


def _turn_and_key(turn_key: bytes) -> tuple[int, bytes]:
    """What `with_turns` has put together."""
    return int.from_bytes(turn_key[:TURN_BYTES], "big") - (1 << 63), turn_key[TURN_BYTES:]


# The two clocks that timers go by: stream time, and the wall clock.
#
# A clock has the time for a new timer, the place of a timer that is due, and the columns of its row. A timer of
# the wall clock keeps the time domain of the record that has set it beside its own: its records stay in that
# partition, and its stores go by that domain's time.


class TimerClock(Protocol):
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

    def place(self, domain: int, moment: int, key: bytes) -> BatchPlace | None:
        """Where a timer stands; None where it is not due in the batch."""
        ...

    def written(self, domain: Int64s) -> dict[str, pa.Array]:
        """The columns of a timer's row beside key and time."""
        ...

    def move_to(self, domain: int, moment: int) -> None: ...

    def same(self, first: int, second: int) -> bool:
        """Whether timers of one moment that were set in these domains have one row."""
        ...


class StreamTimerClock:
    """Stream time, of each domain its own."""

    method = "on_timer"

    def __init__(self, times: BatchTimes, timeline: Timeline, current: Present) -> None:
        self._times, self._timeline, self._current = times, timeline, current
        self.span = times.passing()

    def waiting(self, rows: pa.Table) -> tuple[Int64s, Bools]:
        domain = self._times.index(ints(rows, "domain"))
        return domain, ints(rows, "due") >= self._times.start[domain]

    def has_passed(self, moment: int) -> bool:
        return moment <= self._current.time

    def place(self, domain: int, moment: int, key: bytes) -> BatchPlace | None:
        return self._timeline.due(domain, moment, key)

    def written(self, domain: Int64s) -> dict[str, pa.Array]:
        """See `TimerClock`."""
        return {
            "arrival": pa.array(np.zeros(len(domain), dtype=np.int64)),
            "domain": pa.array(self._times.number(domain)),
        }

    def move_to(self, domain: int, moment: int) -> None:
        self._current.time = moment

    def same(self, first: int, second: int) -> bool:
        return first == second


class WallTimerClock:
    """The wall clock, which is one for all."""

    method = "on_wall_timer"

    def __init__(self, clock: WallClock, times: BatchTimes, timeline: Timeline, current: Present) -> None:
        self._clock, self._times, self._timeline, self._current = clock, times, timeline, current
        self.span = clock.before, clock.now

    def waiting(self, rows: pa.Table) -> tuple[Int64s, Bools]:
        return self._times.index(ints(rows, "arrival")), ints(rows, "due") >= self._clock.before

    def has_passed(self, moment: int) -> bool:
        return moment <= self._current.wall

    def place(self, domain: int, moment: int, key: bytes) -> BatchPlace | None:
        return (BEFORE_ALL, moment, time.TURN, key) if moment <= self._clock.now else None

    def written(self, domain: Int64s) -> dict[str, pa.Array]:
        """See `TimerClock`."""
        return {
            "arrival": pa.array(self._times.number(domain)),
            "domain": pa.array(np.zeros(len(domain), dtype=np.int64)),
        }

    def move_to(self, domain: int, moment: int) -> None:
        self._current.wall, self._current.time = moment, self._timeline.start_of(domain)

    def same(self, first: int, second: int) -> bool:
        return True


_FURTHEST = 2**62
_Timer: TypeAlias = tuple[int, int, bool, bool]


class DueTimers:
    """The timers of the present key, of all clocks, that fire in the batch.

    Attributes
    ----------
    heap : those that the batch lets go: place, domain, processor, number, moment, timers.
    at_once : those that fire when the present call ends: moment, number, domain, timers.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[Any, ...]] = []
        self.at_once: list[tuple[int, int, int, Timers]] = []
        self._number = 0

    def number(self) -> int:
        """Another number: of two things of one place that was first which has the smaller one."""
        self._number += 1
        return self._number

    def fire(self, limit: BatchPlace | None) -> Iterator[tuple[Timers, int, int, BatchPlace | None]]:
        """Those that fire now, one after the other: they may set and delete others.

        Parameters
        ----------
        limit : where the key's next record stands; None: there is none in the batch.

        Yields
        ------
        Its key, time, domain, and the timer's place; None: at once, where its key is.
        """
        while True:
            if self.at_once:
                moment, _, domain, timers = heappop(self.at_once)
                yield timers, moment, domain, None
            elif self.heap and (limit is None or self.heap[0] < limit):
                *place, domain, _, number, moment, timers = heappop(self.heap)
                if timers.take(moment, number):
                    yield timers, moment, domain, tuple(place)
            else:
                return


class Timers:
    """The timers of one clock, of one key at a time.

    Each is (number, domain, whether a row of it is stored, whether one is to be put) under its moment; those that are
    due in the batch are in `DueTimers`, too.

    Parameters
    ----------
    table : where they are kept.
    clock : their clock.
    due : what fires.
    member : the number of the processor that has them.
    """

    def __init__(self, table: Table, clock: TimerClock, current: Present, due: DueTimers, member: int) -> None:
        self._table, self.clock, self._current, self._due, self.member = table, clock, current, due, member
        self._starts: list[int] = [0]
        self._dues: list[int] = []
        self._domains: list[int] = []
        self._group = 0
        self._key = b""
        self._encoded: list[bytes] | None = None
        self._timers: dict[int, _Timer] = {}
        self._deletions: dict[int, int] = {}
        """Stored timers that were deleted, with their domains."""
        self._out: list[tuple[int, int, int, bool]] = []

    # -- slices and keys -----------------------------------------------------------------------------------

    def keys_due(self) -> pa.Table:
        hits = [hit for hit in self._table.due(*self.clock.span) if len(hit.rows)]
        return self._table.gather(hits, ["hash", "key"])

    def load(self, hashes: Int64s, keys: pa.Array, encoded: list[bytes] | None = None) -> None:
        """Read the timers of the keys of a slice that have not fired yet; `encoded`: where places need their bytes."""
        self._encoded = encoded
        low = np.full(len(hashes), self.clock.span[0], dtype=np.int64)
        matches = self._table.range(hashes, keys, low, np.full(len(hashes), _FURTHEST))
        rows = matches.take(["due", "domain", "arrival"])
        domain, waiting = self.clock.waiting(rows)
        pending = np.flatnonzero(waiting)
        self._starts = np.searchsorted(matches.query[pending], np.arange(len(hashes) + 1)).tolist()
        self._dues, self._domains = ints(rows, "due")[pending].tolist(), domain[pending].tolist()

    def enter(self, group: int) -> None:
        """The next key."""
        if self._timers or self._deletions:
            self._leave()
        self._group, self._key = group, b"" if self._encoded is None else self._encoded[group]
        start, end = self._starts[group], self._starts[group + 1]
        for at in range(start, end):
            self._add(self._dues[at] + 1, self._domains[at], in_state=True, put=False)

    def _add(self, moment: int, domain: int, *, in_state: bool, put: bool) -> None:
        number = self._due.number()
        self._timers[moment] = (number, domain, in_state, put)
        place = self.clock.place(domain, moment, self._key)
        if place is not None:
            heappush(self._due.heap, (*place, domain, self.member, number, moment, self))

    def _leave(self) -> None:
        """Note those that wait on, to be written."""
        group, out = self._group, self._out
        out += [(group, at, domain, False) for at, (_, domain, _, put) in self._timers.items() if put]
        out += [(group, at, domain, True) for at, domain in self._deletions.items()]
        self._timers, self._deletions = {}, {}

    def write(self, hashes: Int64s, keys: pa.Array) -> None:
        """Put what has changed in the slice."""
        if self._timers or self._deletions:
            self._leave()
        if self._out:
            group, moment, domain, deletes = (np.array(column) for column in zip(*self._out, strict=True))
            columns = {
                "hash": pa.array(hashes[group]),
                "key": keys.take(pa.array(group)),
                "due": pa.array(moment - 1),
                "ts": pa.array(moment),
            } | self.clock.written(domain)
            self._table.put({name: columns[name] for name in self._table.schema.names}, deletes)
            self._out = []

    def expire(self, floors: Mapping[int, int]) -> None:
        """Those that lie below the floor of their domain have fired."""
        self._table.expire(floors)

    # -- a key's timers ------------------------------------------------------------------------------------

    def set(self, moment: int) -> None:
        """A timer of the present key; one that is there already stays as it is."""
        current, at_once = self._current, self._due.at_once
        if self.clock.has_passed(moment):
            if not any(entry[0] == moment and entry[3] is self for entry in at_once):
                heappush(at_once, (moment, self._due.number(), current.domain, self))
            return
        if moment in self._timers:
            return
        deletion = self._deletions.get(moment)
        in_state = deletion is not None and self.clock.same(deletion, current.domain)
        if in_state:
            del self._deletions[moment]
        self._add(moment, current.domain, in_state=in_state, put=deletion != current.domain)
        if current.journal is not None:
            current.journal.append(lambda: self._take_back(moment, None, deletion))

    def delete(self, moment: int) -> None:
        """The present key's timer of this moment is no more."""
        at_once = self._due.at_once
        at_once[:] = [entry for entry in at_once if entry[0] != moment or entry[3] is not self]
        timer = self._timers.pop(moment, None)
        if timer is None:
            return
        deletion = self._deletions.get(moment)
        if timer[2]:
            self._deletions[moment] = timer[1]
        if self._current.journal is not None:
            self._current.journal.append(lambda: self._take_back(moment, timer, deletion))

    def _take_back(self, moment: int, timer: _Timer | None, deletion: int | None) -> None:
        self._timers.pop(moment, None)
        self._deletions.pop(moment, None)
        if timer is not None:
            self._timers[moment] = timer
        if deletion is not None:
            self._deletions[moment] = deletion

    def take(self, moment: int, number: int) -> bool:
        """Whether it has this number still; then it is no more."""
        matches = self._timers.get(moment, _NO_TIMER)[0] == number
        if matches:
            del self._timers[moment]
        return matches


_NO_TIMER = (0, 0, False, False)
