"""One (operator, shard) of a level in one batch: rows in, rows out, state committed.

The only door from the runners (Spark's processor, the runner without JVM) to the operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from watersmeet._engine.exchange.routing import Drops
from watersmeet._engine.operator import Dropped, Failed, OperatorContext
from watersmeet._engine.operators import (
    distinct,
    expiry,
    foreign_key_receive,
    foreign_key_send,
    global_lookup,
    global_table_lookup,
    multi_join,
    one_to_many,
    stream_table,
    table,
    table_table,
)
from watersmeet._engine.operators.aggregates import (
    aggregate,
    session_window_aggregate,
    sliding_window_aggregate,
    time_window_aggregate,
)
from watersmeet._engine.operators.processors import map_async, process
from watersmeet._engine.operators.suppress import suppress
from watersmeet._engine.operators.versioned import stream_table_grace, stream_versioned_table, versioned_table
from watersmeet._engine.operators.windowed_joins import stream_match, stream_stream
from watersmeet._engine.operators.wtables import window_join
from watersmeet._engine.rows.slices import slices
from watersmeet._engine.state.runs import State

OPERATORS = {
    "table": table.run,
    "table_table": table_table.run,
    "multi_join": multi_join.run,
    "stream_table": stream_table.run,
    "stream_versioned_table": stream_versioned_table.run,
    "stream_table_grace": stream_table_grace.run,
    "versioned_table": versioned_table.run,
    "stream_stream": stream_stream.run,
    "stream_match": stream_match.run,
    "foreign_key_send": foreign_key_send.run,
    "foreign_key_receive": foreign_key_receive.run,
    "one_to_many": one_to_many.run,
    "global_lookup": global_lookup.run,
    "global_table_lookup": global_table_lookup.run,
    "stream_aggregate": aggregate.run,
    "table_aggregate": aggregate.run,
    "time_window_aggregate": time_window_aggregate.run,
    "session_window_aggregate": session_window_aggregate.run,
    "sliding_window_aggregate": sliding_window_aggregate.run,
    "suppress": suppress.run,
    "process": process.run,
    "map_async": map_async.run,
    "distinct": distinct.run,
    "expiry": expiry.run,
    "stream_wtable": window_join.run,
    "table_wtable": window_join.run,
    "wtable_table": window_join.run,
    "wtable_wtable": window_join.run,
}
"""The function of each stem."""
_WHERE = "In a function of {}."


def run_operator(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State, drops: Drops | None = None
) -> Iterator[pa.Table]:
    """The results of one operator for one shard and batch, those of a key in order of position.

    Parameters
    ----------
    context : of the operator.
    inputs : rows of each side that has any, in any order (columns: `OperatorContext.side_schema`).
    state : the shard's state; it is committed when the last result has been taken.
    drops : where rows that end here are counted, when the last result has been taken.
    """
    results = _results(context, inputs, state, drops)
    # when the results end, what the operator has worked with goes, and the commit gets its memory
    del inputs
    yield from results
    state.commit()


def _results(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State, drops: Drops | None
) -> Iterator[pa.Table]:
    run = OPERATORS[context.operator.stem]
    for part in slices(inputs) if context.operator.spec.by_key else (inputs,):
        for given in run(context, part, state):
            if isinstance(given, Failed):
                if drops is not None:
                    drops.failed(context.operator.node, given.rows, given.errors, _WHERE.format(context.operator.node))
            elif not isinstance(given, Dropped):
                yield given
            elif drops is not None:
                drops.ended(context.operator.node, given.reason, given.rows, given.at)
        state.finish_part()
