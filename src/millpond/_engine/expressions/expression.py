"""Expressions: joiners that Arrow can evaluate, so that a level makes its own values and hands them on itself.

An expression is what a joiner of plain operands, their fields and `concat`, or of a `struct` of them, comes to. Which
joiners are such, and what they come to, is the business of whoever knows the user's functions (`_spark.expressions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.rows.columns import array, bools


@dataclass(frozen=True)
class Operand:
    """What a joiner gets: a column of the operator's results, by its name."""

    name: str


@dataclass(frozen=True)
class Field:
    """A field of a struct, by its number; null where the struct is."""

    of: Expression
    number: int


@dataclass(frozen=True)
class Concat:
    """Texts behind one another; null where one of them is."""

    parts: tuple[Expression, ...]


Expression = Operand | Field | Concat


@dataclass(frozen=True)
class Record:
    """A struct of values, never null itself."""

    parts: tuple[Expression, ...]


def with_values(rows: pa.Table, expression: Expression | Record, kind: pa.DataType) -> pa.Table:
    """A join's results with the joiner's value, and the old one where they have what it is made of.

    Parameters
    ----------
    rows : results of an operator: the operands, `joined`, and perhaps `old_left`, `old_right`, `old_joined`.
    kind : type of the value.

    Returns
    -------
    The rows with the columns `value` and, perhaps, `old`: null where there is no join.
    """
    rows = rows.append_column("value", _value(rows, expression, kind, ""))
    return (
        rows.append_column("old", _value(rows, expression, kind, "old_")) if "old_joined" in rows.column_names else rows
    )


def _value(rows: pa.Table, expression: Expression | Record, kind: pa.DataType, prefix: str) -> pa.Array:
    def operand(name: str) -> pa.Array:
        return array(rows, prefix + name if name in ("left", "right") else name)

    if isinstance(expression, Record):
        parts = [_evaluated(part, operand) for part in expression.parts]
        value = pa.StructArray.from_arrays(parts, fields=list(kind))
    else:
        value = _evaluated(expression, operand)
    joined = bools(rows, f"{prefix}joined")
    return value if joined.all() else pc.if_else(pa.array(joined), value, pa.scalar(None, kind))


def _evaluated(expression: Expression, operand: Callable[[str], pa.Array]) -> pa.Array:
    if isinstance(expression, Operand):
        return operand(expression.name)
    if isinstance(expression, Field):
        whole = _evaluated(expression.of, operand)
        part = whole.field(expression.number)
        return pc.if_else(whole.is_valid(), part, pa.scalar(None, part.type)) if whole.null_count else part
    parts = [_evaluated(part, operand) for part in expression.parts]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "")
