"""One (operator, shard) of a level in one batch: rows in, rows out, state committed.

The only door from the runners (Spark's processor, the runner without JVM) to the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from millpond._engine import (
    foreign_key_receive,
    foreign_key_send,
    global_lookup,
    global_table_lookup,
    global_view,
    one_to_many,
    stream_stream,
    stream_table,
    subscriptions,
    table,
    table_table,
)
from millpond._engine.exchange import Drops
from millpond._engine.operator import Dropped, Setting, state_schema
from millpond._engine.runs import MultiTable, State, StateTable

OPERATORS = {
    "table": table.run,
    "table_table": table_table.run,
    "stream_table": stream_table.run,
    "stream_stream": stream_stream.run,
    "foreign_key_send": foreign_key_send.run,
    "foreign_key_receive": foreign_key_receive.run,
    "one_to_many": one_to_many.run,
    "global_lookup": global_lookup.run,
    "global_table_lookup": global_table_lookup.run,
}
"""The function of each stem: adding an operator is one node, one file and one line here."""

TABLES: dict[str, Callable[[Setting, State], Sequence[StateTable | MultiTable]]] = {
    "foreign_key_send": foreign_key_send.tables,
    "foreign_key_receive": subscriptions.tables,
    "one_to_many": subscriptions.tables,
    "global_lookup": global_view.tables,
    "global_table_lookup": global_table_lookup.tables,
}
"""How an operator's tables are opened, where they are not plain tables of its inputs' values."""


def tables_of(setting: Setting, state: State) -> Sequence[StateTable | MultiTable]:
    """The tables that an operator keeps in a shard's state, in the order of its stores."""
    stem, stores = setting.operator.stem, setting.operator.stores
    if stem in TABLES:
        return TABLES[stem](setting, state)
    first = len(setting.values) - len(stores)
    return [state.table(name, state_schema(setting, first + side)) for side, name in enumerate(stores)]


def run_operator(
    setting: Setting, inputs: Mapping[int, pa.Table], state: State, drops: Drops | None = None
) -> Iterator[pa.Table]:
    """The results of one operator for one shard and batch, in order of position.

    Parameters
    ----------
    setting : the operator.
    inputs : rows of each side that has any, in any order (columns: `Setting.side_schema`).
    state : the shard's state; it is committed when the last result has been taken.
    drops : where rows that end here are counted, when the last result has been taken.
    """
    # One turn per table of results.
    for given in OPERATORS[setting.operator.stem](setting, inputs, state):
        if not isinstance(given, Dropped):
            yield given
        elif drops is not None:
            drops[(setting.operator.node, given.reason)] += len(given)
    state.commit()
