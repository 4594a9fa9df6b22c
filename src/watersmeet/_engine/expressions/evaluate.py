"""Evaluates expressions over rows, and says of an expression why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.expressions.functions import (
    arithmetic,
    calls,
    casts,
    comparisons,
    conditions,
    dates,
    digests,
    hashes,
    letter_case,
    lists,
    patterns,
    regular,
    rounding,
    searches,
    structs,
    texts,
)
from watersmeet._engine.expressions.functions.sequences import elements, maps, members, sets
from watersmeet._engine.expressions.kernel import Kernel, KernelModule, LazyKernel
from watersmeet._engine.expressions.modes import can_fail, order_of
from watersmeet._engine.expressions.plain_calls import PLAIN
from watersmeet._engine.expressions.tree import VARIABLE, Call, Expression, Literal, Operand, type_of, variable_name
from watersmeet._engine.expressions.vectors import all_valid, both, spread
from watersmeet._engine.rows.types import with_nulls

MODULES: tuple[KernelModule, ...] = (
    arithmetic,
    casts,
    comparisons,
    conditions,
    dates,
    digests,
    hashes,
    letter_case,
    lists,
    patterns,
    regular,
    rounding,
    searches,
    structs,
    texts,
    calls,
    elements,
    maps,
    members,
    sets,
)

_MODULE: dict[str, KernelModule] = {name: m for m in MODULES for name in (*m.KERNELS, *m.LAZY)}
_KERNELS: dict[str, Kernel] = {name: kernel for m in MODULES for name, kernel in m.KERNELS.items()}
_LAZY: dict[str, LazyKernel] = {name: kernel for m in MODULES for name, kernel in m.LAZY.items()}


def unsupported(expression: Expression) -> str | None:
    """Why an expression cannot be evaluated here: the name of the function at fault, with its types; None if it can."""
    if not isinstance(expression, Call):
        return None
    module = _MODULE.get(expression.function)
    if module is None:
        return expression.function
    if not module.fits(expression):
        kinds = ", ".join(str(type_of(each)) for each in expression.arguments)
        return f"{expression.function} of {kinds} to {expression.type}"
    # what a name stands for decides what may stand around it
    whole = (conditions.expanded(expression),) if expression.function == "With" else ()
    return next((why for each in (*expression.arguments, *whole) if (why := unsupported(each)) is not None), None)


class RowsOfArrays:
    """See `kernel.Rows`.

    Parameters
    ----------
    length : how many they are.
    operand : gives the column of a name.
    variables : by their names, the arguments of the functions of elements that these rows are evaluated in.
    """

    def __init__(
        self, length: int, operand: Callable[[str], pa.Array], variables: Mapping[str, pa.Array] | None = None
    ) -> None:
        self._length = length
        self._column = operand
        self._operands: dict[str, pa.Array] = {}
        self._variables = variables or {}
        self._called: dict[Call, pa.Array] = {}

    def __len__(self) -> int:
        return self._length

    def evaluate(self, expression: Expression) -> pa.Array:
        """The value of each row."""
        if isinstance(expression, Operand):
            return self._operand(expression.name)
        if isinstance(expression, Literal):
            # Arrow repeats a list at least once
            return pa.repeat(expression.value, max(self._length, 1))[: self._length]
        if expression.function == VARIABLE:
            return self._variables[variable_name(expression)]
        if expression.function == PLAIN:
            # it is asked for its value and for its error, and called once
            if expression not in self._called:
                self._called[expression] = _KERNELS[PLAIN](expression, self._arguments(expression))
            return self._called[expression]
        lazy = _LAZY.get(expression.function)
        if lazy is not None:
            return lazy(expression, self)
        return _KERNELS[expression.function](expression, self._arguments(expression))

    def _arguments(self, call: Call) -> list[pa.Array]:
        """The arguments of a kernel; one that can fail is evaluated only for the rows for which Spark would."""
        order = order_of(call)
        if order is None or not any(can_fail(call.arguments[at]) for at in order[1:]):
            return [self.evaluate(each) for each in call.arguments]
        found: dict[int, pa.Array] = {}
        there: Bools | None = None
        for at in order:
            each = call.arguments[at]
            if there is None or there.all() or not can_fail(each):
                found[at] = self.evaluate(each)
            else:
                found[at] = spread(self.where(there).evaluate(each), there)
            there = both(there, all_valid(found[at]))
        return [found[at] for at in range(len(found))]

    def where(self, mask: Bools) -> RowsOfArrays:
        """The rows for which the mask is true."""
        count = int(mask.sum())
        if count == self._length:
            return self
        chosen = pa.array(mask)
        variables = {name: values.filter(chosen) for name, values in self._variables.items()}
        rows = RowsOfArrays(count, lambda name: self._operand(name).filter(chosen), variables)
        rows._called = {call: values.filter(chosen) for call, values in self._called.items()}
        return rows

    def of_elements(self, rows: Int64s, variables: Mapping[str, pa.Array]) -> RowsOfArrays:
        """See `kernel.Rows`."""
        places = pa.array(rows)
        given = {name: values.take(places) for name, values in self._variables.items()}
        return RowsOfArrays(len(rows), lambda name: self._operand(name).take(places), {**given, **variables})

    def _operand(self, name: str) -> pa.Array:
        if name not in self._operands:
            column = self._column(name)
            kind = with_nulls(column.type)
            self._operands[name] = column if column.type == kind else column.cast(kind)
        return self._operands[name]
