"""One (operator, shard) of a level in one batch: rows in, rows out, state committed.

The only door from the runners (Spark's processor, the runner without JVM) to the operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from millpond._engine import (
    foreign_key_receive,
    foreign_key_send,
    global_lookup,
    global_table_lookup,
    one_to_many,
    stream_table,
    table,
    table_table,
)
from millpond._engine.operator import Setting
from millpond._engine.runs import State

OPERATORS = {
    "table": table.run,
    "table_table": table_table.run,
    "stream_table": stream_table.run,
    "foreign_key_send": foreign_key_send.run,
    "foreign_key_receive": foreign_key_receive.run,
    "one_to_many": one_to_many.run,
    "global_lookup": global_lookup.run,
    "global_table_lookup": global_table_lookup.run,
}
"""The function of each stem: adding an operator is one node, one file and one line here."""


def run_operator(setting: Setting, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """The results of one operator for one shard and batch, in order of position.

    Parameters
    ----------
    setting : the operator.
    inputs : rows of each side that has any, in any order (columns: `Setting.side_schema`).
    state : the shard's state; it is committed when the last result has been taken.
    """
    yield from OPERATORS[setting.operator.stem](setting, inputs, state)
    state.commit()
