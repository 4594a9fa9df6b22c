"""count, sum, avg and stddev, in Spark's own steps, or exactly where values are taken back.

An exact sum of doubles leaves nothing behind of a value that is taken back: it is an integer that counts units of
2**-2176, in digits of 32 bits: every double, and every square of one, is a multiple of that. Its state has the digits
that are not zero, and how many NaN and infinities there are: it follows from the values alone, whatever has come and
gone. Rows are added in columns, a digit each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.folds import ROUNDS, SAFE, Groups
from watersmeet._engine.aggregates.kernel import AggregateKernel, KernelTypes
from watersmeet._engine.rows import Bools, Int64s, valid
from watersmeet.aggregates.declaration import AnyAggregate
from watersmeet.aggregates.sums import EXACT
from watersmeet.errors import FunctionError

STATE = EXACT
BITS = 32
UNIT = 2176
"""The lowest bit counts 2**-UNIT."""
_MASK = (1 << BITS) - 1
_CELLS = 1 << 22
"""Digits that are reckoned with at once."""
_ROOM = 3
"""Digits above the highest that a term touches: two that its shift may reach, and one for carries and the sign."""
_SPECIAL = ("nan", "most", "least")


@dataclass(frozen=True)
class Term:
    """An integer of each row, of at most 57 bits, times a power of two."""

    integer: Int64s
    exponent: Int64s

    @property
    def minus(self) -> Term:
        """The digits that subtract it."""
        return Term(-self.integer, self.exponent)

    @property
    def lane(self) -> Int64s:
        """The place of the lowest digit that it touches."""
        return (self.exponent + UNIT) // BITS


def values_of(numbers: npt.NDArray[np.float64]) -> list[Term]:
    """Doubles as terms; what is not finite is none."""
    return [Term(*_parts(numbers))]


def squares_of(numbers: npt.NDArray[np.float64]) -> list[Term]:
    """The squares of doubles as terms."""
    integer, exponent = _parts(numbers)
    high, low = integer >> 27, integer & ((1 << 27) - 1)
    products = ((high * high, 54), (2 * high * low, 27), (low * low, 0))
    return [Term(product, 2 * exponent + shift) for product, shift in products]


def _parts(numbers: npt.NDArray[np.float64]) -> tuple[Int64s, Int64s]:
    fraction, exponent = np.frexp(np.where(np.isfinite(numbers), numbers, 0.0))
    integer = (fraction * 2.0**53).astype(np.int64)
    return integer, np.where(integer == 0, 0, exponent.astype(np.int64) - 53)


def specials(numbers: npt.NDArray[np.float64]) -> list[Int64s]:
    """The doubles that are not finite: which are NaN, which infinity, which -infinity, as 1 and 0."""
    masks = (np.isnan(numbers), numbers == np.inf, numbers == -np.inf)
    return [mask.astype(np.int64) for mask in masks]


def nothing(count: int) -> pa.Array:
    """So many sums of no values."""
    zeros = pa.array(np.zeros(count, dtype=np.int64))
    digits = pa.array([b""] * count, pa.binary())
    return pa.StructArray.from_arrays([zeros, digits, zeros, zeros, zeros], fields=list(STATE))


def filled_exact_sums(states: pa.Array) -> pa.Array:
    return pc.if_else(states.is_valid(), states, nothing(len(states))) if states.null_count else states


def running(starts: Int64s, states: pa.Array, terms: list[Term], counts: list[Int64s]) -> pa.Array:
    """The sum behind each row.

    Parameters
    ----------
    starts : where each group begins, and the number of rows as last entry.
    states : what each group begins with.
    terms : what each row adds; an integer of 0 adds nothing.
    counts : how many NaN, infinities and -infinities each row adds.
    """
    low, width = _window(states, terms)
    lanes = _spread(states, low, width)
    blocks = [_packed(block, low) for block in _blocks(np.diff(starts), lanes, terms, low)]
    digits = pa.concat_arrays(blocks) if blocks else nothing(0)
    begins = [states.field(name).to_numpy(zero_copy_only=False) for name in _SPECIAL]
    totals = [_counted(starts, initial, count) for initial, count in zip(begins, counts, strict=True)]
    columns = [digits.field("low"), digits.field("digits"), *map(pa.array, totals)]
    return pa.StructArray.from_arrays(columns, fields=list(STATE))


def merged(left: pa.Array, right: pa.Array) -> pa.Array:
    """Two sums as one."""
    low, width = _window(pa.concat_arrays([left, right]), [])
    lanes = _spread(left, low, width) + _spread(right, low, width)
    digits = _packed(_carried(lanes), low)
    totals = [
        pa.array(sum(state.field(name).to_numpy(zero_copy_only=False) for state in (left, right))) for name in _SPECIAL
    ]
    return pa.StructArray.from_arrays([digits.field("low"), digits.field("digits"), *totals], fields=list(STATE))


def rounded(states: pa.Array) -> npt.NDArray[np.float64]:
    """The double next to each sum, of two as near the even one."""
    low, width = _window(states, [])
    lanes = _carried(_spread(states, low, width))
    negative = lanes[-1] < 0
    lanes = _carried(np.where(negative, -lanes, lanes))
    # two digits below the lowest, so that each has two below it
    lanes = np.concatenate([np.zeros((2, len(states)), dtype=np.int64), lanes])
    nonzero = lanes != 0
    top = np.maximum(len(lanes) - 1 - nonzero[::-1].argmax(axis=0), 2)
    row = np.arange(len(states))
    first, second, third = (lanes[top - down, row].astype(np.uint64) for down in range(3))
    _, length = np.frexp(first.astype(np.float64))
    free = (BITS - length).astype(np.uint64)
    shift = np.uint64(BITS) - free
    window = first << (free + np.uint64(BITS)) | second << free | third >> shift
    below = (third & ((np.uint64(1) << shift) - np.uint64(1)) != 0) | (nonzero.argmax(axis=0) < top - 2)
    # 64 bits are more than a double has: one bit says of all that is below that it is there
    with np.errstate(over="ignore"):
        size = np.ldexp(
            (window | below).astype(np.float64), BITS * (top - 2 + low) - UNIT - BITS - free.astype(np.int64)
        )
    doubles = np.where(nonzero.any(axis=0), np.where(negative, -size, size), 0.0)
    nan, most, least = (states.field(name).to_numpy(zero_copy_only=False) > 0 for name in _SPECIAL)
    doubles = np.where(most, np.inf, np.where(least, -np.inf, doubles))
    return np.asarray(np.where(nan | (most & least), np.nan, doubles))


def integers(states: pa.Array) -> Iterator[tuple[int, int]]:
    """Each finite sum as (integer, exponent of two)."""
    lows, digits = states.field("low").to_pylist(), states.field("digits").to_pylist()
    for low, figures in zip(lows, digits, strict=True):
        yield int.from_bytes(figures, "little", signed=True), BITS * low - UNIT


def is_finite(states: pa.Array) -> npt.NDArray[np.bool_]:
    """Which sums have neither NaN nor an infinity in them."""
    return np.asarray(sum(states.field(name).to_numpy(zero_copy_only=False) for name in _SPECIAL) == 0)


def _counted(starts: Int64s, begins: Int64s, counts: Int64s) -> Int64s:
    sums = np.cumsum(counts)
    offsets = np.append(0, sums)[starts[:-1]]
    return np.asarray(sums + np.repeat(begins - offsets, np.diff(starts)))


def _window(states: pa.Array, terms: list[Term]) -> tuple[int, int]:
    """Place of the lowest digit that there is, and how many there are up to that of the sign."""
    lengths = _lengths(states)
    lows = states.field("low").to_numpy(zero_copy_only=False)[lengths > 0]
    highs = lows + lengths[lengths > 0]
    lanes = [term.lane[term.integer != 0] for term in terms]
    least = min((int(places.min()) for places in (lows, *lanes) if len(places)), default=0)
    most = max((int(places.max()) for places in (highs, *lanes) if len(places)), default=0)
    return least, most - least + 1 + _ROOM


def _lengths(states: pa.Array) -> Int64s:
    lengths = pc.binary_length(states.field("digits")).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, dtype=np.int64) // 4


def _spread(states: pa.Array, low: int, width: int) -> Int64s:
    """Digits in columns, each row's highest with its sign."""
    lanes = np.zeros((width, len(states)), dtype=np.int64)
    digits = states.field("digits")
    lengths = _lengths(states)
    figures = np.frombuffer(b"".join(digits.to_pylist()), "<u4").astype(np.int64)
    row = np.repeat(np.arange(len(states)), lengths)
    starts = np.cumsum(lengths) - lengths
    place = states.field("low").to_numpy(zero_copy_only=False)[row] - low + np.arange(len(figures)) - starts[row]
    lanes[place, row] = figures
    ends = (starts + lengths - 1)[lengths > 0]
    lanes[place[ends], row[ends]] = figures[ends].astype(np.uint32).view(np.int32)
    return lanes


