"""stream_table_grace: join of a stream with a versioned table, a grace later (KIP-923; docs/semantics, section 8).

Records of the stream are held back until its time has passed them by the grace, so that changes of the table that come
late are still seen; then they are joined, in the order of their timestamps. A record that comes later than that is
joined at once, as is one without a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Dropped, Events, OperatorContext, operator_table
from watersmeet._engine.operators.versioned.stream_versioned_table import STREAM, AsOfJoin
from watersmeet._engine.rows.columns import position_columns, valid
from watersmeet._engine.rows.position import merged
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.held import release
from watersmeet._engine.time.held_rows import HeldRows
from watersmeet._engine.time.times import Times, moments
from watersmeet._plan.operators.stream_versioned_table import AsOfParams

_ARRIVALS = "arrivals"


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=1)
    # the stream's time: changes of the table do not move it
    times = Times(context, inputs, events, state, sides=2)
    due = events.ts + context.params(AsOfParams).grace_ms - 1
    waits = valid(events.key) & (2 * due >= moments(events, times))
    carried = ("value", "headers") if context.headers else ("value",)
    held = HeldRows(context, operator_table(context, state, 1), times, {name: name for name in carried})
    _hold(events, times, held, waits, due, state, carried)
    held.finish()
    at_once = events.tables[STREAM].take(pa.array(events.own[~waits]))
    join = AsOfJoin(context, {**inputs, STREAM: at_once}, state)
    join.versions.write()
    yield join.versions.dropped()
    gone = release(context, times, [held])
    released = (AsOfJoin(context, {**inputs, STREAM: rows}, state).results() for rows in gone)
    yield from merged(join.results(), chain.from_iterable(released), position_columns(context.slots))
    times.store(state)


def _hold(
    events: Events, times: Times, held: HeldRows, waits: Bools, due: Int64s, state: State, carried: Sequence[str]
) -> None:
    """Hold records back, in the order of their due times, keys and arrival, with these columns of theirs."""
    rows = np.flatnonzero(waits)
    first = state.get_scalar(_ARRIVALS, 0)
    state.set_scalar(_ARRIVALS, first + len(rows))
    held.hold(
        {
            "hash": pa.array(events.hash[rows]),
            "key": events.key.take(pa.array(rows)),
            "ts": pa.array(events.ts[rows]),
            "arrival": pa.array(first + np.arange(len(rows), dtype=np.int64)),
            **{name: Picked(events.tables[STREAM].column(name), events.own[rows]) for name in carried},
        },
        due[rows],
        times.number(times.of_row[rows]),
    )
