"""Aggregates by name: what each keeps of a key, as functions of Arrow arrays, a row each.

Null arguments are left out. What cannot be taken back from a result is kept whole where a grouped table asks for that.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Part(Protocol):
    """One aggregate."""

    def init(self, count: int) -> pa.Array:
        """What is kept of no records."""
        ...

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """What is kept with values added."""
        ...

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """What is kept without values."""
        ...

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """What is kept of the records of both, the other's later."""
        ...

    def finish(self, kept: pa.Array) -> pa.Array:
        """The result."""
        ...


class Count:
    """count: how many values there are."""

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        return pa.array(np.zeros(count, dtype=np.int64))

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return pc.add(kept, _ones(values))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return pc.subtract(kept, _ones(values))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return pc.add(kept, other)

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        return kept


def _ones(values: pa.Array) -> pa.Array:
    return values.is_valid().cast(pa.int64())


def part_of(kind: str, state: pa.DataType, k: int | None, *, takes_back: bool) -> Part:
    """The aggregate of a name."""
    return {"count": Count()}[kind]


def types_of(kind: str, argument: pa.DataType | None, *, takes_back: bool) -> tuple[pa.DataType, pa.DataType]:
    """(what is kept, what is shown) by an aggregate of arguments of this type."""
    return pa.int64(), pa.int64()
