"""stream_aggregate, table_aggregate: what is kept of each key, and each change of it (docs/semantics, section 12).

A record of a stream adds its value; a message of a grouped table subtracts an old value, strictly before it adds a new
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from millpond._engine.aggregates.contributions import Contributions, Standing, changes, folded, stored, to_store
from millpond._engine.aggregates.of_plan import fold_of
from millpond._engine.operators.operator import Events, OperatorContext, kept_table
from millpond._engine.state.runs import State
from millpond._plan.operators.aggregates.aggregate import AggregateParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=len(context.values))
    if not len(events):
        return
    fold = fold_of(context.params(AggregateParams).fold)
    table = kept_table(context, state)
    rows = _contributions(events)
    standing = Standing.of(stored(rows, table), fold)
    before = standing.states
    for chosen, done in folded(rows, fold, standing, whole=context.operator.cached):
        yield from changes(rows, fold, chosen, done, events.meta)
    to_store(rows, before, standing).put(table)


def _contributions(events: Events) -> Contributions:
    """Each row changes the aggregate of its key."""
    first = events.groups.first
    identity = {"hash": pa.array(events.hash[first]), "key": events.key.take(pa.array(first))}
    return Contributions(events, np.arange(len(events)), events.groups.group_of_row, identity)
