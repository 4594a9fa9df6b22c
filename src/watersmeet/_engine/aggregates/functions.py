"""Folds of functions: aggregate and reduce, by functions of arrays or by plain Python ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.fold import Folded, FoldKernel, Work, folded, in_rounds, replaced
from watersmeet._engine.aggregates.plain.compiled import CompiledFold, firsts
from watersmeet._engine.aggregates.plain.row_by_row import (
    Function,
    PlainArguments,
    PlainFunctions,
    function_error,
    row_by_row,
)
from watersmeet._engine.aggregates.raising import RAISED, placed, survivors
from watersmeet._engine.aggregates.scans import ROUNDS, SAFE, Groups
from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.evaluated import Evaluated
from watersmeet._engine.rows.columns import array_of, joined, valid
from watersmeet._engine.rows.python_values import keeping, not_of, python_values, stored_value_of
from watersmeet._plan import folds
from watersmeet._plan.folds import FunctionFold, Step


class ArrayFold(FoldKernel):
    """A fold of functions; those of arrays are called round by round."""

    def __init__(self, how: FunctionFold, state: pa.DataType) -> None:
        super().__init__(state, state)
        self.grows = not pa.types.is_primitive(state)
        add, subtract, merge = (keeping(step, state) for step in (how.add, how.subtract, how.merge))
        assert add is not None, "each fold has one"
        self._how = replace(how, add=add, subtract=subtract, merge=merge, initial=stored_value_of(state)(how.initial))

    def init(self, keys: pa.Array) -> pa.Array:
        if not self._how.starts:
            return pa.nulls(len(keys), self.state)
        return pa.repeat(pa.scalar(self._how.initial, self.state), len(keys))

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        if states.null_count and self._how.starts:
            states = pc.if_else(states.is_valid(), states, self.init(keys))
        elif states.null_count:
            stands = np.flatnonzero(valid(states))
            at = pa.array(stands)
            added = self._called(self._how.add, *(each.take(at) for each in (keys, values, states)))
            return replaced(array_of(firsts(self._how, values), self.state), stands, added)
        return self._called(self._how.add, keys, values, states)

    def subtract(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        return self._called(self._how.subtract, keys, values, states)

    def merge(self, keys: pa.Array, states: pa.Array, others: pa.Array) -> pa.Array:
        return self._called(self._how.merge, keys, states, others)

    def resume(self, keys: pa.Array, states: pa.Array) -> pa.Array:
        return self.merge(keys, self.init(keys), states) if self._how.starts else states

    def run(self, work: Work) -> Folded:
        if self._plain:
            return self._one_by_one(work, *self._called_for(work))
        return self._summed(work) or self._quickly(work) or in_rounds(self, work)

    def tried(self, work: Work) -> Folded:
        if not self._plain:
            return self._summed_but(work) or self._quickly(work) or in_rounds(self, work, {})
        values, adders = self._called_for(work)
        return self._one_by_one(work, values, [partial(self._checked, adder) for adder in adders])

    @property
    def how_it_runs(self) -> str:  # type: ignore[override]  # of others it is said by their class
        """See `FoldKernel`."""
        if self._plain:
            return "plain Python functions, record by record"
        if self._compiled is None:
            return "in rounds, one record of each key at a time: a key with many records of a batch is slow"
        if self._compiled.chosen is not None:
            return "as a choice between records, record by record or in rounds"
        return "as compiled Python, record by record or in rounds"

    def _quickly(self, work: Work) -> Folded | None:
        """The same without arrays between one row and the next, where rounds would cost more."""
        compiled = self._compiled
        if compiled is None or not compiled.pays(work):
            return None
        return compiled.run(work, self.outlives, self.owner)

    @cached_property
    def _compiled(self) -> CompiledFold | None:
        return CompiledFold.of((self._how.add,), self._how, self.state)

    @property
    def _plain(self) -> bool:
        """Whether all functions are plain ones."""
        how = self._how
        return all(step is None or step.plain for step in (how.add, how.subtract, how.merge))

    def _called_for(self, work: Work) -> tuple[list[Any], list[Function]]:
        """The value of each row, and the adder that is called for it."""
        return python_values(work.values), [self._how.add.function] * len(work)

    def _summed(self, work: Work) -> Folded | None:
        """The same where the adder adds to the aggregate, and some group has more rows than rounds are good for."""
        addend = self._addend(work)
        if addend is None:
            return None
        try:
            terms = addend(work.keys.take(pa.array(work.group)), work.values, work.values)
        except EvaluationError:
            # which row it is for is said by rounds
            return None
        if terms.null_count or work.values.null_count:
            return None
        sums = self._sums(work, array_of(terms, self.state).to_numpy().copy())
        return None if sums is None else folded(work, [pa.array(sums)], self.state, np.arange(len(work)))

    def _summed_but(self, work: Work) -> Folded | None:
        """The same of the rows for which what is added can be computed."""
        addend = self._addend(work)
        if addend is None or not self._how.starts or work.ends is not None or work.values.null_count:
            return None
        given = work.keys.take(pa.array(work.group)), work.values, work.values
        fine, made, failed = survivors(lambda some: addend(*(each.take(pa.array(some)) for each in given)), len(work))
        terms = array_of(joined(made, self.state), self.state)
        if terms.null_count:
            return None
        # what is added to -0.0 stays as it is
        all_terms = np.full(len(work), -0.0 if pa.types.is_float64(self.state) else 0)
        all_terms[fine] = terms.to_numpy()
        sums = self._sums(work, all_terms)
        if sums is None:
            return None
        goes_on = np.zeros(len(work), dtype=np.bool_)
        goes_on[fine] = True
        stands = Groups(work.starts).any_before(goes_on, inclusive=True) | np.repeat(work.known, work.sizes)
        after = np.where(stands, np.arange(len(work)), -1)
        return folded(work, [pa.array(sums)], self.state, after, failed)

    def _addend(self, work: Work) -> Evaluated | None:
        function = self._how.add.function
        if work.olds is not None or work.sizes.max(initial=0) <= ROUNDS or not isinstance(function, Evaluated):
            return None
        addend = function.addend(function.operands[-1])
        return addend if pa.types.is_int64(self.state) or pa.types.is_float64(self.state) else None

    def _sums(self, work: Work, terms: np.ndarray) -> np.ndarray | None:
        groups = Groups(work.starts)
        # what is added to -0.0 stays as it is
        nothing = self._how.initial if self._how.starts else -0.0 if terms.dtype == np.float64 else 0
        begins = work.prior.fill_null(pa.scalar(nothing, self.state)).to_numpy()
        if not self._how.starts:
            begins_at = work.starts[:-1][~work.known]
            first = firsts(self._how, work.values.take(pa.array(begins_at)))
            terms[begins_at] = array_of(first, self.state).to_numpy()
        if terms.dtype == np.float64:
            return groups.running_sums(begins, terms)
        if np.abs(terms.astype(np.float64)).sum() + np.abs(begins.astype(np.float64)).max(initial=0) > SAFE:
            return None
        return np.asarray(np.repeat(begins, groups.sizes) + groups.running_counts(terms))

    def _one_by_one(self, work: Work, values: list[Any], adders: list[Function]) -> Folded:
        """The same by plain functions alone."""
        how = self._how
        subtract = None if how.subtract is None else how.subtract.function
        merge = None if how.merge is None else how.merge.function
        functions = PlainFunctions(subtract, merge, how.starts, how.initial, self._array, self.outlives, self.owner)
        keys, states = python_values(work.keys), python_values(work.prior)
        olds = [None] * len(work) if work.olds is None else python_values(work.olds)
        first = values if how.first is None else python_values(firsts(how, work.values))
        return row_by_row(work, functions, PlainArguments(keys, states, values, first, olds, adders))

    def _checked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a plain function, if it is of the aggregate's type."""
        given = function(*arguments)
        self._array([given])
        return given

    def _called(self, step: Step | None, *arguments: pa.Array) -> pa.Array:
        assert step is not None, "asked for when the topology was built"
        if not step.plain:
            return array_of(step.function(*arguments), self.state)
        try:
            return self._array(_row_by_row(step.function, *arguments))
        except Exception as error:
            if not self.outlives:
                if not isinstance(error, RAISED):
                    placed(error, self.owner)
                raise
            raise function_error(error) from error

    def _array(self, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, type=self.state)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
            raise not_of(self.state, error) from error