def _blocks(sizes: Int64s, current: Int64s, terms: list[Term], low: int) -> Iterator[Int64s]:
    """Digits behind each row, of some rows at a time, which go on with what those before them have left."""
    step = max(_CELLS // len(current), 1)
    group = np.repeat(np.arange(len(sizes)), sizes)
    for start in range(0, len(group), step):
        rows = slice(start, start + step)
        members = group[rows]
        lanes = np.zeros((len(current), len(members)), dtype=np.int64)
        for term in terms:
            _put(lanes, term.integer[rows], term.exponent[rows] + UNIT - BITS * low)
        np.cumsum(lanes, axis=1, out=lanes)
        firsts = np.flatnonzero(np.diff(members, prepend=-1))
        offsets = lanes[:, np.maximum(firsts - 1, 0)] * (firsts > 0)
        lanes += np.repeat(current[:, members[firsts]] - offsets, np.diff(firsts, append=len(members)), axis=1)
        _carried(lanes)
        current[:, members[-1]] = lanes[:, -1]
        yield lanes


def _put(lanes: Int64s, integer: Int64s, bit: Int64s) -> None:
    row = np.flatnonzero(integer)
    lane, shift = bit[row] // BITS, bit[row] % BITS
    low, high = (integer[row] & _MASK) << shift, (integer[row] >> BITS) << shift
    lanes[lane, row] += low & _MASK
    lanes[lane + 1, row] += (low >> BITS) + (high & _MASK)
    lanes[lane + 2, row] += high >> BITS


def _carried(lanes: Int64s) -> Int64s:
    """The same numbers in place, all digits but the highest from 0 to 2**32 - 1."""
    for lane in range(len(lanes) - 1):
        lanes[lane + 1] += lanes[lane] >> BITS
        lanes[lane] &= _MASK
    return lanes


def _packed(lanes: Int64s, low: int) -> pa.Array:
    """Digits in columns as (low, digits): from the lowest that is not zero to the one above which all say the sign."""
    digits = np.ascontiguousarray(lanes.T).astype("<u4")
    nonzero = digits != 0
    bottom = nonzero.argmax(axis=1)
    signs = np.where(lanes[-1] < 0, _MASK, 0).astype("<u4")
    significant = digits != signs[:, None]
    top = np.where(significant.any(axis=1), digits.shape[1] - significant[:, ::-1].argmax(axis=1), 0)
    filled = nonzero.any(axis=1)
    lengths = np.where(filled, np.maximum(top, bottom) - bottom + 1, 0)
    place = np.arange(digits.shape[1])
    mask = (place >= bottom[:, None]) & (place < (bottom + lengths)[:, None])
    offsets = np.append(0, np.cumsum(lengths * 4)).astype(np.int32)
    data = pa.Array.from_buffers(
        pa.binary(), len(digits), [None, pa.py_buffer(offsets), pa.py_buffer(digits[mask].tobytes())]
    )
    lows = np.where(filled, bottom + low, 0)
    return pa.StructArray.from_arrays([pa.array(lows), data], names=["low", "digits"])


# Numbers as sums, means and deviations take them.


def each_apart(states: pa.Array) -> Groups:
    """Each row a group of its own."""
    return Groups(np.arange(len(states) + 1))


def typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The terms of a sum in its type; of doubles the ones next to them, as Spark casts them."""
    if not pa.types.is_floating(kind):
        return values.cast(kind)
    if pa.types.is_decimal(values.type):
        # Arrow's own cast of decimals rounds more than once
        return values.cast(pa.string()).cast(kind)
    return values.cast(kind, safe=False)


def filled_terms(values: pa.Array, kind: pa.DataType) -> np.ndarray:
    """The same, with 0 in place of null."""
    terms: np.ndarray = typed(values, kind).fill_null(0).to_numpy(zero_copy_only=False)
    return terms


def present(values: pa.Array) -> tuple[np.ndarray, Bools]:
    return filled_terms(values, pa.float64()), valid(values)


# Exact sums, and what they and exact deviations share.


class InRuns(AggregateKernel):
    """A kernel that adds and subtracts as runs of one row."""

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return self.run(each_apart(states), states, values, None)

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return self.run(each_apart(states), states, pa.nulls(len(states), values.type), values)


class ExactSum(InRuns):
    """The sum of doubles that may be taken away again; 0.0 of no values."""

    def init(self, count: int) -> pa.Array:
        return nothing(count)

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return merged(left, right)

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        numbers = present(values)[0]
        terms, counts = self._terms(numbers), specials(numbers)
        if olds is not None:
            removed = present(olds)[0]
            terms += [term.minus for term in self._terms(removed)]
            counts = [plus - minus for plus, minus in zip(counts, specials(removed), strict=True)]
        return running(groups.starts, states, terms, counts)

    def finish(self, states: pa.Array) -> pa.Array:
        return pa.array(rounded(filled_exact_sums(states)))

    def _terms(self, values: np.ndarray) -> list[Term]:
        return values_of(values)


class ExactSquares(ExactSum):
    """The same of their squares."""

    def _terms(self, values: np.ndarray) -> list[Term]:
        return squares_of(values)


# count: how many values there are.


def count(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return CountKernel(types.state)


class CountKernel(AggregateKernel):
    """How many values there are."""

    def init(self, count: int) -> pa.Array:
        return pa.array(np.zeros(count, dtype=np.int64))

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return pc.add(states, _ones(values))

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return pc.subtract(states, _ones(values))

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return pc.add(left, right)

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        deltas = valid(values).astype(np.int64)
        if olds is not None:
            deltas -= valid(olds)
        return pa.array(np.repeat(states.to_numpy(), groups.sizes) + groups.running_counts(deltas))


def _ones(values: pa.Array) -> pa.Array:
    return values.is_valid().cast(pa.int64())


# stddev: the standard deviation of a sample, in Spark's own steps, or of exact sums where values are taken back.


def stddev(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return ExactDeviation(types.state) if types.takes_back else Deviation(types.state)


class Deviation(AggregateKernel):
    """The standard deviation of a sample, of count, mean and sum of squares (Welford, as Spark computes it)."""

    def init(self, count: int) -> pa.Array:
        nothing = np.zeros(count)
        return self._state(nothing, nothing, nothing)

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        """Welford's step: count, mean and the sum of squared distances."""
        count, mean, squares = _floats(states)
        value, mask = present(values)
        counts = count + mask
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.where(mask, value - mean, 0.0)
            step = distance / np.maximum(counts, 1)
            return self._state(counts, mean + step, squares + distance * (distance - step))

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        (size, mean, squares), (size2, mean2, squares2) = _floats(left), _floats(right)
        count = size + size2
        with np.errstate(invalid="ignore", over="ignore"):
            distance = mean2 - mean
            step = distance / np.maximum(count, 1)
            return self._state(count, mean + step * size2, squares + squares2 + distance * step * size * size2)

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        sizes = np.minimum(groups.sizes, ROUNDS)
        if not (groups.sizes > ROUNDS).any():
            return super().run(groups, states, values, olds)
        places = np.arange(groups.rows) - np.repeat(groups.starts[:-1], groups.sizes)
        heads = np.flatnonzero(places < ROUNDS)
        starts = np.append(0, np.cumsum(sizes))
        initial = super().run(Groups(starts), states, values.take(pa.array(heads)), None)
        columns = [np.empty(groups.rows) for _ in range(3)]
        for column, begins in zip(columns, _floats(initial), strict=True):
            column[heads] = begins
        value, mask = present(values)
        for group in np.flatnonzero(groups.sizes > ROUNDS):
            start, end = groups.starts[group] + ROUNDS, groups.starts[group + 1]
            _deviate(columns, value, mask, start, end)
        return self._state(*columns)

    def finish(self, states: pa.Array) -> pa.Array:
        count, _, squares = _floats(states)
        return pa.array(np.sqrt(squares / np.maximum(count - 1, 1)), mask=count < 2)

    def _state(self, *columns: object) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(column) for column in columns], fields=list(self.state))


