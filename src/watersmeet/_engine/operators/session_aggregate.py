"""Sessions: which ones each record of a batch merges, and what becomes of them (semantics/windows.md).

Numbers alone: keys are group numbers, sessions are numbers of stored ones, then of the records that made them. A record
that is the latest of its key meets its key's latest session, if any: all such keys are done at once. The records of
the other keys are looked at one by one, since each may change what the next one meets; so are those of keys that lie in
several partitions (`SessionsOfSeveral`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import stretches, values_of
from watersmeet._engine.aggregates.folds import RAISED, FoldKernel, survivors, with_owner
from watersmeet._engine.aggregates.registry import fold_of
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, failed_rows, operator_table
from watersmeet._engine.rows import Bools, Int64s, gather, order_of, stable_order, valid
from watersmeet._engine.state.runs import State
from watersmeet._engine.time import BatchTimes
from watersmeet._engine.windowing import Links, Partitions, Shard, States, WindowChanges, fold_chains
from watersmeet._plan.operators.aggregates import WindowParams
from watersmeet._plan.reasons import EXPIRED_WINDOW
from watersmeet.windows import SessionWindows

# The sessions in state, and the records of a batch, before they are processed.


@dataclass(frozen=True)
class StoredSessions:
    """Sessions in state, in order of (key, end), each with the time domain that it belongs to."""

    key: Int64s
    start: Int64s
    end: Int64s
    domain: Int64s

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class SessionRecords:
    """Records in order of position."""

    key: Int64s  # key group of each
    ts: Int64s  # its timestamp
    close: Int64s  # the least end of a session that is still open then
    vanishes: Bools  # whether its session is none, since its aggregate is null
    ends: Bools  # whether it leaves all sessions as they are, since a function raises for it
    domain: Int64s  # its time domain

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def by_key(self) -> Int64s:
        return stable_order(self.key)


# Sessions of keys with records in several partitions: record by record, by the time of each session's partition.


class _Session(NamedTuple):
    start: int
    end: int
    number: int
    domain: int


class SessionsOfSeveral:
    """The results of the records of such keys; it fills in `start`, `end`, `late` and `domain` of each.

    Attributes
    ----------
    by, session : see `Merged`.
    replaced : sessions that had been let go and replaced by another one with the same end.
    """

    def __init__(self, records: SessionRecords, sessions: StoredSessions, gap: int, partitions: Partitions) -> None:
        self._records = records
        self._snapshot = sessions
        self._gap = gap
        self._closes = {domain: column.tolist() for domain, column in partitions.closes.items()}
        self._record_domain = partitions.domain
        self.start, self.end, self.late = records.ts.copy(), records.ts.copy(), np.zeros(len(records), dtype=np.bool_)
        self.domain = partitions.domain.copy()
        self.by: list[int] = []
        self.session: list[int] = []
        self.replaced: list[int] = []
        self._sessions: list[_Session] = []
        self._ends: list[int] = []

    def take_in(self, order: Int64s) -> None:
        """Records, key after key and in order of position within each."""
        key = -1
        # each record changes what the next one meets
        for row, of in zip(order.tolist(), self._records.key[order].tolist(), strict=True):
            if of != key:
                key = of
                self._load_key(key)
            self._record(row)

    def _load_key(self, key: int) -> None:
        snapshot = self._snapshot
        first, last = (int(np.searchsorted(snapshot.key, key, side=side)) for side in ("left", "right"))
        columns = (snapshot.start, snapshot.end, np.arange(len(snapshot)), snapshot.domain)
        rows = zip(*(column[first:last].tolist() for column in columns), strict=True)
        self._sessions = [_Session(*row) for row in rows]
        self._ends = [session.end for session in self._sessions]

    def _record(self, row: int) -> None:
        records = self._records
        ts, close = int(records.ts[row]), int(records.close[row])
        near = self._sessions[bisect_left(self._ends, ts - self._gap) :]
        met = [s for s in near if s.start <= ts + self._gap and s.end >= self._closes[s.domain][row]]
        low, high = min([ts, *(s.start for s in met)]), max([ts, *(s.end for s in met)])
        if high < close:
            self.late[row] = True
            return
        self.by += [row] * len(met)
        self.session += [s.number for s in met]
        # one that grows stays with its partition, and with it all that state has under its end
        domain = met[-1].domain if met else int(self._record_domain[row])
        self.start[row], self.end[row], self.domain[row] = low, high, domain
        if records.ends[row]:
            return
        for session in met:
            self._remove(session)
        if not records.vanishes[row]:
            self._put(_Session(low, high, len(self._snapshot) + row, domain))

    def _put(self, session: _Session) -> None:
        at = bisect_left(self._ends, session.end)
        if at < len(self._ends) and self._ends[at] == session.end:
            self.replaced.append(self._sessions[at].number)
            self._remove(self._sessions[at])
        self._sessions.insert(at, session)
        self._ends.insert(at, session.end)

    def _remove(self, session: _Session) -> None:
        at = self._sessions.index(session)
        del self._sessions[at], self._ends[at]


_NEVER = -(2**63)
_NO_NUMBERS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Merged:
    """The sessions that each record meets and makes."""

    known: int  # how many sessions were stored: record r makes session known + r
    # start, end: of the session that each record makes
    start: Int64s
    end: Int64s
    late: Bools  # which records came when even their merged session was closed
    # by, session: a record, and a session that it merges, in order of (record, end of session)
    by: Int64s
    session: Int64s
    domain: Int64s  # the time domain that the session belongs to which each record makes
    replaced: Int64s  # sessions that had been let go and replaced by another one with the same end

    def without(self, ends: Bools) -> Merged:
        """The same without records that leave all as it is."""
        mask = ~ends[self.by]
        return replace(self, late=self.late | ends, by=self.by[mask], session=self.session[mask])

    @cached_property
    def count(self) -> Int64s:
        return np.bincount(self.by, minlength=len(self.start))

    @cached_property
    def gone(self) -> Bools:
        """Which sessions have been merged into others, or replaced."""
        flags = np.zeros(self.known + len(self.start), dtype=np.bool_)
        flags[self.session] = True
        flags[self.replaced] = True
        return flags

    @cached_property
    def rank(self) -> Int64s:
        """Of each merged session, the how manieth of its record it is."""
        return np.arange(len(self.by)) - np.searchsorted(self.by, self.by)

    @cached_property
    def head(self) -> Int64s:
        """The first record of each record's chain: in a chain each record adds to what the one before it made."""
        head = np.arange(len(self.start))
        single = self.count[self.by] == 1
        of_record = single & (self.session >= self.known)
        head[self.by[of_record]] = self.session[of_record] - self.known
        while len(head) and (head[head] != head).any():
            head = head[head]
        return head

    @cached_property
    def level(self) -> Int64s:
        """The level of each record's chain: it begins with what chains of lower levels have made."""
        joins = (self.count[self.by] > 1) & (self.session >= self.known)
        to, of = self.by[joins], self.head[self.session[joins] - self.known]
        level = np.zeros(len(self.start), dtype=np.int64)
        while len(to):
            higher = level[of] + 1
            if (level[to] >= higher).all():
                break
            np.maximum.at(level, to, higher)
        return level[self.head]


