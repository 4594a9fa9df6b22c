"""Folds of Columns without rounds: their functions as plain Python, or as choices among the aggregates that there are.

Rounds cost by the round, and a hot key makes as many as it has rows; rows cost by the row. The batch's rows decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.fold import Folded, Work, standing
from watersmeet._engine.aggregates.plain.row_by_row import Function, PlainArguments, PlainFunctions, row_by_row
from watersmeet._engine.expressions.evaluate import RowsOfArrays
from watersmeet._engine.expressions.evaluated import Evaluated
from watersmeet._engine.expressions.plain_values import array, is_plain, plain
from watersmeet._engine.expressions.scalars.choices import Choice, choice
from watersmeet._engine.expressions.scalars.steps import StepFunction, of_values, stepped, values_of
from watersmeet._engine.expressions.scalars.writer import NoForm
from watersmeet._engine.expressions.tree import Call, Expression, Operand
from watersmeet._engine.rows.columns import valid
from watersmeet._plan.folds import FunctionFold, Step

_ROUND, _CALL = 20.0, 12.0
"""Microseconds of a round, and of each call of a function in it."""
_ROW, _ROW_CALL = 0.7, 0.12
"""Microseconds of a row by itself, and of each function that is written of it."""
_ROW_OF_ROUND = 0.05
"""Microseconds of each function for a row among others."""


@dataclass(frozen=True)
class CompiledFold:
    """A fold of Columns that can be written as plain Python functions.

    Parameters
    ----------
    adders : of each stream.
    subtract, merge : see `FunctionFold`.
    initial : an array of the initial value; None where the first value is taken as it is.
    how : the functions as they are declared.
    state : Arrow type of the aggregate.
    chosen : the adder as a choice, if it is one.
    calls : of functions in an adder.
    """

    adders: tuple[StepFunction, ...]
    subtract: StepFunction | None
    merge: Function | None
    initial: pa.Array | None
    how: FunctionFold
    state: pa.DataType
    chosen: Choice | None
    calls: int

    @classmethod
    def of(cls, adders: Sequence[Step], how: FunctionFold, state: pa.DataType) -> CompiledFold | None:
        """The fold; None where a function has no plain form."""
        if not is_plain(state):
            return None
        try:
            given = [_columns(each) for each in adders]
            made = tuple(map(stepped, given))
            subtract = None if how.subtract is None else stepped(_columns(how.subtract))
            merge = None if how.merge is None else of_values(_columns(how.merge))
        except NoForm:
            return None
        initial = pa.array([how.initial], state) if how.starts else None
        chosen = choice(given[0]) if len(made) == 1 and subtract is None else None
        calls = max(_calls(each.expression) for each in given)
        return cls(made, subtract, merge, initial, how, state, chosen, calls)

    def pays(self, work: Work) -> bool:
        """Whether rows by themselves cost less than rounds."""
        rounds = int(work.sizes.max(initial=0)) * (_ROUND + _CALL * self.calls)
        rounds += len(work) * _ROW_OF_ROUND * self.calls
        return len(work) * (_ROW + _ROW_CALL * self.calls) < rounds

    def run(self, work: Work, outlives: bool, owner: str) -> Folded:
        """All rows folded but those that end, and those for which a function raises where that is outlived.

        Raises
        ------
        EvaluationError : a function raises, and that is not to be outlived.
        """
        keys = work.keys.take(pa.array(work.group))
        if self.chosen is not None and work.resumes is None:
            begins = firsts(self.how, work.values) if self.initial is None else self.initial
            return _chosen(work, keys, self.chosen, begins, starts=self.initial is not None)
        how = PlainFunctions(
            None if self.subtract is None else self.subtract.function,
            self.merge,
            self.initial is not None,
            None if self.initial is None else plain(self.initial)[0],
            lambda made: array(made, self.state),
            outlives,
            owner,
        )
        olds: Sequence[Any] = [None] * len(work)
        if self.subtract is not None and work.olds is not None:
            olds = self.subtract.values(keys, work.olds)
        values, adders = self._added(keys, work.values)
        first = values if how.starts else plain(firsts(self.how, work.values))
        return row_by_row(work, how, PlainArguments(plain(work.keys), plain(work.prior), values, first, olds, adders))

    def _added(self, keys: pa.Array, values: pa.Array) -> tuple[list[Any], list[Function]]:
        """The value added for each row, and the function that adds it."""
        if len(self.adders) == 1:
            (adder,) = self.adders
            return adder.values(keys, values), [adder.function] * len(values)
        found: list[Any] = [None] * len(values)
        adders: list[Function] = [self.adders[0].function] * len(values)
        for adder, field in zip(self.adders, values.flatten(), strict=True):
            rows = np.flatnonzero(valid(field))
            at = pa.array(rows)
            # plain functions take plain values, one after the other
            for row, value in zip(rows.tolist(), adder.values(keys.take(at), field.take(at)), strict=True):
                found[row], adders[row] = value, adder.function
        return found, adders


def firsts(how: FunctionFold, values: pa.Array) -> pa.Array:
    """The part of values that is taken as the aggregate where there is none, and no initial value."""
    return values if how.first is None else pc.struct_field(values, how.first)


def _columns(step: Step) -> Evaluated:
    if not isinstance(step.function, Evaluated):
        raise NoForm("a function that is no expression")
    return step.function


def _calls(expression: Expression) -> int:
    return 1 + sum(map(_calls, expression.arguments)) if isinstance(expression, Call) else 0


def _chosen(work: Work, keys: pa.Array, how: Choice, begins: pa.Array, *, starts: bool) -> Folded:
    """All rows folded, by the numbers of the aggregates among all that there are or may be.

    Parameters
    ----------
    begins, starts : the initial value, if there is one; else what is taken as it is of each row.
    """
    columns = dict(zip(how.operands, (keys, work.values), strict=False))
    rows = RowsOfArrays(len(work), columns.__getitem__)
    kinds = [work.prior, begins]
    first = len(work.prior)
    numbers, is_there = [], []
    for each in how.candidates:
        made = rows.evaluate(each)
        is_there.append(valid(made).tolist())
        if begins is work.values and isinstance(each, Operand):
            # the values stand among the aggregates already
            numbers.append(first)
        else:
            numbers.append(sum(map(len, kinds)))
            kinds.append(made)
    # what a choice looks at is evaluated of all that may become an aggregate
    looks = [values_of(how.looked, {how.operands[-1]: each}, len(each)) for each in kinds]
    looked = [list(chain.from_iterable(parts)) for parts in zip(*looks, strict=True)]
    step = how.make(*looked, *values_of(how.before, columns, len(work)), *is_there, *numbers)
    after = _walked(work, step, first, starts=starts)
    return standing(work, pa.chunked_array(kinds, work.prior.type), np.asarray(after, dtype=np.int64))


def _walked(work: Work, step: Callable[[int, int], int], first: int, *, starts: bool) -> list[int]:
    """The number of the aggregate after each row.

    Parameters
    ----------
    first : the number of the initial value, or of the value of the first row.
    """
    after: list[int] = []
    skipped = ~valid(work.values) if work.ends is None else ~valid(work.values) | work.ends
    skips = skipped.tolist() if skipped.any() else None
    bounds = work.starts.tolist()
    # a choice is made record by record, of numbers alone
    for group, known in enumerate(work.known.tolist()):
        number = group if known else -1
        for row in range(bounds[group], bounds[group + 1]):
            if skips is None or not skips[row]:
                number = step(row, number) if number >= 0 else step(row, first) if starts else first + row
            after.append(number)
    return after
