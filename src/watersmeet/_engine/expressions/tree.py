"""Expressions: what users' functions come to, as trees that Arrow evaluates (`evaluate`).

A `Call` bears the name of Spark's expression class and its parameters; types are Arrow's, with all fields, elements and
values nullable (`rows.types.with_nulls`) and timestamps in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Literal:
    """A constant."""

    value: pa.Scalar


@dataclass(frozen=True)
class Operand:
    """An argument of the function: a column of the rows, by its name."""

    name: str
    type: pa.DataType


@dataclass(frozen=True)
class Call:
    """A function of expressions.

    Parameters
    ----------
    function : simple name of Spark's expression class: Add, Cast, CaseWhen, GetStructField, ...
    arguments : the children, in Spark's order: of CaseWhen condition, value, condition, value, ..., and what is else.
    type : of the result.
    ansi : whether what cannot be computed is an error (`EvaluationError`), rather than null or another value.
    options : the other parameters of Spark's class as (name, text), with true and false for booleans.
    called : of a call of a plain Python function, the function (`plain_calls`).
    """

    function: str
    arguments: tuple[Expression, ...]
    type: pa.DataType
    ansi: bool = True
    options: tuple[tuple[str, str], ...] = ()
    called: Any = None

    def option(self, name: str) -> str | None:
        """The text of an option; None where there is none of that name."""
        return dict(self.options).get(name)


Expression = Literal | Operand | Call
VARIABLE = "NamedLambdaVariable"
"""A call without arguments that stands for an argument of the function of elements around it (`LambdaFunction`)."""


def variable_name(variable: Call) -> str:
    """The name of a variable, which no other of the expression has."""
    return str(variable.option("id"))


def has_variables(expression: Expression) -> bool:
    """Whether an expression has a value within a function of elements alone."""
    return bool(_free(expression))


def _free(expression: Expression) -> frozenset[str]:
    if not isinstance(expression, Call):
        return frozenset()
    if expression.function == VARIABLE:
        return frozenset({variable_name(expression)})
    found = frozenset[str]().union(*map(_free, expression.arguments))
    if expression.function != "LambdaFunction":
        return found
    return found.difference(variable_name(each) for each in expression.arguments[1:] if isinstance(each, Call))


def type_of(expression: Expression) -> pa.DataType:
    """Type of what an expression gives."""
    return expression.value.type if isinstance(expression, Literal) else expression.type
