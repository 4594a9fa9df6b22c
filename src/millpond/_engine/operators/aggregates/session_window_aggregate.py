"""session_window_aggregate: aggregates by key and session (docs/semantics, sections 13 to 15; KIP-94).

A record merges the sessions that it comes near to: each of them gives a tombstone, then the one that they make gives a
result. A session is let go when stream time has passed its end, the gap and the grace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millpond._engine.aggregates.contributions import (
    finished,
    grown,
    refuse_large,
    sizes_of,
    stretches,
    values_of,
)
from millpond._engine.aggregates.fold import Fold
from millpond._engine.aggregates.of_plan import fold_of
from millpond._engine.aggregates.windows.chains import States
from millpond._engine.aggregates.windows.closing import Closing
from millpond._engine.aggregates.windows.session_folds import fold_sessions
from millpond._engine.aggregates.windows.sessions import Merged, Records, Stored, merged
from millpond._engine.aggregates.windows.windowed import late_rows, numbered, windowed
from millpond._engine.arrays import Bools, Int64s
from millpond._engine.operators.operator import Dropped, Events, OperatorContext, kept_table, sent
from millpond._engine.rows.columns import array, ints
from millpond._engine.rows.sizes import Picked, in_pieces, row_bytes
from millpond._engine.state.runs import State
from millpond._engine.state.table import Table
from millpond._engine.time.times import Times
from millpond._plan.operators.aggregates.session_window_aggregate import SessionWindowAggregate
from millpond._plan.operators.aggregates.window import WindowParams
from millpond.windows import SessionWindows

(EXPIRED,) = SessionWindowAggregate.drop_reasons
_NEVER = np.iinfo(np.int64).min
_ALWAYS = np.iinfo(np.int64).max


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=len(context.values))
    times = Times(context, inputs, events, state, sides=len(context.values))
    params = context.params(WindowParams)
    assert isinstance(params.windows, SessionWindows)
    sessions = _Sessions(events, times, params.windows, fold_of(params.fold), kept_table(context, state))
    for begin, end in stretches(sizes_of(events), sessions.growth, whole=context.operator.cached):
        yield from sessions.take_in(begin, end)
    if params.on_close:
        yield from sessions.closing()
    sessions.write()
    times.store(state)


@dataclass(frozen=True)
class _Standing:
    """Sessions that stand, in order of (key, end).

    Parameters
    ----------
    numbers : key group, start, end and domain of each.
    fresh : which ones are not in state as they are.
    states : their states.
    """

    numbers: Stored
    domain: Int64s
    fresh: Bools
    states: pa.Array


class _Sessions:
    """The sessions of one shard in one batch."""

    def __init__(self, events: Events, times: Times, windows: SessionWindows, fold: Fold, table: Table) -> None:
        self._events, self._times, self._windows, self._fold, self._table = events, times, windows, fold, table
        self._close = times.at_row - windows.grace_ms - windows.gap_ms
        self._domain = times.number(times.of_row)
        self._standing = self._before = self._stored()

    def growth(self, begin: int, end: int) -> int:
        """About how many bytes the states after each of these events have."""
        if not self._fold.grows:
            return 0
        groups = self._events.groups
        largest = np.zeros(groups.count, dtype=np.int64)
        np.maximum.at(largest, self._standing.numbers.key, row_bytes(self._standing.states))
        return grown(groups.group_of_row[begin:end], largest, sizes_of(self._events)[begin:end])

    def _stored(self) -> _Standing:
        """What is stored of the batch's keys, as far as a record may come near it."""
        events, first = self._events, self._events.groups.first
        earliest = np.full(len(first), _ALWAYS)
        np.minimum.at(earliest, events.groups.group_of_row, events.ts)
        keys = events.key.take(pa.array(first))
        low = earliest - self._windows.gap_ms
        found = self._table.range(events.hash[first], keys, low, np.full(len(first), _ALWAYS))
        rows = found.take(["start", "end", "domain", "value"])
        numbers = Stored(found.query, ints(rows, "start"), ints(rows, "end"))
        fresh = np.zeros(len(rows), dtype=np.bool_)
        return _Standing(numbers, ints(rows, "domain"), fresh, array(rows, "value"))

    def take_in(self, begin: int, end: int) -> Iterator[pa.Table | Dropped]:
        """The results of a stretch of the events, behind what was late."""
        events = self._events
        part = slice(begin, end)
        ts = events.ts[part]
        records = Records(events.groups.group_of_row[part], ts, self._close[part], np.zeros(len(ts), dtype=np.bool_))
        keys = events.key.slice(begin, end - begin)
        values = values_of(events, np.arange(begin, end))
        while True:
            found = merged(records, self._standing.numbers, self._windows.gap_ms)
            states = fold_sessions(self._fold, found, keys, values, self._standing.states)
            made = states.pointer[found.known :]
            gone = np.flatnonzero((made < 0) & ~found.late & ~records.vanishes)
            if not len(gone):
                break
            # what a key's later records meet is another then
            firsts = gone[np.unique(records.key[gone], return_index=True)[1]]
            flags = records.vanishes.copy()
            flags[firsts] = True
            records = replace(records, vanishes=flags)
        if found.late.any():
            yield from late_rows(EXPIRED, events, begin + np.flatnonzero(found.late))
        if not self._events.context.params(WindowParams).on_close:
            yield from _Results(events, begin, records, found, self._standing.numbers).pieces(self._fold, states)
        self._settle(begin, records, found, states)

    def _settle(self, begin: int, records: Records, found: Merged, states: States) -> None:
        """What stands behind a stretch."""
        before, known = self._standing, found.known
        made = np.flatnonzero(~found.late & ~records.vanishes & ~found.gone[known:])
        kept = np.flatnonzero(~found.gone[:known])
        key, start, end, domain = (
            np.concatenate([old[kept], new[made]])
            for old, new in (
                (before.numbers.key, records.key),
                (before.numbers.start, found.start),
                (before.numbers.end, found.end),
                (before.domain, self._domain[begin : begin + len(records)]),
            )
        )
        fresh = np.concatenate([before.fresh[kept], np.ones(len(made), dtype=np.bool_)])
        order = np.lexsort((end, key))
        left = states.of(np.concatenate([kept, known + made])[order])
        refuse_large(self._events, left, lambda at: self._events.key[int(self._events.groups.first[key[order][at]])])
        self._standing = _Standing(Stored(key[order], start[order], end[order]), domain[order], fresh[order], left)

    def closing(self) -> Iterator[pa.Table]:
        """Results of the sessions that close in the batch."""
        fresh = self._rows(self._standing, np.flatnonzero(self._standing.fresh))
        changed = self._rows(self._before, np.flatnonzero(~_among(self._before, self._standing, ~self._standing.fresh)))
        stale = pa.table({name: changed[name] for name in ("key", "end")})
        wait = self._windows.gap_ms + self._windows.grace_ms + 1
        context = self._events.context
        yield from Closing(context, self._times, self._table, "end", wait, fresh, stale).results(self._fold)

    def write(self) -> None:
        """Store what stands, delete what was merged, let go what time has passed."""
        now, before = self._standing, self._before
        gone = np.flatnonzero(~_among(before, now, np.ones(len(now.fresh), dtype=np.bool_)))
        self._table.put(self._rows(now, np.flatnonzero(now.fresh)))
        self._table.put(self._rows(before, gone), np.ones(len(gone), dtype=np.bool_))
        floors = self._times.end - self._windows.grace_ms - self._windows.gap_ms
        self._table.expire(dict(zip(self._times.domains.tolist(), floors.tolist(), strict=True)))

    def _rows(self, standing: _Standing, rows: Int64s) -> dict[str, pa.Array | Picked]:
        """Some sessions as the table has them."""
        numbers = standing.numbers
        first = self._events.groups.first[numbers.key[rows]]
        return {
            "hash": pa.array(self._events.hash[first]),
            "key": self._events.key.take(pa.array(first)),
            "end": pa.array(numbers.end[rows]),
            "start": pa.array(numbers.start[rows]),
            "value": Picked(standing.states, rows),
            "domain": pa.array(standing.domain[rows]),
        }


