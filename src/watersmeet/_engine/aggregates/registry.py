"""Folds of aggregates by name: a struct of what each of them keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates import collections, extremes, sums, user_defined
from watersmeet._engine.aggregates.folds import ArrayFold, CogroupedFunctions, Folded, FoldKernel, Groups, Work, folded
from watersmeet._engine.aggregates.kernel import AggregateKernel, Kernel, KernelTypes
from watersmeet._engine.rows import Bools, gather, valid
from watersmeet._plan import folds
from watersmeet.aggregates.declaration import AnyAggregate

# The kernel of each aggregate, by the stem of its declaration.

KERNELS: dict[str, Kernel] = {
    "count": sums.count,
    "sum": sums.sums,
    "avg": sums.avg,
    "stddev": sums.stddev,
    "min": extremes.least,
    "max": extremes.most,
    "first": extremes.first,
    "last": extremes.last,
    "collect_list": collections.collect_list,
    "collect_set": collections.collect_set,
    "count_distinct": collections.count_distinct,
    "last_k": collections.last_k,
    "top_k": collections.top_k,
    "top_k_by": collections.top_by,
    "min_by": extremes.least_by,
    "max_by": extremes.most_by,
    "bool_and": extremes.of_all,
    "bool_or": extremes.of_any,
    "mode": collections.mode,
    "percentile": collections.percentile,
    "own": user_defined.user_aggregate,
    "kept": user_defined.as_stored,
}


def part_of(aggregate: AnyAggregate, types: KernelTypes) -> AggregateKernel:
    return KERNELS[aggregate.stem](aggregate, types)


class NamedFoldKernel(FoldKernel):
    """Aggregates by name, side by side.

    Parameters
    ----------
    how : which ones.
    state : a struct with what each keeps.
    result : a struct of results, or the one result.
    """

    def __init__(self, fold: folds.NamedFold, state: pa.DataType, result: pa.DataType) -> None:
        super().__init__(state, result)
        self._fold = fold
        self._rows = None if fold.rows is None else [name for name, _ in fold.fields].index(fold.rows)
        kinds = [result] if fold.alone else [field.type for field in result]
        self._parts: list[AggregateKernel] = [
            part_of(aggregate, KernelTypes(field.type, kind, fold.takes_back))
            for (_, aggregate), field, kind in zip(fold.fields, state, kinds, strict=True)
        ]
        self.grows = any(part.grows for part in self._parts)
        texts = {name: part.how_it_runs for (name, _), part in zip(fold.fields, self._parts, strict=True)}
        self.how_it_runs = ", ".join(f"{name} as {text}" for name, text in texts.items() if text is not None) or None

    def init(self, keys: pa.Array) -> pa.Array:
        return self._state([part.init(len(keys)) for part in self._parts], len(keys))

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        states = self._initialize(keys, states)
        parts = zip(self._parts, states.flatten(), self._arguments(values), strict=True)
        return self._state([part.add(state, value) for part, state, value in parts], len(states))

    def subtract(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        parts = zip(self._parts, states.flatten(), self._arguments(values), strict=True)
        return self._state([part.subtract(state, value) for part, state, value in parts], len(states))

    def merge(self, keys: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
        parts = zip(self._parts, left.flatten(), right.flatten(), strict=True)
        return self._state([part.merge(first, second) for part, first, second in parts], len(left))

    def run(self, work: Work) -> Folded:
        """Each part folds the whole batch at once."""
        groups, prior, adds = Groups(work.starts), work.prior, valid(work.values)
        present, columns = self._columns(work, groups, prior)
        presence = present | adds
        if self._rows is not None:
            part, *operands = columns[self._rows]
            presence &= part.run(groups, *operands).to_numpy() != 0
            # what comes into a group behind its last row begins anew
            starts = np.union1d(work.starts, np.flatnonzero(~presence) + 1)
            first = np.searchsorted(starts, work.starts[:-1])
            pointers = np.full(len(starts) - 1, -1)
            pointers[first] = np.arange(len(first))
            groups = Groups(starts)
            _, columns = self._columns(work, groups, gather(prior, pointers))
        states = self._state([part.run(groups, *operands) for part, *operands in columns], len(work))
        return folded(work, [states], self.state, np.where(presence, np.arange(len(work)), -1))

    def _columns(self, work: Work, groups: Groups, prior: pa.Array) -> tuple[Bools, list[Any]]:
        """(whether there is an aggregate before each row, what each part folds: prior states, values, old values)."""
        present = np.repeat(valid(prior), groups.sizes) | groups.any_before(valid(work.values), inclusive=False)
        olds = [None] * len(self._parts)
        if work.olds is not None:
            # what is taken from an absent aggregate is as if it had not come
            olds = self._arguments(gather(work.olds, np.where(present, np.arange(len(work)), -1)))
        states = self._initialize(prior, prior).flatten()
        return present, list(zip(self._parts, states, self._arguments(work.values), olds, strict=True))

    def finish(self, states: pa.Array) -> pa.Array:
        absent = None if not states.null_count else states.is_null()
        parts = [part.finish(state) for part, state in zip(self._parts, states.flatten(), strict=True)]
        if self._fold.alone:
            return parts[0].cast(self.result)
        parts = [part.cast(field.type) for part, field in zip(parts, self.result, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(self.result), mask=absent)

    def _initialize(self, keys: pa.Array, states: pa.Array) -> pa.Array:
        return pc.if_else(states.is_valid(), states, self.init(keys)) if states.null_count else states

    def _arguments(self, values: pa.Array) -> list[pa.Array]:
        if not self._fold.arguments:
            return [values] * len(self._parts)
        return [part.given(value) for part, value in zip(self._parts, values.flatten(), strict=True)]

    def _state(self, parts: list[pa.Array], count: int) -> pa.Array:
        arrays = [part.cast(field.type) for part, field in zip(parts, self.state, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(self.state), mask=pa.array(np.zeros(count, dtype=bool)))


# The fold of a plan as the engine runs it.


def fold_of(fold: folds.Fold, owner: str = "", *, tolerates_errors: bool = False) -> FoldKernel:
    """The fold, with types of Arrow.

    Parameters
    ----------
    owner : name of the operator, as errors say it.
    tolerates_errors : whether a record for which a function raises changes nothing. Not where values are taken back,
        too: that of such a record would be taken from what never had it.
    """
    kernel = _fold_of(fold)
    kernel.owner = owner
    kernel.tolerates_errors = tolerates_errors and not fold.how.takes_back
    return kernel


def _fold_of(fold: folds.Fold) -> FoldKernel:
    if isinstance(fold.how, folds.FunctionFold):
        return ArrayFold(fold.how, fold.state)
    if isinstance(fold.how, folds.CogroupFold):
        return CogroupedFunctions(fold.how, fold.state)
    return NamedFoldKernel(fold.how, fold.state, fold.result)


def how_it_runs(fold: folds.Fold) -> str | None:
    """How a fold of functions is evaluated, as `describe` says it; None of aggregates by name."""
    return _fold_of(fold).how_it_runs
