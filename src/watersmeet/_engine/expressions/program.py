"""Programs: the columns that a stage makes of its rows, layer by layer.

Each layer's columns are made of those of the layers before it, as Spark's projections are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.evaluate import RowsOfArrays
from watersmeet._engine.expressions.explosion import exploded, explodes
from watersmeet._engine.expressions.tree import Call, Expression, Operand
from watersmeet._engine.rows.columns import array, ints
from watersmeet._engine.rows.halves import failing
from watersmeet._engine.rows.topic_slots import record_place

T = TypeVar("T")
Columns = tuple[tuple[str, Expression], ...]
"""Columns by name, and what they are made by."""
GIVEN = "row:given"
"""Column of rows that lists are made of: the number of the row that each was made of."""


@dataclass(frozen=True)
class Program:
    """The result of a program for rows.

    Parameters
    ----------
    layers : columns that are added, or put in the place of others, layer after layer.
    owner : what the functions stand behind, as an error names it.
    gone : columns that nothing reads behind the last layer that makes rows of lists.
    """

    layers: tuple[Columns, ...] = ()
    owner: str = ""
    gone: frozenset[str] = frozenset()

    @property
    def idle(self) -> bool:
        """Whether it makes no columns."""
        return not self.layers

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of columns that it reads; its own may be among them."""
        every = (expression for layer in self.layers for _, expression in layer)
        return tuple(dict.fromkeys(name for expression in every for name in operands(expression)))

    @property
    def explodes(self) -> bool:
        """Whether it makes several rows of one."""
        return any(map(explodes, self.layers))

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows with the columns of all layers.

        Raises
        ------
        EvaluationError : a value cannot be computed; the error names the record.
        TooManyRows : the rows should be given in parts.
        """
        whole = len(rows) <= 1
        if self.explodes:
            rows = rows.append_column(GIVEN, pa.array(np.arange(len(rows))))
        for number, layer in enumerate(self.layers):
            try:
                rows = self._made(rows, number, whole=whole)
            except EvaluationError as error:
                at = _place(rows.slice(_first_failing(rows, layer), 1))
                said = f"{error.message} In a function behind {self.owner}{at}."
                raise EvaluationError(error.condition, said) from None
        return rows

    def failing(self, rows: pa.Table) -> dict[int, EvaluationError]:
        """The rows that a value cannot be computed for, and why."""

        def compute(begin: int, end: int) -> None:
            part = rows.slice(begin, end - begin)
            for number in range(len(self.layers)):
                part = self._made(part, number, whole=end - begin <= 1)

        return failing(compute, len(rows), EvaluationError)

    def given(self, made: pa.Table, errors: Mapping[int, Exception]) -> dict[int, Exception]:
        """Errors by the numbers of the rows that the program was given, in place of those that it has made."""
        if not self.explodes:
            return dict(errors)
        rows = ints(made, GIVEN)
        # of several errors of a row the first is told
        return {int(rows[row]): errors[row] for row in sorted(errors, reverse=True)}

    def _made(self, rows: pa.Table, number: int, *, whole: bool) -> pa.Table:
        """The rows with the columns of a layer, or a row for each element of a list."""
        layer = self.layers[number]
        return exploded(rows, layer, self._gone(number), whole=whole) if explodes(layer) else _with(rows, layer)

    def _gone(self, number: int) -> frozenset[str]:
        return frozenset() if any(map(explodes, self.layers[number + 1 :])) else self.gone


def _with(rows: pa.Table, layer: Columns) -> pa.Table:
    given = RowsOfArrays(len(rows), lambda name: array(rows, name))
    made = rows
    for name, expression in layer:
        at = made.schema.get_field_index(name)
        column = given.evaluate(expression)
        made = made.set_column(at, name, column) if at >= 0 else made.append_column(name, column)
    return made


def _first_failing(rows: pa.Table, layer: Columns) -> int:
    """The number of the first row that a value cannot be computed for, where there is one."""
    fine, failing = 0, len(rows)
    while failing - fine > 1:
        middle = (fine + failing) // 2
        try:
            _with(rows.slice(0, middle), layer)
            fine = middle
        except EvaluationError:
            failing = middle
    return fine


def _place(row: pa.Table) -> str:
    """The place of the record that caused a row, as far as the row tells."""
    names = set(row.column_names)
    if not len(row) or "offset" not in names or names.isdisjoint(("srcpart", "partition")):
        return ""
    return f", at {record_place(row, 0)}"


def needed(layers: Sequence[tuple[tuple[str, T], ...]], names: Sequence[str]) -> tuple[tuple[tuple[str, T], ...], ...]:
    """The parts of the layers that these columns need."""
    wanted = set(names)
    kept: list[tuple[tuple[str, T], ...]] = []
    for layer in reversed(layers):
        mine = tuple((name, expression) for name, expression in layer if name in wanted)
        wanted = wanted.difference(name for name, _ in mine)
        wanted.update(name for _, expression in mine for name in operands(expression))
        kept += [mine] if mine else []
    return tuple(reversed(kept))


def operands(expression: object) -> Iterator[str]:
    """Names of the columns that an expression reads; what is none reads nothing."""
    if isinstance(expression, Operand):
        yield expression.name
    elif isinstance(expression, Call):
        for each in expression.arguments:
            yield from operands(each)
