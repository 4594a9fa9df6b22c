"""The functions of a fold as plain Python, called a record at a time.

Parts of an adder that read the record alone and cannot fail are evaluated before, for all records at once, by the
kernels: so a function without a form may stand there. Its part with the aggregate is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from watersmeet._engine.expressions.evaluate import RowsOfArrays
from watersmeet._engine.expressions.evaluated import Evaluated
from watersmeet._engine.expressions.modes import can_fail
from watersmeet._engine.expressions.plain_values import is_plain, plain
from watersmeet._engine.expressions.program import operands
from watersmeet._engine.expressions.scalars import logic, numbers, parts
from watersmeet._engine.expressions.scalars.writer import Form, FunctionWriter, NoForm, compiled
from watersmeet._engine.expressions.tree import Call, Expression, Operand, has_variables, type_of

FORMS: Mapping[str, Form] = {**logic.FORMS, **numbers.FORMS, **parts.FORMS}


class Before:
    """Parts of an expression that are evaluated for all rows before, and the names that they have in it."""

    def __init__(self, prefix: str, reads: Callable[[set[str]], bool]) -> None:
        self.parts: list[Expression] = []
        self._prefix = prefix
        self._reads = reads

    def holds(self, expression: Expression) -> bool:
        """Whether an expression is such a part."""
        read = set(operands(expression))
        if not read or has_variables(expression):
            return False
        return self._reads(read) and not can_fail(expression) and is_plain(type_of(expression))

    def named(self, part: Expression) -> Operand:
        """The name of a part."""
        if part not in self.parts:
            self.parts.append(part)
        return Operand(f"{self._prefix}{self.parts.index(part)}", type_of(part))

    def left_out(self, expression: Expression) -> Expression:
        """The expression with names in place of its largest parts of this kind."""
        if self.holds(expression):
            return self.named(expression)
        if isinstance(expression, Call):
            return replace(expression, arguments=tuple(map(self.left_out, expression.arguments)))
        return expression

    @property
    def names(self) -> list[str]:
        """The names of the parts, in their order."""
        return [f"{self._prefix}{number}" for number in range(len(self.parts))]


def values_of(parts: Sequence[Expression], columns: Mapping[str, pa.Array], count: int) -> list[list[Any]]:
    """The plain values of expressions, a list for each."""
    rows = RowsOfArrays(count, columns.__getitem__)
    return [plain(rows.evaluate(each)) for each in parts]


@dataclass(frozen=True)
class StepFunction:
    """A function of a fold, called a record at a time.

    Parameters
    ----------
    function : of (key, value, aggregate); value stands for a tuple of what is evaluated before.
    before : of key and value, by the names of `operands`.
    operands : names of key, value and aggregate.
    """

    function: Callable[[Any, Any, Any], Any]
    before: tuple[Expression, ...]
    operands: tuple[str, ...]

    def values(self, keys: pa.Array, values: pa.Array) -> list[Any]:
        """The arguments of the function for each row; None where the value is null.

        Parameters
        ----------
        keys, values : of each row.
        """
        columns = dict(zip(self.operands, (keys, values), strict=False))
        found = values_of(self.before, columns, len(values))
        rows: list[Any] = list(zip(*found, strict=True)) if found else [()] * len(values)
        if values.null_count:
            # these rows are plain already
            rows = [None if absent else row for absent, row in zip(values.is_null().to_pylist(), rows, strict=True)]
        return rows


def stepped(evaluated: Evaluated) -> StepFunction:
    """An adder or subtractor.

    Raises
    ------
    NoForm : it holds what has no form, and cannot be evaluated before.
    """
    aggregate = evaluated.operands[-1]
    before = Before("h", lambda read: aggregate not in read)
    left = before.left_out(evaluated.expression)
    writer = FunctionWriter(FORMS, {**{name: name for name in before.names}, aggregate: "aggregate"})
    if before.names:
        writer.line(f"({''.join(name + ', ' for name in before.names)}) = value")
    if set(operands(left)) - {*before.names, aggregate} or not is_plain(type_of(left)):
        raise NoForm("a value of this type")
    result = writer.value(left)
    return StepFunction(
        compiled(("key", "value", "aggregate"), writer, result), tuple(before.parts), evaluated.operands
    )


def of_values(evaluated: Evaluated) -> Callable[[Any, Any, Any], Any]:
    """A merger: all that it gets are plain values.

    Raises
    ------
    NoForm : it holds what has no form.
    """
    parameters = ("key", "one", "other")
    writer = FunctionWriter(FORMS, dict(zip(evaluated.operands, parameters, strict=True)))
    return compiled(parameters, writer, writer.value(evaluated.expression))
