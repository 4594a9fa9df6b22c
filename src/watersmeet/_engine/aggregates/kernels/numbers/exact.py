"""Exact sums, and what they and exact deviations share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine import exact_sums as exact
from watersmeet._engine.aggregates.kernels.numbers.terms import each_apart, present
from watersmeet._engine.aggregates.parts import AggregateKernel
from watersmeet._engine.aggregates.scans import Groups


class InRuns(AggregateKernel):
    """A kernel that adds and subtracts as runs of one row."""

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return self.run(each_apart(kept), kept, values, None)

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return self.run(each_apart(kept), kept, pa.nulls(len(kept), values.type), values)


class ExactSum(InRuns):
    """The sum of doubles that may be taken away again; 0.0 of no values."""

    def init(self, count: int) -> pa.Array:
        return exact.nothing(count)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return exact.merged(kept, other)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        given = present(values)[0]
        terms, counts = self._terms(given), exact.specials(given)
        if olds is not None:
            taken = present(olds)[0]
            terms += [term.minus for term in self._terms(taken)]
            counts = [one - other for one, other in zip(counts, exact.specials(taken), strict=True)]
        return exact.running(groups.starts, kept, terms, counts)

    def finish(self, kept: pa.Array) -> pa.Array:
        return pa.array(exact.rounded(exact.filled(kept)))

    def _terms(self, values: np.ndarray) -> list[exact.Term]:
        return exact.values_of(values)


class ExactSquares(ExactSum):
    """The same of their squares."""

    def _terms(self, values: np.ndarray) -> list[exact.Term]:
        return exact.squares_of(values)
