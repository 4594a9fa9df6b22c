"""The engine file: rows of one shard and batch in, rows out, the state changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.operators.distinct.declaration import REPEATED
from watersmeet._engine.matching import Sides
from watersmeet._engine.operator import Dropped, Events, OperatorContext, SideValues, operator_table, store_last
from watersmeet._engine.row_sizes import in_pieces
from watersmeet._engine.state.runs import State


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=1)
    if not len(events):
        return
    table = operator_table(context, state)
    values = SideValues(events, 0, table)
    store_last(events, 0, events.groups.last, values.prior, table)
    now, before = (values.picked(pointers) for pointers in (events.own, Sides(events, [values, values]).own_before()))
    whole = [each.part(0, len(events)) for each in (now, before)]
    repeated = pc.equal(*whole).fill_null(False).to_numpy(zero_copy_only=False)
    yield Dropped(REPEATED, events.tables[0], events.own[repeated])
    rows = np.flatnonzero(~repeated)
    if len(rows):
        yield from in_pieces(events.meta(rows, events.ts[rows]) | {"value": values.picked(events.own[rows])})
