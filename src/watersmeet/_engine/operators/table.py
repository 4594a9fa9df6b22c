"""table: keeps the latest value of each key and hands each change on with the value before it.

Semantics.md, section 3: the last arrival wins, whatever its timestamp; a tombstone for a key that is not
there is handed on too, unless the node knows old values and suppresses null after null (section 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.matching.lookup import Sides
from watersmeet._engine.operator import Events, OperatorContext, SideValues, operator_table, sent, store_last
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.runs import State
from watersmeet._plan.operators.table import TableParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=1)
    if not len(events):
        return
    table = operator_table(context, state)
    values = SideValues(events, 0, table)
    old = Sides(events, [values, values]).own_before()
    new = np.where(events.present, events.own, -1)
    emitted = (new >= 0) | (old >= 0) | (not context.params(TableParams).suppress[0])
    store_last(events, 0, events.groups.last, values.prior, table)
    firsts, rows = sent(context.operator, events.groups.group_of_row, np.flatnonzero(emitted), new >= 0, old >= 0)
    if not len(rows):
        return
    out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
    out["value"] = values.picked(new[rows])
    if context.operator.emits_old:
        out["old"] = values.picked(old[firsts])
    yield from in_pieces(out)
