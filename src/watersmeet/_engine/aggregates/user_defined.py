"""A user's own aggregate: its functions of plain values, called record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.folds import Groups
from watersmeet._engine.aggregates.kernel import AggregateKernel, KernelTypes
from watersmeet._engine.rows import gather, python_values, stored_value_of, valid
from watersmeet.aggregates.user_defined import Aggregate
from watersmeet.errors import FunctionError


def user_aggregate(aggregate: Aggregate, types: KernelTypes) -> AggregateKernel:
    return OwnKernel(aggregate, types)


def as_stored(aggregate: Aggregate, types: KernelTypes) -> AggregateKernel:
    """See `Kernel`: the state of an aggregate without its functions, which are in the user's program."""
    return AggregateKernel(types.state)


class OwnKernel(AggregateKernel):
    """The states as arrays; in between they are what would be read back of them (law 1).

    A function may change a state that it gets: it gets one of its own.
    """

    how_it_runs = "plain Python, record by record"

    def __init__(self, aggregate: Aggregate, types: KernelTypes) -> None:
        super().__init__(types.state)
        self.grows = not pa.types.is_primitive(types.state)
        self._aggregate, self._result = aggregate, types.result
        self._to_state, self._to_result = stored_value_of(types.state), stored_value_of(types.result)
        self._copied = self._to_state if self.grows else _as_it_is

    def init(self, count: int) -> pa.Array:
        """What `init` of the user's class returns, once for each group."""
        initial = self._call("init")
        if initial is None:
            raise FunctionError(
                f"{self._aggregate.name}.init returns None: the state of a group without records must not be null.",
                hint="For example def init(self): return 0.",
            )
        return pa.repeat(pa.scalar(initial, self.state), count)

    def add(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return self._apply("add", states, values)

    def subtract(self, states: pa.Array, values: pa.Array) -> pa.Array:
        return self._apply("subtract", states, values)

    def merge(self, left: pa.Array, right: pa.Array) -> pa.Array:
        return self._apply("merge", left, right)

    def finish(self, states: pa.Array) -> pa.Array:
        # a function of plain values is called record by record
        results = [None if state is None else self._call("finish", state) for state in python_values(states)]
        return pa.array(results, self._result)

    def run(self, groups: Groups, states: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        rows = zip(python_values(values), [None] * len(values) if olds is None else python_values(olds), strict=True)
        pairs, results = list(rows), []
        # a function of plain values is called record by record
        for state, start, end in zip(python_values(states), groups.starts[:-1], groups.starts[1:], strict=True):
            for value, old in pairs[start:end]:
                if old is not None:
                    state = self._call("subtract", self._copied(state), old)
                if value is not None:
                    state = self._call("add", self._copied(state), value)
                results.append(state)
        return pa.array(results, self.state)

    def _apply(self, name: str, states: pa.Array, values: pa.Array) -> pa.Array:
        rows = np.flatnonzero(valid(states) & valid(values))
        at = pa.array(rows)
        pairs = zip(python_values(states.take(at)), python_values(values.take(at)), strict=True)
        results = pa.array([self._call(name, *pair) for pair in pairs], self.state)
        pointers = np.arange(len(states), dtype=np.int64)
        pointers[rows] = len(states) + np.arange(len(rows))
        return gather(pa.concat_arrays([states, results]), pointers)

    def _call(self, name: str, *arguments: Any) -> Any:
        """The result of a user's function, as state would return it."""
        owner = f"{self._aggregate.name}.{name}"
        try:
            result = getattr(self._aggregate, name)(*arguments)
        except Exception as error:
            raise FunctionError(
                f"{owner} raises {error!r:.200}.",
                given=f"for {', '.join(f'{argument!r:.120}' for argument in arguments) or 'nothing'}",
                hint="A record for which add raises can be left out: on_error='skip' of builder.policies(...).",
            ) from error
        declared, of = ("result", self._to_result) if name == "finish" else ("state", self._to_state)
        try:
            return of(result)
        except FunctionError as error:
            kind = self._result if name == "finish" else self.state
            raise FunctionError(
                f"{owner} returns {result!r:.120}, which is not of the type of "
                f"{self._aggregate.name}.{declared}: {kind}.",
                given=error.given,
                hint=f"Give a value of that type, or declare another one: {declared} = ... in the class.",
            ) from None


def _as_it_is(value: Any) -> Any:
    return value
