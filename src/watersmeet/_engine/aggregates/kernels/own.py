"""A user's own aggregate: its functions of plain values, called record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.parts import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.rows.columns import gather, valid
from watersmeet._engine.rows.python_values import python_values, stored_value_of
from watersmeet.aggregates.own import Aggregate
from watersmeet.errors import FunctionError


def own(how: Aggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`."""
    return OwnKernel(how, kept)


def as_stored(how: Aggregate, kept: KernelTypes) -> AggregateKernel:
    """See `Kernel`: the state of an aggregate without its functions, which are in the user's program."""
    return AggregateKernel(kept.state)


class OwnKernel(AggregateKernel):
    """The states as arrays; in between they are what would be read back of them (law 1).

    A function may change a state that it gets: it gets one of its own.
    """

    how_it_runs = "plain Python, record by record"

    def __init__(self, how: Aggregate, kept: KernelTypes) -> None:
        super().__init__(kept.state)
        self.grows = not pa.types.is_primitive(kept.state)
        self._how, self._result = how, kept.result
        self._kept, self._shown = stored_value_of(kept.state), stored_value_of(kept.result)
        self._copied = self._kept if self.grows else _as_it_is

    def init(self, count: int) -> pa.Array:
        initial = self._called("init")
        if initial is None:
            raise FunctionError(
                f"{self._how.name}.init returns None: the state of a group without records must not be null.",
                hint="For example def init(self): return 0.",
            )
        return pa.repeat(pa.scalar(initial, self.state), count)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return self._each("add", kept, values)

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        return self._each("subtract", kept, values)

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        return self._each("merge", kept, other)

    def finish(self, kept: pa.Array) -> pa.Array:
        # a function of plain values is called record by record
        shown = [None if state is None else self._called("finish", state) for state in python_values(kept)]
        return pa.array(shown, self._result)

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        rows = zip(python_values(values), [None] * len(values) if olds is None else python_values(olds), strict=True)
        given, made = list(rows), []
        # a function of plain values is called record by record
        for state, begin, end in zip(python_values(kept), groups.starts[:-1], groups.starts[1:], strict=True):
            for value, old in given[begin:end]:
                if old is not None:
                    state = self._called("subtract", self._copied(state), old)
                if value is not None:
                    state = self._called("add", self._copied(state), value)
                made.append(state)
        return pa.array(made, self.state)

    def _each(self, name: str, kept: pa.Array, others: pa.Array) -> pa.Array:
        there = np.flatnonzero(valid(kept) & valid(others))
        at = pa.array(there)
        pairs = zip(python_values(kept.take(at)), python_values(others.take(at)), strict=True)
        made = pa.array([self._called(name, *pair) for pair in pairs], self.state)
        pointers = np.arange(len(kept), dtype=np.int64)
        pointers[there] = len(kept) + np.arange(len(there))
        return gather(pa.concat_arrays([kept, made]), pointers)

    def _called(self, name: str, *given: Any) -> Any:
        """The result of a user's function, as state would return it.

        Raises
        ------
        FunctionError : it raises, or gives what is not of the declared type.
        """
        owner = f"{self._how.name}.{name}"
        try:
            made = getattr(self._how, name)(*given)
        except Exception as error:
            raise FunctionError(
                f"{owner} raises {error!r:.200}.",
                given=f"for {', '.join(f'{each!r:.120}' for each in given) or 'nothing'}",
                hint="A record for which add raises can be left out: on_error='skip' of builder.policies(...).",
            ) from error
        declared, of = ("result", self._shown) if name == "finish" else ("state", self._kept)
        try:
            return of(made)
        except FunctionError:
            kind = self._result if name == "finish" else self.state
            raise FunctionError(
                f"{owner} returns {made!r:.120}, which is not of the type of {self._how.name}.{declared}: {kind}.",
                hint=f"Give a value of that type, or declare another one: {declared} = ... in the class.",
            ) from None


def _as_it_is(value: Any) -> Any:
    return value
