"""Order by position (law 2): operators sort, they never trust the order in which blobs arrive.

Called by every operator and by the sinks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millpond._engine.columns import Int64s, ints


def order_by(columns: Sequence[Int64s]) -> Int64s:
    """Row numbers in ascending order of `columns`, the most significant first; stable.

    Columns that hold one value everywhere are left out and sorted input is recognised, since both are the
    rule: most topologies have one source partition in a shard's blob, and Kafka's order is kept by tasks.
    """
    rows = len(columns[0])
    varying = [c for c in columns if rows and c.min() != c.max()]
    if not varying or is_sorted(varying):
        return np.arange(rows, dtype=np.int64)
    return np.lexsort(tuple(reversed(varying)))


def is_sorted(columns: Sequence[Int64s]) -> bool:
    """Whether rows are in ascending order of `columns`, equal ones allowed."""
    undecided = np.ones(max(len(columns[0]) - 1, 0), dtype=np.bool_)
    for column in columns:  # the most significant first, until nothing is undecided
        before, after = column[:-1], column[1:]
        if (undecided & (before > after)).any():
            return False
        undecided &= before == after
        if not undecided.any():
            return True
    return True


def sort_by_position(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows of `table` in order of the position columns `names`."""
    columns = [ints(table, name) for name in names]
    order = order_by(columns)
    return table if is_sorted(columns) else table.take(pa.array(order))
