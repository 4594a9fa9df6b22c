"""Arrow arrays as numpy's, and back: the values of fixed-width kernels.

A slot that is null holds anything: kernels compute with it and mask it afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.rows.columns import valid

Numbers = npt.NDArray[Any]
FLOATS = (pa.float32(), pa.float64())
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
NUMBERS = INTEGERS + FLOATS
TIMESTAMPS = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"))
DURATION = pa.duration("us")
FIXED = (*NUMBERS, pa.date32(), *TIMESTAMPS, DURATION)
"""Types whose values are numbers of numpy's in their memory."""


def numbers(values: pa.Array) -> Numbers:
    """Values of fixed width, of times the numbers that stand for them, without a copy."""
    dtype = dtype_of(values.type)
    data = values.buffers()[1]
    if data is None or len(values) == 0:
        return np.zeros(len(values), dtype)
    return np.frombuffer(data, dtype, len(values), values.offset * dtype.itemsize)


def dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """The numpy types of the numbers behind values of a fixed-width type."""
    if pt.is_floating(kind):
        return np.dtype(f"<f{kind.bit_width // 8}")
    return np.dtype(f"<i{kind.bit_width // 8}")


def made(values: Numbers, there: Bools | None, kind: pa.DataType) -> pa.Array:
    """The array of a type of fixed width that has these numbers in its memory; null where `there` is false."""
    data = pa.py_buffer(np.ascontiguousarray(values, dtype_of(kind)))
    if there is None or there.all():
        return pa.Array.from_buffers(kind, len(values), [None, data], 0)
    return pa.Array.from_buffers(kind, len(values), [pa.array(there).buffers()[1], data])


def flags(values: pa.Array) -> Bools:
    """Whether a value is true: null is not."""
    found = pc.fill_null(values, False) if values.null_count else values
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def all_valid(*arrays: pa.Array) -> Bools | None:
    """Where all arrays have a value; None when that is everywhere."""
    found: Bools | None = None
    for each in arrays:
        if each.null_count:
            found = valid(each) if found is None else found & valid(each)
    return found


def both(one: Bools | None, other: Bools | None) -> Bools | None:
    """Where both are true; None stands for everywhere."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def checked(bad: Bools, there: Bools | None, fails: bool, condition: str, message: str) -> Bools | None:
    """Where there is a value after all: not where it is `bad`.

    Raises
    ------
    EvaluationError : `fails`, and a row with all its arguments is bad.
    """
    if not bad.any():
        return there
    if there is not None:
        bad = bad & there
    if fails and bad.any():
        raise EvaluationError(condition, message)
    return both(there, ~bad)


def shaped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array with fields, elements and values as nullable as the type says."""
    return values if values.type == kind else values.cast(kind)


def where_null(values: pa.Array, there: Bools | None) -> pa.Array:
    """The array, null where `there` is false, too."""
    if there is None or there.all():
        return values
    return pc.if_else(pa.array(there), values, pa.scalar(None, values.type))


def spread(values: pa.Array, mask: Bools) -> pa.Array:
    """The values in the rows where `mask` is true, in their order; null elsewhere."""
    if len(values) == len(mask):
        return values
    ranks: Int64s = np.cumsum(mask) - 1
    return values.take(pa.array(ranks, mask=~mask))
