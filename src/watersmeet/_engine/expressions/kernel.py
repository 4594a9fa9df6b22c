"""A kernel: a function over Arrow arrays that returns, row by row, the result of Spark's expression class.

A module of `functions` has kernels in two dicts, by the names of the classes: `KERNELS`, with arguments evaluated for
all rows, and `LAZY`, which evaluate an argument for those rows alone for which Spark would. `fits` says of a call of
one of them whether the kernel knows these types and options: then its result equals Spark's to the bit, errors
included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.expressions.tree import Call, Expression


class EvaluatedRows(Protocol):
    """Rows that expressions are evaluated for."""

    def __len__(self) -> int:
        """How many they are."""

    def evaluate(self, expression: Expression) -> pa.Array:
        """The value of each row."""

    def where(self, mask: Bools) -> EvaluatedRows:
        """The rows for which the mask is true; an error in any other is not one of theirs."""

    def of_elements(self, rows: Int64s, variables: Mapping[str, pa.Array]) -> EvaluatedRows:
        """A row for each of some elements.

        Parameters
        ----------
        rows : the number of the row that each element is of.
        variables : what a function of elements has as its arguments, by their names.
        """


Kernel = Callable[[Call, list[pa.Array]], pa.Array]
LazyKernel = Callable[[Call, EvaluatedRows], pa.Array]


class KernelModule(Protocol):
    """A module of `functions`."""

    KERNELS: Mapping[str, Kernel]
    LAZY: Mapping[str, LazyKernel]

    def fits(self, call: Call) -> bool:
        """Whether the kernel of the call's name knows its types and options."""
