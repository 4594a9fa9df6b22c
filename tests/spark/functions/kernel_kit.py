"""Kernels beside Spark: the same expressions over the same rows, values to the bit and errors by their condition."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from watersmeet._engine.expressions.evaluate import RowsOfArrays, unsupported
from watersmeet._engine.expressions.tree import Call, EvaluationError, Expression
from watersmeet._engine.rows import array
from watersmeet._spark.columns import Unread, layers_of, of_columns

ERRORS = 24


@dataclass
class Outcome:
    """What kernels make of an expression.

    Parameters
    ----------
    values : value of each row; null where it has none.
    errors : condition of each row that has no value.
    """

    values: pa.Array
    errors: dict[int, str] = field(default_factory=dict)


@contextmanager
def settings(spark: SparkSession, **wanted: str) -> Iterator[None]:
    """Settings of the session, for a while; of their names the dots are underscores."""
    names = {name.replace("_", "."): value for name, value in wanted.items()}
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


NOT_IN_SQL = {
    "st with z": lambda: F.col("st").withField("z", F.col("i1")),
    "st with another y": lambda: F.col("st").withField("Y", F.lit(1) / F.col("few")),
    "st without x": lambda: F.col("st").dropFields("x", "none"),
    "st within st": lambda: F.struct("st").alias("it").withField("st.x", F.col("t1")).dropFields("st.y"),
    "plain": lambda: of_columns(lambda one, other: f"{one!r} {other!r}", StringType(), pair=False)(
        F.struct("i1", "t1", "y1", "n1", "o1"), F.col("map")
    ),
    "plain within": lambda: F.upper(of_columns(repr, StringType(), pair=False)(F.transform("words", F.length))),
}
"""Expressions that SQL has no words for, by name."""


def column_of(text: str) -> Column:
    """The expression that an SQL text, or a name of `NOT_IN_SQL`, stands for."""
    return NOT_IN_SQL[text]() if text in NOT_IN_SQL else F.expr(text)


def read(frame: DataFrame, texts: Sequence[str]) -> dict[str, Expression | str]:
    """The expression of each SQL text, or why it is none."""
    layer = layers_of(frame.select(*(column_of(text).alias(f"v{n}") for n, text in enumerate(texts))))[-1]
    found: dict[str, Expression | str] = {}
    for number, text in enumerate(texts):
        expression = layer.get(f"v{number}", Unread("not there"))
        if isinstance(expression, Unread):
            found[text] = expression.why
        else:
            found[text] = unsupported(expression) or expression
    return found


def functions_of(expression: Expression) -> Iterator[str]:
    """The names of all functions in an expression."""
    if isinstance(expression, Call):
        yield expression.function
        for each in expression.arguments:
            yield from functions_of(each)


def evaluated(expression: Expression, rows: pa.Table) -> Outcome:
    """What kernels make of an expression, row by row where that is an error."""
    try:
        return Outcome(RowsOfArrays(len(rows), lambda name: array(rows, name)).evaluate(expression))
    except EvaluationError as error:
        if len(rows) == 1:
            assert isinstance(expression, Call)
            return Outcome(pa.nulls(1, expression.type), {0: error.condition})
    half = len(rows) // 2
    one, other = evaluated(expression, rows.slice(0, half)), evaluated(expression, rows.slice(half))
    later = {half + row: condition for row, condition in other.errors.items()}
    return Outcome(pa.concat_arrays([one.values, other.values]), one.errors | later)


def plain(values: pa.Array) -> list[Any]:
    """Values that are equal where Spark's are the same: of times the numbers, of floats the text."""
    kind = values.type
    if pt.is_struct(kind):
        parts = [plain(values.field(n)) for n in range(kind.num_fields)]
        parts = parts or [[None] * len(values)]
        return [
            there and each for there, each in zip(values.is_valid().to_pylist(), zip(*parts, strict=True), strict=True)
        ]
    if pt.is_map(kind) or pt.is_list(kind):
        inner = (
            pa.StructArray.from_arrays([values.keys, values.items], ["k", "v"]) if pt.is_map(kind) else values.values
        )
        whole, offsets = plain(inner), values.offsets.to_pylist()
        pieces = [whole[a:b] for a, b in pairwise(offsets)]
        return [piece if there else None for there, piece in zip(values.is_valid().to_pylist(), pieces, strict=True)]
    if pt.is_date32(kind):
        return plain(values.view(pa.int32()))
    if pt.is_temporal(kind):
        return plain(values.view(pa.int64()))
    if pt.is_string(kind):
        return values.view(pa.binary()).to_pylist()
    listed = values.to_pylist()
    return [None if each is None else repr(each) for each in listed] if pt.is_floating(kind) else listed


