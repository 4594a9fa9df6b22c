"""suppress: of the changes of a key that are held back the last one is sent, when time lets it go (section 22).

Results are those of the rows of the batch at which changes go (`held_changes`; those of a full buffer:
`limited_changes`), and of what time lets go (`HeldRows`), in order of position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from watersmeet._engine.operator import Events, OperatorContext, operator_table
from watersmeet._engine.operators.suppress.held_changes import HeldChanges
from watersmeet._engine.operators.suppress.limited_changes import Limited
from watersmeet._engine.rows.columns import position_columns, valid
from watersmeet._engine.rows.position import merged
from watersmeet._engine.state.runs import State
from watersmeet._engine.time.held import release
from watersmeet._engine.time.held_rows import HeldRows
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.aggregates.suppress import SuppressParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    params = context.params(SuppressParams)
    events = Events(context, inputs, sides=1)
    times = Times(context, inputs, events, state, sides=1)
    table = operator_table(context, state)
    results = {"value": "value", "old": "old"} | ({"windowed": "windowed"} if params.suffix else {})
    results |= {"headers": "headers"} if context.headers else {}
    held = HeldRows(context, table, times, results)
    changes = HeldChanges(params, events, times, table)
    going = Limited(changes, state).hold(held) if params.buffer.is_limited else changes.hold(held)
    held.finish()
    times.store(state)
    ordered = replace(context, key=table.schema.field("key").type)
    released = (_under_windows(rows) if params.suffix else rows for rows in release(ordered, times, [held]))
    both = merged(changes.results(going), released, position_columns(context.slots))
    for rows in both:
        rows = rows if context.operator.emits_old else rows.drop_columns(["old"])
        yield rows.filter(pa.array(valid(rows.column("value")))) if params.until_close else rows


def _under_windows(rows: pa.Table) -> pa.Table:
    """Results under their windowed keys."""
    return rows.drop_columns(["key"]).rename_columns(
        ["key" if name == "windowed" else name for name in rows.column_names if name != "key"]
    )
