"""The recorded topologies' functions for a function backend: joiner, ref, payload, even, map.

One protocol, two implementations: over Arrow arrays here, over Spark Columns in `columns`. Called by
`topologies`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from millpond.testing.oracle import functions as text


class Library(Protocol):
    """The functions that recordings use."""

    def plus(self, left: Any, right: Any) -> Any:
        """left+right; null prints as null."""

    def even(self, value: Any) -> Any:
        """Whether the last digit is even."""

    def mapped(self, value: Any) -> Any:
        """m(value), or null for what ends in 3."""

    def ref(self, value: Any) -> Any:
        """What a value refers to."""


def elementwise(function: Callable[..., Any], kind: pa.DataType) -> Callable[..., pa.Array]:
    """A function of Python values as one of Arrow arrays."""

    def over_arrays(*arrays: pa.Array) -> pa.Array:
        return pa.array([function(*row) for row in zip(*(a.to_pylist() for a in arrays), strict=True)], type=kind)

    return over_arrays


class ArrowLibrary:
    """The functions over Arrow arrays of strings."""

    plus = staticmethod(elementwise(text.plus, pa.string()))
    even = staticmethod(elementwise(lambda value: text.even(None, value), pa.bool_()))
    mapped = staticmethod(elementwise(text.mapped, pa.string()))
    ref = staticmethod(elementwise(text.ref, pa.string()))
