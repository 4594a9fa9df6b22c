"""Expressions as functions of Arrow arrays, which can be sent to workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet._engine.expressions.evaluate import RowsOfArrays
from watersmeet._engine.expressions.program import operands
from watersmeet._engine.expressions.tree import Call, Expression, Operand, type_of


@dataclass(frozen=True)
class Evaluated:
    """An expression as a function of Arrow arrays.

    Parameters
    ----------
    expression : what it comes to.
    operands : names of the arguments in it.
    """

    expression: Expression
    operands: tuple[str, ...]

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        """The value of each row."""
        columns = dict(zip(self.operands, arrays, strict=True))
        return RowsOfArrays(len(arrays[0]), columns.__getitem__).evaluate(self.expression)

    def addend(self, operand: str) -> Evaluated | None:
        """The number that the function adds to this operand, if it does nothing else with it."""
        added = self.expression
        if not isinstance(added, Call) or added.function != "Add" or len(added.arguments) != 2:
            return None
        for one, other in (added.arguments, added.arguments[::-1]):
            mine = isinstance(one, Operand) and one.name == operand and operand not in operands(other)
            if mine and type_of(one) == type_of(other) == added.type:
                return replace(self, expression=other)
        return None