class ExactDeviation(InRuns):
    """The standard deviation of a sample, of count and exact sums, so that values can be subtracted."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        self._parts: list[AggregateKernel] = [CountKernel(pa.int64()), ExactSum(STATE), ExactSquares(STATE)]

    def init(self, count: int) -> pa.Array:
        return self._state([part.init(count) for part in self._parts])

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        parts = zip(self._parts, left.flatten(), right.flatten(), strict=True)
        return self._state([part.merge(first, second) for part, first, second in parts])

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        parts = zip(self._parts, states.flatten(), strict=True)
        return self._state([part.run(groups, state, values, olds) for part, state in parts])

    def finish(self, states: pa.Array) -> pa.Array:
        count, total, squares = states.flatten()
        count, total, squares = count.fill_null(0), filled_exact_sums(total), filled_exact_sums(squares)
        rows = zip(count.to_pylist(), integers(total), integers(squares), strict=True)
        deviations = np.array([_deviation(*row) for row in rows], dtype=np.float64)
        deviations = np.where(is_finite(total), deviations, np.nan)
        return pa.array(deviations, mask=count.to_numpy() < 2)

    def _state(self, columns: list[pa.Array]) -> pa.Array:
        return pa.StructArray.from_arrays(columns, fields=list(self.state))


def _deviation(count: int, total: tuple[int, int], squares: tuple[int, int]) -> float:
    """Of so many values, of their sum and that of their squares as (integer, exponent of two)."""
    if count < 2:
        return 0.0
    (integer, exponent), (integer2, exponent2) = total, squares
    least = min(2 * exponent, exponent2)
    dividend = count * (integer2 << exponent2 - least) - (integer * integer << 2 * exponent - least)
    among = count * (count - 1)
    if least >= 0:
        return math.sqrt(_quotient(dividend << least, among))
    return math.sqrt(_quotient(dividend, among << -least))


def _quotient(dividend: int, divisor: int) -> float:
    """The double next to a quotient of integers of any length."""
    try:
        return dividend / divisor
    except OverflowError:
        return math.inf


def _floats(states: pa.Array) -> list[np.ndarray]:
    return [column.to_numpy(zero_copy_only=False) for column in states.flatten()]


def _deviate(columns: list[np.ndarray], values: np.ndarray, present: Bools, start: int, end: int) -> None:
    """Count, mean and squares of a group's rows, from those of the row before on, in place."""
    count, mean, squares = (float(column[start - 1]) for column in columns)
    results = np.empty((3, end - start))
    # one row's mean is made of the one before: there is no way but one after the other
    for row, (value, has_value) in enumerate(zip(values[start:end].tolist(), present[start:end].tolist(), strict=True)):
        if has_value:
            count += 1.0
            distance = value - mean
            step = distance / count
            mean += step
            squares += distance * (distance - step)
        results[:, row] = count, mean, squares
    for column, rows in zip(columns, results, strict=True):
        column[start:end] = rows


