"""The engine file: what comes is held, what is due is released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from tests.operators.delayed.declaration import DelayParams
from watersmeet._engine.keys import combine_hashes, group_keys
from watersmeet._engine.operator import Events, OperatorContext, operator_table
from watersmeet._engine.row_sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._engine.time import BatchTimes
from watersmeet._engine.waiting_rows import HeldRows, release


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    params = context.params(DelayParams)
    events = Events(context, inputs, sides=1)
    times = BatchTimes(context, inputs, events, state, sides=1)
    arrivals = int(state.get_scalar("arrivals", 0))
    held = HeldRows(context, operator_table(context, state), times, {"value": "value"})
    due = events.ts + params.wait
    rows = np.flatnonzero(due >= times.start[times.of_row])
    if params.last and len(rows):
        pairs = pa.StructArray.from_arrays([events.key.take(pa.array(rows)), pa.array(due[rows])], ["key", "due"])
        rows = np.sort(rows[group_keys(combine_hashes(events.hash[rows], due[rows]), pairs).last])
    held.hold(
        {
            "hash": pa.array(events.hash[rows]),
            "key": events.key.take(pa.array(rows)),
            "ts": pa.array(events.ts[rows]),
            "arrival": pa.array(arrivals + rows),
            "value": Picked(events.tables[0].column("value"), events.own[rows]),
        },
        due[rows],
        times.number(times.of_row[rows]),
    )
    state.set_scalar("arrivals", arrivals + len(events))
    held.finish()
    times.store(state)
    yield from release(context, times, [held])
