"""Folds of functions: aggregate and reduce, by functions of arrays or by plain Python ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.aggregates.fold import Fold, Folded, Work, folded, in_rounds, replaced
from millpond._engine.aggregates.scans import ROUNDS, SAFE, Groups
from millpond._engine.expressions.evaluated import Evaluated
from millpond._engine.rows.columns import array_of, valid
from millpond._plan import folds
from millpond._plan.folds import FunctionFold, Step
from millpond.errors import FunctionError


class ArrayFold(Fold):
    """A fold of functions; those of arrays are called round by round."""

    def __init__(self, how: FunctionFold, state: pa.DataType) -> None:
        super().__init__(state, state)
        self.grows = not pa.types.is_primitive(state)
        self._how = how

    def init(self, keys: pa.Array) -> pa.Array:
        """See `Fold`."""
        if not self._how.starts:
            return pa.nulls(len(keys), self.state)
        return pa.repeat(pa.scalar(self._how.initial, self.state), len(keys))

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        """See `Fold`."""
        if states.null_count and self._how.starts:
            states = pc.if_else(states.is_valid(), states, self.init(keys))
        elif states.null_count:
            stands = np.flatnonzero(valid(states))
            at = pa.array(stands)
            added = self._called(self._how.add, *(each.take(at) for each in (keys, values, states)))
            return replaced(array_of(values, self.state), stands, added)
        return self._called(self._how.add, keys, values, states)

    def subtract(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        """See `Fold`."""
        return self._called(self._how.subtract, keys, values, states)

    def merge(self, keys: pa.Array, states: pa.Array, others: pa.Array) -> pa.Array:
        """See `Fold`."""
        return self._called(self._how.merge, keys, states, others)

    def resume(self, keys: pa.Array, states: pa.Array) -> pa.Array:
        """See `Fold`."""
        return self.merge(keys, self.init(keys), states) if self._how.starts else states

    def run(self, work: Work) -> Folded:
        """See `Fold`."""
        how = self._how
        if all(step is None or step.plain for step in (how.add, how.subtract, how.merge)):
            return self._one_by_one(work, work.values.to_pylist(), [how.add] * len(work))
        return self._summed(work) or super().run(work)

    def _summed(self, work: Work) -> Folded | None:
        """The same where the adder adds to the aggregate, and some group has more rows than rounds are good for."""
        function = self._how.add.function
        if work.olds is not None or work.sizes.max(initial=0) <= ROUNDS or not isinstance(function, Evaluated):
            return None
        addend = function.addend(function.operands[-1])
        if addend is None or not (pa.types.is_int64(self.state) or pa.types.is_float64(self.state)):
            return None
        terms = addend(work.keys.take(pa.array(work.group)), work.values, work.values)
        if terms.null_count or work.values.null_count:
            return None
        sums = self._sums(work, array_of(terms, self.state).to_numpy().copy())
        return None if sums is None else folded(work, [pa.array(sums)], self.state, np.arange(len(work)))

    def _sums(self, work: Work, terms: np.ndarray) -> np.ndarray | None:
        groups = Groups(work.starts)
        # what is added to -0.0 stays as it is
        nothing = self._how.initial if self._how.starts else -0.0 if terms.dtype == np.float64 else 0
        begins = work.prior.fill_null(pa.scalar(nothing, self.state)).to_numpy()
        if not self._how.starts:
            firsts = work.starts[:-1][~work.known]
            terms[firsts] = array_of(work.values.take(pa.array(firsts)), self.state).to_numpy()
        if terms.dtype == np.float64:
            return groups.running_sums(begins, terms)
        if np.abs(terms.astype(np.float64)).sum() + np.abs(begins.astype(np.float64)).max(initial=0) > SAFE:
            return None
        return np.asarray(np.repeat(begins, groups.sizes) + groups.running_counts(terms))

    def _one_by_one(self, work: Work, values: list[Any], adders: list[Step]) -> Folded:
        """The same by plain functions alone: no arrays are made between one row and the next."""
        how = self._how
        keys, states = work.keys.to_pylist(), work.prior.to_pylist()
        olds = [None] * len(work) if work.olds is None else work.olds.to_pylist()
        made: list[Any] = []
        merge = how.merge.function if how.starts and how.merge is not None else None
        resumed = [False] * len(states) if work.resumes is None else work.resumes.tolist()
        # A plain Python function is called record by record: that is what it is for.
        for group, value, old, adder in zip(work.group.tolist(), values, olds, adders, strict=True):
            state = states[group]
            if state is not None and resumed[group] and merge is not None:
                state = merge(keys[group], how.initial, state)
            resumed[group] = work.resumes is not None
            if old is not None and state is not None and how.subtract is not None:
                state = how.subtract.function(keys[group], old, state)
            if value is not None:
                if state is None:
                    state = how.initial
                begins = state is None and not how.starts
                state = value if begins else adder.function(keys[group], value, state)
            states[group] = state
            made.append(state)
        added = self._array(made)
        after = np.where(valid(added), np.arange(len(made)), -1)
        return folded(work, [added], self.state, after)

    def _called(self, step: Step | None, *arguments: pa.Array) -> pa.Array:
        assert step is not None, "asked for when the topology was built"
        if not step.plain:
            return array_of(step.function(*arguments), self.state)
        return self._array(_row_by_row(step.function, *arguments))

    def _array(self, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, type=self.state)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
            raise FunctionError(
                "A plain Python function gave what is not of the aggregate's type.",
                given=f"{error}; the type is {self.state}",
                hint="mp.python(function, returns=...) says the type of its result.",
            ) from error


def _row_by_row(function: Callable[..., Any], *arguments: pa.Array) -> list[Any]:
    # a plain Python function is called record by record
    return [function(*row) for row in zip(*(each.to_pylist() for each in arguments), strict=True)]


class CogroupFold(ArrayFold):
    """A fold of several streams: values are structs with a field for each, of which one is not null."""

    def __init__(self, how: folds.CogroupFold, state: pa.DataType) -> None:
        # whose adder is called is said by each value
        first = FunctionFold(how.adders[0], merge=how.merge, starts=True, initial=how.initial)
        super().__init__(first, state)
        self._adders = how.adders

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        """See `Fold`."""
        if states.null_count:
            states = pc.if_else(states.is_valid(), states, self.init(keys))
        for adder, field in zip(self._adders, values.flatten(), strict=True):
            rows = np.flatnonzero(valid(field))
            at = pa.array(rows)
            if len(rows):
                added = self._called(adder, *(each.take(at) for each in (keys, field, states)))
                states = replaced(states, rows, added)
        return states

    def run(self, work: Work) -> Folded:
        """See `Fold`."""
        if not all(step is None or step.plain for step in (*self._adders, self._how.merge)):
            return in_rounds(self, work)
        values: list[Any] = [None] * len(work)
        adders = [self._adders[0]] * len(work)
        for adder, field in zip(self._adders, work.values.flatten(), strict=True):
            # plain functions take plain values, one after the other
            for row, value in zip(np.flatnonzero(valid(field)).tolist(), field.drop_null().to_pylist(), strict=True):
                values[row], adders[row] = value, adder
        return self._one_by_one(work, values, adders)
