"""global_lookup: join of a stream with a global table by a mapped key, driven by the stream (semantics.md, section 9).

Every shard keeps a copy of the table; rows of the stream stand in the shard of their own key and come in under
the key that they look up. Updates of the table give no results. Results keep the stream record's key,
timestamp and headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from millpond._engine.columns import Int64s, gather, joined
from millpond._engine.lookup import other_side
from millpond._engine.match import Ordered
from millpond._engine.operator import Events, Setting, Values, state_schema, store_last
from millpond._engine.runs import State, StateTable

LEFT, GLOBAL = 0, 1


def run(setting: Setting, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(setting, inputs, sides=2)
    if not len(events):
        return
    values, found = look_up(setting, events, state)
    driving = events.side == LEFT
    rows = np.flatnonzero(driving & (found >= 0) if setting.operator.how == "inner" else driving)
    if len(rows):
        called = np.ones(len(rows), dtype=np.bool_)
        yield pa.table(results(events, rows, values, found[rows]) | {"joined": pa.array(called)})


def tables(setting: Setting, state: State) -> tuple[StateTable]:
    """The shard's copy of the global table."""
    return (state.table(setting.operator.stores[0], state_schema(setting, GLOBAL)),)


def look_up(setting: Setting, events: Events, state: State) -> tuple[Values, Int64s]:
    """(values of the replica, pointer to the one that each row finds), the batch's updates being stored."""
    (table,) = tables(setting, state)
    values = Values(events, GLOBAL, table)
    found = other_side(events, [values, values])
    last = Ordered(events.groups).last_of_each(events.side == GLOBAL)
    store_last(events, GLOBAL, last, values.prior, table)
    return values, found


def results(events: Events, rows: Int64s, values: Values, found: Int64s) -> dict[str, pa.Array]:
    """Columns of results of the given rows of the left side, but for `joined`."""
    left = events.tables[LEFT]
    own = events.own[rows]
    out = events.meta(rows, events.ts[rows])
    out["mapped_key"] = out["key"]
    out["key"] = gather(joined([left.column("left_key")], dict(events.setting.extras)["left_key"]), own)
    del out["hash"]
    out["left"] = gather(left.column("value"), own)
    out["right"] = values.gather(found)
    return out
