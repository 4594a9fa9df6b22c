"""global_lookup: join of a stream with a global table by a mapped key, driven by it (docs/semantics, section 9).

Every shard keeps a copy of the table; rows of the stream stand in the shard of their own key and come in under
the key that they look up. Updates of the table give no results. Results keep the stream record's key,
timestamp and headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.operators.global_view import LEFT, View
from watersmeet._engine.rows.columns import gather, joined
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.runs import State
from watersmeet._plan.operators.global_lookup import LookupParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    view = View(context, inputs, state)
    if LEFT not in inputs:
        return
    events = Events(context, inputs, sides=1)
    found = view.present[events.own]
    rows = np.flatnonzero(found | (context.params(LookupParams).how == "left"))
    if len(rows):
        called = np.ones(len(rows), dtype=np.bool_)
        yield from in_pieces(results(events, rows, view, called))


def results(events: Events, rows: Int64s, view: View, called: Bools) -> dict[str, pa.Array | Picked]:
    """Columns of results of the given rows of the left side; no left value for a tombstone."""
    left = events.tables[LEFT]
    own = events.own[rows]
    out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
    out["key"] = gather(joined([left.column("left_key")], dict(events.context.extras)["left_key"]), own)
    del out["hash"]
    out["left"] = Picked(left.column("value"), np.where(called, own, -1))
    return out | view.columns(own) | {"joined": pa.array(called)}
