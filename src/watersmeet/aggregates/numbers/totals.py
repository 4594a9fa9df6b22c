"""The state of sums, means and deviations."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

EXACT = pa.struct(
    [("low", pa.int64()), ("digits", pa.binary())] + [(name, pa.int64()) for name in ("nan", "most", "least")]
)
"""An exact sum of doubles: place of the lowest digit, the digits up to that of the sign, and how many NaN, infinities
and -infinities there are."""


def exact(total: pa.DataType) -> pa.DataType:
    """The state of a sum that subtracts values: integers and decimals are exact as they are."""
    return EXACT if pt.is_floating(total) else total


def counted(total: pa.DataType) -> pa.DataType:
    """A sum, and how many values there are."""
    return pa.struct([("sum", total), ("count", pa.int64())])
