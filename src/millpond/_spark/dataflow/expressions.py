"""Joiners as expressions, read off the text of the analysed plan: all that Spark's public API shows of a Column.

The joiner is applied to columns with names that nobody else has, and what Spark made of it is read: operands, their
fields, `concat` of texts, and a `struct` of them. What does not read so to the last character is no expression, and
Spark evaluates it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from millpond._engine.expressions.expression import Concat, Expression, Field, Operand, Record
from millpond._spark.functions.function_texts import expression_texts, operand_columns

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
Read = tuple[Expression, DataType]


def expression_of(
    spark: SparkSession,
    joiner: Callable[..., Column],
    operands: Sequence[str],
    kinds: Sequence[DataType],
    result: DataType,
) -> Expression | Record | None:
    """What a joiner comes to; None where Spark has to evaluate it.

    Parameters
    ----------
    spark : the session that is asked.
    operands, kinds : what it gets: names and types.
    result : type of what it gives.
    """
    # so that no other column, and no text of the user's, can be taken for an operand
    mark = secrets.token_hex(8)
    columns = {f"{name}_{mark}": (name, kind) for name, kind in zip(operands, kinds, strict=True)}
    frame = spark.createDataFrame([], operand_columns({name: kind for name, (_, kind) in columns.items()}))
    (text,) = expression_texts(frame, [joiner(*map(F.col, columns))])
    found = _Reader(text, columns).whole()
    if found is None or found[1].simpleString() != result.simpleString():
        return None
    return found[0]


class _Reader:
    """Reads one expression; what it does not know ends it.

    Parameters
    ----------
    text : the expression.
    columns : operand and type of each column name.
    """

    def __init__(self, text: str, columns: Mapping[str, tuple[str, DataType]]) -> None:
        self._text = text
        self._columns = columns
        self._at = 0

    def whole(self) -> tuple[Expression | Record, DataType] | None:
        """The expression, if that is all there is."""
        found = self._struct() if self._taken("struct(") else self._expression()
        return found if self._at == len(self._text) else None

    def _expression(self) -> Read | None:
        word = self._word()
        if word == "concat" and self._taken("("):
            return self._concat()
        if word not in self._columns or not self._number():
            return None
        name, kind = self._columns[word]
        read: Read | None = (Operand(name), kind)
        while read is not None and self._taken("."):
            read = _field(read, self._word())
        return read

    def _concat(self) -> Read | None:
        parts = self._several(self._expression)
        if parts is None or any(kind != StringType() for _, kind in parts):
            return None
        return Concat(tuple(part for part, _ in parts)), StringType()

    def _struct(self) -> tuple[Record, DataType] | None:
        parts = self._several(self._named)
        if parts is None:
            return None
        fields = [StructField(name, kind) for name, (_, kind) in parts]
        # two fields of one name cannot be told apart
        if len({field.name for field in fields}) < len(fields):
            return None
        return Record(tuple(part for _, (part, _) in parts)), StructType(fields)

    def _named(self) -> tuple[str, Read] | None:
        name = self._word()
        part = self._expression() if name and self._taken(", ") else None
        return None if part is None else (name, part)

    def _several(self, read: Callable[[], Any]) -> list[Any] | None:
        found = []
        while (part := read()) is not None:
            found.append(part)
            if self._taken(")"):
                return found
            if not self._taken(", "):
                return None
        return None

    def _word(self) -> str:
        return self._matched(_WORD)

    def _number(self) -> str:
        return self._matched(re.compile(r"#\d+L?"))

    def _matched(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found.group()

    def _taken(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True


def _field(read: Read, name: str) -> Read | None:
    of, kind = read
    if not isinstance(kind, StructType) or kind.names.count(name) != 1:
        return None
    # a field "a.b" looks like the field "b" of a field "a"
    if any("." in each for each in kind.names):
        return None
    number = kind.names.index(name)
    return Field(of, number), kind.fields[number].dataType