def merged(records: SessionRecords, sessions: StoredSessions, gap: int, partitions: Partitions | None = None) -> Merged:
    """The sessions that each record merges and makes."""
    order = records.by_key
    forward = _forward(records, sessions, order)
    parts, replaced, domain = [], _NO_NUMBERS, records.domain
    start, end, expired = records.ts.copy(), records.ts.copy(), np.zeros(len(records), dtype=np.bool_)
    if partitions is not None:
        shared = partitions.several[records.key]
        merger = SessionsOfSeveral(records, sessions, gap, partitions)
        merger.take_in(order[shared[order]])
        start, end, expired, domain = merger.start, merger.end, merger.late, merger.domain
        replaced = np.array(merger.replaced, dtype=np.int64)
        parts.append((np.array(merger.by, dtype=np.int64), np.array(merger.session, dtype=np.int64)))
        forward, order = forward & ~shared, order[~shared[order]]
    parts.append(_at_once(records, sessions, gap, order[forward[order]], start))
    parts.append(_one_by_one(records, sessions, gap, order[~forward[order]], start, end, expired))
    by, session = (np.concatenate(column) for column in zip(*parts, strict=True))
    in_order = np.argsort(by, kind="stable")
    return Merged(len(sessions), start, end, expired, by[in_order], session[in_order], domain, replaced)


