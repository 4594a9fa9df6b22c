"""process: a user's class called for each record and timer of a key, in the order of the sequence (docs/processors.md).

The results of a key follow from its own records and timers, and from time. So a batch is done in slices of keys:
state is read for all keys of a slice, then each key's records and timers go one after the other, then state is written.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.raising import placed
from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import KeyGroups, encode_keys, group_keys
from watersmeet._engine.operator import Events, Failed, OperatorContext, failed_rows, operator_table
from watersmeet._engine.operators.processors.calls import CallContext, CalledRecord, origins
from watersmeet._engine.operators.processors.dials import StreamDial, WallDial
from watersmeet._engine.operators.processors.sent import Sent, SentResults
from watersmeet._engine.operators.processors.states import KINDS, Present
from watersmeet._engine.operators.processors.timer_positions import Place, TimerPositions
from watersmeet._engine.operators.processors.timers import Due, Timers
from watersmeet._engine.operators.processors.values import plain_values
from watersmeet._engine.rows.columns import joined
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.times import Times
from watersmeet._engine.time.wall import WallClock
from watersmeet._plan.operators.process import ProcessParams
from watersmeet.errors import FunctionError

SLICE_ROWS = 32_768
"""Records, and keys whose timers are due, of a slice, about: those of one key are in one."""
_ENDLESS = 1_000_000
"""Timers that fire at once, one after the other, at one place: more are taken for a processor that never ends."""


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Failed]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=1)
    times = Times(context, inputs, events, state, sides=1)
    batch = _Batch(context, events, times, state)
    yield from batch.run()
    batch.finish()
    times.store(state)


@dataclass(frozen=True)
class _Keys:
    """The keys of a batch: those of its records, and those with timers that are due.

    Parameters
    ----------
    hashes, keys : of each record and due timer, records first.
    groups : these by key.
    records : how many are records.
    """

    hashes: Int64s
    keys: pa.Array
    groups: KeyGroups
    records: int

    @classmethod
    def of(cls, context: OperatorContext, events: Events, timers: Sequence[Timers]) -> _Keys:
        """Those of a batch."""
        hashes, keys = events.hash, events.key
        for each in timers:
            due = each.keys_due()
            hashes = np.concatenate([hashes, due.column("hash").to_numpy()])
            keys = joined([keys, due.column("key")], context.key)
        return cls(hashes, keys, group_keys(hashes, keys), len(events))

    def slices(self) -> Iterator[tuple[int, int]]:
        """The groups, in ranges of about `SLICE_ROWS` rows."""
        ends, begin = self.groups.starts[1:], 0
        while begin < len(ends):
            last = int(ends.searchsorted(self.groups.starts[begin] + SLICE_ROWS, side="left"))
            yield begin, min(last + 1, len(ends))
            begin = last + 1


class _Batch:
    """One shard's batch."""

    def __init__(self, context: OperatorContext, events: Events, times: Times, state: State) -> None:
        self.context, self.events, self.times, self.state = context, events, times, state
        self.params = context.params(ProcessParams)
        self._whose = context.operator.node
        clocked = self.params.timers or self.params.wall_timers
        self._placed = clocked or any(store.ttl_ms is not None for store in self.params.stores)
        self.places = TimerPositions(context, events, times, placed=self._placed)
        self.now = Present(self._elsewhere, outlives=context.outlives)
        called = f"The processor {self.params.called}"
        tables = [operator_table(context, state, number) for number in range(len(context.kept))]
        self.tables = tables
        self.stores = [
            KINDS[s.kind](s, table, self.now, called) for s, table in zip(self.params.stores, tables, strict=False)
        ]
        self.due = Due() if clocked else None
        self.wall = WallClock(context, state, times.wall) if self.params.wall_timers else None
        self.timers = self._timers(tables[len(self.stores) :])
        named = {each.name: store for each, store in zip(self.params.stores, self.stores, strict=True)}
        by_clock = {each.dial.method: each for each in self.timers}
        self.calls = CallContext(self.params, named, by_clock, self.now, None if self.wall is None else self.wall.now)
        self.by_event: Sent = []
        self.by_timer: Sent = []
        self.errors: dict[int, Exception] = {}
        self._at: Place = (0,)

    def _timers(self, tables: list[Table]) -> list[Timers]:
        """Those of stream time, and those of the wall clock."""
        left, found, given = iter(tables), [], (self.times, self.places, self.now)
        if self.due is not None and self.params.timers:
            found.append(Timers(next(left), StreamDial(*given), self.now, self.due))
        if self.due is not None and self.wall is not None:
            found.append(Timers(next(left), WallDial(self.wall, *given), self.now, self.due))
        return found

    def run(self) -> Iterator[pa.Table | Failed]:
        """The results, and the records that fail; state is put before a slice's results come."""
        keys = _Keys.of(self.context, self.events, self.timers)
        if not keys.groups.count:
            return
        processor = self._made()
        results = SentResults(self.context, self.events, self.times, self.places)
        for begin, end in keys.slices():
            chosen = keys.groups.first[begin:end]
            hashes, own = keys.hashes[chosen], keys.keys.take(pa.array(chosen))
            self._slice(processor, keys, begin, end, hashes, own)
            sent = self.by_event, self.by_timer
            self.by_event, self.by_timer = [], []
            yield from results.of(*sent, hashes, own)
        self.calls.at(None, None, None)
        self._called(processor, "close")
        yield from failed_rows(self.events, self.errors)

    def finish(self) -> None:
        """Expired entries and timers are removed."""
        tables = self.tables
        if self.wall is not None:
            *tables, of_wall = tables
            # one clock for all domains
            of_wall.expire({0: self.wall.now})
            self.wall.store(self.state)
        for table in tables:
            if table.layout.retained:
                table.expire(self.times.by_domain(self.times.end))

    # -- slices --------------------------------------------------------------------------------------------

    def _slice(self, processor: Any, keys: _Keys, begin: int, end: int, hashes: Int64s, own: pa.Array) -> None:
        domains, start = self.times.domains, self.times.start
        for store in self.stores:
            store.load(hashes, own, domains, start)
        for timers in self.timers:
            timers.load(hashes, own)
        starts = keys.groups.starts
        rows = keys.groups.order[starts[begin] : starts[end]]
        # what no record stands behind is a timer that is due
        mine = rows[rows < keys.records]
        edges = np.cumsum(np.append(0, rows < keys.records))[starts[begin : end + 1] - starts[begin]]
        values = self.events.tables[0].column("value").take(pa.array(self.events.own[mine]))
        keyed = plain_values(own), encode_keys(own).to_pylist() if self.places.keyed else None
        # A processor is called record by record: that is what it is for.
        records = zip(mine.tolist(), plain_values(values), self.events.ts[mine].tolist(), strict=True)
        with _without_collector():
            self._keys(processor, keyed, edges.tolist(), records)
            for store in self.stores:
                store.write(hashes, own, domains)
            for timers in self.timers:
                timers.write(hashes, own)

    def _keys(
        self,
        processor: Any,
        keyed: tuple[list[Any], list[bytes] | None],
        ends: list[int],
        records: Iterator[tuple[int, Any, int]],
    ) -> None:
        """The records and timers of a slice's keys, key after key, in order.

        Parameters
        ----------
        keyed : the keys, and their bytes where places need them.
        ends : where each key's records begin and end.
        records : event, value and timestamp of each.
        """
        now, calls, sent, stores = self.now, self.calls, self.by_event, self.stores
        due, timers, places = self.due, self.timers, self.places
        process, origin, times, domains = processor.process, self._origin, places.stream_time, places.domain
        (names, encoded), placed, wall = keyed, self._placed, self.wall
        for group, key in enumerate(names):
            for store in stores:
                store.enter(group)
            for each in timers:
                each.enter(group, b"" if encoded is None else encoded[group])
            for row, value, stamp in islice(records, ends[group + 1] - ends[group]):
                if placed:
                    at = places.of_event(row)
                    if due is not None and due.heap and due.heap[0] < at:
                        self._fire(processor, group, key, at)
                    self._at = at
                    if wall is not None:
                        now.wall = places.wall_of(row, wall.now)
                now.stamp, now.time, now.domain = stamp, times[row], domains[row]
                calls.at(sent, row, key)
                if now.journal is None:
                    try:
                        process(CalledRecord(key, value, stamp, row, origin), calls)
                    except Exception as error:
                        raise self._raised(error, "process") from None
                else:
                    self._outlived(process, CalledRecord(key, value, stamp, row, origin), row)
                if due is not None and due.at_once:
                    self._fire(processor, group, key, self._at)
            if due is not None and due.heap:
                self._fire(processor, group, key, None)

    def _outlived(self, process: Any, record: CalledRecord, row: int) -> None:
        """A record that ends where the processor raises: it has changed nothing then."""
        sent, journal = len(self.by_event), self.now.journal
        assert journal is not None
        try:
            process(record, self.calls)
        except Exception as error:
            del self.by_event[sent:]
            for undo in reversed(journal):
                undo()
            if self.due is not None:
                # what it has set for now does not fire
                self.due.at_once.clear()
            self.errors[row] = _bare(self._said(error, "process"))
        journal.clear()

    def _fire(self, processor: Any, group: int, key: Any, limit: Place | None) -> None:
        """Timers of the key that go before a place; None: all that are due in the batch."""
        assert self.due is not None
        now, count = self.now, 0
        for timers, moment, domain, place in self.due.fire(limit):
            now.domain, now.stamp, method = domain, moment, timers.dial.method
            if place is not None:
                self._at, count = place, 0
                if self.wall is not None:
                    now.wall = self.wall.now
                timers.dial.fires(domain, moment)
                self.calls.at(self.by_timer, (place, domain, group), key)
            count += 1
            if count > _ENDLESS:
                raise self._raised(_endless(self.params.called, moment, method), method)
            try:
                getattr(processor, method)(key, moment, self.calls)
            except Exception as error:
                raise self._raised(error, method) from None
            if now.journal:
                now.journal.clear()

    # -- the processor -------------------------------------------------------------------------------------

    def _made(self) -> Any:
        try:
            made = self.params.make()
        except Exception as error:
            raise self._raised(error, "__init__") from None
        self._called(made, "init", self.calls)
        return made

    def _called(self, processor: Any, method: str, *given: Any) -> None:
        """Call a method if there is one."""
        called = getattr(processor, method, None)
        if called is None:
            return
        try:
            called(*given)
        except Exception as error:
            raise self._raised(error, method) from None

    def _raised(self, error: Exception, method: str) -> Exception:
        return placed(self._said(error, method), self._whose)

    def _said(self, error: Exception, method: str) -> Exception:
        if isinstance(error, FunctionError):
            return error
        where = _line(error)
        return FunctionError(
            f"The processor {self.params.called} raises in {method}: {type(error).__name__}: {error!s:.300}",
            given=f"{self.params.called}.{method}{where}",
        )

    @cached_property
    def _origin(self) -> Any:
        srcpart, offset = self.events.position[1].tolist(), self.events.position[2].tolist()
        table, own = self.events.tables[0], self.events.own

        def headers(row: int) -> Any:
            if "headers" not in table.column_names:
                return None
            given = table.column("headers")[int(own[row])].as_py() or []
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


def _line(error: Exception) -> str:
    """The user's own line."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        line = f", {trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return line


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
