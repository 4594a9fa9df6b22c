"""Evaluates expressions over rows, and says of an expression why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from watersmeet._engine.expressions import casts, conditions, dates, nested, numbers, python_calls, regular, texts
from watersmeet._engine.expressions.python_calls import PLAIN
from watersmeet._engine.expressions.tree import (
    VARIABLE,
    Call,
    Expression,
    Kernel,
    KernelFamily,
    LazyKernel,
    Literal,
    Operand,
    all_valid,
    can_fail,
    mask_and,
    order_of,
    spread,
    type_of,
    variable_name,
)
from watersmeet._engine.rows import Bools, Int64s, with_nulls

FAMILIES: tuple[KernelFamily, ...] = (
    KernelFamily(numbers.ARITHMETIC_KERNELS, numbers.LAZY, numbers.fits_arithmetic),
    KernelFamily(casts.KERNELS, casts.LAZY, casts.fits),
    KernelFamily(conditions.COMPARISONS_KERNELS, conditions.COMPARISONS_LAZY, conditions.fits_comparisons),
    KernelFamily(conditions.CONDITIONS_KERNELS, conditions.CONDITIONS_LAZY, conditions.fits_conditions),
    KernelFamily(dates.DATES_KERNELS, dates.LAZY, dates.fits_dates),
    KernelFamily(texts.DIGESTS_KERNELS, texts.LAZY, texts.fits_digests),
    KernelFamily(texts.HASHES_KERNELS, texts.LAZY, texts.fits_hashes),
    KernelFamily(texts.LETTER_CASE_KERNELS, texts.LAZY, texts.fits_letter_case),
    KernelFamily(nested.LISTS_KERNELS, nested.LISTS_LAZY, nested.fits_lists),
    KernelFamily(dates.PATTERNS_KERNELS, dates.LAZY, dates.fits_patterns),
    KernelFamily(regular.REGULAR_KERNELS, regular.LAZY, regular.fits_regular),
    KernelFamily(numbers.ROUNDING_KERNELS, numbers.LAZY, numbers.fits_rounding),
    KernelFamily(regular.SEARCHES_KERNELS, regular.LAZY, regular.fits_searches),
    KernelFamily(nested.STRUCTS_KERNELS, nested.STRUCTS_LAZY, nested.fits_structs),
    KernelFamily(texts.TEXTS_KERNELS, texts.LAZY, texts.fits_texts),
    KernelFamily(python_calls.KERNELS, python_calls.LAZY, python_calls.fits),
    KernelFamily(nested.ELEMENTS_KERNELS, nested.ELEMENTS_LAZY, nested.fits_elements),
    KernelFamily(nested.MAPS_KERNELS, nested.MAPS_LAZY, nested.fits_maps),
    KernelFamily(nested.MEMBERS_KERNELS, nested.MEMBERS_LAZY, nested.fits_members),
    KernelFamily(nested.SETS_KERNELS, nested.SETS_LAZY, nested.fits_sets),
)

_FAMILY: dict[str, KernelFamily] = {name: family for family in FAMILIES for name in (*family.kernels, *family.lazy)}
_KERNELS: dict[str, Kernel] = {name: kernel for family in FAMILIES for name, kernel in family.kernels.items()}
_LAZY: dict[str, LazyKernel] = {name: kernel for family in FAMILIES for name, kernel in family.lazy.items()}


def unsupported(expression: Expression) -> str | None:
    """Why an expression cannot be evaluated here: the name of the function at fault, with its types; None if it can."""
    if not isinstance(expression, Call):
        return None
    family = _FAMILY.get(expression.function)
    if family is None:
        return expression.function
    if not family.fits(expression):
        kinds = ", ".join(str(type_of(argument)) for argument in expression.arguments)
        return f"{expression.function} of {kinds} to {expression.type}"
    # what a name stands for decides what may stand around it
    expansion = (conditions.expanded(expression),) if expression.function == "With" else ()
    return next(
        (reason for part in (*expression.arguments, *expansion) if (reason := unsupported(part)) is not None), None
    )


class RowsOfArrays:
    """See `tree.EvaluatedRows`.

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
        self._results: dict[Call, pa.Array] = {}

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
            if expression not in self._results:
                self._results[expression] = _KERNELS[PLAIN](expression, self._arguments(expression))
            return self._results[expression]
        lazy = _LAZY.get(expression.function)
        if lazy is not None:
            return lazy(expression, self)
        return _KERNELS[expression.function](expression, self._arguments(expression))

    def _arguments(self, call: Call) -> list[pa.Array]:
        """The arguments of a kernel; one that can fail is evaluated only for the rows for which Spark would."""
        order = order_of(call)
        if order is None or not any(can_fail(call.arguments[at]) for at in order[1:]):
            return [self.evaluate(argument) for argument in call.arguments]
        values: dict[int, pa.Array] = {}
        present: Bools | None = None
        for at in order:
            argument = call.arguments[at]
            if present is None or present.all() or not can_fail(argument):
                values[at] = self.evaluate(argument)
            else:
                values[at] = spread(self.where(present).evaluate(argument), present)
            present = mask_and(present, all_valid(values[at]))
        return [values[at] for at in range(len(values))]

    def where(self, mask: Bools) -> RowsOfArrays:
        """The rows for which the mask is true."""
        count = int(mask.sum())
        if count == self._length:
            return self
        selection = pa.array(mask)
        variables = {name: values.filter(selection) for name, values in self._variables.items()}
        rows = RowsOfArrays(count, lambda name: self._operand(name).filter(selection), variables)
        rows._results = {call: values.filter(selection) for call, values in self._results.items()}
        return rows

    def of_elements(self, rows: Int64s, variables: Mapping[str, pa.Array]) -> RowsOfArrays:
        places = pa.array(rows)
        bindings = {name: values.take(places) for name, values in self._variables.items()}
        return RowsOfArrays(len(rows), lambda name: self._operand(name).take(places), {**bindings, **variables})

    def _operand(self, name: str) -> pa.Array:
        if name not in self._operands:
            column = self._column(name)
            kind = with_nulls(column.type)
            self._operands[name] = column if column.type == kind else column.cast(kind)
        return self._operands[name]