class _Results:
    """The results of a stretch: each record's tombstones of the sessions that it merges, then what it makes of them."""

    def __init__(self, events: Events, begin: int, records: Records, found: Merged, stored: Stored) -> None:
        self._events = events
        made = np.flatnonzero(~found.late)
        # a session that is replaced by one of the same times gives no tombstone
        grows = (found.start != records.ts) | (found.end != records.ts)
        ends = grows[found.by]
        record = np.concatenate([found.by[ends], made])
        session = np.concatenate([found.session[ends], found.known + made])
        place = np.concatenate([found.rank[ends], np.where(grows, found.count, 0)[made]])
        order = np.lexsort((place, record))
        self._record, self._session, self._place = record[order], session[order], place[order]
        self._row = begin + self._record
        starts, lasts = np.concatenate([stored.start, found.start]), np.concatenate([stored.end, found.end])
        self._start, self._end = starts[self._session], lasts[self._session]
        self._dies = self._session != found.known + self._record
        # what is replaced without a tombstone is the old value of what replaces it
        replaced = np.full(len(found.start), -1, dtype=np.int64)
        replaced[found.by[~ends]] = found.session[~ends]
        self._old = np.where(self._dies, self._session, replaced[self._record])

    def pieces(self, fold: Fold, states: States) -> Iterator[pa.Table]:
        """In order of position; with the record cache each window's last."""
        events, operator = self._events, self._events.context.operator
        new = np.where(self._dies, -1, states.pointers(self._session))
        old = states.pointers(self._old)
        group = events.groups.group_of_row[self._row]
        window = numbered(group, self._start, self._end)
        firsts, sending = sent(operator, window, np.arange(len(group)), new >= 0, old >= 0)
        if not len(sending):
            return
        out: dict[str, pa.Array | Picked] = events.meta(self._row[sending], self._end[sending])
        del out["hash"]
        keys = events.key.take(pa.array(self._row[sending]))
        out["key"] = windowed(keys, self._start[sending], self._end[sending])
        out[f"p{operator.slot}"] = pa.array(self._place[sending] * operator.fan)
        results = finished(fold, states.pool)
        out["value"] = Picked(results, new[sending])
        if operator.emits_old:
            out["old"] = Picked(results, old[firsts])
        yield from in_pieces(out)


def _among(some: _Standing, others: _Standing, which: Bools) -> Bools:
    """Of some sessions, which have the key and end of one of others, of those that count."""
    ends = np.concatenate([each.numbers.end for each in (some, others)])
    number = numbered(np.concatenate([each.numbers.key for each in (some, others)]), ends)
    known = len(some.numbers)
    return np.isin(number[:known], number[known:][which])
