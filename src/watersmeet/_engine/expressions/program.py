"""Programs: the columns that a stage makes of its rows, layer by layer.

Each layer's columns are made of those of the layers before it, as Spark's projections are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np
import pyarrow as pa

from watersmeet._engine.expressions.evaluate import RowsOfArrays
from watersmeet._engine.expressions.tree import (
    Call,
    EvaluationError,
    Expression,
    Literal,
    Operand,
    can_fail,
    fixed_array,
    shaped,
    type_of,
)
from watersmeet._engine.rows import array, failing, gather, ints, record_place, valid, with_nulls

# The layer of a program that makes rows of lists, as Spark's `posexplode_outer` does.
#
# Its columns are calls of `PosExplode` on one and the same column: the place of each element, and the element. All
# other columns are repeated.

EXPLODES = "PosExplode"
PART = "part"
"""Option of a call: which of the parts `PLACE` and `ELEMENT` it gives."""
PLACE, ELEMENT = "pos", "col"
MOST_ROWS = 1 << 20
"""That are made of several rows at once (law 9)."""
Layer = Sequence[tuple[str, Expression]]


class TooManyRows(Exception):
    """More rows would be made at once than memory is for.

    Parameters
    ----------
    parts : into how many the rows should be cut.
    """

    def __init__(self, parts: int) -> None:
        self.parts = parts
        super().__init__(parts)

    def slices(self, rows: pa.Table) -> Iterator[pa.Table]:
        size = -(-len(rows) // min(self.parts, len(rows)))
        yield from (rows.slice(at, size) for at in range(0, len(rows), size))


def explodes(layer: Layer) -> bool:
    return any(isinstance(expression, Call) and expression.function == EXPLODES for _, expression in layer)


def exploded(rows: pa.Table, layer: Layer, unused: Collection[str], *, single: bool = False) -> pa.Table:
    """A row for each element; a row without elements stays one, with null as place and element.

    Parameters
    ----------
    unused : columns that nothing reads behind this: these are not repeated.
    single : whether they are of one record, which cannot be cut.
    """
    calls = {name: expression for name, expression in layer if isinstance(expression, Call)}
    (name,) = {argument.name for call in calls.values() for argument in call.arguments if isinstance(argument, Operand)}
    lists = array(rows, name)
    offsets = np.asarray(lists.offsets.to_numpy(zero_copy_only=False), dtype=np.int64)
    lengths = np.where(valid(lists), np.diff(offsets), 0)
    repeated = np.maximum(lengths, 1)
    if repeated.sum() > MOST_ROWS and not single:
        raise TooManyRows(int(repeated.sum() // MOST_ROWS) + 1)
    row = np.repeat(np.arange(len(rows)), repeated)
    place = np.arange(len(row)) - np.repeat(np.cumsum(repeated) - repeated, repeated)
    validity = lengths[row] > 0
    result = rows.drop_columns(
        [column_name for column_name in rows.column_names if column_name in unused and column_name not in calls]
    )
    result = result.take(pa.array(row))
    elements = np.where(validity, offsets[:-1][row] + place, -1)
    for output, call in calls.items():
        if call.option(PART) == PLACE:
            column = fixed_array(place.astype(np.int32), validity, pa.int32())
        else:
            column = shaped(gather(lists.values, elements), with_nulls(call.type))
        result = result.append_column(output, column)
    return result


T = TypeVar("T")
Columns = tuple[tuple[str, Expression], ...]
"""Columns by name, and what they are made by."""
GIVEN = "row:given"
"""Column of rows that lists are made of: the number of the row that each was made of."""


@dataclass(frozen=True)
class Program:
    """The result of a program for rows."""

    layers: tuple[Columns, ...] = ()  # columns that are added, or put in the place of others, layer after layer
    owner: str = ""  # what the functions stand behind, as an error names it
    gone: frozenset[str] = frozenset()  # columns that nothing reads behind the last layer that makes rows of lists

    @property
    def idle(self) -> bool:
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
        """The rows with the columns of all layers."""
        single = len(rows) <= 1
        if self.explodes:
            rows = rows.append_column(GIVEN, pa.array(np.arange(len(rows))))
        for number, layer in enumerate(self.layers):
            try:
                rows = self._apply(rows, number, single=single)
            except EvaluationError as error:
                at = _place(rows.slice(_first_failing(rows, layer), 1))
                message = f"{error.message} In a function behind {self.owner}{at}."
                raise EvaluationError(error.condition, message) from error.__cause__
        return rows

    def failing(self, rows: pa.Table) -> dict[int, EvaluationError]:
        """The rows that a value cannot be computed for, and why."""

        def compute(start: int, end: int) -> None:
            part = rows.slice(start, end - start)
            for number in range(len(self.layers)):
                part = self._apply(part, number, single=end - start <= 1)

        return failing(compute, len(rows), EvaluationError)

    def given(self, results: pa.Table, errors: Mapping[int, Exception]) -> dict[int, Exception]:
        """Errors by the numbers of the rows that the program was given, in place of those that it has made."""
        if not self.explodes:
            return dict(errors)
        rows = ints(results, GIVEN)
        # of several errors of a row the first is told
        return {int(rows[row]): errors[row] for row in sorted(errors, reverse=True)}

    def _apply(self, rows: pa.Table, number: int, *, single: bool) -> pa.Table:
        layer = self.layers[number]
        return exploded(rows, layer, self._unused(number), single=single) if explodes(layer) else _with(rows, layer)

    def _unused(self, number: int) -> frozenset[str]:
        return frozenset() if any(map(explodes, self.layers[number + 1 :])) else self.gone


def _with(rows: pa.Table, layer: Columns) -> pa.Table:
    source = RowsOfArrays(len(rows), lambda name: array(rows, name))
    result = rows
    for name, expression in layer:
        at = result.schema.get_field_index(name)
        column = source.evaluate(expression)
        result = result.set_column(at, name, column) if at >= 0 else result.append_column(name, column)
    return result


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
    required = set(names)
    result: list[tuple[tuple[str, T], ...]] = []
    for layer in reversed(layers):
        columns = tuple((name, expression) for name, expression in layer if name in required)
        required = required.difference(name for name, _ in columns)
        required.update(name for _, expression in columns for name in operands(expression))
        result += [columns] if columns else []
    return tuple(reversed(result))


def operands(expression: object) -> Iterator[str]:
    """Names of the columns that an expression reads; what is none reads nothing."""
    if isinstance(expression, Operand):
        yield expression.name
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from operands(argument)


# Programs without unneeded parts: of some columns only a field is read, or whether they are null.
#
# A filter of a table that knows old values asks of the old result only whether it passed. So its value is never made,
# and of the values that it would have been made of only what the filter looks at is read. Law 4: what is left gives the
# same values; what may fail is left as it is, since where it is evaluated decides whether it does.

Fields = Mapping[str, tuple[int, ...]]
"""Of struct columns, the numbers of the fields that are read; all of a column that is not named."""
_LOOKS = ("GetStructField", "IsNotNull", "IsNull")


@cache
def _constant(holds: bool) -> Literal:
    """True or False. pyarrow imports pandas for its first scalar, so neither is made with the module."""
    return Literal(pa.scalar(holds))


def reduced(layers: Sequence[Columns], outputs: Sequence[str]) -> tuple[Columns, ...]:
    """Layers that make the same outputs.

    Parameters
    ----------
    layers : as a `Program` has them.
    outputs : names of the columns that are wanted of it.
    """
    expressions = {name: expression for layer in layers for name, expression in layer}
    if sum(map(len, layers)) > len(expressions) or expressions.keys() & _source_columns(layers):
        # a name that stands for two columns
        return tuple(layers)
    opaque = {name for name, expression in expressions.items() if can_fail(expression)}
    # an error stays one, also of a column that nothing is left of
    required = {name for layer in needed(layers, outputs) for name, _ in layer}
    outputs = [*outputs, *sorted(opaque & required)]
    while True:  # a turn more for each column whose value is wanted all the same
        looking = _Looking({name: expression for name, expression in expressions.items() if name not in opaque})
        simplified = tuple(tuple((name, looking.through(e)) for name, e in layer) for layer in layers)
        left = needed(simplified, outputs)
        reads = {name for layer in left for _, e in layer for name in operands(e)}.union(outputs)
        if not reads.intersection(looking.made):
            return left
        opaque |= reads


def fields_read(layers: Sequence[Columns], outputs: Sequence[str], structs: Sequence[str]) -> Fields:
    """Which fields the layers read of struct columns that they are given.

    Parameters
    ----------
    layers : as a `Program` has them.
    outputs : names of the columns that are wanted of it: of these all is.
    structs : names of the struct columns.
    """
    fields: dict[str, set[int]] = {name: set() for name in structs if name not in outputs}
    for call, operand in (look for layer in layers for _, expression in layer for look in _looks(expression)):
        if call is None:
            fields.pop(operand.name, None)
        elif operand.name in fields and call.function == "GetStructField":
            fields[operand.name].add(_ordinal(call))
    return {name: tuple(sorted(read)) for name, read in fields.items()}


def _source_columns(layers: Sequence[Columns]) -> set[str]:
    """Names of the columns that layers read and none before them makes."""
    sources: set[str] = set()
    outputs: set[str] = set()
    for layer in layers:
        sources |= {name for _, expression in layer for name in operands(expression)} - outputs
        outputs |= {name for name, _ in layer}
    return sources


def _looks(expression: Expression) -> Iterator[tuple[Call | None, Operand]]:
    """The operands of an expression, each with the call that only looks at it, if that is all that is done with it."""
    if isinstance(expression, Operand):
        yield None, expression
    elif isinstance(expression, Call):
        (first, *extra) = expression.arguments or (_constant(True),)
        if expression.function in _LOOKS and isinstance(first, Operand) and not extra:
            yield expression, first
        else:
            for argument in expression.arguments:
                yield from _looks(argument)


def _ordinal(call: Call) -> int:
    return int(call.option("ordinal") or 0)


class _Looking:
    """Puts what a column is made of in place of a look at it.

    Parameters
    ----------
    expressions : the columns that can be looked through.
    """

    def __init__(self, expressions: Mapping[str, Expression]) -> None:
        self.made = expressions

    def through(self, expression: Expression) -> Expression:
        """The expression, all looks seen through as far as they can be."""
        if not isinstance(expression, Call):
            return expression
        if expression.function in _LOOKS:
            (looked_at,) = expression.arguments
            if isinstance(looked_at, Operand) and looked_at.name in self.made:
                return self._resolve(expression, looked_at) or expression
        return replace(expression, arguments=tuple(map(self.through, expression.arguments)))

    def _resolve(self, call: Call, of: Expression) -> Expression | None:
        """The result of the call for a value; None if it must be computed."""
        if isinstance(of, Operand):
            definition = self.made.get(of.name)
            return replace(call, arguments=(of,)) if definition is None else self._resolve(call, definition)
        if isinstance(of, Call) and of.function == "CaseWhen" and len(of.arguments) == 2:
            condition, value = of.arguments
            inner = self._resolve(call, value)
            return None if inner is None else self._where(call, self.through(condition), inner)
        if isinstance(of, Call) and of.function == "CreateNamedStruct":
            if call.function != "GetStructField":
                return _constant(call.function == "IsNotNull")
            part = self.through(of.arguments[2 * _ordinal(call) + 1])
            return part if type_of(part) == call.type else None
        return None

    def _where(self, call: Call, condition: Expression, inner: Expression) -> Expression:
        """A call that has a value where the condition is true, and `inner` as its value there."""
        if call.function == "GetStructField":
            return Call("CaseWhen", (condition, inner), call.type)
        holds = Call("Coalesce", (condition, _constant(False)), pa.bool_())
        if call.function == "IsNotNull":
            return Call("And", (holds, inner), pa.bool_())
        return Call("Or", (Call("Not", (holds,), pa.bool_()), inner), pa.bool_())


# Expressions as functions of Arrow arrays, which can be sent to workers.


@dataclass(frozen=True)
class Evaluated:
    """An expression as a function of Arrow arrays."""

    expression: Expression  # what it comes to
    operands: tuple[str, ...]  # names of the arguments in it

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        columns = dict(zip(self.operands, arrays, strict=True))
        return RowsOfArrays(len(arrays[0]), columns.__getitem__).evaluate(self.expression)

    def addend(self, operand: str) -> Evaluated | None:
        """The number that the function adds to this operand, if it does nothing else with it."""
        added = self.expression
        if not isinstance(added, Call) or added.function != "Add" or len(added.arguments) != 2:
            return None
        for term, addend in (added.arguments, added.arguments[::-1]):
            is_operand = isinstance(term, Operand) and term.name == operand and operand not in operands(addend)
            if is_operand and type_of(term) == type_of(addend) == added.type:
                return replace(self, expression=addend)
        return None
