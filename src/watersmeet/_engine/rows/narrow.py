"""Columns of numbers as differences in as few bytes as hold them: the form of many times that go to every shard.

In an orderly stream there is a moment to tell for every millisecond that has a record; this way one takes about two
bytes. They are read only where they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.rows.columns import array, ints

_WIDTHS = (np.int8, np.int16, np.int32, np.int64)


def packed(columns: Mapping[str, Int64s]) -> dict[str, pa.Array]:
    """Columns of one row for these columns of many: of each the first value and the differences."""
    out: dict[str, pa.Array] = {}
    for name, values in columns.items():
        out[f"{name}_first"] = pa.array(values[:1])
        out[f"{name}_steps"] = pa.array([_narrow(np.diff(values)).tobytes()], pa.binary())
    return out


def unpacked(rows: pa.Table, name: str, count: Int64s) -> Int64s:
    """A column of many, of each row `count` values."""
    firsts, steps = ints(rows, f"{name}_first"), array(rows, f"{name}_steps")
    parts = [np.zeros(0, dtype=np.int64)]
    for first, length, differences in zip(firsts, count, steps, strict=True):
        content = differences.as_buffer()
        values = np.full(length, first)
        if content.size:
            kind = next(t for t in _WIDTHS if np.dtype(t).itemsize * (length - 1) == content.size)
            values[1:] += np.cumsum(np.frombuffer(content, dtype=kind), dtype=np.int64)
        parts.append(values)
    return np.concatenate(parts)


def _narrow(values: Int64s) -> np.ndarray[tuple[int], np.dtype[np.signedinteger]]:
    """The values in the smallest type that holds them; none at all where every one is 0."""
    if not values.any():
        return np.zeros(0, dtype=np.int8)
    kind = next(t for t in _WIDTHS if np.iinfo(t).min <= values.min() and values.max() <= np.iinfo(t).max)
    return values.astype(kind)
