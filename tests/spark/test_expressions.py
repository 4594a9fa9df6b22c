"""Expressions: which joiners are read as such, and that Arrow then says what Spark says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from millpond._engine.expressions.expression import with_values
from millpond._spark.dataflow.expressions import expression_of
from millpond._spark.formats.arrow_types import arrow_schema

NAMES = ("key", "left", "right")
TEXT, LONG = StringType(), LongType()
PERSON = StructType([StructField("name", TEXT), StructField("age", LONG), StructField("full name", TEXT)])
DOTTED = StructType([StructField("a", StructType([StructField("b", TEXT)])), StructField("a.b", TEXT)])
Joiner = Callable[[Column, Column, Column], Column]

READ: dict[str, tuple[Joiner, DataType, DataType]] = {
    "an operand": (lambda k, a, b: b, TEXT, TEXT),
    "two texts": (lambda k, a, b: F.concat(a, b), TEXT, TEXT),
    "a text in a text": (lambda k, a, b: F.concat(a, F.concat(b, b), a), TEXT, TEXT),
    "one text": (lambda k, a, b: F.concat(a), TEXT, TEXT),
    "a field": (lambda k, a, b: a["name"], PERSON, TEXT),
    "fields": (lambda k, a, b: F.concat(a["name"], b), PERSON, TEXT),
    "a record": (lambda k, a, b: F.struct(k.alias("id"), a["age"].alias("age"), b.alias("b")), PERSON, TEXT),
    "a record of records": (lambda k, a, b: F.struct(a.alias("x"), b.alias("y")), PERSON, PERSON),
}
SPARKS: dict[str, tuple[Joiner, DataType, DataType]] = {
    "a constant": (lambda k, a, b: F.concat(a, F.lit("x"), b), TEXT, TEXT),
    "a constant that looks like an operand": (lambda k, a, b: F.concat(a, F.lit("right#2")), TEXT, TEXT),
    "a number as text": (lambda k, a, b: F.concat(a, b), TEXT, LONG),
    "a function": (lambda k, a, b: F.upper(a), TEXT, TEXT),
    "a sum": (lambda k, a, b: a + b, LONG, LONG),
    "arrays": (lambda k, a, b: F.array(a, b), TEXT, TEXT),
    "a condition": (lambda k, a, b: F.coalesce(a, b), TEXT, TEXT),
    "chance": (lambda k, a, b: F.rand(), TEXT, TEXT),
    "a name with a dot": (lambda k, a, b: a["a.b"], DOTTED, TEXT),
    "a name with a blank": (lambda k, a, b: a["full name"], PERSON, TEXT),
    "a record with such a name": (lambda k, a, b: F.struct(a.alias("full name")), TEXT, TEXT),
    "a record made in a record": (lambda k, a, b: F.struct(F.struct(a.alias("a")).alias("x")), TEXT, TEXT),
    "two fields of one name": (lambda k, a, b: F.struct(a.alias("x"), b.alias("x")), TEXT, TEXT),
    "another collation": (lambda k, a, b: F.concat(a, b), StringType("UTF8_LCASE"), StringType("UTF8_LCASE")),
}


def schema_of(left: DataType, right: DataType) -> StructType:
    return StructType([StructField(n, kind) for n, kind in zip(NAMES, (LONG, left, right), strict=True)])


def result_of(spark: SparkSession, joiner: Joiner, left: DataType, right: DataType) -> DataType:
    frame = spark.createDataFrame([], schema_of(left, right))
    return frame.select(joiner(*map(F.col, NAMES)).alias("value")).schema["value"].dataType


def samples(kind: DataType) -> list[Any]:
    if isinstance(kind, StructType):
        return [None, ("Ann", 2**53 + 1, "Ann B"), (None, None, None), ("", -1, "é")]
    return [None, 2**53 + 1, -1, 0] if kind == LONG else [None, "", "a, b", "é\x00"]


@pytest.mark.parametrize("name", READ)
def test_arrow_makes_of_a_formula_what_spark_makes_of_it(spark: SparkSession, name: str) -> None:
    joiner, left, right = READ[name]
    kind = result_of(spark, joiner, left, right)
    expression = expression_of(spark, joiner, NAMES, (LONG, left, right), kind)
    assert expression is not None
    schema = schema_of(left, right)
    rows = [(7, a, b) for a in samples(left) for b in samples(right)]
    frame = spark.createDataFrame(rows, schema)
    wanted = frame.select(joiner(*map(F.col, NAMES)).alias("value")).toArrow().column("value").to_pylist()
    table = pa.Table.from_batches(frame.toArrow().to_batches(), arrow_schema(schema))
    joined = [at % 5 != 0 for at in range(len(rows))]
    table = table.append_column("joined", pa.array(joined))
    arrow = arrow_schema(StructType([StructField("value", kind)])).field(0).type
    made = with_values(table, expression, arrow).column("value")
    assert made.type == arrow
    assert made.to_pylist() == [value if j else None for value, j in zip(wanted, joined, strict=True)]


@pytest.mark.parametrize("name", SPARKS)
def test_what_is_more_than_operands_fields_and_their_joining_stays_sparks(spark: SparkSession, name: str) -> None:
    joiner, left, right = SPARKS[name]
    assert expression_of(spark, joiner, NAMES, (LONG, left, right), result_of(spark, joiner, left, right)) is None


def test_old_values_are_made_of_the_old_operands(spark: SparkSession) -> None:
    expression = expression_of(spark, READ["two texts"][0], NAMES, (LONG, TEXT, TEXT), TEXT)
    assert expression is not None
    rows = pa.table(
        {
            "key": [1, 2],
            "left": ["a", "b"],
            "right": ["x", None],
            "joined": [True, False],
            "old_left": ["c", "d"],
            "old_right": ["y", "z"],
            "old_joined": [False, True],
        }
    )
    made = with_values(rows, expression, pa.string())
    assert made.column("value").to_pylist() == ["ax", None]
    assert made.column("old").to_pylist() == [None, "dz"]


def test_reading_a_joiner_leaves_no_view_behind(spark: SparkSession) -> None:
    before = spark.catalog.listTables()
    assert expression_of(spark, READ["two texts"][0], NAMES, (LONG, TEXT, TEXT), TEXT) is not None
    assert spark.catalog.listTables() == before