def differences(frame: DataFrame, rows: pa.Table, texts: Sequence[str], most: int = ERRORS) -> list[str]:
    """Where kernels and Spark differ, in the session's mode, and what cannot be evaluated at all.

    Parameters
    ----------
    frame, rows : the same rows; the column `row` counts them.
    texts : expressions in SQL.
    most : at so many of the rows where expressions fail, Spark is asked for its error, too.
    """
    expressions = read(frame, texts)
    wrong = [f"{text}: not read: {why}" for text, why in expressions.items() if isinstance(why, str)]
    known = {text: each for text, each in expressions.items() if not isinstance(each, str)}
    outcomes: dict[str, Outcome] = {}
    for text, each in known.items():
        try:
            outcomes[text] = evaluated(each, rows)
        except Exception as error:
            place = "".join(traceback.format_tb(error.__traceback__)[-2:])
            wrong.append(f"{text}: breaks: {type(error).__name__}: {error} {place}")
    for text, outcome in outcomes.items():
        kind = known[text].type if isinstance(known[text], Call) else outcome.values.type
        if outcome.values.type != kind:
            wrong.append(f"{text}: type {outcome.values.type} instead of {kind}")
    return [*wrong, *_of_values(frame, rows, outcomes), *_of_errors(frame, rows, outcomes, most)]


def _of_values(frame: DataFrame, rows: pa.Table, outcomes: Mapping[str, Outcome]) -> list[str]:
    columns = []
    for number, (text, outcome) in enumerate(outcomes.items()):
        column = column_of(text)
        if outcome.errors:
            column = F.when(~F.col("row").isin(*outcome.errors), column)
        columns.append(column.alias(f"v{number}"))
    try:
        wanted = frame.select("row", *columns).toArrow().sort_by("row")
    except Exception as error:
        return _culprits(frame, rows, outcomes) or [f"{next(iter(outcomes))}: Spark fails: {str(error)[:300]}"]
    found = []
    for number, (text, outcome) in enumerate(outcomes.items()):
        theirs = array(wanted, f"v{number}")
        ours, theirs = plain(outcome.values), plain(theirs)
        bad = [row for row in range(len(rows)) if ours[row] != theirs[row]]
        if bad:
            shown = [(_inputs(rows, text, row), ours[row], theirs[row]) for row in bad[:3]]
            found.append(f"{text}: {len(bad)} rows: " + "; ".join(f"{i}: {a!r} but Spark {b!r}" for i, a, b in shown))
    return found


def _culprits(frame: DataFrame, rows: pa.Table, outcomes: Mapping[str, Outcome]) -> list[str]:
    """Of expressions at which Spark fails where kernels do not."""
    if len(outcomes) > 1:
        listed = list(outcomes.items())
        half = len(listed) // 2
        return [each for part in (listed[:half], listed[half:]) for each in _of_values(frame, rows, dict(part))]
    return []


def _of_errors(frame: DataFrame, rows: pa.Table, outcomes: Mapping[str, Outcome], most: int) -> list[str]:
    failing = sorted({(each, text) for text, outcome in outcomes.items() for each in outcome.errors.values()})
    found = []
    # an error needs no code made for it
    with settings(frame.sparkSession, spark_sql_codegen_factoryMode="NO_CODEGEN", spark_sql_codegen_wholeStage="false"):
        for condition, text in failing[:: -(-len(failing) // most)] if failing else ():
            row = next(row for row, each in outcomes[text].errors.items() if each == condition)
            theirs = _condition(frame, text, row)
            if theirs != condition:
                found.append(f"{text}: {_inputs(rows, text, row)}: {condition} but Spark {theirs}")
    return found


def _condition(frame: DataFrame, text: str, row: int) -> str | None:
    """The condition of Spark's error at a row, or the class of Java's where it has none."""
    try:
        frame.where(F.col("row") == row).select(column_of(text)).collect()
    except PySparkException as error:
        return error.getCondition() or type(error).__name__
    except Exception as error:
        # what Java throws without a condition
        return re.findall(r"Caused by: ([\w.]+)", str(error))[-1]
    return None


def _inputs(rows: pa.Table, text: str, row: int) -> str:
    used = [name for name in rows.column_names if any(name == word for word in np.char.split(_words(text)).item())]
    return ", ".join(f"{name}={plain(array(rows, name))[row]!r}" for name in used)


def _words(text: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows as a DataFrame of one partition: timestamps without a zone stay so, which they do not by default."""
    with settings(spark, spark_sql_timestampType="TIMESTAMP_NTZ"):
        return spark.createDataFrame(rows).coalesce(1)
