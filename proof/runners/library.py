"""The recorded topologies' functions for a function backend: plain Python functions of values, lifted.

Recordings give their functions as text; the oracle has them as Python functions of one value. A library lifts
those to what the handles take: functions of Arrow arrays, or of Spark Columns (a Python UDF).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.api.tables import WTable

ARROW_TYPES = {"string": pa.string(), "long": pa.int64(), "boolean": pa.bool_()}
ARROW_TYPES["struct<start:bigint,end:bigint>"] = pa.struct([("start", pa.int64()), ("end", pa.int64())])


class Library(Protocol):
    """Lifts functions of values to functions of columns."""

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """`function` as one of columns; `kind` is the type of its result: "string", "long" or "boolean"."""
        ...


class ArrowLibrary:
    """Lifts to functions of Arrow arrays."""

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """See `Library`."""

        def over_arrays(*arrays: pa.Array) -> pa.Array:
            rows = zip(*(a.to_pylist() for a in arrays), strict=True)
            return pa.array([function(*row) for row in rows], type=ARROW_TYPES[kind])

        return over_arrays


class ColumnLibrary:
    """Lifts to Python UDFs over Spark Columns."""

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """See `Library`."""
        return python_udf(function, kind)


def python_udf(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """A plain Python function of values as a function of Columns; `kind` is its result's type in DDL.

    Spark evaluates a UDF also on the rows that `when` leaves out; there the operands are null, and a function
    of one operand is not called.
    """
    # proofs of the engine run without Spark
    from pyspark.sql import functions as F

    def guarded(*values: Any) -> Any:
        return None if len(values) == 1 and values[0] is None else function(*values)

    return F.udf(guarded, kind)


def as_written(handle: Any) -> Any:
    """A stream or a table as it can be written; of one by key and window its stream, with both in the key."""
    return handle.to_stream() if isinstance(handle, WTable) else handle
