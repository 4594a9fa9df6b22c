"""Sums, means and deviations: aggregates of numbers that take back what they were given.

Floats are added one after the other, so that results do not depend on how records are cut into batches (law 1).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.aggregates.parts import Count, Part
from millpond._engine.aggregates.scans import ROUNDS, SAFE, Groups
from millpond._engine.arrays import Bools
from millpond._engine.rows.columns import valid
from millpond.errors import FunctionError


class Sum(Part):
    """The sum; null of no values."""

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._both(pc.add_checked, kept, values.cast(self.state))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`; a sum of which all has been taken away is 0."""
        return self._both(pc.subtract_checked, kept, values.cast(self.state))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._both(pc.add_checked, kept, other)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        if pa.types.is_decimal(self.state):
            return super().run(groups, kept, values, olds)
        begins, *terms = (_filled(each, self.state) for each in (kept, values, *(() if olds is None else (olds,))))
        if pa.types.is_floating(self.state):
            sums = _float_sums(groups, begins, *terms)
        else:
            deltas = terms[0] - terms[1] if olds is not None else terms[0]
            if (
                np.abs(begins.astype(np.float64)).max(initial=0)
                + sum(np.abs(t.astype(np.float64)).sum() for t in terms)
                > SAFE
            ):
                return super().run(groups, kept, values, olds)
            sums = np.repeat(begins, groups.sizes) + groups.running_counts(deltas)
        touched = valid(values) if olds is None else valid(values) | valid(olds)
        some = groups.any_before(touched, inclusive=True) | np.repeat(valid(kept), groups.sizes)
        return pa.array(sums, mask=~some)

    def _both(self, step: Callable[..., pa.Array], kept: pa.Array, values: pa.Array) -> pa.Array:
        wide = self.state
        if pa.types.is_decimal(wide):
            # a sum has one digit more than its terms, until it is seen to fit
            wide = pa.decimal256(wide.precision, wide.scale)
        nothing = pa.scalar(Decimal(0) if pa.types.is_decimal(wide) else 0, wide)
        terms = (pc.coalesce(each.cast(wide), nothing) for each in (kept, values))
        try:
            summed = step(*terms).cast(self.state)
        except pa.ArrowInvalid as error:
            raise FunctionError(
                "A sum is larger than its type holds.",
                given=f"{self.state}: {error}",
                hint="Sum decimals or doubles: cast the argument.",
            ) from error
        return pc.if_else(pc.or_(kept.is_valid(), values.is_valid()), summed, pa.scalar(None, self.state))


class Total(Part):
    """The sum of values that may be taken away again, with their count: null where there are none."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        self._sum, self._count = Sum(state.field("sum").type), Count(pa.int64())

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        return self._state(self._sum.init(count), self._count.init(count))

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        total, count = kept.flatten()
        return self._state(self._sum.add(total, values), self._count.add(count, values))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        total, count = kept.flatten()
        return self._state(self._sum.subtract(total, values), self._count.subtract(count, values))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        (total, count), (total2, count2) = kept.flatten(), other.flatten()
        return self._state(self._sum.merge(total, total2), self._count.merge(count, count2))

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        total, count = kept.flatten()
        parts = self._sum.run(groups, total, values, olds), self._count.run(groups, count, values, olds)
        return self._state(*parts)

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        total, count = kept.flatten()
        return pc.if_else(pc.greater(count, 0), total, pa.scalar(None, total.type))

    def _state(self, total: pa.Array, count: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([total, count], fields=list(self.state))


class Average(Total):
    """The mean, of sum and count."""

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        return pc.divide(super().finish(kept), kept.field("count").cast(pa.float64()))


class Deviation(Part):
    """The standard deviation of a sample, of count, mean and sum of squares (Welford)."""

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        nothing = np.zeros(count)
        return self._state(nothing, nothing, nothing)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        count, mean, squares = _floats(kept)
        value, present = _present(values)
        after = count + present
        distance = np.where(present, value - mean, 0.0)
        mean = mean + distance / np.maximum(after, 1)
        return self._state(after, mean, squares + distance * np.where(present, value - mean, 0.0))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        count, mean, squares = _floats(kept)
        value, present = _present(values)
        after = count - present
        distance = np.where(present, value - mean, 0.0)
        before = np.where(after > 0, mean - distance / np.maximum(after, 1), 0.0)
        squares = squares - distance * np.where(present, value - before, 0.0)
        # one value or none deviates from nothing, whatever rounding has left
        return self._state(after, before, np.where(after > 1, np.maximum(squares, 0.0), 0.0))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        (one, mean, squares), (two, mean2, squares2) = _floats(kept), _floats(other)
        count = one + two
        distance = mean2 - mean
        share = two / np.maximum(count, 1)
        return self._state(count, mean + distance * share, squares + squares2 + distance * distance * one * share)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`; what a group has beyond some rows is reckoned with plain floats, in the same steps."""
        sizes = np.minimum(groups.sizes, ROUNDS)
        if olds is not None or not (groups.sizes > ROUNDS).any():
            return super().run(groups, kept, values, olds)
        places = np.arange(groups.rows) - np.repeat(groups.starts[:-1], groups.sizes)
        few = np.flatnonzero(places < ROUNDS)
        starts = np.append(0, np.cumsum(sizes))
        begun = super().run(Groups(starts), kept, values.take(pa.array(few)), None)
        columns = [np.empty(groups.rows) for _ in range(3)]
        for column, begins in zip(columns, _floats(begun), strict=True):
            column[few] = begins
        value, present = _present(values)
        for group in np.flatnonzero(groups.sizes > ROUNDS):
            begin, end = groups.starts[group] + ROUNDS, groups.starts[group + 1]
            _deviate(columns, value, present, begin, end)
        return self._state(*columns)

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        count, _, squares = _floats(kept)
        return pa.array(np.sqrt(squares / np.maximum(count - 1, 1)), mask=count < 2)

    def _state(self, *columns: object) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(column) for column in columns], fields=list(self.state))


def _filled(values: pa.Array, kind: pa.DataType) -> np.ndarray:
    filled: np.ndarray = values.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
    return filled


def _float_sums(groups: Groups, begins: np.ndarray, values: np.ndarray, olds: np.ndarray | None = None) -> np.ndarray:
    if olds is None:
        return groups.running_sums(begins, values)
    # what is taken away goes before what is added
    each = np.empty(2 * len(values))
    each[0::2], each[1::2] = -olds, values
    sums: np.ndarray = Groups(groups.starts * 2).running_sums(begins, each)[1::2]
    return sums


def _floats(kept: pa.Array) -> list[np.ndarray]:
    return [column.to_numpy(zero_copy_only=False) for column in kept.flatten()]


def _present(values: pa.Array) -> tuple[np.ndarray, Bools]:
    present = valid(values)
    return values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False), present


def _deviate(columns: list[np.ndarray], values: np.ndarray, present: Bools, begin: int, end: int) -> None:
    """Count, mean and squares of a group's rows, from those of the row before on, in place."""
    count, mean, squares = (float(column[begin - 1]) for column in columns)
    made = np.empty((3, end - begin))
    # one row's mean is made of the one before: there is no way but one after the other
    for row, (value, there) in enumerate(zip(values[begin:end].tolist(), present[begin:end].tolist(), strict=True)):
        if there:
            count += 1.0
            distance = value - mean
            mean += distance / count
            squares += distance * (value - mean)
        made[:, row] = count, mean, squares
    for column, rows in zip(columns, made, strict=True):
        column[begin:end] = rows