# sum: added one after the other, or exactly where values are taken back.
#
# Doubles are added in Spark's own steps: so results are Spark's to the bit, and do not depend on how records are cut
# into batches (law 1). Where values are taken back, sums are exact (`Total`), since what one rounding has lost, or
# a NaN has spoilt, no later step would bring back: the result is that of the values left.


def sums(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return Total(types.state) if types.takes_back else SumKernel(types.state)


class SumKernel(AggregateKernel):
    """The sum; null of no values."""

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return self._combine(pc.add_checked, states, typed(values, self.state))

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return self._combine(pc.subtract_checked, states, typed(values, self.state))

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return self._combine(pc.add_checked, left, right)

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        if pa.types.is_decimal(self.state):
            return super().run(groups, states, values, olds)
        begins, *terms = (
            filled_terms(column, self.state) for column in (states, values, *(() if olds is None else (olds,)))
        )
        if pa.types.is_floating(self.state):
            sums = groups.running_sums(begins, terms[0])
        else:
            deltas = terms[0] - terms[1] if olds is not None else terms[0]
            if (
                np.abs(begins.astype(np.float64)).max(initial=0)
                + sum(np.abs(t.astype(np.float64)).sum() for t in terms)
                > SAFE
            ):
                return super().run(groups, states, values, olds)
            sums = np.repeat(begins, groups.sizes) + groups.running_counts(deltas)
        touched = valid(values) if olds is None else valid(values) | valid(olds)
        nonempty = groups.any_before(touched, inclusive=True) | np.repeat(valid(states), groups.sizes)
        return pa.array(sums, mask=~nonempty)

    def _combine(self, step: Callable[..., pa.Array], states: pa.Array, values: pa.Array) -> pa.Array:
        wide = self.state
        if pa.types.is_decimal(wide):
            # a sum has one digit more than its terms, until it is seen to fit
            wide = pa.decimal256(wide.precision, wide.scale)
        nothing = pa.scalar(Decimal(0) if pa.types.is_decimal(wide) else 0, wide)
        terms = (pc.coalesce(column.cast(wide), nothing) for column in (states, values))
        try:
            summed = step(*terms).cast(self.state)
        except pa.ArrowInvalid as error:
            raise FunctionError(
                "A sum is too large for its type.",
                given=f"{self.state}: {error}",
                hint="Sum decimals or doubles: cast the argument.",
            ) from error
        return pc.if_else(pc.or_(states.is_valid(), values.is_valid()), summed, pa.scalar(None, self.state))


class Total(AggregateKernel):
    """The sum of values that may be taken away again, with their count: null where there are none."""

    def __init__(self, state: pa.DataType) -> None:
        super().__init__(state)
        kind = state.field("sum").type
        self._sum: AggregateKernel = ExactSum(kind) if kind == STATE else SumKernel(kind)
        self._count = CountKernel(pa.int64())

    def init(self, count: int) -> pa.Array:
        return self._state(self._sum.init(count), self._count.init(count))

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        total, count = states.flatten()
        return self._state(self._sum.add(total, values), self._count.add(count, values))

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        total, count = states.flatten()
        return self._state(self._sum.subtract(total, values), self._count.subtract(count, values))

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        (total, count), (total2, count2) = left.flatten(), right.flatten()
        return self._state(self._sum.merge(total, total2), self._count.merge(count, count2))

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        total, count = states.flatten()
        parts = self._sum.run(groups, total, values, olds), self._count.run(groups, count, values, olds)
        return self._state(*parts)

    def finish(self, states: pa.Array) -> pa.Array:
        total, count = states.flatten()
        result = self._sum.finish(total)
        return pc.if_else(pc.greater(count, 0), result, pa.scalar(None, result.type))

    def _state(self, total: pa.Array, count: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([total, count], fields=list(self.state))


# avg: the mean.


def avg(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return Average(types.state)


class Average(Total):
    """The mean, of sum and count."""

    def finish(self, states: pa.Array) -> pa.Array:
        return pc.divide(super().finish(states), states.field("count").cast(pa.float64()))
