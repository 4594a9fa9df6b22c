"""stddev: the standard deviation of a sample, in Spark's own steps, or of exact sums where values are taken back."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from watersmeet._engine import exact_sums as exact
from watersmeet._engine.aggregates.kernels.numbers.count import CountKernel
from watersmeet._engine.aggregates.kernels.numbers.exact import ExactSquares, ExactSum, InRuns
from watersmeet._engine.aggregates.kernels.numbers.terms import present
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import ROUNDS, Groups
from watersmeet._engine.arrays import Bools
from watersmeet.aggregates.declared import AnyAggregate


def stddev(how: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return ExactDeviation(kept.state) if kept.takes_back else Deviation(kept.state)


class Deviation(AggregateKernel):
    """The standard deviation of a sample, of count, mean and sum of squares (Welford, as Spark computes it)."""

    def init(self, count: int) -> pa.Array:
        nothing = np.zeros(count)
        return self._state(nothing, nothing, nothing)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        count, mean, squares = _floats(kept)
        value, there = present(values)
        after = count + there
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.where(there, value - mean, 0.0)
            step = distance / np.maximum(after, 1)
            return self._state(after, mean + step, squares + distance * (distance - step))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        (one, mean, squares), (two, mean2, squares2) = _floats(kept), _floats(other)
        count = one + two
        with np.errstate(invalid="ignore", over="ignore"):
            distance = mean2 - mean
            step = distance / np.maximum(count, 1)
            return self._state(count, mean + step * two, squares + squares2 + distance * step * one * two)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        sizes = np.minimum(groups.sizes, ROUNDS)
        if not (groups.sizes > ROUNDS).any():
            return super().run(groups, kept, values, olds)
        places = np.arange(groups.rows) - np.repeat(groups.starts[:-1], groups.sizes)
        few = np.flatnonzero(places < ROUNDS)
        starts = np.append(0, np.cumsum(sizes))
        begun = super().run(Groups(starts), kept, values.take(pa.array(few)), None)
        columns = [np.empty(groups.rows) for _ in range(3)]
        for column, begins in zip(columns, _floats(begun), strict=True):
            column[few] = begins
        value, there = present(values)
        for group in np.flatnonzero(groups.sizes > ROUNDS):
            begin, end = groups.starts[group] + ROUNDS, groups.starts[group + 1]
            _deviate(columns, value, there, begin, end)
        return self._state(*columns)

    def finish(self, kept: pa.Array) -> pa.Array:
        count, _, squares = _floats(kept)
        return pa.array(np.sqrt(squares / np.maximum(count - 1, 1)), mask=count < 2)

    def _state(self, *columns: object) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(column) for column in columns], fields=list(self.state))


class ExactDeviation(InRuns):
    """The standard deviation of a sample, of count and exact sums, so that values can be subtracted."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        self._parts: list[AggregateKernel] = [CountKernel(pa.int64()), ExactSum(exact.STATE), ExactSquares(exact.STATE)]

    def init(self, count: int) -> pa.Array:
        return self._state([part.init(count) for part in self._parts])

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        parts = zip(self._parts, kept.flatten(), other.flatten(), strict=True)
        return self._state([part.merge(one, two) for part, one, two in parts])

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        parts = zip(self._parts, kept.flatten(), strict=True)
        return self._state([part.run(groups, one, values, olds) for part, one in parts])

    def finish(self, kept: pa.Array) -> pa.Array:
        count, total, squares = kept.flatten()
        count, total, squares = count.fill_null(0), exact.filled(total), exact.filled(squares)
        given = zip(count.to_pylist(), exact.integers(total), exact.integers(squares), strict=True)
        found = np.array([_deviation(*each) for each in given], dtype=np.float64)
        found = np.where(exact.is_finite(total), found, np.nan)
        return pa.array(found, mask=count.to_numpy() < 2)

    def _state(self, columns: list[pa.Array]) -> pa.Array:
        return pa.StructArray.from_arrays(columns, fields=list(self.state))


def _deviation(count: int, total: tuple[int, int], squares: tuple[int, int]) -> float:
    """Of so many values, of their sum and that of their squares as (integer, exponent of two)."""
    if count < 2:
        return 0.0
    (one, exponent), (two, exponent2) = total, squares
    least = min(2 * exponent, exponent2)
    rest = count * (two << exponent2 - least) - (one * one << 2 * exponent - least)
    among = count * (count - 1)
    if least >= 0:
        return math.sqrt(_quotient(rest << least, among))
    return math.sqrt(_quotient(rest, among << -least))


def _quotient(one: int, other: int) -> float:
    """The double next to a quotient of integers of any length."""
    try:
        return one / other
    except OverflowError:
        return math.inf


def _floats(kept: pa.Array) -> list[np.ndarray]:
    return [column.to_numpy(zero_copy_only=False) for column in kept.flatten()]


def _deviate(columns: list[np.ndarray], values: np.ndarray, present: Bools, begin: int, end: int) -> None:
    """Count, mean and squares of a group's rows, from those of the row before on, in place."""
    count, mean, squares = (float(column[begin - 1]) for column in columns)
    made = np.empty((3, end - begin))
    # one row's mean is made of the one before: there is no way but one after the other
    for row, (value, there) in enumerate(zip(values[begin:end].tolist(), present[begin:end].tolist(), strict=True)):
        if there:
            count += 1.0
            distance = value - mean
            step = distance / count
            mean += step
            squares += distance * (distance - step)
        made[:, row] = count, mean, squares
    for column, rows in zip(columns, made, strict=True):
        column[begin:end] = rows
