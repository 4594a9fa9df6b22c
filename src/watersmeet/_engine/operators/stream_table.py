"""stream_table: join of a stream with a table, driven by the stream (docs/semantics, section 8).

Each record of the stream looks up the table's current value; changes of the table give no results. Results
keep the stream record's key, timestamp and headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.matching.lookup import Sides
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, OperatorContext, SideValues, operator_table, store_last
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._plan.operators.spec import JoinParams

STREAM, TABLE = 0, 1


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=2)
    if not len(events):
        return
    table = operator_table(context, state)
    values = SideValues(events, TABLE, table)
    found = Sides(events, [values, values]).other_side()
    if context.lent is None:
        last = Ordered(events.groups).last_of_each(events.side == TABLE)
        store_last(events, TABLE, last, values.prior, table)
    driving = events.side == STREAM
    rows = np.flatnonzero(driving & (found >= 0) if context.params(JoinParams).how == "inner" else driving)
    if not len(rows):
        return
    out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
    out["left"] = Picked(events.tables[STREAM].column("value"), events.own[rows])
    out["right"] = values.picked(found[rows])
    out["joined"] = pa.array(np.ones(len(rows), dtype=np.bool_))
    yield from context.in_pieces(out)
