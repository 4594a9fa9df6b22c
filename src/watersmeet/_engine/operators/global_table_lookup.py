"""global_table_lookup: join of a table with a global table, driven by the former alone (docs/semantics, section 9).

As `global_lookup`, but a row without result deletes the one that stands, and only what stands is deleted. So
each shard keeps, beside its copy of the global table, which of its keys have a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools
from watersmeet._engine.keys.keys import KeyGroups, group_keys, hash_keys
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, OperatorContext, operator_table, sent
from watersmeet._engine.operators.global_lookup import results
from watersmeet._engine.operators.global_view import LEFT, View
from watersmeet._engine.rows.columns import gather, joined
from watersmeet._engine.rows.sizes import in_pieces
from watersmeet._engine.state.runs import State
from watersmeet._plan.operators.global_lookup import LookupParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    view = View(context, inputs, state)
    if LEFT not in inputs:
        return
    events = Events(context, inputs, sides=1)
    called = events.present & (view.present[events.own] | (context.params(LookupParams).how == "left"))
    groups, stood = _stood(context, events, state, called)
    _, rows = sent(context.operator, groups.group_of_row, np.flatnonzero(called | stood), called, stood)
    if len(rows):
        yield from in_pieces(results(events, rows, view, called[rows]))


def _stood(context: OperatorContext, events: Events, state: State, called: Bools) -> tuple[KeyGroups, Bools]:
    """The rows by the table's own keys, and whether a result stands before each; what stands at last is stored."""
    (_, kind), *_ = context.extras
    table = operator_table(context, state, -1)
    keys = gather(joined([events.tables[LEFT].column("left_key")], kind), events.own)
    hashes = hash_keys(keys)
    groups = group_keys(hashes, keys)
    before = Ordered(groups).last_before(np.ones(len(keys), dtype=np.bool_), inclusive=False)
    first = groups.first
    stored = table.point(hashes[first], keys.take(pa.array(first))).found
    last = groups.last
    written = last[called[last] | stored]
    rows = pa.table({"hash": hashes[written], "key": keys.take(pa.array(written))})
    table.put(rows.cast(table.schema), ~called[written])
    return groups, np.where(before >= 0, called[before], stored[groups.group_of_row])
