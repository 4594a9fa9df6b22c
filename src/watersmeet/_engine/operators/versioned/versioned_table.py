"""versioned_table: keeps the versions of each key, and hands each change on (docs/semantics, section 3, versioned).

A change says whether it is the latest of its key; the old value beside it is the latest one before it, not the one
before it in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from watersmeet._engine.matching.versions import Versions, late
from watersmeet._engine.operator import Dropped, Events, OperatorContext, operator_table
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.rows.slices import slices_with_time
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.versioned_table import VersionedParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Dropped]:
    """See `level.run_operator`."""
    params = context.params(VersionedParams)
    for part in slices_with_time(inputs):
        events = Events(context, part, sides=1)
        times = Times(context, part, events, state, sides=1)
        versions = Versions(events, 0, operator_table(context, state), times, params.history_ms)
        versions.write()
        yield versions.dropped()
        yield from _changes(context, events, versions)
    times.store(state)


def _changes(context: OperatorContext, events: Events, versions: Versions) -> Iterator[pa.Table]:
    rows = versions.puts
    if not len(rows):
        return
    before = versions.before()
    out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
    out["value"] = Picked(events.tables[0].column("value"), events.own[rows])
    out["late"] = pa.array(late(versions, events, before))
    if context.operator.emits_old:
        out["old"] = before.picked()
    yield from in_pieces(out)
