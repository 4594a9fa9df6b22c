"""Joins of a stream with a table: the row of now, the version of the record's time, or that a grace later.

Each record gives one result at most, by the table's row as the record finds it (law 2). With a grace (KIP-923), records
of the stream are held back until its time has passed them by the grace, so that changes of the table that come late are
still seen; then they are joined, in the order of their timestamps. A record that comes later than that is joined at
once, as is one without a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from watersmeet._engine.matching import Ordered, Sides, Versions
from watersmeet._engine.operator import Dropped, Events, OperatorContext, SideValues, operator_table, store_last
from watersmeet._engine.row_sizes import Picked, in_pieces, slices_with_time
from watersmeet._engine.rows import Bools, Int64s, merged, position_columns, valid
from watersmeet._engine.state.runs import State
from watersmeet._engine.time import BatchTimes, moments
from watersmeet._engine.waiting_rows import HeldRows, release
from watersmeet._plan.declaration import JoinParams
from watersmeet._plan.operators.joins import STREAM, TABLE, AsOfParams

# stream_table: join of a stream with a table, driven by the stream (docs/semantics/stream_table.md).
#
# Each record of the stream looks up the table's current value; changes of the table give no results. Results
# keep the stream record's key, timestamp and headers.


def run_stream_table(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=2)
    if not len(events):
        return
    table = operator_table(context, state)
    values = SideValues(events, TABLE, table)
    pointers = Sides(events, [values, values]).other_side()
    if context.reader is None:
        last = Ordered(events.groups).last_of_each(events.side == TABLE)
        store_last(events, TABLE, last, values.prior, table)
    driving = events.side == STREAM
    rows = np.flatnonzero(driving & (pointers >= 0) if context.params(JoinParams).how == "inner" else driving)
    if not len(rows):
        return
    out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
    out["left"] = Picked(events.tables[STREAM].column("value"), events.own[rows])
    out["right"] = values.picked(pointers[rows])
    out["joined"] = pa.array(np.ones(len(rows), dtype=np.bool_))
    yield from context.in_pieces(out)


# stream_versioned_table: join of a stream with a table that remembers its past (docs/semantics/stream_table.md).
#
# Each record of the stream sees the value that was valid at its own timestamp, of what has come before it.


def run_stream_versioned_table(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped]:
    """See `operators.run_operator`."""
    for part in slices_with_time(inputs):
        join = AsOfJoin(context, part, state)
        join.versions.write()
        yield join.versions.dropped()
        yield from join.results()
    join.times.store(state)


class AsOfJoin:
    """The join of some records with a batch's changes and what state holds; the same for records that were held back.

    Attributes
    ----------
    versions, times : the table's versions, and its time.
    """

    def __init__(self, context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> None:
        self._params = context.params(AsOfParams)
        self._events = events = Events(context, inputs, sides=2)
        self.times = BatchTimes(context, inputs, events, state, sides=2)
        self.versions = Versions(events, TABLE, operator_table(context, state), self.times, self._params.history_ms)

    def results(self) -> Iterator[pa.Table]:
        """The results, in order of position."""
        events = self._events
        rows = np.flatnonzero(events.side == STREAM)
        if not len(rows):
            return
        versions = self.versions.as_of(rows, events.ts[rows])
        places = np.arange(len(rows)) if self._params.how == "left" else np.flatnonzero(versions.pointers >= 0)
        if not len(places):
            return
        rows = rows[places]
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
        out["left"] = Picked(events.tables[STREAM].column("value"), events.own[rows])
        out["right"] = versions.picked(places)
        out["joined"] = pa.array(np.ones(len(rows), dtype=np.bool_))
        yield from in_pieces(out)


_ARRIVALS = "arrivals"


def run_stream_table_grace(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table | Dropped]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=1)
    # the stream's time: changes of the table do not move it
    times = BatchTimes(context, inputs, events, state, sides=2)
    due = events.ts + context.params(AsOfParams).grace_ms - 1
    pending = valid(events.key) & (2 * due >= moments(events, times))
    carried = ("value", "headers") if context.headers else ("value",)
    buffer = HeldRows(context, operator_table(context, state, 1), times, {name: name for name in carried})
    _hold(events, times, buffer, pending, due, state, carried)
    buffer.finish()
    at_once = events.tables[STREAM].take(pa.array(events.own[~pending]))
    join = AsOfJoin(context, {**inputs, STREAM: at_once}, state)
    join.versions.write()
    yield join.versions.dropped()
    tables = release(context, times, [buffer])
    released = (AsOfJoin(context, {**inputs, STREAM: rows}, state).results() for rows in tables)
    yield from merged(join.results(), chain.from_iterable(released), position_columns(context.slots))
    times.store(state)


def _hold(
    events: Events, times: BatchTimes, buffer: HeldRows, pending: Bools, due: Int64s, state: State, names: Sequence[str]
) -> None:
    """Hold records back, in the order of their due times, keys and arrival, with these columns of theirs."""
    rows, batch = np.flatnonzero(pending), events.tables[STREAM]
    first = state.get_scalar(_ARRIVALS, 0)
    state.set_scalar(_ARRIVALS, first + len(rows))
    buffer.hold(
        {
            "hash": pa.array(events.hash[rows]),
            "key": events.key.take(pa.array(rows)),
            "ts": pa.array(events.ts[rows]),
            "arrival": pa.array(first + np.arange(len(rows), dtype=np.int64)),
            **{name: Picked(batch.column(name), events.own[rows]) for name in names},
        },
        due[rows],
        times.number(times.of_row[rows]),
    )
