"""Aggregates by name: what each keeps of a key, as functions of Arrow arrays, a row each.

Null arguments are left out. What cannot be taken back from a result is kept whole where a grouped table asks for that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.aggregates import lists
from millpond._engine.aggregates.scans import Groups
from millpond._engine.arrays import Bools, Int64s
from millpond._engine.rows.columns import gather, joined, valid
from millpond.errors import FunctionError, MillpondError

_SAFE = 2.0**62
"""Sums of integers whose terms together stay below this do not pass 64 bits."""


class Part:
    """One aggregate.

    Parameters
    ----------
    state : type of what is kept.
    """

    def __init__(self, state: pa.DataType) -> None:
        self.state = state

    def init(self, count: int) -> pa.Array:
        """What is kept of no records."""
        return pa.nulls(count, self.state)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """What is kept with values added."""
        raise NotImplementedError

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """What is kept without values."""
        raise MillpondError("This aggregate takes nothing back.")

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """What is kept of the records of both, the other's later."""
        raise NotImplementedError

    def finish(self, kept: pa.Array) -> pa.Array:
        """The result."""
        return kept

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """What is kept after each row, which takes an old value away and then adds one.

        Parameters
        ----------
        kept : what each group begins with.
        """
        largest_first = np.argsort(-groups.sizes, kind="stable")
        sizes, starts = groups.sizes[largest_first], groups.starts[:-1][largest_first]
        now = kept.take(pa.array(largest_first))
        place = np.empty(groups.rows, dtype=np.int64)
        made, count = [], 0
        for number in range(int(sizes.max(initial=0))):
            now = now.slice(0, int(np.searchsorted(-sizes, -number, side="left")))
            rows = starts[: len(now)] + number
            if olds is not None:
                now = self.subtract(now, olds.take(pa.array(rows)))
            now = self.add(now, values.take(pa.array(rows)))
            place[rows] = count + np.arange(len(rows))
            made.append(now)
            count += len(rows)
        return gather(joined(made, self.state), place)


class Count(Part):
    """How many values there are."""

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

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        deltas = valid(values).astype(np.int64)
        if olds is not None:
            deltas -= valid(olds)
        return pa.array(np.repeat(kept.to_numpy(), groups.sizes) + groups.running_counts(deltas))


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
                > _SAFE
            ):
                return super().run(groups, kept, values, olds)
            sums = np.repeat(begins, groups.sizes) + groups.running_counts(deltas)
        touched = valid(values) if olds is None else valid(values) | valid(olds)
        some = groups.any_before(touched, inclusive=True) | np.repeat(valid(kept), groups.sizes)
        return pa.array(sums, mask=~some)

    def _both(self, step: Callable[..., pa.Array], kept: pa.Array, values: pa.Array) -> pa.Array:
        nothing = pa.scalar(0).cast(self.state)
        try:
            summed = step(pc.coalesce(kept, nothing), pc.coalesce(values, nothing)).cast(self.state)
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

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        count, _, squares = _floats(kept)
        return pa.array(np.sqrt(squares / np.maximum(count - 1, 1)), mask=count < 2)

    def _state(self, *columns: object) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(column) for column in columns], fields=list(self.state))


class Extreme(Part):
    """The largest or the smallest value; of equal ones the first."""

    def __init__(self, state: pa.DataType, *, largest: bool) -> None:
        super().__init__(state)
        self._largest = largest

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        values = values.cast(self.state)
        count, both = len(kept), pa.concat_arrays([kept, values])
        rank = lists.ranks(both)
        before, after = rank[:count], rank[count:]
        better = after > before if self._largest else after < before
        taken = valid(values) & (better | ~valid(kept))
        return gather(both, np.arange(count) + np.where(taken, count, 0))

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        both = pa.concat_arrays([kept, values.cast(self.state)])
        rank = lists.ranks(both)
        score = rank if self._largest else rank.max(initial=0) - rank
        return _pointed(groups, both, lambda member: groups.largest_of(member, _headed(groups, score, len(kept))))

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return self.add(kept, other)


class Edge(Part):
    """The value that came first, or last."""

    def __init__(self, state: pa.DataType, *, first: bool) -> None:
        super().__init__(state)
        self._first = first

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        values = values.cast(self.state)
        return pc.coalesce(kept, values) if self._first else pc.coalesce(values, kept)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """See `Part`."""
        both = pa.concat_arrays([kept, values.cast(self.state)])
        return _pointed(groups, both, groups.first_of if self._first else groups.last_of)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return self.add(kept, other)


class Bag(Part):
    """All values, or those of them that `trim` keeps, and what is made of them in the end."""

    def __init__(
        self,
        state: pa.DataType,
        trim: Callable[[pa.Array], pa.Array] = lambda kept: kept,
        finish: Callable[[pa.Array], pa.Array] = lambda kept: kept,
    ) -> None:
        super().__init__(state)
        self._trim = trim
        self._finish = finish

    def init(self, count: int) -> pa.Array:
        """See `Part`."""
        return lists.empty_lists(self.state, count)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._trim(lists.together(kept, lists.single(values, self.state)))

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """See `Part`."""
        return lists.without(kept, values)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._trim(lists.together(kept, other))

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        return self._finish(kept)


def part_of(kind: str, state: pa.DataType, k: int | None, *, takes_back: bool) -> Part:
    """The aggregate of a name."""
    if kind in ("count", "sum", "avg", "stddev"):
        made = {"count": Count, "sum": Total if takes_back else Sum, "avg": Average, "stddev": Deviation}
        return made[kind](state)
    if kind in ("first", "last"):
        return Edge(state, first=kind == "first")
    if kind in ("min", "max") and not takes_back:
        return Extreme(state, largest=kind == "max")
    shown: Callable[[pa.Array], pa.Array] = {
        "min": lambda kept: lists.extreme(kept, largest=False),
        "max": lambda kept: lists.extreme(kept, largest=True),
        "collect_list": lambda kept: kept,
        "collect_set": lists.distinct,
        "count_distinct": lambda kept: pc.list_value_length(lists.distinct(kept)).cast(pa.int64()),
        "top_k": lambda kept: lists.descending(kept, k),
    }[kind]
    if takes_back or kind == "collect_list":
        return Bag(state, finish=shown)
    if kind == "top_k":
        return Bag(state, trim=shown)
    lengths = (
        (lambda kept: kept) if kind == "collect_set" else (lambda kept: pc.list_value_length(kept).cast(pa.int64()))
    )
    return Bag(state, trim=lists.distinct, finish=lengths)


def _headed(groups: Groups, column: Int64s, count: int) -> Int64s:
    return np.asarray(groups.headed(column[:count], column[count:]), dtype=np.int64)


def _pointed(groups: Groups, both: pa.Array, found: Callable[[Bools], Int64s]) -> pa.Array:
    """Of what groups begin with and rows, behind one another, what is found among the headed ones that are not null."""
    numbers = _headed(groups, np.arange(len(both)), len(groups.sizes))
    place = found(valid(both)[numbers])
    return gather(both, np.where(place >= 0, numbers[place], -1))


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


def _ones(values: pa.Array) -> pa.Array:
    return values.is_valid().cast(pa.int64())


def _floats(kept: pa.Array) -> list[np.ndarray]:
    return [column.to_numpy(zero_copy_only=False) for column in kept.flatten()]


def _present(values: pa.Array) -> tuple[np.ndarray, Bools]:
    present = valid(values)
    return values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False), present
