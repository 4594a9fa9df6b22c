"""One (operator, shard) of a level in one batch: rows in, rows out, state committed.

The only door from the runners (Spark's processor, the runner without JVM) to the operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from watersmeet._engine.exchange import DropCounts
from watersmeet._engine.operator import Dropped, Failed, Noted, OperatorContext
from watersmeet._engine.operators import (
    aggregate,
    foreign_key_join,
    global_join,
    map_async,
    process,
    session_aggregate,
    sliding_aggregate,
    stream_join,
    stream_table_join,
    suppress,
    table_join,
    tables,
    windowed_aggregate,
    windowed_table_join,
)
from watersmeet._engine.row_sizes import slices
from watersmeet._engine.state.runs import State

OPERATORS = {
    "table": tables.run_table,
    "table_table": table_join.run_table_table,
    "multi_join": table_join.run_multi_join,
    "stream_table": stream_table_join.run_stream_table,
    "stream_versioned_table": stream_table_join.run_stream_versioned_table,
    "stream_table_grace": stream_table_join.run_stream_table_grace,
    "versioned_table": tables.run_versioned_table,
    "stream_stream": stream_join.run_stream_stream,
    "stream_match": stream_join.run_stream_match,
    "foreign_key_send": foreign_key_join.run_foreign_key_send,
    "foreign_key_receive": foreign_key_join.run_foreign_key_receive,
    "one_to_many": foreign_key_join.run_one_to_many,
    "many_to_many_send": foreign_key_join.run_many_to_many_send,
    "many_to_many": foreign_key_join.run_many_to_many,
    "global_lookup": global_join.run_global_lookup,
    "global_table_lookup": global_join.run_global_table_lookup,
    "stream_aggregate": aggregate.run,
    "table_aggregate": aggregate.run,
    "time_window_aggregate": windowed_aggregate.run,
    "session_window_aggregate": session_aggregate.run,
    "sliding_window_aggregate": sliding_aggregate.run,
    "suppress": suppress.run,
    "process": process.run,
    "map_async": map_async.run,
    "distinct": tables.run_distinct,
    "expiry": tables.run_expiry,
    "stream_wtable": windowed_table_join.run,
    "table_wtable": windowed_table_join.run,
    "wtable_table": windowed_table_join.run,
    "wtable_wtable": windowed_table_join.run,
}
"""The function of each stem."""
_WHERE = "In a function of {}."


def run_operator(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State, drops: DropCounts | None = None
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
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State, drops: DropCounts | None
) -> Iterator[pa.Table]:
    run = OPERATORS[context.operator.stem]
    for part in slices(inputs) if context.operator.declaration.by_key else (inputs,):
        for output in run(context, part, state):
            if isinstance(output, Failed):
                if drops is not None:
                    drops.fail_rows(
                        context.operator.node, output.rows, output.errors, _WHERE.format(context.operator.node)
                    )
            elif isinstance(output, Noted):
                if drops is not None:
                    drops.add_numbers(context.operator.node, output.numbers)
            elif not isinstance(output, Dropped):
                yield output
            elif drops is not None:
                drops.end_rows(context.operator.node, output.reason, output.rows, output.at)
        state.finish_part()
