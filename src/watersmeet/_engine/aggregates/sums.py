"""Sums, means and deviations: aggregates of numbers that take back what they were given.

Doubles are added one after the other, in Spark's own steps: so results are Spark's to the bit, and do not depend on
how records are cut into batches (law 1). Where values are taken back, sums are exact (`exact_sums`), since what one
rounding has lost, or a NaN has spoilt, no later step would bring back: the result is that of the values left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import exact_sums as exact
from watersmeet._engine.aggregates.parts import Count, Part
from watersmeet._engine.aggregates.scans import ROUNDS, SAFE, Groups
from watersmeet._engine.arrays import Bools
from watersmeet._engine.rows.columns import valid
from watersmeet.errors import FunctionError


class Sum(Part):
    """The sum; null of no values."""

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._both(pc.add_checked, kept, _typed(values, self.state))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`; a sum of which all has been taken away is 0."""
        return self._both(pc.subtract_checked, kept, _typed(values, self.state))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._both(pc.add_checked, kept, other)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        if pa.types.is_decimal(self.state):
            return super().run(groups, kept, values, olds)
        begins, *terms = (_filled(each, self.state) for each in (kept, values, *(() if olds is None else (olds,))))
        if pa.types.is_floating(self.state):
            sums = groups.running_sums(begins, terms[0])
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


class ExactSum(Part):
    """The sum of doubles that may be taken away again; 0.0 of no values."""

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        return exact.nothing(count)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return self.run(_each_apart(kept), kept, values, None)

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return self.run(_each_apart(kept), kept, pa.nulls(len(kept), values.type), values)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return exact.merged(kept, other)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        given = _present(values)[0]
        terms, counts = self._terms(given), exact.specials(given)
        if olds is not None:
            taken = _present(olds)[0]
            terms += [term.minus for term in self._terms(taken)]
            counts = [one - other for one, other in zip(counts, exact.specials(taken), strict=True)]
        return exact.running(groups.starts, kept, terms, counts)

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        return pa.array(exact.rounded(exact.filled(kept)))

    def _terms(self, values: np.ndarray) -> list[exact.Term]:
        return exact.values_of(values)


class ExactSquares(ExactSum):
    """The same of their squares."""

    def _terms(self, values: np.ndarray) -> list[exact.Term]:
        return exact.squares_of(values)


class Total(Part):
    """The sum of values that may be taken away again, with their count: null where there are none."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        kept = state.field("sum").type
        self._sum: Part = ExactSum(kept) if kept == exact.STATE else Sum(kept)
        self._count = Count(pa.int64())

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
        found = self._sum.finish(total)
        return pc.if_else(pc.greater(count, 0), found, pa.scalar(None, found.type))

    def _state(self, total: pa.Array, count: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([total, count], fields=list(self.state))


class Average(Total):
    """The mean, of sum and count."""

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        return pc.divide(super().finish(kept), kept.field("count").cast(pa.float64()))


class Deviation(Part):
    """The standard deviation of a sample, of count, mean and sum of squares (Welford, as Spark computes it)."""

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        nothing = np.zeros(count)
        return self._state(nothing, nothing, nothing)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        count, mean, squares = _floats(kept)
        value, present = _present(values)
        after = count + present
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.where(present, value - mean, 0.0)
            step = distance / np.maximum(after, 1)
            return self._state(after, mean + step, squares + distance * (distance - step))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        (one, mean, squares), (two, mean2, squares2) = _floats(kept), _floats(other)
        count = one + two
        with np.errstate(invalid="ignore", over="ignore"):
            distance = mean2 - mean
            step = distance / np.maximum(count, 1)
            return self._state(count, mean + step * two, squares + squares2 + distance * step * one * two)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`; what a group has beyond some rows is reckoned with plain floats, in the same steps."""
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


class ExactDeviation(Part):
    """The standard deviation of a sample whose values may be taken away again, of count and exact sums."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        self._parts: list[Part] = [Count(pa.int64()), ExactSum(exact.STATE), ExactSquares(exact.STATE)]

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        return self._state([part.init(count) for part in self._parts])

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return self.run(_each_apart(kept), kept, values, None)

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return self.run(_each_apart(kept), kept, pa.nulls(len(kept), values.type), values)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        parts = zip(self._parts, kept.flatten(), other.flatten(), strict=True)
        return self._state([part.merge(one, two) for part, one, two in parts])

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        parts = zip(self._parts, kept.flatten(), strict=True)
        return self._state([part.run(groups, one, values, olds) for part, one in parts])

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`; integers of any length give what no array does."""
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


def _each_apart(kept: pa.Array) -> Groups:
    return Groups(np.arange(len(kept) + 1))


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The terms of a sum in its type; of doubles the ones next to them, as Spark casts them."""
    if not pa.types.is_floating(kind):
        return values.cast(kind)
    if pa.types.is_decimal(values.type):
        # Arrow's own cast of decimals rounds more than once
        return values.cast(pa.string()).cast(kind)
    return values.cast(kind, safe=False)


def _filled(values: pa.Array, kind: pa.DataType) -> np.ndarray:
    filled: np.ndarray = _typed(values, kind).fill_null(0).to_numpy(zero_copy_only=False)
    return filled


def _floats(kept: pa.Array) -> list[np.ndarray]:
    return [column.to_numpy(zero_copy_only=False) for column in kept.flatten()]


def _present(values: pa.Array) -> tuple[np.ndarray, Bools]:
    present = valid(values)
    return _filled(values, pa.float64()), present


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