def _forward(records: SessionRecords, sessions: StoredSessions, order: Int64s) -> Bools:
    """Which records are of keys that go forward in time, none of them late."""
    key, ts = records.key[order], records.ts[order]
    previous = _predecessors(records, sessions, order)[0]
    wrong = (ts < previous) | (ts < records.close[order]) | records.vanishes[order]
    wrong |= records.ends[order]
    keys = int(records.key.max(initial=-1)) + 1
    return np.asarray(np.bincount(key, weights=wrong, minlength=keys)[records.key] == 0)


def _predecessors(records: SessionRecords, sessions: StoredSessions, order: Int64s) -> tuple[Int64s, Int64s]:
    """(time, session) of what stands last before each record of its key: a record, or its latest stored session."""
    key = records.key[order]
    first = np.append(True, np.diff(key) != 0)[: len(order)]
    last = np.searchsorted(sessions.key, key[first], side="right") - 1
    has_session = np.append(sessions.key, -1)[last] == key[first]
    time, session = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    time[1:], session[1:] = records.ts[order[:-1]], len(sessions) + order[:-1]
    time[first] = np.where(has_session, np.append(sessions.end, _NEVER)[last], _NEVER)
    session[first] = np.where(has_session, last, -1)
    return time, session


def _at_once(
    records: SessionRecords, sessions: StoredSessions, gap: int, order: Int64s, start: Int64s
) -> tuple[Int64s, Int64s]:
    """Of records of keys that go forward; fills in `start`."""
    time, session = _predecessors(records, sessions, order)
    meets = (session >= 0) & (time >= records.close[order]) & (time >= records.ts[order] - gap)
    of_stored = meets & (session < len(sessions))
    begins = np.where(of_stored, np.append(sessions.start, 0)[np.where(of_stored, session, -1)], records.ts[order])
    heads = np.where(~meets | of_stored, np.arange(len(order)), 0)
    start[order] = begins[np.maximum.accumulate(heads)]
    return order[meets], session[meets]


def _one_by_one(
    records: SessionRecords,
    sessions: StoredSessions,
    gap: int,
    order: Int64s,
    start: Int64s,
    end: Int64s,
    expired: Bools,
) -> tuple[Int64s, Int64s]:
    """Of the other records; fills in `start`, `end` and `expired`."""
    by: list[int] = []
    session: list[int] = []
    key = -1
    starts: list[int]
    starts, ends, numbers = [], [], []
    columns = (records.key, records.ts, records.close, records.vanishes, records.ends)
    rows = zip(order.tolist(), *(column[order].tolist() for column in columns), strict=True)
    # What a record meets depends on what the one before it merged; about two microseconds each.
    for row, of, ts, close, vanishes, ends_here in rows:
        if of != key:
            key = of
            first, last = (int(np.searchsorted(sessions.key, key, side=side)) for side in ("left", "right"))
            starts, ends = sessions.start[first:last].tolist(), sessions.end[first:last].tolist()
            numbers = list(range(first, last))
        at = until = bisect_left(ends, max(ts - gap, close))
        low, high = ts, ts
        while until < len(ends) and starts[until] <= ts + gap:
            low, high = min(low, starts[until]), max(high, ends[until])
            until += 1
        if high < close:
            expired[row] = True
            continue
        by += [row] * (until - at)
        session += numbers[at:until]
        start[row], end[row] = low, high
        if ends_here:
            continue
        starts[at:until], ends[at:until], numbers[at:until] = [low], [high], [len(sessions) + row]
        if vanishes:
            del starts[at], ends[at], numbers[at]
    return np.array(by, dtype=np.int64), np.array(session, dtype=np.int64)


# The aggregates of sessions: what each record makes of those that it merges (docs/semantics/window_aggregate.md).
#
# A record begins with a new aggregate, merges the sessions that it meets into it, and adds its value. Records that each
# go on with what the one before made are a chain, which is folded at once; a chain that begins with several sessions
# waits for those to be folded.


def fold_sessions(
    fold: FoldKernel, merged: Merged, keys: pa.Array, values: pa.Array, old_states: pa.Array, ends: Bools | None = None
) -> tuple[States, dict[int, Exception]]:
    """(the state of each session, the records for which a function raises, where that is tolerated).

    Parameters
    ----------
    keys, values : of each record.
    old_states : the states of the stored sessions.
    ends : records that make no session, since a function raises for them; None: there are none.
    """
    failed: dict[int, Exception] = {}
    rows = np.flatnonzero(~merged.late)
    states = States.of_stored(fold, old_states, len(merged.start))
    links = Links(merged.known + rows, rows, merged.head[rows], merged.level[rows], merged.end[rows])

    def initial_states(heads: Int64s) -> pa.Array:
        return _initial_states(fold, merged, keys, states, heads, failed)

    raised = fold_chains(fold, links, states, keys, values, initial_states, merged.count == 1, ends)
    return states, raised | failed


