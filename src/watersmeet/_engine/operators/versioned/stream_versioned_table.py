"""stream_versioned_table: join of a stream with a table that remembers its past (docs/semantics, section 8).

Each record of the stream sees the value that was valid at its own timestamp, of what has come before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.matching.versions import Versions
from watersmeet._engine.operator import Dropped, Events, OperatorContext, operator_table
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.rows.slices import slices_with_time
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.stream_versioned_table import TABLE, AsOfParams

STREAM = 0


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
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
        self.times = Times(context, inputs, events, state, sides=2)
        self.versions = Versions(events, TABLE, operator_table(context, state), self.times, self._params.history_ms)

    def results(self) -> Iterator[pa.Table]:
        """The results, in order of position."""
        events = self._events
        rows = np.flatnonzero(events.side == STREAM)
        if not len(rows):
            return
        found = self.versions.as_of(rows, events.ts[rows])
        places = np.arange(len(rows)) if self._params.how == "left" else np.flatnonzero(found.pointers >= 0)
        if not len(places):
            return
        rows = rows[places]
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
        out["left"] = Picked(events.tables[STREAM].column("value"), events.own[rows])
        out["right"] = found.picked(places)
        out["joined"] = pa.array(np.ones(len(rows), dtype=np.bool_))
        yield from in_pieces(out)
