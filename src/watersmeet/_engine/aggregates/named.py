"""Folds of aggregates by name: a struct of what each of them keeps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates.fold import Folded, FoldKernel, Work, folded
from watersmeet._engine.aggregates.kinds import part_of
from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.rows.columns import gather, valid
from watersmeet._plan import folds


class NamedFoldKernel(FoldKernel):
    """Aggregates by name, side by side.

    Parameters
    ----------
    how : which ones.
    state : a struct with what each keeps.
    result : a struct of results, or the one result.
    """

    def __init__(self, how: folds.NamedFold, state: pa.DataType, result: pa.DataType) -> None:
        super().__init__(state, result)
        self._how = how
        shown = [result] if how.alone else [field.type for field in result]
        self._parts: list[AggregateKernel] = [
            part_of(aggregate, KernelTypes(kept.type, kind, how.takes_back))
            for (_, aggregate), kept, kind in zip(how.fields, state, shown, strict=True)
        ]
        self.grows = any(part.grows for part in self._parts)
        said = {name: part.how_it_runs for (name, _), part in zip(how.fields, self._parts, strict=True)}
        self.how_it_runs = ", ".join(f"{name} as {how}" for name, how in said.items() if how is not None) or None

    def init(self, keys: pa.Array) -> pa.Array:
        return self._state([part.init(len(keys)) for part in self._parts], len(keys))

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        states = self._begun(keys, states)
        parts = zip(self._parts, states.flatten(), self._arguments(values), strict=True)
        return self._state([part.add(kept, value) for part, kept, value in parts], len(states))

    def subtract(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        parts = zip(self._parts, states.flatten(), self._arguments(values), strict=True)
        return self._state([part.subtract(kept, value) for part, kept, value in parts], len(states))

    def merge(self, keys: pa.Array, states: pa.Array, others: pa.Array) -> pa.Array:
        parts = zip(self._parts, states.flatten(), others.flatten(), strict=True)
        return self._state([part.merge(one, other) for part, one, other in parts], len(states))

    def run(self, work: Work) -> Folded:
        groups = Groups(work.starts)
        adds = valid(work.values)
        known = np.repeat(work.known, work.sizes)
        stands = known | groups.any_before(adds, inclusive=False)
        prior = (
            pc.if_else(work.prior.is_valid(), work.prior, self.init(work.keys)) if work.prior.null_count else work.prior
        )
        olds = [None] * len(self._parts)
        if work.olds is not None:
            # what is taken from an absent aggregate is as if it had not come
            olds = self._arguments(gather(work.olds, np.where(stands, np.arange(len(work)), -1)))
        columns = zip(self._parts, prior.flatten(), self._arguments(work.values), olds, strict=True)
        states = self._state([part.run(groups, kept, value, old) for part, kept, value, old in columns], len(work))
        return folded(work, [states], self.state, np.where(stands | adds, np.arange(len(work)), -1))

    def finish(self, states: pa.Array) -> pa.Array:
        absent = None if not states.null_count else states.is_null()
        parts = [part.finish(kept) for part, kept in zip(self._parts, states.flatten(), strict=True)]
        if self._how.alone:
            return parts[0].cast(self.result)
        parts = [part.cast(field.type) for part, field in zip(parts, self.result, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(self.result), mask=absent)

    def _begun(self, keys: pa.Array, states: pa.Array) -> pa.Array:
        return pc.if_else(states.is_valid(), states, self.init(keys)) if states.null_count else states

    def _arguments(self, values: pa.Array) -> list[pa.Array]:
        if not self._how.arguments:
            return [values] * len(self._parts)
        return [part.given(value) for part, value in zip(self._parts, values.flatten(), strict=True)]

    def _state(self, parts: list[pa.Array], count: int) -> pa.Array:
        arrays = [part.cast(field.type) for part, field in zip(parts, self.state, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(self.state), mask=pa.array(np.zeros(count, dtype=bool)))
