"""Numbers as sums, means and deviations take them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.arrays import Bools
from watersmeet._engine.rows.columns import valid


def each_apart(kept: pa.Array) -> Groups:
    """Each row a group of its own."""
    return Groups(np.arange(len(kept) + 1))


def typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The terms of a sum in its type; of doubles the ones next to them, as Spark casts them."""
    if not pa.types.is_floating(kind):
        return values.cast(kind)
    if pa.types.is_decimal(values.type):
        # Arrow's own cast of decimals rounds more than once
        return values.cast(pa.string()).cast(kind)
    return values.cast(kind, safe=False)


def filled(values: pa.Array, kind: pa.DataType) -> np.ndarray:
    """The same, with 0 in place of null."""
    found: np.ndarray = typed(values, kind).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def present(values: pa.Array) -> tuple[np.ndarray, Bools]:
    """(doubles, which of them are there)."""
    return filled(values, pa.float64()), valid(values)