def _initial_states(
    fold: FoldKernel, merged: Merged, keys: pa.Array, states: States, heads: Int64s, failed: dict[int, Exception]
) -> pa.Array:
    """The first state of each chain: none, the one session that it continues, or several that are merged.

    Parameters
    ----------
    failed : takes the heads for which that raises, where it is tolerated.
    """
    ranked = dict(_by_rank(merged, heads))
    initial = states.of(ranked.pop(0))
    for number, sessions in sorted(ranked.items()):
        theirs = states.of(sessions)
        rows = np.flatnonzero(valid(theirs) & valid(initial))
        at = pa.array(rows)
        pairs = _SessionPairs(fold, keys.take(pa.array(heads[rows])), initial.take(at), theirs.take(at), number == 1)
        fine, results = pairs.merged(heads[rows], failed)
        pointers = np.arange(len(initial), dtype=np.int64)
        pointers[rows[fine]] = len(initial) + np.arange(len(fine))
        initial = gather(pa.concat_arrays([initial, *results]), pointers)
    return initial


@dataclass(frozen=True)
class _SessionPairs:
    """Sessions that records merge, by two."""

    fold: FoldKernel
    keys: pa.Array  # of the records
    # one, other: what they have merged, and what comes to it
    one: pa.Array
    other: pa.Array
    first: bool  # whether that is no more than a session, which is merged into a new aggregate before

    def merged(self, records: Int64s, failed: dict[int, Exception]) -> tuple[Int64s, list[pa.Array]]:
        """(those that can be merged, what comes of it); `failed` takes the other records."""
        try:
            return np.arange(len(records)), [self.whole()]
        except RAISED as error:
            if not self.fold.tolerates_errors:
                raise with_owner(error, self.fold.owner) from None
        fine, states, raised = survivors(lambda rows: self._subset(pa.array(rows)).whole(), len(records))
        failed |= {int(records[at]): error for at, error in raised.items()}
        return fine, states

    def whole(self) -> pa.Array:
        left = self.fold.resume(self.keys, self.one) if self.first else self.one
        return self.fold.merge(self.keys, left, self.other)

    def _subset(self, at: pa.Array) -> _SessionPairs:
        return replace(self, keys=self.keys.take(at), one=self.one.take(at), other=self.other.take(at))


def _by_rank(merged: Merged, heads: Int64s) -> Iterator[tuple[int, Int64s]]:
    """(n, the n-th session that each of these records merges, -1 for none)."""
    first = np.searchsorted(merged.by, heads)
    session = np.append(merged.session, -1)
    for number in range(max(1, int(merged.count[heads].max(initial=0)))):  # two at most, where all is of one domain
        yield number, np.where(merged.count[heads] > number, session[np.minimum(first + number, len(merged.by))], -1)


# session_window_aggregate: aggregates by key and session (semantics/windows.md; KIP-94).
#
# A record merges the sessions that it comes near to: each of them gives a tombstone, then the one that they make gives
# a result. A session is let go when stream time has passed its end, the gap and the grace.


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped | Failed]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=len(context.values))
    times = BatchTimes(context, inputs, events, state, sides=len(context.values))
    params = context.params(WindowParams)
    assert isinstance(params.windows, SessionWindows)
    gap, wait = params.windows.gap_ms, params.windows.gap_ms + params.windows.grace_ms
    fold = fold_of(params.fold, context.operator.node, tolerates_errors=context.tolerates_errors)
    shard = Shard(events, times, fold, operator_table(context, state), gap, wait)
    for first_row, end in stretches(shard.sizes, shard.growth, single_stretch=context.operator.cached):
        yield from _take_in(shard, first_row, end, times.at_row[first_row:end] - wait, gap)
    if params.on_close:
        yield from shard.closing(wait + 1)
    shard.write(wait)
    times.store(state)