def _row_by_row(function: Callable[..., Any], *arguments: pa.Array) -> list[Any]:
    # a plain Python function is called record by record
    return [function(*row) for row in zip(*map(python_values, arguments), strict=True)]


class CogroupedFunctions(ArrayFold):
    """A fold of several streams: values are structs with a field for each, of which one is not null."""

    def __init__(self, how: folds.CogroupFold, state: pa.DataType) -> None:
        # whose adder is called is said by each value
        first = FunctionFold(how.adders[0], merge=how.merge, starts=True, initial=how.initial)
        super().__init__(first, state)
        self._adders = tuple(adder for step in how.adders if (adder := keeping(step, state)) is not None)

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        if states.null_count:
            states = pc.if_else(states.is_valid(), states, self.init(keys))
        for adder, field in zip(self._adders, values.flatten(), strict=True):
            rows = np.flatnonzero(valid(field))
            at = pa.array(rows)
            if len(rows):
                added = self._called(adder, *(each.take(at) for each in (keys, field, states)))
                states = replaced(states, rows, added)
        return states

    @property
    def _plain(self) -> bool:
        return all(step is None or step.plain for step in (*self._adders, self._how.merge))

    def _called_for(self, work: Work) -> tuple[list[Any], list[Function]]:
        values: list[Any] = [None] * len(work)
        adders: list[Function] = [self._adders[0].function] * len(work)
        for adder, field in zip(self._adders, work.values.flatten(), strict=True):
            # plain functions take plain values, one after the other
            for row, value in zip(np.flatnonzero(valid(field)).tolist(), python_values(field.drop_null()), strict=True):
                values[row], adders[row] = value, adder.function
        return values, adders

    def _addend(self, work: Work) -> Evaluated | None:
        # there is an adder for each stream
        return None

    @cached_property
    def _compiled(self) -> CompiledFold | None:
        return CompiledFold.of(self._adders, self._how, self.state)
