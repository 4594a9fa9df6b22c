"""sliding_window_aggregate: aggregates by key and sliding window (docs/semantics, sections 13 to 15; KIP-450).

A record changes all windows that hold it, and makes those that begin or end with it or with the record before. What
stands of a key is kept for as long as new windows may be made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
from millpond._engine.aggregates.windows.chains import Links, States, fold_chains
from millpond._engine.aggregates.windows.closing import Closing
from millpond._engine.aggregates.windows.sliding import Slid, Standing, slid
from millpond._engine.aggregates.windows.windowed import late_rows, numbered, windowed
from millpond._engine.arrays import Bools, Int64s
from millpond._engine.operators.operator import Dropped, Events, OperatorContext, kept_table, sent
from millpond._engine.rows.columns import array, ints
from millpond._engine.rows.sizes import Picked, in_pieces, row_bytes
from millpond._engine.state.runs import State
from millpond._engine.state.table import Table
from millpond._engine.time.times import Times
from millpond._plan.operators.aggregates.sliding_window_aggregate import SlidingWindowAggregate
from millpond._plan.operators.aggregates.window import WindowParams
from millpond.windows import SlidingWindows

(EXPIRED,) = SlidingWindowAggregate.drop_reasons
_ALWAYS = np.iinfo(np.int64).max


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=len(context.values))
    times = Times(context, inputs, events, state, sides=len(context.values))
    params = context.params(WindowParams)
    assert isinstance(params.windows, SlidingWindows)
    shard = _Shard(events, times, params.windows, fold_of(params.fold), kept_table(context, state))
    for begin, end in stretches(sizes_of(events), shard.growth, whole=context.operator.cached):
        yield from shard.take_in(begin, end)
    if params.on_close:
        yield from shard.closing()
    shard.write()
    times.store(state)


@dataclass(frozen=True)
class _Windows:
    """Windows that stand, in order of (key, start).

    Parameters
    ----------
    numbers : of each; its state is its place in `states`.
    domain : its time domain.
    fresh : which ones are not in state as they are.
    states : their states.
    """

    numbers: Standing
    domain: Int64s
    fresh: Bools
    states: pa.Array


class _Shard:
    """The windows of one shard in one batch."""

    def __init__(self, events: Events, times: Times, windows: SlidingWindows, fold: Fold, table: Table) -> None:
        self._events, self._times, self._windows, self._fold, self._table = events, times, windows, fold, table
        self._close = times.at_row - windows.grace_ms
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

    def _stored(self) -> _Windows:
        """What is stored of the batch's keys, as far as a record may come near it."""
        events, first = self._events, self._events.groups.first
        earliest = np.full(len(first), _ALWAYS)
        np.minimum.at(earliest, events.groups.group_of_row, events.ts)
        keys = events.key.take(pa.array(first))
        low = earliest - 2 * self._windows.difference_ms
        found = self._table.range(events.hash[first], keys, low, np.full(len(first), _ALWAYS))
        rows = found.take(["start", "ts", "domain", "value"])
        numbers = Standing(found.query, ints(rows, "start"), ints(rows, "ts"), np.arange(len(rows)))
        return _Windows(numbers, ints(rows, "domain"), np.zeros(len(rows), dtype=np.bool_), array(rows, "value"))

    def take_in(self, begin: int, end: int) -> Iterator[pa.Table | Dropped]:
        """The results of a stretch of the events, behind what was late."""
        events, part = self._events, slice(begin, end)
        numbers = events.groups.group_of_row[part], events.ts[part], self._close[part]
        keys, values = events.key.slice(begin, end - begin), values_of(events, np.arange(begin, end))
        vanishing: set[tuple[int, int]] = set()
        while True:
            found = slid(*numbers, self._standing.numbers, self._windows.difference_ms, vanishing)
            states = self._folded(found, keys, values)
            gone = np.flatnonzero(states.pointers(found.state) < 0)
            fresh = {(int(found.by[at]), int(found.start[at])) for at in _first_of_each(numbers[0][found.by], gone)}
            if fresh <= vanishing:
                break
            # what a key's later records meet is another then
            vanishing |= fresh
        yield from late_rows(EXPIRED, events, begin + found.late)
        if not events.context.params(WindowParams).on_close:
            yield from self._results(begin, found, states)
        self._settle(begin, found, states)

    def _folded(self, found: Slid, keys: pa.Array, values: pa.Array) -> States:
        known = len(self._standing.states)
        states = States.of_stored(self._fold, self._standing.states, len(found.record))
        numbers = known + np.arange(len(found.record))
        links = Links(numbers, found.record, found.head, found.level, np.zeros(len(numbers), dtype=np.int64))
        fold_chains(self._fold, links, states, keys, values, lambda heads: states.of(found.parent[heads]))
        return states

    def _results(self, begin: int, found: Slid, states: States) -> Iterator[pa.Table]:
        """The changes in order of position; with the record cache each window's last."""
        events, operator = self._events, self._events.context.operator
        # records stand key after key in `found`
        order = np.argsort(found.by, kind="stable")
        by, start = found.by[order], found.start[order]
        new, old = states.pointers(found.state[order]), states.pointers(found.before[order])
        row = begin + by
        window = numbered(events.groups.group_of_row[row], start)
        firsts, sending = sent(operator, window, np.arange(len(row)), new >= 0, old >= 0)
        if not len(sending):
            return
        place = np.arange(len(by)) - np.searchsorted(by, by)
        out: dict[str, pa.Array | Picked] = events.meta(row[sending], found.ts[order][sending])
        del out["hash"]
        begins = start[sending]
        keys = events.key.take(pa.array(row[sending]))
        out["key"] = windowed(keys, begins, begins + self._windows.difference_ms)
        out[f"p{operator.slot}"] = pa.array(place[sending] * operator.fan)
        results = finished(self._fold, states.pool)
        out["value"] = Picked(results, new[sending])
        if operator.emits_old:
            out["old"] = Picked(results, old[firsts])
        yield from in_pieces(out)

    def _settle(self, begin: int, found: Slid, states: States) -> None:
        """What stands behind a stretch."""
        before, now = self._standing, found.standing
        untouched = ~np.isin(before.numbers.key, now.key)
        key, start, ts, state = (
            np.concatenate([old[untouched], new])
            for old, new in (
                (before.numbers.key, now.key),
                (before.numbers.start, now.start),
                (before.numbers.ts, now.ts),
                (before.numbers.state, now.state),
            )
        )
        domain, fresh = self._taken_over(begin, found)
        domain = np.concatenate([before.domain[untouched], domain])
        fresh = np.concatenate([before.fresh[untouched], fresh])
        order = np.lexsort((start, key))
        left = states.of(state[order])
        first = self._events.groups.first
        refuse_large(self._events, left, lambda at: self._events.key[int(first[key[order][at]])])
        numbers = Standing(key[order], start[order], ts[order], np.arange(len(order)))
        self._standing = _Windows(numbers, domain[order], fresh[order], left)

    def _taken_over(self, begin: int, found: Slid) -> tuple[Int64s, Bools]:
        """Domain of each window that stands, which is that of the record that made it, and whether it is fresh."""
        before, now = self._standing, found.standing
        changed_key = self._events.groups.group_of_row[begin + found.by]
        number = numbered(
            np.concatenate([now.key, changed_key, before.numbers.key]),
            np.concatenate([now.start, found.start, before.numbers.start]),
        )
        mine, changed, known = np.split(number, np.cumsum([len(now.key), len(changed_key)]))
        domain, fresh = (np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64) for _ in range(2))
        domain[changed[::-1]] = self._domain[begin + found.by[::-1]]
        domain[known] = before.domain
        fresh[known] = before.fresh
        fresh[changed] = 1
        return domain[mine], fresh[mine] > 0

    def closing(self) -> Iterator[pa.Table]:
        """Results of the windows that close in the batch."""
        fresh = self._rows(self._standing, np.flatnonzero(self._standing.fresh))
        changed = self._rows(self._before, np.flatnonzero(~_among(self._before, self._standing, ~self._standing.fresh)))
        stale = pa.table({name: changed[name] for name in ("key", "start")})
        length, grace = self._windows.difference_ms, self._windows.grace_ms
        closing = Closing(self._events.context, self._times, self._table, "start", length + grace + 1, fresh, stale)
        yield from closing.results(self._fold, lambda start: start + length)

    def write(self) -> None:
        """Store what stands, delete what does not any more, let go what nothing will be made of."""
        now, before = self._standing, self._before
        gone = np.flatnonzero(~_among(before, now, np.ones(len(now.fresh), dtype=np.bool_)))
        self._table.put(self._rows(now, np.flatnonzero(now.fresh)))
        self._table.put(self._rows(before, gone), np.ones(len(gone), dtype=np.bool_))
        # a record that is in time, at T - grace - difference, looks two differences back (row 16 of section A)
        floors = self._times.end - self._windows.grace_ms - 3 * self._windows.difference_ms
        self._table.expire(dict(zip(self._times.domains.tolist(), floors.tolist(), strict=True)))

    def _rows(self, standing: _Windows, rows: Int64s) -> dict[str, pa.Array | Picked]:
        """Some windows as the table has them."""
        numbers = standing.numbers
        first = self._events.groups.first[numbers.key[rows]]
        return {
            "hash": pa.array(self._events.hash[first]),
            "key": self._events.key.take(pa.array(first)),
            "start": pa.array(numbers.start[rows]),
            "value": Picked(standing.states, rows),
            "ts": pa.array(numbers.ts[rows]),
            "domain": pa.array(standing.domain[rows]),
        }


def _first_of_each(keys: Int64s, changes: Int64s) -> Int64s:
    """Of some changes the first of each key."""
    return changes[np.unique(keys[changes], return_index=True)[1]]


def _among(some: _Windows, others: _Windows, which: Bools) -> Bools:
    """Of some windows, which have the key and start of one of others, of those that count."""
    starts = np.concatenate([each.numbers.start for each in (some, others)])
    number = numbered(np.concatenate([each.numbers.key for each in (some, others)]), starts)
    known = len(some.numbers.key)
    return np.isin(number[:known], number[known:][which])