def _take_in(shard: Shard, first_row: int, end: int, close: Int64s, gap: int) -> Iterator[pa.Table | Dropped | Failed]:
    """The results of a stretch of the events, behind what was late."""
    events, standing = shard.events, shard.standing
    ts = events.ts[first_row:end]
    none = np.zeros(len(ts), dtype=np.bool_)
    key, domain = events.groups.group_of_row[first_row:end], shard.domain[first_row:end]
    records = SessionRecords(key, ts, close, vanishes=none, ends=none, domain=domain)
    sessions = StoredSessions(standing.key, *(standing.numbers[name] for name in ("start", "end", "domain")))
    partitions = shard.partitions.stretch(first_row, end) if shard.partitions is not None else None
    keys, values = events.key.slice(first_row, end - first_row), values_of(events, np.arange(first_row, end))
    while True:
        merges = merged(records, sessions, gap, partitions)
        raises = records.ends if records.ends.any() else None
        states, failed = fold_sessions(shard.fold, merges, keys, values, standing.states, raises)
        ends = none.copy()
        ends[list(failed)] = True
        if (ends != records.ends).any():
            # as of hopping windows (see `windowed_aggregate`): until the same is found
            records = replace(records, ends=ends)
            continue
        null_rows = np.flatnonzero((states.pointer[merges.known :] < 0) & ~merges.late & ~records.vanishes & ~ends)
        if not len(null_rows):
            break
        # what a key's later records meet is another then
        flags = records.vanishes.copy()
        flags[null_rows[np.unique(records.key[null_rows], return_index=True)[1]]] = True
        records = replace(records, vanishes=flags)
    yield from events.drops(EXPIRED_WINDOW, first_row + np.flatnonzero(merges.late))
    yield from failed_rows(events, {first_row + row: error for row, error in failed.items()})
    merges = merges.without(records.ends) if failed else merges
    if not events.context.params(WindowParams).on_close:
        yield from shard.results(_changes(first_row, records, merges, sessions), states)
    _settle(shard, first_row, records, merges, states)


def _settle(shard: Shard, first_row: int, records: SessionRecords, merges: Merged, states: States) -> None:
    """The sessions after a stretch: those not merged, and those made and not merged since."""
    standing, offset = shard.standing, merges.known
    new = np.flatnonzero(~merges.late & ~records.vanishes & ~merges.gone[offset:])
    old = np.flatnonzero(~merges.gone[:offset])
    of = {"end": merges.end, "start": merges.start, "domain": merges.domain}
    if "headers" in standing.numbers:
        of["headers"] = first_row + np.arange(len(merges.end), dtype=np.int64)
    if len(merges.replaced):
        numbers = {name: np.concatenate([standing.numbers[name], of[name]])[merges.replaced] for name in of}
        key = np.concatenate([standing.key, records.key])[merges.replaced]
        shard.let_go(key, numbers, states.of(merges.replaced))
    shard.settle(
        np.concatenate([standing.key[old], records.key[new]]),
        {name: np.concatenate([standing.numbers[name][old], column[new]]) for name, column in of.items()},
        np.concatenate([standing.fresh[old], np.ones(len(new), dtype=np.bool_)]),
        states.of(np.concatenate([old, offset + new])),
    )


def _changes(first_row: int, records: SessionRecords, merges: Merged, sessions: StoredSessions) -> WindowChanges:
    """Of each record the tombstones of the sessions that it merges, then what it makes of them."""
    rows = np.flatnonzero(~merges.late)
    # a session that is replaced by one of the same times gives no tombstone
    grows = (merges.start != records.ts) | (merges.end != records.ts)
    ends = grows[merges.by]
    record = np.concatenate([merges.by[ends], rows])
    session = np.concatenate([merges.session[ends], merges.known + rows])
    place = np.concatenate([merges.rank[ends], np.where(grows, merges.count, 0)[rows]])
    order = order_of([record, place])
    record, session, place = record[order], session[order], place[order]
    start, end = (
        np.concatenate([sessions.start, merges.start])[session],
        np.concatenate([sessions.end, merges.end])[session],
    )
    dies = session != merges.known + record
    # what is replaced without a tombstone is the old value of what replaces it
    replaced = np.full(len(merges.start), -1, dtype=np.int64)
    replaced[merges.by[~ends]] = merges.session[~ends]
    new, old = np.where(dies, -1, session), np.where(dies, session, replaced[record])
    return WindowChanges(first_row + record, place, start, end, end, new, old)
