"""The last change of each key, of rows that come in order: what a table needs of a batch (law 2)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

_ROW = "_row"
_FEW = 1 << 16
"""Rows below which it does not pay to look for keys that come again."""


def last_changes(batches: Iterable[pa.RecordBatch], keys: list[str]) -> pa.Table | None:
    """The last row of each key, in order; None where there are no rows.

    It holds the last rows and at most about as many others.

    Parameters
    ----------
    keys : names of the columns that tell keys apart.
    """
    held: list[pa.RecordBatch] = []
    rows, known = 0, 0
    for batch in batches:
        held.append(batch)
        rows += len(batch)
        if rows > 2 * known + _FEW:
            held = _last(pa.Table.from_batches(held), keys).to_batches()
            rows = known = sum(map(len, held))
    return _last(pa.Table.from_batches(held), keys) if rows else None


def _last(rows: pa.Table, keys: list[str]) -> pa.Table:
    numbered = rows.select(keys).append_column(_ROW, pa.array(np.arange(len(rows))))
    places = numbered.group_by(keys, use_threads=False).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
    if len(places) == len(rows):
        return rows
    # a filter, which works on each chunk alone: no column is put together
    wanted = np.zeros(len(rows), dtype=bool)
    wanted[places.to_numpy()] = True
    return rows.filter(pa.array(wanted))
