"""process: users' classes called for each record and timer of a key, in the order of the sequence (docs/processors.md).

The results of a key follow from its own records and timers, from the rows of the tables that are read, and from time.
So a batch is done in slices of keys: state is read for all keys of a slice, then each key's records and timers go one
after the other, then state is written.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import encode_keys
from watersmeet._engine.operator import Dropped, Events, Failed, OperatorContext, failed_rows, operator_table
from watersmeet._engine.operators.processors.bulk import in_bulk
from watersmeet._engine.operators.processors.calls import CallContext, CalledRecord, origins
from watersmeet._engine.operators.processors.dials import StreamDial, WallDial
from watersmeet._engine.operators.processors.keys import Keys
from watersmeet._engine.operators.processors.members import Member
from watersmeet._engine.operators.processors.sent import Sent, SentResults
from watersmeet._engine.operators.processors.states import KINDS, Present
from watersmeet._engine.operators.processors.tables import CurrentRows, GlobalRows, PastRows, named
from watersmeet._engine.operators.processors.timer_positions import Place, TimerPositions
from watersmeet._engine.operators.processors.timers import Due, Timers
from watersmeet._engine.operators.processors.values import plain_values
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times
from watersmeet._engine.time.wall import WallClock
from watersmeet._plan.operators.process import MemberParams, ProcessParams
from watersmeet.errors import FunctionError

_ENDLESS = 1_000_000
"""Timers that fire at once, one after the other, at one place: more are taken for a processor that never ends."""


def run(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Failed | Dropped]:
    """See `level.run_operator`."""
    params = context.params(ProcessParams)
    # rows of global tables have keys of another type, and stand in no sequence of a key
    sides = len(params.members) + sum(not read.everywhere for read in params.reads)
    events = Events(context, inputs, sides)
    times = Times(context, inputs, events, state, sides)
    batch = _Batch(context, inputs, events, times, state)
    yield from batch.run()
    yield from batch.finish()
    times.store(state)


class _Batch:
    """One shard's batch."""

    def __init__(
        self, context: OperatorContext, inputs: Mapping[int, pa.Table], events: Events, times: Times, state: State
    ) -> None:
        self.context, self.events, self.times, self.state = context, events, times, state
        self.params = params = context.params(ProcessParams)
        self._placed = params.timers or any(store.ttl_ms is not None for store in params.stores)
        self.places = TimerPositions(context, events, times, placed=self._placed)
        self.now = Present(self._elsewhere, outlives=context.outlives)
        tables = [operator_table(context, state, number) for number in range(len(context.kept))]
        left, called = iter(tables), f"The processor {params.members[0].called}"
        self._kept = list(zip(params.stores, tables, strict=False))
        self.stores = [KINDS[store.kind](store, next(left), self.now, called) for store in params.stores]
        self.due = Due() if params.timers else None
        self.wall = WallClock(context, state, times.wall) if params.by_wall else None
        self._timers = [self._timers_of(each, number, left) for number, each in enumerate(params.members)]
        self.timers = [each for own in self._timers for each in own]
        self.reads = self._reads(left, inputs)
        self.keyed = [each for each in self.reads if not isinstance(each, GlobalRows)]
        self.members: list[Member] = []
        self.by_event: Sent = []
        self.by_timer: Sent = []
        self.errors: dict[int, Exception] = {}
        self._at: Place = (0,)

    def _timers_of(self, member: MemberParams, number: int, tables: Iterator[Table]) -> list[Timers]:
        """Those of stream time, and those of the wall clock."""
        found, given = [], (self.times, self.places, self.now)
        if self.due is not None and member.timers:
            found.append(Timers(next(tables), StreamDial(*given), self.now, self.due, number))
        if self.due is not None and self.wall is not None and member.wall_timers:
            found.append(Timers(next(tables), WallDial(self.wall, *given), self.now, self.due, number))
        return found

    def _reads(
        self, tables: Iterator[Table], inputs: Mapping[int, pa.Table]
    ) -> list[CurrentRows | PastRows | GlobalRows]:
        found: list[CurrentRows | PastRows | GlobalRows] = []
        for side, (read, table) in enumerate(zip(self.params.reads, tables, strict=True), len(self.params.members)):
            if read.everywhere:
                given = self.events, self.times, inputs
                at = (lambda: self._at) if self._placed else None
                found.append(GlobalRows(self.context, read, side, given, table, self.now, at))
            elif read.history_ms is None:
                found.append(CurrentRows(side, table, self.events))
            else:
                found.append(PastRows(read, side, table, self.events, self.times, self.now, lambda: self._at))
        return found

    def run(self) -> Iterator[pa.Table | Failed]:
        """The results, and the records that fail; state is put before a slice's results come."""
        keys = Keys.of(self.events, self.timers, len(self.params.members))
        if not keys.groups.count:
            return
        self.members = [self._member(number) for number in range(len(self.params.members))]
        results = SentResults(self.context, self.events, self.times, self.places)
        for begin, end in keys.slices():
            chosen = keys.groups.first[begin:end]
            hashes, own = keys.hashes[chosen], keys.keys.take(pa.array(chosen))
            if self.members[0].params.in_bulk:
                yield from in_bulk(self.members[0], self.events, *keys.events_of(begin, end), self._kept, results)
                continue
            self._slice(keys, begin, end, hashes, own)
            sent = self.by_event, self.by_timer
            self.by_event, self.by_timer = [], []
            yield from results.of(*sent, hashes, own)
        for each in self.members:
            each.close()
        yield from failed_rows(self.events, self.errors)

    def _member(self, number: int) -> Member:
        params, timers, reads = self.params.members[number], self._timers[number], self.params.reads
        stores = {store.name: store for store in self.stores if store.name in params.stores}
        by_clock = {each.dial.method: each for each in timers}
        read = tuple(named(reads, self.reads, number, everywhere=each) for each in (False, True))
        wall = None if self.wall is None or not params.wall_timers else self.wall.now
        calls = CallContext(params, stores, by_clock, (read[0], read[1]), self.now, wall)
        return Member(params, calls, self.context.operator.node)

    def finish(self) -> Iterator[Dropped]:
        """Changes of the tables that are read are written; expired entries and timers are removed."""
        for read in self.reads:
            read.store()
        for each in self.keyed:
            yield from each.dropped()
        for _, table in self._kept:
            if table.layout.retained:
                table.expire(self.times.by_domain(self.times.end))
        for timers in self.timers:
            # the wall clock is one for all domains
            by_wall = self.wall is not None and isinstance(timers.dial, WallDial)
            timers.forget({0: self.wall.now} if by_wall and self.wall else self.times.by_domain(self.times.end))
        if self.wall is not None:
            self.wall.store(self.state)

    # -- slices --------------------------------------------------------------------------------------------

    def _slice(self, keys: Keys, begin: int, end: int, hashes: Int64s, own: pa.Array) -> None:
        domains, start = self.times.domains, self.times.start
        for store in self.stores:
            store.load(hashes, own, domains, start)
        encoded = encode_keys(own).to_pylist() if self.places.keyed and self.timers else None
        for timers in self.timers:
            timers.load(hashes, own, encoded)
        for table in self.keyed:
            table.load(hashes, own)
        mine, edges = keys.events_of(begin, end)
        # A processor is called record by record: that is what it is for.
        records = zip(mine.tolist(), self._values(mine), self.events.ts[mine].tolist(), strict=True)
        with _without_collector():
            self._keys(plain_values(own), edges.tolist(), records)
            for store in self.stores:
                store.write(hashes, own, domains)
            for timers in self.timers:
                timers.write(hashes, own)

    def _values(self, events: Int64s) -> list[Any]:
        """The values of some events, as Python has them."""
        tables, own, side = self.events.tables, self.events.own[events], self.events.side[events]
        if len(tables) == 1:
            return plain_values(tables[0].column("value").take(pa.array(own)))
        found: list[Any] = [None] * len(events)
        for number, table in enumerate(tables):
            places = np.flatnonzero(side == number)
            values = plain_values(table.column("value").take(pa.array(own[places])))
            # as above
            for place, value in zip(places.tolist(), values, strict=True):
                found[place] = value
        return found

    def _keys(self, keys: list[Any], ends: list[int], records: Iterator[tuple[int, Any, int]]) -> None:
        """The records and timers of a slice's keys, and the changes of its tables, key after key, in order.

        Parameters
        ----------
        keys : the keys.
        ends : where each key's events begin and end.
        records : event, value and timestamp of each.
        """
        now, sent, due, places = self.now, self.by_event, self.due, self.places
        origin, times, domains = self._origin, places.stream_time, places.domain
        member, members, tables = self.members[0], self.members, self.keyed
        process, calls, wall = member.processor.process, member.calls, self.wall
        sides = self.events.side.tolist() if len(self.events.tables) > 1 else None
        placed, entering = self._placed, [each.enter for each in (*self.stores, *self.timers, *tables)]
        for group, key in enumerate(keys):
            for enter in entering:
                enter(group)
            for row, value, stamp in islice(records, ends[group + 1] - ends[group]):
                if placed:
                    at = places.of_event(row)
                    if due is not None and due.heap and due.heap[0] < at:
                        self._fire(group, key, at)
                    self._at = at
                    if wall is not None:
                        now.wall = places.wall_of(row, wall.now)
                if sides is not None:
                    if (side := sides[row]) >= len(members):
                        tables[side - len(members)].change(row, value, stamp)
                        continue
                    member = members[side]
                    process, calls = member.processor.process, member.calls
                now.stamp, now.time, now.domain, now.row = stamp, times[row], domains[row], row
                calls.at(sent, row, key)
                if now.journal is None:
                    try:
                        process(CalledRecord(key, value, stamp, row, origin), calls)
                    except Exception as error:
                        raise member.raised(error, "process", key=key) from None
                else:
                    self._outlived(member, CalledRecord(key, value, stamp, row, origin), row)
                if due is not None and due.at_once:
                    self._fire(group, key, self._at)
            if due is not None and due.heap:
                self._fire(group, key, None)

    def _outlived(self, member: Member, record: CalledRecord, row: int) -> None:
        """A record that ends where the processor raises: it has changed nothing then."""
        sent, journal = len(self.by_event), self.now.journal
        assert journal is not None
        try:
            member.processor.process(record, member.calls)
        except Exception as error:
            del self.by_event[sent:]
            for undo in reversed(journal):
                undo()
            if self.due is not None:
                # what it has set for now does not fire
                self.due.at_once.clear()
            self.errors[row] = _bare(member.said(error, "process"))
        journal.clear()

    def _fire(self, group: int, key: Any, limit: Place | None) -> None:
        """Timers of the key that go before a place; None: all that are due in the batch."""
        assert self.due is not None
        now, count = self.now, 0
        for timers, moment, domain, place in self.due.fire(limit):
            member = self.members[timers.member]
            now.domain, now.stamp, method = domain, moment, timers.dial.method
            if place is not None:
                self._at, count, now.row = place, 0, -1
                if self.wall is not None:
                    now.wall = self.wall.now
                timers.dial.fires(domain, moment)
                member.calls.at(self.by_timer, (place, domain, group, timers.member), key)
            count += 1
            if count > _ENDLESS:
                raise member.raised(_endless(member.params.called, moment, method), method)
            try:
                getattr(member.processor, method)(key, moment, member.calls)
            except Exception as error:
                raise member.raised(error, method, key=key) from None
            if now.journal:
                now.journal.clear()

    @cached_property
    def _origin(self) -> Any:
        events = self.events
        srcpart, offset = events.position[1].tolist(), events.position[2].tolist()

        def headers(row: int) -> Any:
            table = events.tables[int(events.side[row])]
            if "headers" not in table.column_names:
                return None
            given = table.column("headers")[int(events.own[row])].as_py() or []
            return [(each["key"], each["value"]) for each in given]

        return origins(self.params.sources, srcpart, offset, headers)

    def _elsewhere(self, domain: int) -> int:
        return self.places.time_at(domain, self._at)


@contextmanager
def _without_collector() -> Iterator[None]:
    """A slice's records stay until it is done: that the collector goes through them again and again is a fifth."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _bare(error: Exception) -> Exception:
    """The error without the frames that it has passed, which hold rows."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _endless(called: str, moment: int, method: str) -> FunctionError:
    return FunctionError(
        f"The processor {called} sets a timer for now in each call of {method}: {_ENDLESS:,} have fired at one "
        "position.",
        given=f"the moment {moment}",
        hint="Set the next timer for a later moment: context.set_timer(timestamp + interval).",
    )
